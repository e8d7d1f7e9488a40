"""Runs that are not comparable with their baseline: no verdict, one alert, and no silence after."""

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.comparison import stored_runs
from tests.integration.verdicts.conftest import Night, traces
from tests.support.service import JSON, Service

BENCHMARK = "/benchmarks/bench-001"
GOOD, BAD = range(5), range(20)


def of_another_dataset(service: Service, name: str, failed: range) -> JSON:
    """A night over a dataset with the same items, which the benchmark reads from now on."""
    service.patch(BENCHMARK, {"datasetRef": "support-2"})
    service.upload(traces(failed), name="support-2", run_name=name)
    return service.completed(runName=name)


def alerts(service: Service) -> list[JSON]:
    return [alert for alert in service.listed("/alerts") if alert["state"] == "RUN_INVALID"]


def test_a_run_under_other_conditions_has_no_verdict_and_begins_a_history(
    service: Service, night: Night
) -> None:
    first = night("monday", traces(GOOD))
    cut = of_another_dataset(service, "tuesday", BAD)
    verdict = cut["verdict"]
    assert (cut["validity"], verdict["verdict"]) == ("VALID", "INVALID")
    said = "its dataset is support-2 instead of support"
    assert verdict["reason"] == f"not comparable with its baseline: {said}"
    assert verdict["baseline"] == {"mode": "PREVIOUS_VALID", "runIds": [first["id"]]}
    assert verdict["differences"] == [said]
    [kpi] = service.get(f"/benchmark-runs/{cut['id']}/kpis")["items"]
    assert (kpi["value"], kpi["verdict"]["verdict"]) == (0.5, "INVALID")
    # Its numbers are right all the same, and those of the next night are held against them.
    again = of_another_dataset(service, "wednesday", BAD)
    assert again["verdict"]["baseline"]["runIds"] == [cut["id"]]
    assert again["verdict"]["verdict"] in {"NO_EVIDENCE", "INCONCLUSIVE"}


def test_it_is_told_once_and_rules_about_regressions_stay_as_they_were(
    service: Service, night: Night
) -> None:
    first = night("monday", traces(GOOD))
    service.post(
        "/alert-configs",
        {"name": "worse", "benchmarkId": "bench-001", "kpi": "quality", "condition": "REGRESSED"},
    )
    service.put(f"{BENCHMARK}/baseline", {"runId": first["id"]})
    runs = [of_another_dataset(service, name, BAD) for name in ("tuesday", "wednesday")]
    assert [run["verdict"]["verdict"] for run in runs] == ["INVALID", "INVALID"]
    [alert] = service.listed("/alerts")
    assert (alert["state"], alert["name"], alert["runId"]) == (
        "RUN_INVALID",
        "not comparable with its baseline",
        runs[0]["id"],
    )
    assert "Pin a newer run" in alert["explanation"]
    # Which is possible: the runs themselves are valid.
    service.put(f"{BENCHMARK}/baseline", {"runId": runs[0]["id"]})
    assert of_another_dataset(service, "thursday", BAD)["verdict"]["reason"] is None


def test_a_kpi_that_changed_is_silent_while_another_one_speaks(
    service: Service, night: Night
) -> None:
    service.post(f"{BENCHMARK}/kpis", {"id": "other", "name": "other", "formula": "ACCURACY * 2"})
    night("monday", traces(GOOD))
    service.patch(f"{BENCHMARK}/kpis/quality", {"formula": "MIN(ACCURACY, 0.9)"})
    run = night("tuesday", traces(BAD))
    assert run["verdict"]["verdict"] == "REGRESSED"
    assert run["verdict"]["counts"] == {"INVALID": 1, "REGRESSED": 1}
    assert alerts(service) == []
    # No KPI is the same any more: that is told.
    service.patch(f"{BENCHMARK}/kpis/quality", {"formula": "MIN(ACCURACY, 0.8)"})
    service.patch(f"{BENCHMARK}/kpis/other", {"formula": "ACCURACY * 3"})
    later = night("wednesday", traces(BAD))
    assert later["verdict"]["verdict"] == "INVALID"
    [alert] = alerts(service)
    assert "the KPI quality has another formula" in alert["explanation"]


def test_the_gate_says_the_same_unless_somebody_chooses_the_baseline(
    service: Service, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_runs, "compare_in_child", stored_runs.compare_runs)
    env = {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    first = night("monday", traces(GOOD))
    cut = of_another_dataset(service, "tuesday", BAD)
    words = ["gate", "--run", cut["id"]]
    own = CliRunner().invoke(cli, words, env=env)
    assert (own.exit_code, own.stdout.splitlines()[1]) == (3, cut["verdict"]["reason"])
    chosen = CliRunner().invoke(cli, [*words, "--baseline", first["id"]], env=env)
    assert chosen.exit_code == 1, chosen.output
