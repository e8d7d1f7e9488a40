"""Write-back: the results of a run as scores in Langfuse."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.core.clock import utc_now
from app.jobs.handlers import JobContext, WorkerStopping
from app.jobs.queue import enqueue
from app.results.plan import RunPlan
from app.results.queries import get_run
from app.runs import write_back
from app.runs.plan_builder import collect_lock
from app.runs.retention import purge_runs_before
from tests.integration.langfuse.test_sdk_round_trip import sdk_of
from tests.integration.langfuse.test_source_runs import agent
from tests.support.langfuse import FakeLangfuse
from tests.support.langfuse.faults import HtmlResponse, ModifiedResponse, RateLimited, RespondsWith
from tests.support.langfuse.records import DEFAULT_TIME, Score
from tests.support.service import JSON, Service, pointers
from tests.support.stored import DatabaseReader

EVENTS = "/ingestion"
ALL = {"kpis": True, "metrics": True}
QUALITY = {"name": "Quality", "formula": "AVERAGE(ACCURACY, CONTAINS)"}


def benchmark(service: Service, langfuse: FakeLangfuse, **fields: Any) -> None:
    agent(service, langfuse)
    fields_of_query = {
        "metrics": ["ACCURACY", "CONTAINS"],
        "measures": [QUALITY],
        "writeBack": ALL,
        **fields,
    }
    service.create_benchmark(source="langfuse", **fields_of_query)


def written(langfuse: FakeLangfuse) -> dict[str, Score]:
    return {score.id: score for score in langfuse.store.scores.values()}


def without_run(scores: dict[str, Score]) -> dict[str, Any]:
    """The scores without their run."""
    return {
        score_id: (score.name, score.value, score.trace_id, score.experiment_id)
        for score_id, score in scores.items()
    }


def write_again(service: Service, run: JSON) -> JSON:
    with service.resources.db.begin() as session:
        write_back.request_write_back(session, run["id"], service.resources)
    service.work()
    return service.get(f"/benchmark-runs/{run['id']}")


def test_write_back__writes_kpis_to_the_run_and_metrics_to_traces(
    service: Service, langfuse: FakeLangfuse
) -> None:
    experiment = langfuse.experiment(items=30, output_of=lambda number: f"answer {number % 15}")
    benchmark(service, langfuse)
    run = service.complete_run()
    assert run["writeBack"] == {
        "status": "WRITTEN",
        "written": 61,
        "errorCode": None,
        "error": None,
    }
    scores = list(written(langfuse).values())
    # Items 0 to 14 of 30 have the expected answer.
    [kpi] = [score for score in scores if score.trace_id is None]
    assert (kpi.name, kpi.experiment_id) == ("Quality", experiment.id)
    assert kpi.value == pytest.approx(0.5)
    assert kpi.metadata["formula"] == QUALITY["formula"]
    accuracy = {score.trace_id: score.value for score in scores if score.name == "ACCURACY"}
    assert accuracy == {experiment.trace_id(n): float(n < 15) for n in range(30)}
    assert {score.timestamp.date() for score in scores} == {DEFAULT_TIME.date()}
    assert {score.metadata["run"] for score in scores} == {run["id"]}
    assert langfuse.max_in_flight <= 8


def test_write_back__sends_a_hundred_scores_with_each_request(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=60)
    benchmark(service, langfuse, metrics=["ACCURACY", "CONTAINS", "BLEU", "ROUGE"])
    assert service.complete_run()["writeBack"]["written"] == 241
    # One for the KPI, three for 240 values.
    assert len(langfuse.requests_for(EVENTS)) == 4
    assert langfuse.requests_for("/scores") == []


def test_write_back__collections_do_not_wait_for_it(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=3)
    benchmark(service, langfuse)
    run_id = str(service.complete_run()["id"])
    rows = DatabaseReader(service.resources.db.url)
    lock = rows.value("SELECT lock FROM procrastinate_jobs WHERE task_name = 'runs.write_back'")
    with service.resources.db.read() as session:
        plan = RunPlan.model_validate(get_run(session, run_id).plan)
        lock_of_collection = collect_lock(session, plan, service.resources)

    assert lock_of_collection
    assert lock == f"write-back:{lock_of_collection}"


def test_write_back__sdk_reads_the_scores(service: Service, langfuse: FakeLangfuse) -> None:
    experiment = langfuse.experiment(items=2)
    langfuse.set_score_delay(1)
    benchmark(service, langfuse)
    service.complete_run()
    for sdk in sdk_of(langfuse):
        assert sdk.api.scores.get_many(trace_id=experiment.trace_id(1)).data == []
        scores = sdk.api.scores.get_many(trace_id=experiment.trace_id(1)).data
        assert {score.name: score.value for score in scores} == {"ACCURACY": 1.0, "CONTAINS": 1.0}
        ever = datetime(2020, 1, 1, tzinfo=UTC)
        [run] = sdk.api.experiments.list(from_start_time=ever, fields="core,scores").data
        assert [(score.name, score.value) for score in run.scores or []] == [("Quality", 1.0)]


def test_write_back__repetition_keeps_the_same_scores(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    run = service.complete_run()
    once = written(langfuse)
    again = write_again(service, run)
    assert again["writeBack"]["status"] == "WRITTEN"
    assert written(langfuse) == once
    assert len(langfuse.store.scores) == 11


def test_write_back__later_run_replaces_the_scores(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    service.complete_run()
    first = written(langfuse)
    second = service.complete_run()
    assert without_run(written(langfuse)) == without_run(first)
    assert {score.metadata["run"] for score in written(langfuse).values()} == {second["id"]}


def test_write_back__earlier_run_is_superseded(
    service: Service, langfuse: FakeLangfuse, caplog: pytest.LogCaptureFixture
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    first = service.complete_run()
    second = service.complete_run()
    late = write_again(service, first)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert (late["writeBack"]["status"], late["writeBack"]["errorCode"]) == (
        "SUPERSEDED",
        "SUPERSEDED",
    )
    assert second["id"] in late["writeBack"]["error"]
    assert {score.metadata["run"] for score in written(langfuse).values()} == {second["id"]}


def test_write_back__run_is_purged_after_its_scores_are_written(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    run = service.complete_run()
    tomorrow = utc_now() + timedelta(days=1)
    with service.resources.db.begin() as session:
        write_back.request_write_back(session, run["id"], service.resources)
        assert purge_runs_before(session, tomorrow, utc_now()) == 0
    service.work()
    with service.resources.db.begin() as session:
        assert purge_runs_before(session, tomorrow, utc_now()) == 1


def test_write_back__purged_run_is_not_an_error(
    service: Service, langfuse: FakeLangfuse, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker killed after the last score leaves its job, which runs after the purge."""
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    run = service.complete_run()
    with service.resources.db.begin() as session:
        assert purge_runs_before(session, utc_now() + timedelta(days=1), utc_now()) == 1
        enqueue(session, "runs.write_back", run_id=run["id"])
    service.work()
    assert service.get(f"/benchmark-runs/{run['id']}")["writeBack"] == run["writeBack"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_write_back__benchmarks_have_separate_scores(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    service.create_benchmark("bench-002", source="langfuse", metrics=["ACCURACY"], writeBack=ALL)
    service.complete_run()
    service.complete_run(benchmarkId="bench-002")
    assert len(written(langfuse)) == 11 + 5


def test_write_back__own_scores_are_not_read_back(service: Service, langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse, lateScores=True)
    service.complete_run()
    service.complete_run()
    with service.resources.db.read() as session:
        score_rows = (
            session.connection().exec_driver_sql("SELECT scores FROM collected_traces").all()
        )
    assert {scores for (scores,) in score_rows} == {None}


@pytest.mark.parametrize(
    ("expected", "count"), [({"kpis": True}, 1), ({"metrics": True}, 10), ({}, 0)]
)
def test_write_back__writes_only_the_configured_kinds(
    service: Service, langfuse: FakeLangfuse, expected: JSON, count: int
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse, writeBack=expected)
    run = service.complete_run()
    assert (run["writeBack"] or {"written": 0})["written"] == count
    assert len(written(langfuse)) == count


def test_write_back__missing_values_are_not_written(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=20, expected_of=lambda number: f"answer {number}" if number else None)
    undefined = {"name": "Nothing", "formula": "ACCURACY / (ACCURACY - ACCURACY)"}
    benchmark(service, langfuse, metrics=["ACCURACY"], measures=[undefined])
    run = service.complete_run()
    assert (run["validity"], run["writeBack"]["written"]) == ("VALID", 19)


def test_write_back__kpis_of_an_invalid_run_are_not_written(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.dataset("support", items=5)
    langfuse.experiment(items=4)
    benchmark(service, langfuse, minCoverage=1)
    run = service.complete_run()
    assert run["validity"] == "INVALID"
    assert {score.name for score in written(langfuse).values()} == {"ACCURACY", "CONTAINS"}


def test_write_back__stopped_worker_resumes(
    service: Service, langfuse: FakeLangfuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_back, "SCORES_PER_BATCH", 10)
    langfuse.experiment(items=50)
    benchmark(service, langfuse, writeBack={})
    run = service.complete_run()
    with service.resources.db.begin() as session:
        session.connection().exec_driver_sql(
            "UPDATE benchmark_runs"
            " SET plan = jsonb_set(plan, '{write_back}', '{\"kpis\": true, \"metrics\": true}')"
        )
        write_back.request_write_back(session, run["id"], service.resources)

    def stopping() -> bool:
        return len(langfuse.requests_for(EVENTS)) > 4

    job = JobContext(resources=service.resources, pool=service.pool, is_stopping=stopping)
    with pytest.raises(WorkerStopping):
        write_back.write_back(job, run["id"])
    halfway = service.get(f"/benchmark-runs/{run['id']}")["writeBack"]
    assert halfway["status"] == "WRITING"
    assert 1 + 30 <= halfway["written"] <= 1 + 50
    before = len(langfuse.requests_for(EVENTS))
    service.work()
    done = service.get(f"/benchmark-runs/{run['id']}")["writeBack"]
    assert (done["status"], done["written"]) == ("WRITTEN", 101)
    # Only the current batch is sent again.
    assert len(langfuse.requests_for(EVENTS)) - before == (101 - halfway["written"]) / 10
    assert before <= 1 + halfway["written"] / 10 + 1
    assert len(written(langfuse)) == 101


def test_write_back__worker_killed_after_the_last_score_leaves_no_work(
    service: Service, langfuse: FakeLangfuse
) -> None:
    """Its job runs again and finds that all scores are written."""
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    run = service.complete_run()
    with service.resources.db.begin() as session:
        enqueue(session, "runs.write_back", run_id=run["id"])
    service.work()
    again = service.get(f"/benchmark-runs/{run['id']}")
    assert again["writeBack"] == run["writeBack"]
    assert again["writeBack"]["status"] == "WRITTEN"
    assert len(langfuse.requests_for(EVENTS)) == 2


def test_write_back__server_failure_does_not_change_the_run(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=5)
    langfuse.inject(
        RespondsWith(status=400, content={"message": "no"}), path=EVENTS, on=range(2, 99)
    )
    benchmark(service, langfuse)
    run = service.complete_run()
    assert (run["status"], run["errorCode"], run["validity"]) == ("COMPLETED", None, "VALID")
    write_back = run["writeBack"]
    assert (write_back["status"], write_back["errorCode"], write_back["written"]) == (
        "FAILED",
        "BAD_RESPONSE",
        1,
    )
    assert "POST /api/public/ingestion" in write_back["error"]
    langfuse.clear_faults()
    assert write_again(service, run)["writeBack"]["status"] == "WRITTEN"
    assert len(written(langfuse)) == 11


def test_write_back__rejected_event_is_an_error(service: Service, langfuse: FakeLangfuse) -> None:
    def reject_first(answer: JSON) -> None:
        rejected = answer["successes"].pop(0)
        answer["errors"] = [{"id": rejected["id"], "status": 400, "message": "wrong config"}]

    langfuse.experiment(items=5)
    langfuse.inject(ModifiedResponse(change=reject_first), path=EVENTS, on={2})
    benchmark(service, langfuse)
    write_back = service.complete_run()["writeBack"]
    assert (write_back["status"], write_back["written"]) == ("FAILED", 1)
    assert "rejected 1 of 10 scores (wrong config)" in write_back["error"]


def test_write_back__temporary_failure_is_retried(service: Service, langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=5)
    langfuse.inject(HtmlResponse(status=503), path=EVENTS, on={1})
    langfuse.inject(RateLimited(retry_after_s=1), path=EVENTS, on={3})
    benchmark(service, langfuse)
    assert service.complete_run()["writeBack"]["written"] == 11
    assert len(written(langfuse)) == 11


def test_write_back__v3_server_accepts_scores(service: Service, langfuse_v3: FakeLangfuse) -> None:
    langfuse_v3.experiment(items=5)
    benchmark(service, langfuse_v3)
    assert service.complete_run()["writeBack"]["written"] == 11


def test_write_back__source_without_write_support_is_rejected(service: Service) -> None:
    problem = service.expect_problem(
        422, "POST", "/benchmarks", {"id": "b", "source": "local", "writeBack": {"kpis": True}}
    )
    assert pointers(problem) == ["/writeBack"]
    assert "langfuse" in problem["errors"][0]["detail"]
    service.create_benchmark(source="langfuse", writeBack={"kpis": True})
    problem = service.expect_problem(422, "PATCH", "/benchmarks/bench-001", {"source": "local"})
    assert pointers(problem) == ["/writeBack"]
    service.patch("/benchmarks/bench-001", {"source": "local", "writeBack": {}})


def test_write_back__deleted_run_is_skipped(service: Service, langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse, writeBack={})
    run = service.complete_run()
    service.delete(f"/benchmark-runs/{run['id']}")
    with service.resources.db.begin() as session:
        enqueue(session, "runs.write_back", run_id=run["id"])
    service.work()
    assert langfuse.requests_for(EVENTS) == []


def test_write_back__runs_in_turns(
    service: Service, langfuse: FakeLangfuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_back, "SCORES_PER_BATCH", 20)
    monkeypatch.setattr(write_back, "MAX_TURN_S", 0.0)
    langfuse.experiment(items=30)
    benchmark(service, langfuse)
    service.create_benchmark(
        "bench-002",
        source="langfuse",
        metrics=["ACCURACY", "CONTAINS"],
        measures=[QUALITY],
        writeBack=ALL,
    )
    first = service.start_run()
    second = service.start_run(benchmarkId="bench-002")
    service.work()
    for run in (first, second):
        done = service.get(f"/benchmark-runs/{run['id']}")["writeBack"]
        assert (done["status"], done["written"]) == ("WRITTEN", 61)
    assert len(written(langfuse)) == 2 * 61
    with service.resources.db.read() as session:
        jobs = session.connection().exec_driver_sql(
            "SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'runs.write_back'"
        )
        # One batch for the KPI, three for thirty traces of two metrics, one to find the end.
        assert jobs.scalar() == 2 * 5


def test_write_back__unreadable_secret_fails_only_the_write_back(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=3)
    benchmark(service, langfuse)
    run = service.complete_run()
    with service.resources.db.begin() as session:
        session.connection().exec_driver_sql(
            "UPDATE agents SET langfuse_secret_key = 'v1.00000000.AAAA'"
        )
    write_back = write_again(service, run)["writeBack"]
    assert (write_back["status"], write_back["errorCode"]) == ("FAILED", "CORRUPTED_SECRET")
