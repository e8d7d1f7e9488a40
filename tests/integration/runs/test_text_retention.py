"""`keepTextDays`: texts go after so many days; values, verdicts, tags and attributes stay, and everybody is told."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from mosaico.core.clock import utc_now
from mosaico.runs import text_retention
from mosaico.runs.text_retention import remove_expired_texts
from tests.support.service import JSON, Service, pair

SECRET = "My name is Ada"
DAYS = 30


def traces() -> list[JSON]:
    more = {
        "input": SECRET,
        "attributes": {"model": "m"},
        "tags": ["kind:a"],
        "toolCalls": [{"name": "mail", "arguments": {"to": SECRET}}],
    }
    return [pair(number, SECRET, SECRET, **more) for number in range(5)]


def complete_run(service: Service, benchmark_id: str = "bench-001") -> JSON:
    return service.complete_run(benchmarkId=benchmark_id)


def remove_after(service: Service, days: float) -> int:
    now = utc_now() + timedelta(days=days)
    with service.resources.db.begin() as session:
        removed = remove_expired_texts(session, now)
    service.work()
    return removed


def stored(service: Service) -> str:
    tables = ("collected_traces", "trace_transcripts", "trace_results")
    with service.resources.db.read() as session:
        return "".join(
            row
            for table in tables
            for row in session.execute(text(f"SELECT t::text FROM {table} t")).scalars()
        )


@pytest.fixture
def run(service: Service) -> JSON:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"], keepTextDays=DAYS)
    service.upload(traces())
    return complete_run(service)


def test_texts__are_removed_after_their_days_and_values_stay(service: Service, run: JSON) -> None:
    metrics = service.get(f"/benchmark-runs/{run['id']}/metrics")
    assert remove_after(service, DAYS - 1) == 0
    assert SECRET in stored(service)
    assert remove_after(service, DAYS + 1) == 1
    assert SECRET not in stored(service)
    assert remove_after(service, DAYS + 1) == 0
    later = service.get(f"/benchmark-runs/{run['id']}")
    assert later["textsRemovedAt"] is not None
    assert (later["verdict"], later["validity"]) == (run["verdict"], run["validity"])
    assert service.get(f"/benchmark-runs/{run['id']}/metrics") == metrics
    [trace, *_] = service.list_items(f"/benchmark-runs/{run['id']}/results")
    assert (trace["input"], trace["output"], trace["expectedOutput"]) == (None, None, None)
    assert (trace["values"], trace["attributes"], trace["tags"]) == (
        {"ROUGE": 1.0, "ERROR_RATE": 0.0},
        {"model": "m"},
        ["kind:a"],
    )


def test_texts__that_another_run_needs_stay(service: Service, run: JSON) -> None:
    service.create_benchmark("other", metrics=["ROUGE"])
    complete_run(service, "other")
    assert remove_after(service, DAYS + 1) == 0
    assert SECRET in stored(service)
    service.patch("/benchmarks/other", {"keepTextDays": 400})
    assert remove_after(service, DAYS + 1) == 0
    assert remove_after(service, 401) == 1
    assert SECRET not in stored(service)


def test_runs__of_removed_texts_are_all_marked(
    service: Service, run: JSON, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_retention, "RUNS_PER_MARK", 1)
    runs = [run, complete_run(service), complete_run(service)]
    assert remove_after(service, DAYS + 1) == 1
    marks = {service.get(f"/benchmark-runs/{run['id']}")["textsRemovedAt"] for run in runs}
    assert len(marks) == 1
    assert None not in marks


def test_run__without_texts_is_not_measured_again(service: Service, run: JSON) -> None:
    remove_after(service, DAYS + 1)
    problem = service.expect_problem(410, "POST", f"/benchmark-runs/{run['id']}/rescore")
    assert "keepTextDays" in problem["detail"]
    # A new run over the upload says what is missing, and one over the same traces again has them.
    failed = complete_run(service)
    assert (failed["status"], failed["errorCode"]) == ("FAILED", "TEXTS_REMOVED")
    service.upload(traces(), replace="true")
    again = complete_run(service)
    assert (again["status"], again["textsRemovedAt"]) == ("COMPLETED", None)
    # It is compared by the values of the run before.
    assert again["verdict"]["baseline"]["runIds"] == [run["id"]]


def test_pages__say_when_texts_were_removed(service: Service, run: JSON) -> None:
    with service.resources.db.begin() as session:
        session.execute(
            text("UPDATE benchmark_runs SET completed_at = completed_at - interval '31 days'")
        )
    remove_after(service, 0)
    [upload] = service.list_items("/local-datasets")
    for path in (
        f"/runs/{run['id']}",
        f"/runs/{run['id']}/traces",
        f"/runs/{run['id']}/traces/t-1",
        f"/runs/{run['id']}/items?item=i-1&base={run['id']}",
    ):
        assert "Texts were removed after 31 days" in service.client.get(path).text, path
    assert "Texts were removed" in service.client.get(f"/datasets/{upload['id']}").text
    assert "after 30 days" in service.client.get("/benchmarks/bench-001").text
