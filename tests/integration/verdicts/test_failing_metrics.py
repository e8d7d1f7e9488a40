"""A metric whose comparison raises an error: the other verdicts and the alerts of a run stay."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mosaico.comparison.baseline_comparison import compute_in_child
from mosaico.jobs.lost_calls import CallTimeout
from mosaico.jobs.process_pool import ProcessPool
from mosaico.metrics.providers.operation import ToolCallSuccessRate
from tests.integration.verdicts.conftest import traces
from tests.support.service import JSON, Service

RATE = "TOOL_CALL_SUCCESS_RATE"
REASON = f"the comparison of {RATE} failed: RuntimeError: no counts today"
RULE = {
    "id": "worse", "name": "worse", "benchmarkId": "bench-001", "kpi": "quality",
    "condition": "REGRESSED",
}  # fmt: skip


class SameProcessPool(ProcessPool):
    """Calls functions in this process, where a test can change what they do."""

    def __init__(self) -> None:
        self.size = 1

    def run(self, function: Callable[..., Any], *arguments: Any, timeout_s: float) -> Any:
        assert timeout_s > 0
        return function(*arguments)


class LosingPool(SameProcessPool):
    """Loses each comparison of a metric that is computed from counts, as when its plugin hangs."""

    def run(self, function: Callable[..., Any], *arguments: Any, timeout_s: float) -> Any:
        if function is compute_in_child and arguments[0].count_metrics:
            raise CallTimeout("no result within 600 s")
        return super().run(function, *arguments, timeout_s=timeout_s)


def fail(*_: object) -> None:
    raise RuntimeError("no counts today")


def complete_run(service: Service, name: str, failed: int) -> JSON:
    calls = {"toolCalls": [{"name": "search", "ok": True}]}
    service.upload([trace | calls for trace in traces(range(failed))], run_name=name)
    return service.complete_run(runName=name)


def test_failing_metric__is_named_and_the_rest_is_judged_and_alerted(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = replace(service, pool=SameProcessPool())
    service.create_agent()
    service.create_benchmark(
        metrics=["ACCURACY", RATE],
        measures=[
            {"id": "quality", "name": "quality", "formula": "ACCURACY"},
            {"id": "calls", "name": "calls", "formula": f"100 * {RATE}"},
        ],
    )
    service.post("/alert-configs", RULE)
    monkeypatch.setattr(ToolCallSuccessRate, "values_of_counts", fail)
    first, _, run = [
        complete_run(service, name, failed)
        for name, failed in (("monday", 5), ("tuesday", 6), ("wednesday", 25))
    ]
    metrics = {
        row["metric"]: row for row in service.list_items(f"/benchmark-runs/{run['id']}/metrics")
    }
    kpis = {row["name"]: row for row in service.list_items(f"/benchmark-runs/{run['id']}/kpis")}
    assert metrics["ACCURACY"]["verdict"]["verdict"] == "REGRESSED"
    assert kpis["quality"]["verdict"]["verdict"] == "REGRESSED"
    # The values of the run are correct; only the verdict is missing.
    assert (metrics[RATE]["mean"], kpis["calls"]["value"]) == (1.0, 100.0)
    for verdict, reason in (
        (metrics[RATE]["verdict"], REASON),
        (kpis["calls"]["verdict"], REASON.replace(RATE, "calls")),
    ):
        assert (verdict["verdict"], verdict["reason"]) == (None, reason)
    assert run["verdict"]["verdict"] == "REGRESSED"
    assert run["verdict"]["counts"] == {"REGRESSED": 1}
    page = service.client.get(f"/runs/{run['id']}", headers={"Accept": "text/html"}).text
    assert f"T{REASON[1:]}" in page
    [alert] = service.list_items("/alerts")
    assert (alert["runId"], alert["state"]) == (run["id"], "FIRING")
    # The first run is compared with nothing, but its values have no interval either.
    assert first["verdict"]["explanation"].endswith("RuntimeError: no counts today.")
    for run_id in (first["id"], run["id"]):
        assert [
            record
            for record in caplog.records
            if RATE in record.message and run_id in record.message
        ]


def test_metric_that_hangs__costs_no_other_its_verdict(service: Service) -> None:
    service = replace(service, pool=LosingPool())
    service.create_agent()
    measures = [{"name": name, "formula": name} for name in ("ACCURACY", RATE)]
    service.create_benchmark(metrics=["ACCURACY", RATE], measures=measures)
    complete_run(service, "monday", 5)
    run = complete_run(service, "tuesday", 25)
    for path, name in (("metrics", "metric"), ("kpis", "name")):
        rows = service.list_items(f"/benchmark-runs/{run['id']}/{path}")
        verdicts = {row[name]: row["verdict"] for row in rows}
        assert verdicts["ACCURACY"]["verdict"] == "REGRESSED"
        assert verdicts[RATE]["reason"] == (
            f"the comparison of {RATE} failed: CallTimeout: no result within 600 s"
        )


def test_calls_that_all_succeed__in_unequal_numbers_have_verdicts_and_pages(
    service: Service,
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["TASK_PASSED", RATE])
    runs = []
    for name in ("monday", "tuesday"):
        uploaded = [
            trace
            | {
                "toolCalls": [{"name": "bash", "ok": True}] * (number % 4 + 1),
                "tags": [f"category:{'ab'[number % 2]}"],
                "scores": {"TASK_PASSED": 1.0},
            }
            for number, trace in enumerate(traces([]))
        ]
        service.upload(uploaded, run_name=name)
        runs.append(service.complete_run(runName=name))
    baseline, run = (run["id"] for run in runs)
    metrics = service.get(f"/benchmark-runs/{run}/metrics")["items"]
    assert [metric["verdict"]["verdict"] for metric in metrics] == ["NO_EVIDENCE"] * 2
    # The pass or fail decides.
    assert runs[1]["verdict"]["counts"] == {"NO_EVIDENCE": 1}
    categories = service.get(f"/benchmark-runs/{run}/categories")["items"]
    # Wilson for 20 of 20 with t of 19 degrees, 2.09302: 20 / (20 + 2.09302²) = 0.82032.
    rates = [category["metrics"][1] for category in categories]
    assert [rate["intervalLow"] for rate in rates] == pytest.approx([0.82032] * 2, abs=1e-5)
    comparison = service.get("/benchmark-runs/compare", baseline=baseline, candidate=run)
    assert [category["items"] for category in comparison["categories"]] == [20, 20]
    assert service.client.get(f"/api/v1/benchmark-runs/{run}/report").status_code == 200
