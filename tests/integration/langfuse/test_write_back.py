"""What a run was found to be, written where its traces came from."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.core.clock import utc_now
from app.jobs.handlers import JobContext, WorkerStopping
from app.jobs.queue import enqueue
from app.runs import write_back
from app.runs.retention import purge_runs_before
from tests.integration.langfuse.test_sdk_round_trip import sdk_of
from tests.integration.langfuse.test_source_runs import agent
from tests.support.langfuse import StandIn
from tests.support.langfuse.mishaps import HtmlPage, RateLimited, Says
from tests.support.langfuse.records import SOME_NIGHT, Score
from tests.support.service import JSON, Service, pointers

ALL = {"kpis": True, "metrics": True}
QUALITY = {"name": "Quality", "formula": "AVERAGE(ACCURACY, CONTAINS)"}


def benchmark(service: Service, langfuse: StandIn, **fields: Any) -> None:
    agent(service, langfuse)
    given = {"metrics": ["ACCURACY", "CONTAINS"], "measures": [QUALITY], "writeBack": ALL, **fields}
    service.benchmark(source="langfuse", **given)


def written(langfuse: StandIn) -> dict[str, Score]:
    return {score.id: score for score in langfuse.store.scores.values()}


def without_run(scores: dict[str, Score]) -> dict[str, Any]:
    """What the scores say, apart from which run says it."""
    return {
        score_id: (score.name, score.value, score.timestamp, score.trace_id, score.experiment_id)
        for score_id, score in scores.items()
    }


def write_again(service: Service, run: JSON) -> JSON:
    with service.resources.db.begin() as session:
        write_back.request_write_back(session, run["id"], service.resources)
    service.work()
    return service.get(f"/benchmark-runs/{run['id']}")


def test_kpis_and_metrics_become_scores_of_the_run_and_its_traces(
    service: Service, langfuse: StandIn
) -> None:
    made = langfuse.experiment(items=30, output_of=lambda number: f"answer {number % 15}")
    benchmark(service, langfuse)
    run = service.completed()
    assert run["writeBack"] == {
        "status": "WRITTEN",
        "written": 61,
        "errorCode": None,
        "error": None,
    }
    scores = list(written(langfuse).values())
    # Items 0 to 14 of 30 are answered as expected.
    [kpi] = [score for score in scores if score.trace_id is None]
    assert (kpi.name, kpi.experiment_id) == ("Quality", made.id)
    assert kpi.value == pytest.approx(0.5)
    assert kpi.metadata["formula"] == QUALITY["formula"]
    accuracy = {score.trace_id: score.value for score in scores if score.name == "ACCURACY"}
    assert accuracy == {made.trace_id(n): float(n < 15) for n in range(30)}
    assert {score.timestamp for score in scores} == {SOME_NIGHT}
    assert {score.metadata["run"] for score in scores} == {run["id"]}
    assert langfuse.most_in_flight <= 8


def test_the_sdk_reads_what_was_written(service: Service, langfuse: StandIn) -> None:
    made = langfuse.experiment(items=2)
    langfuse.delay_scores(1)
    benchmark(service, langfuse)
    service.completed()
    for sdk in sdk_of(langfuse):
        assert sdk.api.scores.get_many(trace_id=made.trace_id(1)).data == []
        scores = sdk.api.scores.get_many(trace_id=made.trace_id(1)).data
        assert {score.name: score.value for score in scores} == {"ACCURACY": 1.0, "CONTAINS": 1.0}
        ever = datetime(2020, 1, 1, tzinfo=UTC)
        [run] = sdk.api.experiments.list(from_start_time=ever, fields="core,scores").data
        assert [(score.name, score.value) for score in run.scores or []] == [("Quality", 1.0)]


def test_a_repeat_leaves_the_same_scores(service: Service, langfuse: StandIn) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    run = service.completed()
    once = written(langfuse)
    again = write_again(service, run)
    assert again["writeBack"]["status"] == "WRITTEN"
    assert written(langfuse) == once
    assert len(langfuse.store.scores) == 11


def test_another_run_over_the_same_traces_takes_their_place(
    service: Service, langfuse: StandIn
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    service.completed()
    first = written(langfuse)
    second = service.completed()
    assert without_run(written(langfuse)) == without_run(first)
    assert {score.metadata["run"] for score in written(langfuse).values()} == {second["id"]}


def test_an_earlier_run_does_not_write_over_a_later_one_and_that_is_no_error(
    service: Service, langfuse: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    first = service.completed()
    second = service.completed()
    late = write_again(service, first)
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []
    assert (late["writeBack"]["status"], late["writeBack"]["errorCode"]) == (
        "SUPERSEDED",
        "SUPERSEDED",
    )
    assert second["id"] in late["writeBack"]["error"]
    assert {score.metadata["run"] for score in written(langfuse).values()} == {second["id"]}


def test_a_run_whose_scores_are_on_their_way_is_purged_later(
    service: Service, langfuse: StandIn
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    run = service.completed()
    tomorrow = utc_now() + timedelta(days=1)
    with service.resources.db.begin() as session:
        write_back.request_write_back(session, run["id"], service.resources)
        assert purge_runs_before(session, tomorrow, utc_now()) == 0
    service.work()
    with service.resources.db.begin() as session:
        assert purge_runs_before(session, tomorrow, utc_now()) == 1


def test_scores_of_a_run_that_was_purged_since_are_nobodys_failure(
    service: Service, langfuse: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that was killed after the last score left its job; it comes after the purge."""
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    run = service.completed()
    with service.resources.db.begin() as session:
        assert purge_runs_before(session, utc_now() + timedelta(days=1), utc_now()) == 1
        enqueue(session, "runs.write_back", run_id=run["id"])
    service.work()
    assert service.get(f"/benchmark-runs/{run['id']}")["writeBack"] == run["writeBack"]
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_another_benchmark_has_scores_of_its_own(service: Service, langfuse: StandIn) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    service.benchmark("bench-002", source="langfuse", metrics=["ACCURACY"], writeBack=ALL)
    service.completed()
    service.completed(benchmarkId="bench-002")
    assert len(written(langfuse)) == 11 + 5


def test_what_was_written_is_not_read_back_as_a_score_of_the_agent(
    service: Service, langfuse: StandIn
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse, lateScores=True)
    service.completed()
    service.completed()
    with service.resources.db.read() as session:
        found = session.connection().exec_driver_sql("SELECT scores FROM collected_traces").all()
    assert {scores for (scores,) in found} == {None}


@pytest.mark.parametrize(
    ("wanted", "count"), [({"kpis": True}, 1), ({"metrics": True}, 10), ({}, 0)]
)
def test_each_kind_is_written_where_it_is_wanted(
    service: Service, langfuse: StandIn, wanted: JSON, count: int
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse, writeBack=wanted)
    run = service.completed()
    assert (run["writeBack"] or {"written": 0})["written"] == count
    assert len(written(langfuse)) == len(langfuse.asked_for("/scores")) == count


def test_what_is_missing_is_no_score(service: Service, langfuse: StandIn) -> None:
    langfuse.experiment(items=20, output_of=lambda number: f"answer {number}" if number else None)
    undefined = {"name": "Nothing", "formula": "ACCURACY / (ACCURACY - ACCURACY)"}
    benchmark(service, langfuse, metrics=["ACCURACY"], measures=[undefined])
    run = service.completed()
    assert (run["validity"], run["writeBack"]["written"]) == ("VALID", 19)


def test_kpis_of_an_invalid_run_are_not_written(service: Service, langfuse: StandIn) -> None:
    langfuse.experiment(items=4, output_of=lambda number: f"answer {number}" if number else None)
    benchmark(service, langfuse, minCoverage=1)
    run = service.completed()
    assert run["validity"] == "INVALID"
    assert {score.name for score in written(langfuse).values()} == {"ACCURACY", "CONTAINS"}


def test_a_worker_that_is_stopped_goes_on_where_it_was(
    service: Service, langfuse: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_back, "SCORES_PER_BATCH", 10)
    langfuse.experiment(items=50)
    benchmark(service, langfuse, writeBack={})
    run = service.completed()
    with service.resources.db.begin() as session:
        session.connection().exec_driver_sql(
            "UPDATE benchmark_runs"
            " SET plan = jsonb_set(plan, '{write_back}', '{\"kpis\": true, \"metrics\": true}')"
        )
        write_back.request_write_back(session, run["id"], service.resources)

    def stopping() -> bool:
        return len(langfuse.asked_for("/scores")) > 40

    job = JobContext(resources=service.resources, pool=service.pool, is_stopping=stopping)
    with pytest.raises(WorkerStopping):
        write_back.write_back(job, run["id"])
    halfway = service.get(f"/benchmark-runs/{run['id']}")["writeBack"]
    assert halfway["status"] == "WRITING"
    assert 1 + 30 <= halfway["written"] <= 1 + 50
    before = len(langfuse.asked_for("/scores"))
    service.work()
    done = service.get(f"/benchmark-runs/{run['id']}")["writeBack"]
    assert (done["status"], done["written"]) == ("WRITTEN", 101)
    # Only the batch that was under way is sent again: ten scores, and eight in flight after it.
    assert len(langfuse.asked_for("/scores")) - before == 101 - halfway["written"]
    assert before - halfway["written"] <= 18
    assert len(written(langfuse)) == 101


def test_a_worker_that_is_killed_after_the_last_score_leaves_nothing_to_do(
    service: Service, langfuse: StandIn
) -> None:
    """Its job is done again, and finds that all was written."""
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    run = service.completed()
    with service.resources.db.begin() as session:
        enqueue(session, "runs.write_back", run_id=run["id"])
    service.work()
    again = service.get(f"/benchmark-runs/{run['id']}")
    assert again["writeBack"] == run["writeBack"]
    assert again["writeBack"]["status"] == "WRITTEN"
    assert len(langfuse.asked_for("/scores")) == 11


def test_a_server_that_fails_changes_nothing_of_the_run(
    service: Service, langfuse: StandIn
) -> None:
    langfuse.experiment(items=5)
    langfuse.inject(Says(status=400, content={"message": "no"}), path="/scores", on=range(5, 99))
    benchmark(service, langfuse)
    run = service.completed()
    assert (run["status"], run["errorCode"], run["validity"]) == ("COMPLETED", None, "VALID")
    told = run["writeBack"]
    assert (told["status"], told["errorCode"], told["written"]) == ("FAILED", "BAD_RESPONSE", 1)
    assert "POST /api/public/scores" in told["error"]
    langfuse.mend()
    assert write_again(service, run)["writeBack"]["status"] == "WRITTEN"
    assert len(written(langfuse)) == 11


def test_what_may_pass_is_sent_again(service: Service, langfuse: StandIn) -> None:
    langfuse.experiment(items=5)
    langfuse.inject(HtmlPage(status=503), path="/scores", on={2})
    langfuse.inject(RateLimited(retry_after_s=1), path="/scores", on={5})
    benchmark(service, langfuse)
    assert service.completed()["writeBack"]["written"] == 11
    assert len(written(langfuse)) == 11


def test_an_older_server_takes_scores_too(service: Service, langfuse_v3: StandIn) -> None:
    langfuse_v3.experiment(items=5)
    benchmark(service, langfuse_v3)
    assert service.completed()["writeBack"]["written"] == 11


def test_a_source_that_takes_no_scores_is_refused(service: Service) -> None:
    problem = service.refused(
        422, "POST", "/benchmarks", {"id": "b", "source": "local", "writeBack": {"kpis": True}}
    )
    assert pointers(problem) == ["/writeBack"]
    assert "langfuse" in problem["errors"][0]["detail"]
    service.benchmark(source="langfuse", writeBack={"kpis": True})
    problem = service.refused(422, "PATCH", "/benchmarks/bench-001", {"source": "local"})
    assert pointers(problem) == ["/writeBack"]
    service.patch("/benchmarks/bench-001", {"source": "local", "writeBack": {}})


def test_a_run_that_is_deleted_meanwhile_is_dropped(service: Service, langfuse: StandIn) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse, writeBack={})
    run = service.completed()
    service.delete(f"/benchmark-runs/{run['id']}")
    with service.resources.db.begin() as session:
        enqueue(session, "runs.write_back", run_id=run["id"])
    service.work()
    assert langfuse.asked_for("/scores") == []


def test_many_scores_take_turns_with_what_waits_for_the_same_server(
    service: Service, langfuse: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_back, "SCORES_PER_BATCH", 20)
    monkeypatch.setattr(write_back, "MAX_TURN_S", 0.0)
    langfuse.experiment(items=30)
    benchmark(service, langfuse)
    service.benchmark(
        "bench-002",
        source="langfuse",
        metrics=["ACCURACY", "CONTAINS"],
        measures=[QUALITY],
        writeBack=ALL,
    )
    first = service.start()
    second = service.start(benchmarkId="bench-002")
    service.work()
    for run in (first, second):
        done = service.get(f"/benchmark-runs/{run['id']}")["writeBack"]
        assert (done["status"], done["written"]) == ("WRITTEN", 61)
    assert len(written(langfuse)) == 2 * 61
    with service.resources.db.read() as session:
        jobs = session.connection().exec_driver_sql(
            "SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'runs.write_back'"
        )
        # One for the KPI, three for thirty traces of two metrics, one to see that there is no more.
        assert jobs.scalar() == 2 * 5


def test_a_secret_that_cannot_be_opened_any_more_costs_only_the_scores(
    service: Service, langfuse: StandIn
) -> None:
    langfuse.experiment(items=3)
    benchmark(service, langfuse)
    run = service.completed()
    with service.resources.db.begin() as session:
        session.connection().exec_driver_sql(
            "UPDATE agents SET langfuse_secret_key = 'v1.00000000.AAAA'"
        )
    told = write_again(service, run)["writeBack"]
    assert (told["status"], told["errorCode"]) == ("FAILED", "CORRUPTED_SECRET")
