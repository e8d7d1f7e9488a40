"""Runs that are not comparable with their baseline: no verdict, and one alert."""

import pytest

from mosaico.comparison import stored_run_comparison
from tests.integration.verdicts.conftest import CompleteRun, traces
from tests.support.service import JSON, Service, run_mosaico

BENCHMARK = "/benchmarks/bench-001"
GOOD, BAD = range(5), range(20)


def of_another_dataset(service: Service, name: str, failed: range) -> JSON:
    """A run over another dataset with the same items, which the benchmark reads from then on."""
    service.patch(BENCHMARK, {"datasetRef": "support-2"})
    service.upload(traces(failed), name="support-2", run_name=name)
    return service.complete_run(runName=name)


def alerts(service: Service) -> list[JSON]:
    return [alert for alert in service.list_items("/alerts") if alert["state"] == "RUN_INVALID"]


def test_changed_conditions__run_is_not_compared_and_starts_a_series(
    service: Service, complete_run: CompleteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        stored_run_comparison, "compare_in_child", stored_run_comparison.compare_runs
    )
    first = complete_run("monday", traces(GOOD))
    cut = of_another_dataset(service, "tuesday", BAD)
    verdict = cut["verdict"]
    assert (cut["validity"], verdict["verdict"]) == ("VALID", "INVALID")
    condition = "its dataset is support-2 instead of support"
    assert verdict["reason"] == f"not comparable with its baseline: {condition}"
    assert verdict["baseline"] == {"mode": "PREVIOUS_VALID", "runIds": [first["id"]]}
    assert verdict["differences"] == [condition]
    [kpi] = service.get(f"/benchmark-runs/{cut['id']}/kpis")["items"]
    assert (kpi["value"], kpi["verdict"]["verdict"]) == (0.5, "INVALID")
    # So is its gate, unless the baseline is chosen.
    words = ["gate", "--run", cut["id"]]
    own = run_mosaico(service, *words)
    reason = verdict["reason"]
    assert (own.exit_code, own.stdout.splitlines()[1]) == (3, f"{reason[0].upper()}{reason[1:]}.")
    assert run_mosaico(service, *words, "--baseline", first["id"]).exit_code == 1
    # Its values are correct, and the next run is compared with them.
    again = of_another_dataset(service, "wednesday", BAD)
    assert again["verdict"]["baseline"]["runIds"] == [cut["id"]]
    assert again["verdict"]["verdict"] == "NO_EVIDENCE"


def test_changed_conditions__are_reported_once_and_keep_alert_states(
    service: Service, complete_run: CompleteRun
) -> None:
    first = complete_run("monday", traces(GOOD))
    service.post(
        "/alert-configs",
        {"name": "worse", "benchmarkId": "bench-001", "kpi": "quality", "condition": "REGRESSED"},
    )
    service.put(f"{BENCHMARK}/baseline", {"runId": first["id"]})
    runs = [of_another_dataset(service, name, BAD) for name in ("tuesday", "wednesday")]
    assert [run["verdict"]["verdict"] for run in runs] == ["INVALID", "INVALID"]
    [alert] = service.list_items("/alerts")
    assert (alert["state"], alert["name"], alert["runId"]) == (
        "RUN_INVALID",
        "not comparable with its baseline",
        runs[0]["id"],
    )
    assert "Pin a newer run" in alert["explanation"]
    # Which is possible: the runs themselves are valid.
    service.put(f"{BENCHMARK}/baseline", {"runId": runs[0]["id"]})
    assert of_another_dataset(service, "thursday", BAD)["verdict"]["reason"] is None


def test_kpi_of_a_new_metric__does_not_count_while_others_are_comparable(
    service: Service, complete_run: CompleteRun
) -> None:
    service.post(f"{BENCHMARK}/kpis", {"id": "other", "name": "other", "formula": "ACCURACY * 2"})
    complete_run("monday", traces(GOOD))
    service.patch(BENCHMARK, {"metrics": ["ACCURACY", "STATUS", "JSON_VALID"]})
    service.patch(f"{BENCHMARK}/kpis/quality", {"formula": "MIN(STATUS, 0.9)"})
    run = complete_run("tuesday", traces(BAD))
    assert run["verdict"]["verdict"] == "REGRESSED"
    assert run["verdict"]["counts"] == {"INVALID": 1, "REGRESSED": 1}
    assert alerts(service) == []
    # No KPI is the same any more: that is told.
    service.patch(f"{BENCHMARK}/kpis/other", {"formula": "JSON_VALID * 3"})
    later = complete_run("wednesday", traces(BAD))
    assert later["verdict"]["verdict"] == "INVALID"
    [alert] = alerts(service)
    assert "STATUS is new" in alert["explanation"]
