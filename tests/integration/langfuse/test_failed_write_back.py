"""A write-back that is stopped, killed or refused."""

import pytest

from mosaico.jobs.declarations import WriteBackScores
from mosaico.jobs.handlers import JobContext, WorkerStopping
from mosaico.jobs.queue import enqueue
from mosaico.runs import write_back
from tests.support.langfuse import FakeLangfuse
from tests.support.langfuse.faults import HtmlResponse, ModifiedResponse, RateLimited, RespondsWith
from tests.support.langfuse.written_scores import (
    ALL,
    EVENTS,
    QUALITY,
    benchmark,
    write_again,
    written,
)
from tests.support.service import JSON, Service, pointers


def test_write_back__stopped_worker_resumes(
    service: Service, langfuse: FakeLangfuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_back, "SCORES_PER_BATCH", 10)
    langfuse.experiment(items=50)
    # The run itself writes nothing back: the test does so as the worker that is stopped.
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
        write_back.write_back(job, WriteBackScores(run_id=run["id"]))
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
        enqueue(session, WriteBackScores(run_id=run["id"]))
    service.work()
    again = service.get(f"/benchmark-runs/{run['id']}")
    assert again["writeBack"] == run["writeBack"]
    assert again["writeBack"]["status"] == "WRITTEN"
    assert len(langfuse.requests_for(EVENTS)) == 2


def test_write_back__server_failure_does_not_change_the_run(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=5)
    # The first request has the KPI: one score is accepted.
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


def test_write_back__runs_in_turns(
    service: Service, langfuse: FakeLangfuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_back, "SCORES_PER_BATCH", 20)
    # Each turn ends after one batch.
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
            # The format of an encrypted secret, of a key that nobody has.
            "UPDATE agents SET langfuse_secret_key = 'v1.00000000.AAAA'"
        )
    write_back = write_again(service, run)["writeBack"]
    assert (write_back["status"], write_back["errorCode"]) == ("FAILED", "CORRUPTED_SECRET")
