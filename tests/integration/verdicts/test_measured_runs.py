"""Valid means measured: failed answers and missing scores in stored runs, their alerts and their baselines."""

from collections.abc import Callable
from typing import Final

import pytest

from tests.integration.comparison.test_failed_answers import FAILED, NAME, night
from tests.support.service import JSON, Service

METRICS: Final = [{"key": "SCORE", "options": {"name": NAME}}]
RANGED: Final = [{"key": "SCORE", "options": {"name": NAME, "range": "0..1"}}]
KPI: Final = {"id": "k-1", "name": "quality", "formula": f'SCORE["{NAME}"]'}
Judge = Callable[[list[JSON]], JSON]


@pytest.fixture
def judge(service: Service) -> Judge:
    """Store the answers and complete a run of them."""
    service.create_agent()
    numbers = iter(range(100))

    def complete(rows: list[JSON]) -> JSON:
        number = next(numbers)
        # Equal traces would be no new data.
        named = [row | {"traceId": f"{row['traceId']}-{number}"} for row in rows]
        service.upload(named, run_name=f"night-{number}")
        return service.complete_run(runName=f"night-{number}")

    return complete


def kpi_of(service: Service, run: JSON) -> JSON:
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    return dict(kpi)


def create_rule(service: Service, rule_id: str, **fields: object) -> None:
    rule = {"id": rule_id, "name": rule_id, "benchmarkId": "bench-001", "severity": "CRITICAL"}
    service.post("/alert-configs", rule | {"condition": "REGRESSED"} | fields)


def states(service: Service) -> dict[str, str]:
    configs = service.get("/alert-configs")["items"]
    found = {}
    for config in configs:
        [state] = service.get(f"/alert-configs/{config['id']}")["states"]
        found[config["id"]] = state["state"]
    return found


def test_crashes__of_a_score_without_a_range_regress_and_page_as_failures(
    service: Service, judge: Judge
) -> None:
    service.create_benchmark(metrics=METRICS, measures=[KPI])
    create_rule(service, "errors", metric="ERROR_RATE")
    create_rule(service, "quality", kpi="quality")
    judge(night())
    judge(night())
    crashed = judge(night(FAILED))
    assert (crashed["validity"], crashed["verdict"]["verdict"]) == ("VALID", "REGRESSED")
    kpi = kpi_of(service, crashed)
    assert (kpi["value"], kpi["validity"], kpi["verdict"]["verdict"]) == (
        None,
        "INVALID",
        "INVALID",
    )
    assert "40 of 60 answers failed" in kpi["undefinedReason"]
    assert '"range": "0..1"' in kpi["undefinedReason"]
    assert states(service) == {"errors": "FIRING", "quality": "NO_DATA"}
    # What regressed is named, and is no KPI.
    assert (
        "(share of answers that failed) rose from 0.000 to 0.667"
        in crashed["verdict"]["explanation"]
    )
    assert "1 of 1 KPI cannot be compared" in crashed["verdict"]["explanation"]
    # The failures are a metric of every run.
    metrics = service.get(f"/benchmark-runs/{crashed['id']}/metrics")["items"]
    assert {row["metric"]: row["mean"] for row in metrics}["ERROR_RATE"] == pytest.approx(2 / 3)


def test_crashes__of_a_score_with_a_range_are_its_worst_value(
    service: Service, judge: Judge
) -> None:
    service.create_benchmark(metrics=RANGED, measures=[KPI])
    create_rule(service, "quality", kpi="quality")
    judge(night())
    judge(night())
    crashed = judge(night(FAILED))
    kpi = kpi_of(service, crashed)
    assert (kpi["validity"], kpi["value"]) == ("VALID", pytest.approx(0.7 * 20 / 60))
    assert kpi["verdict"]["verdict"] == "REGRESSED"
    assert states(service) == {"quality": "FIRING"}


def test_equal_crashes__of_both_nights_are_invalid_and_no_baseline(
    service: Service, judge: Judge
) -> None:
    service.create_benchmark(metrics=METRICS, measures=[KPI])
    judge(night())
    judge(night(FAILED))
    again = judge(night(FAILED))
    assert again["verdict"]["verdict"] != "NO_EVIDENCE"
    assert kpi_of(service, again)["validity"] == "INVALID"


def test_scores_of_few_items__make_what_decides_invalid(service: Service, judge: Judge) -> None:
    service.create_benchmark(metrics=METRICS, measures=[KPI])
    create_rule(service, "quality", kpi="quality")
    few = [judge(night(scored=20)) for _ in range(2)]
    for run in few:
        assert run["validity"] == "INVALID"
        assert "scores for 20 of 60 items" in run["validityReasons"][0]
        assert kpi_of(service, run)["value"] is None
    complete = judge(night())
    # No incomplete run is a baseline.
    assert (complete["validity"], complete["verdict"]["verdict"]) == ("VALID", None)
    assert judge(night())["verdict"]["verdict"] == "NO_EVIDENCE"


def test_scores_of_few_items__leave_the_other_kpis_valid(service: Service, judge: Judge) -> None:
    answers = {"id": "k-2", "name": "failures", "formula": "ERROR_RATE"}
    service.create_benchmark(metrics=METRICS, measures=[KPI, answers])
    judge(night(scored=20))
    run = judge(night(scored=20))
    assert run["validity"] == "VALID"
    kpis = {
        kpi["name"]: (kpi["validity"], kpi["verdict"]["verdict"])
        for kpi in service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    }
    assert kpis == {"quality": ("INVALID", "INVALID"), "failures": ("VALID", "NO_EVIDENCE")}
    assert "scores for 20 of 60 items" in run["verdict"]["explanation"]
    assert run["verdict"]["items"]["compared"] == 60
    compared = service.get(
        "/benchmark-runs/compare",
        baseline=run["verdict"]["baseline"]["runIds"][0],
        candidate=run["id"],
    )
    assert {kpi["name"]: kpi["verdict"]["verdict"] for kpi in compared["kpis"]} == {
        "quality": "INVALID", "failures": "NO_EVIDENCE",
    }  # fmt: skip


def test_lower_min_coverage__allows_scores_of_few_items(service: Service, judge: Judge) -> None:
    service.create_benchmark(metrics=METRICS, measures=[KPI], minCoverage=0.3)
    judge(night(scored=20))
    run = judge(night(scored=20))
    assert (run["validity"], run["verdict"]["verdict"]) == ("VALID", "NO_EVIDENCE")


def test_first_run__of_which_nothing_is_measured_is_no_baseline(
    service: Service, judge: Judge
) -> None:
    service.create_benchmark(metrics=METRICS, measures=[KPI])
    first = judge(night(FAILED))
    assert (first["validity"], first["baselineHold"]) == ("VALID", "INCOMPLETE")
    assert judge(night())["verdict"]["baseline"] is None
    assert judge(night())["verdict"]["verdict"] == "NO_EVIDENCE"
