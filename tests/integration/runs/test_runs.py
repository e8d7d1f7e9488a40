"""Runs over HTTP: start, list, cancel, retry, follow and delete."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from mosaico.agents.queries import get_agent
from mosaico.core.errors import NotFound
from mosaico.jobs.declarations import BeginRun, CollectTraces
from mosaico.jobs.handlers import JobContext
from mosaico.run_store.rules import TriggerType
from mosaico.runs import pipeline
from mosaico.runs.service import create_run
from tests.support.service import JSON, Service, pair, pointers

RUNS = "/benchmark-runs"


def events_of(service: Service, run_id: str) -> list[JSON]:
    """The runs that the stream of a run shows until it ends."""
    with service.client.stream("GET", f"/api/v1{RUNS}/{run_id}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = list(response.iter_lines())
    return [json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:")]


def create_benchmark(service: Service, **fields: Any) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"], **fields)
    service.upload([pair(1)])


def test_a_run_is_started_with_its_address_and_shows_the_fields_of_the_handover(
    service: Service,
) -> None:
    create_benchmark(service)
    answer = service.send(
        "POST", RUNS, {"benchmarkId": "bench-001", "agentId": "agent-001", "runName": "run-1"}
    )
    run = answer.json()
    assert (answer.status_code, answer.headers["Location"]) == (201, f"/api/v1{RUNS}/{run['id']}")
    assert (
        run.items()
        >= {
            "benchmarkId": "bench-001",
            "agentId": "agent-001",
            "status": "PENDING",
            "triggeredBy": "MANUAL",
            "runName": "run-1",
            "startedAt": None,
            "completedAt": None,
            "errorMessage": None,
            "errorCode": None,
            "tracesTotal": None,
            "tracesCollected": 0,
            "tracesProcessed": 0,
            "metricsComputed": 0,
            "retryCount": 0,
            "retryOf": None,
            "validity": None,
            "results": f"/api/v1{RUNS}/{run['id']}/results",
        }.items()
    )
    assert service.get(f"{RUNS}/{run['id']}/metrics") == {"items": [], "nextCursor": None}
    assert service.get(f"{RUNS}/{run['id']}/kpis") == {"items": [], "nextCursor": None}
    assert service.get(f"{RUNS}/{run['id']}/results") == {"items": [], "nextCursor": None}
    service.work()
    done = service.get(f"{RUNS}/{run['id']}")
    assert (done["status"], done["tracesTotal"], done["tracesProcessed"]) == ("COMPLETED", 1, 1)
    times = [datetime.fromisoformat(done[n]) for n in ("createdAt", "startedAt", "completedAt")]
    assert times == sorted(times)
    assert all(timestamp.utcoffset() == timedelta(0) for timestamp in times)
    assert [event["status"] for event in events_of(service, run["id"])] == ["COMPLETED"]


def test_create_run__refuses_what_cannot_run(service: Service) -> None:
    create_benchmark(service)
    both = {"benchmarkId": "bench-001", "agentId": "agent-001"}
    for trigger in ("SCHEDULED", "WEBHOOK", "EVENT", "manual", "", None, 1):
        problem = service.expect_problem(422, "POST", RUNS, {**both, "triggerType": trigger})
        assert pointers(problem) == ["/triggerType"]
        assert "MANUAL" in problem["errors"][0]["detail"]
    for body, where in (
        ({"agentId": "agent-001"}, "/benchmarkId"),
        ({"benchmarkId": "bench-001"}, "/agentId"),
        ({**both, "status": "COMPLETED"}, "/status"),
        ({**both, "id": "my-run"}, "/id"),
        ({**both, "runName": " "}, "/runName"),
        ({**both, "runName": "a\u0000"}, "/runName"),
        ({**both, "benchmarkId": "😀"}, "/benchmarkId"),
    ):
        assert pointers(service.expect_problem(422, "POST", RUNS, body)) == [where]
    missing = service.expect_problem(404, "POST", RUNS, {**both, "benchmarkId": "nobody"})
    assert missing["type"] == "/problems/benchmark-not-found"
    missing = service.expect_problem(404, "POST", RUNS, {**both, "agentId": "nobody"})
    assert missing["type"] == "/problems/agent-not-found"
    assert service.get(RUNS)["items"] == []
    with service.resources.db.read() as session:
        assert (
            session.scalar(
                text("SELECT count(*) FROM procrastinate_jobs WHERE task_name LIKE 'runs.%'")
            )
            == 0
        )


def test_get_run__an_unknown_run_is_not_found_at_any_route(service: Service) -> None:
    for method, path in (
        ("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("POST", "/retry"), ("GET", "/results"),
        ("GET", "/metrics"), ("GET", "/kpis"), ("GET", "/events"),
    ):  # fmt: skip
        for run_id in ("nobody", "%F0%9F%98%80"):
            problem = service.expect_problem(404, method, f"{RUNS}/{run_id}{path}")
            assert problem["type"] == "/problems/run-not-found"
    service.expect_problem(405, "PATCH", f"{RUNS}/nobody", {})
    service.expect_problem(405, "PUT", f"{RUNS}/nobody", {})


def test_list_runs__newest_first_and_filtered(service: Service) -> None:
    for number in (1, 2):
        service.create_agent(f"agent-00{number}")
        service.create_benchmark(f"bench-00{number}", metrics=["ROUGE"])
    service.upload([pair(1)])
    done = [service.start_run()["id"] for _ in range(3)]
    service.work()
    pending = service.start_run(benchmarkId="bench-002", agentId="agent-002")["id"]
    cancelled = service.start_run(benchmarkId="bench-002")["id"]
    service.post(f"{RUNS}/{cancelled}/cancel")
    every = [cancelled, pending, *reversed(done)]

    def ids(**parameters: object) -> list[str]:
        return [run["id"] for run in service.list_items(RUNS, **parameters)]

    assert ids() == ids(limit=2) == ids(limit=1) == every
    assert ids(benchmarkId="bench-002") == [cancelled, pending]
    assert ids(agentId="agent-002") == [pending]
    assert ids(status="COMPLETED", limit=2) == list(reversed(done))
    assert ids(status="PENDING", benchmarkId="bench-002") == [pending]
    assert ids(status="RUNNING") == ids(benchmarkId="nobody") == ids(agentId="' OR 1=1") == []
    # `from` includes its instant and `to` does not.
    second = service.get(f"{RUNS}/{done[1]}")["createdAt"]
    assert ids(**{"from": second}) == every[:-1]
    assert ids(to=second) == [done[0]]
    assert ids(**{"from": second, "to": service.get(f"{RUNS}/{done[2]}")["createdAt"]}) == [done[1]]
    # The earliest and the latest times that are still within the years 1 to 9999 in UTC.
    assert ids(**{"from": "0001-01-02T00:00:00+14:00"}) == every
    assert ids(to="9999-12-31T23:59:59Z") == every
    for parameters in (
        {"status": "DONE"},
        {"from": "yesterday"},
        {"from": "0001-01-01T00:00:00+14:00"},
        {"to": "9999-12-31T23:59:59-14:00"},
        {"to": "2026-13-01"},
        {"limit": 201},
        {"cursor": "nonsense"},
        # A cursor of another list.
        {"cursor": service.get("/agents", limit=1)["nextCursor"]},
    ):
        service.expect_problem(422, "GET", RUNS, params=parameters)


def test_cancel_run__a_final_run_is_neither_cancelled_nor_begun(service: Service) -> None:
    create_benchmark(service)
    run = service.start_run()
    cancelled = service.post(f"{RUNS}/{run['id']}/cancel")
    assert cancelled["status"] == "CANCELLED"
    assert cancelled["completedAt"] is not None
    service.work()
    assert service.get(f"{RUNS}/{run['id']}") == cancelled
    completed = service.complete_run()
    for run_id, status in ((run["id"], "CANCELLED"), (completed["id"], "COMPLETED")):
        problem = service.expect_problem(409, "POST", f"{RUNS}/{run_id}/cancel")
        assert problem["type"] == "/problems/illegal-transition"
        assert status in problem["detail"]
    problem = service.expect_problem(409, "POST", f"{RUNS}/{completed['id']}/retry")
    assert "only FAILED and CANCELLED runs can be retried" in problem["detail"]
    assert service.get(f"{RUNS}/{completed['id']}") == completed


def test_retry_run__three_times_as_a_new_run(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(datasetRef="absent")
    run = service.complete_run(runName="run-7")
    assert (run["status"], run["errorCode"]) == ("FAILED", "DATASET_NOT_FOUND")
    assert "upload its traces under this name" in run["errorMessage"]
    chain = [run]
    for count in (1, 2, 3):
        answer = service.send("POST", f"{RUNS}/{chain[-1]['id']}/retry")
        again = answer.json()
        assert (answer.status_code, again["status"]) == (201, "PENDING")
        assert answer.headers["Location"] == f"/api/v1{RUNS}/{again['id']}"
        assert (again["retryCount"], again["retryOf"]) == (count, chain[-1]["id"])
        assert (again["runName"], again["triggeredBy"]) == ("run-7", "MANUAL")
        problem = service.expect_problem(409, "POST", f"{RUNS}/{chain[-1]['id']}/retry")
        assert again["id"] in problem["detail"]
        service.expect_problem(409, "POST", f"{RUNS}/{again['id']}/retry")
        service.work()
        chain.append(again)
    problem = service.expect_problem(409, "POST", f"{RUNS}/{chain[-1]['id']}/retry")
    assert "already retried 3 times" in problem["detail"]
    assert service.get(f"{RUNS}/{run['id']}") == run


def test_delete_run__removes_everything_it_measured(service: Service) -> None:
    create_benchmark(service, measures=[{"name": "quality", "formula": "ROUGE"}])
    pending = service.start_run()
    problem = service.expect_problem(409, "DELETE", f"{RUNS}/{pending['id']}")
    assert "cancel it first" in problem["detail"]
    service.work()
    assert len(service.get("/kpi-history")["items"]) == 1
    service.delete(f"{RUNS}/{pending['id']}")
    service.expect_problem(404, "GET", f"{RUNS}/{pending['id']}")
    assert service.get("/kpi-history")["items"] == []
    service.work()
    [upload] = service.get("/local-datasets")["items"]
    with service.resources.db.read() as session:
        stored = session.scalar(text("SELECT count(*) FROM collected_traces"))
    assert stored == upload["traceCount"]
    # A job deletes the traces, batch by batch, when nobody has them.
    service.delete(f"/local-datasets/{upload['id']}")
    service.work()
    with service.resources.db.read() as session:
        for table in ("collections", "collected_traces", "trace_results", "run_metrics"):
            assert session.scalar(text(f"SELECT count(*) FROM {table}")) == 0


def test_run_results__collected_traces_have_no_values_until_they_are_measured(
    service: Service,
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    service.upload([pair(1), pair(2)])
    run = service.start_run()
    # A worker would do all steps in one go; called by hand, the run stands between two of them.
    job = JobContext(resources=service.resources, pool=service.pool, is_stopping=lambda: False)
    pipeline.begin(job, BeginRun(run_id=run["id"]))
    pipeline.collect_traces(job, CollectTraces(run_id=run["id"]))
    path = f"{RUNS}/{run['id']}/results"
    collected = [(row["traceId"], row["values"]) for row in service.list_items(path, limit=1)]
    assert collected == [("t-1", {}), ("t-2", {})]
    service.work()
    measured = [(row["traceId"], row["values"]) for row in service.list_items(path)]
    values = {"ROUGE": 1.0, "ERROR_RATE": 0.0}
    assert measured == [("t-1", values), ("t-2", values)]


def test_begin_run__later_edits_do_not_change_the_plan(service: Service) -> None:
    create_benchmark(service, measures=[{"name": "quality", "formula": "ROUGE"}])
    run = service.start_run()
    job = JobContext(resources=service.resources, pool=service.pool, is_stopping=lambda: False)
    pipeline.begin(job, BeginRun(run_id=run["id"]))
    assert service.get(f"{RUNS}/{run['id']}")["status"] == "RUNNING"
    service.patch(
        "/benchmarks/bench-001",
        {"metrics": ["BLEU"], "measures": [{"name": "quality", "formula": "BLEU * 2"}]},
    )
    service.work()
    [metric] = service.get(f"{RUNS}/{run['id']}/metrics")["items"]
    [kpi] = service.get(f"{RUNS}/{run['id']}/kpis")["items"]
    assert (metric["metric"], kpi["formula"], kpi["value"]) == ("ROUGE", "ROUGE", 1.0)
    later = service.complete_run()
    [kpi] = service.get(f"{RUNS}/{later['id']}/kpis")["items"]
    assert (kpi["formula"], kpi["kpiRevision"]) == ("BLEU * 2", 2)
    assert later["fingerprint"] != service.get(f"{RUNS}/{run['id']}")["fingerprint"]


def test_create_run__an_agent_that_is_deleted_concurrently_is_not_found(service: Service) -> None:
    create_benchmark(service)
    db = service.resources.db
    with db.begin() as session:
        agent = get_agent(session, "agent-001")
        service.delete("/agents/agent-001")
        with pytest.raises(NotFound, match="deleted in the meantime"):
            create_run(session, "bench-001", agent.id, trigger=TriggerType.MANUAL)
        session.rollback()
    assert service.get(RUNS)["items"] == []


def test_run_events__stream_from_the_first_state_to_the_last(service: Service) -> None:
    create_benchmark(service)
    run = service.start_run()
    with ThreadPoolExecutor(1) as thread:
        with service.client.stream("GET", f"/api/v1{RUNS}/{run['id']}/events") as response:
            lines = response.iter_lines()
            first = next(line for line in lines if line.startswith("data:"))
            assert json.loads(first.removeprefix("data:"))["status"] == "PENDING"
            working = thread.submit(service.work)
            events = [json.loads(line[5:]) for line in lines if line.startswith("data:")]
        working.result()
    assert events[-1] == service.get(f"{RUNS}/{run['id']}")
    assert events[-1]["status"] == "COMPLETED"
    progress = [event["tracesProcessed"] for event in events]
    assert progress == sorted(progress)
