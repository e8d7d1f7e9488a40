"""A provider that raises, hangs, leaks, exits or crashes loses the value of that trace only."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from sqlalchemy import text

from mosaico.jobs.handlers import HANDLERS
from mosaico.jobs.job_runner import Worker
from mosaico.jobs.lost_calls import CallTimeout
from mosaico.jobs.process_pool import ProcessPool
from tests.support.processes import LIVENESS_S, until
from tests.support.service import JSON, Service, pair

pytestmark = pytest.mark.xdist_group("sample plugins")
CALL_TIMEOUT_S: Final = 3.0  # a correct call takes milliseconds, on a busy machine a second


def completed_run(
    service: Service,
    outputs: list[str],
    metrics: list[str],
    *,
    call_timeout_s: float = CALL_TIMEOUT_S,
) -> JSON:
    """A completed run over traces with these outputs."""
    service.create_agent()
    service.create_benchmark(metrics=metrics)
    service.upload([pair(number, output=text) for number, text in enumerate(outputs)])
    run = service.start_run()
    run_jobs(service, call_timeout_s)
    return service.get(f"/benchmark-runs/{run['id']}")


def run_jobs(service: Service, call_timeout_s: float = CALL_TIMEOUT_S) -> None:
    """Run the waiting jobs, one at a time."""
    worker = Worker(
        service.resources, HANDLERS, service.pool, concurrency=1, call_timeout_s=call_timeout_s
    )
    asyncio.run(worker.drain())


def is_scoring(service: Service) -> bool:
    with service.resources.db.read() as session:
        return bool(session.scalar(text("SELECT bool_or(fencing_token > 0) FROM run_shards")))


def rows(service: Service, run: JSON) -> list[JSON]:
    return service.list_items(f"/benchmark-runs/{run['id']}/results")


def test_unruly_metric__crash_loses_one_value_of_one_trace(extended_service: Service) -> None:
    # The output of a trace names the metric that fails on it. SAMPLE_LEAKS allocates more memory at
    # once than a child process may have.
    kinds = {
        "SAMPLE_RAISES": "RAISED",
        "SAMPLE_QUITS": "RAISED",
        "SAMPLE_EXITS": "DIED",
        "SAMPLE_SEGFAULTS": "DIED",
        "SAMPLE_LEAKS": "OUT_OF_MEMORY",
        "SAMPLE_HANGS": "HANG",
    }
    failing_outputs = [f"{name.removeprefix('SAMPLE_')} 4096" for name in kinds]
    run = completed_run(extended_service, ["a b c d", *failing_outputs, "x"], [*kinds, "ROUGE"])
    assert run["status"] == "COMPLETED"
    correct, *broken, last = rows(extended_service, run)
    answered = {"ERROR_RATE": 0.0}
    assert correct["values"] == dict.fromkeys([*kinds, "ROUGE"], 1.0) | answered
    assert last["values"] == dict.fromkeys(kinds, 1.0) | {"ROUGE": 0.0} | answered
    for row, (name, kind) in zip(broken, kinds.items(), strict=True):
        assert row["values"] == last["values"] | {name: None}
        assert row["missing"][name]["failed"] == kind
        assert row["missing"].keys() == {name}
    metrics = extended_service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    by_metric = {metric["metric"]: (metric["n"], metric["missing"]) for metric in metrics}
    assert by_metric == {name: (7, {kind: 1}) for name, kind in kinds.items()} | {"ROUGE": (8, {})}


def test_unruly_metric__hanging_on_every_trace_is_disabled_after_three(
    extended_service: Service,
) -> None:
    # Without the limit it would hang 81 times: once for the batch, twice for each of 40 traces.
    run = completed_run(extended_service, ["HANGS"] * 40, ["SAMPLE_HANGS", "ROUGE"])
    assert run["status"] == "COMPLETED"
    by_metric = rows(extended_service, run)
    values = {"SAMPLE_HANGS": None, "ROUGE": 0.0, "ERROR_RATE": 0.0}
    assert [row["values"] for row in by_metric] == [values] * 40
    assert [row["missing"]["SAMPLE_HANGS"]["failed"] for row in by_metric] == ["HANG"] * 40
    details = [row["missing"]["SAMPLE_HANGS"]["detail"] for row in by_metric]
    assert (
        details
        == [f"no result within {CALL_TIMEOUT_S:g} s"] * 3
        + ["not computed: the metric was lost on 3 traces before"] * 37
    )
    hangs, rouge = extended_service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert (hangs["n"], hangs["missing"]) == (0, {"HANG": 40})
    assert (rouge["n"], rouge["missing"]) == (40, {})


def test_unruly_metric__cancelled_run_frees_the_worker_while_it_hangs(
    extended_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeout_s = 6.0
    timeouts: list[CallTimeout] = []
    run_call = ProcessPool.run

    def record_timeouts(*arguments: Any, **options: Any) -> Any:
        try:
            return run_call(*arguments, **options)
        except CallTimeout as error:
            timeouts.append(error)
            raise

    monkeypatch.setattr(ProcessPool, "run", record_timeouts)
    extended_service.create_agent()
    extended_service.create_benchmark(metrics=["SAMPLE_HANGS", "ROUGE"])
    extended_service.create_benchmark("bench-002", metrics=["ROUGE"])
    extended_service.upload([pair(number, output="HANGS") for number in range(40)])
    hanging = extended_service.start_run()
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(run_jobs, extended_service, timeout_s)
        until(lambda: is_scoring(extended_service), what="the metric is asked")
        # Before the cancellation, or the worker may have ended before there is a second run.
        waiting = extended_service.start_run(benchmarkId="bench-002")
        extended_service.post(f"/benchmark-runs/{hanging['id']}/cancel")
        working.result(timeout=LIVENESS_S)
    # Only the call in progress hangs; without the cancellation it would be seven calls.
    assert len(timeouts) < 5
    assert extended_service.get(f"/benchmark-runs/{hanging['id']}")["status"] == "CANCELLED"
    assert extended_service.get(f"/benchmark-runs/{waiting['id']}")["status"] == "COMPLETED"


def test_unruly_metric__small_leaks_lose_no_value(extended_service: Service) -> None:
    # Twelve leaks of 100 MiB each, in child processes that may have 512 MiB. Nothing hangs: on a
    # loaded machine so much memory takes more than a second.
    run = completed_run(
        extended_service, ["LEAKS 100"] * 12, ["SAMPLE_LEAKS"], call_timeout_s=LIVENESS_S
    )
    assert [row["values"]["SAMPLE_LEAKS"] for row in rows(extended_service, run)] == [1.0] * 12


def test_unruly_metric__crash_in_summarize_loses_the_run_value_only(
    extended_service: Service,
) -> None:
    # Nothing hangs: on a loaded machine the process that follows the dead one needs more than a second.
    run = completed_run(
        extended_service,
        ["a b c d", "x"],
        ["SAMPLE_SUMMARY", "ROUGE"],
        call_timeout_s=LIVENESS_S,
    )
    assert run["status"] == "COMPLETED"
    summary, rouge = extended_service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert (summary["mean"], summary["n"], summary["max"]) == (None, 2, 0.5)
    assert summary["missing"] == {"DIED": 1}
    assert rouge["mean"] == 0.5
