"""Incidents over many runs: opening, recovery, end, and what people are told."""

from datetime import timedelta

import pytest

from mosaico.alerts.evaluation.run_evaluation import AlertEvaluationService
from mosaico.alerts.service import StaleDecision, record_decisions
from mosaico.statistics.sequential import limit_of
from tests.integration.alerts.conftest import (
    BACK,
    GOOD,
    HISTORY_RULES,
    RuleMaker,
    holds,
    notified_states,
    open_incident,
)
from tests.support.run_histories import START, RunHistoryMaker
from tests.support.service import Service
from tests.support.stored import DatabaseReader


@pytest.mark.parametrize("rule", HISTORY_RULES, ids=lambda rule: str(rule["condition"]))
def test_incident__recovery_closes_it_and_a_second_collapse_is_told_like_the_first(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    rule: dict[str, object],
) -> None:  # fmt: skip
    create_regressed(**rule)
    complete(*GOOD, 0.57, 0.56)
    assert notified_states(benchmark_service) == ["FIRING"]
    complete(*BACK)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    complete(0.57)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED", "FIRING"]
    second, first = benchmark_service.list_items("/incidents")
    assert (first["state"], first["resolution"]) == ("RESOLVED", "RECOVERED")
    # After five good runs, two bad ones and five good ones.
    assert (second["state"], second["startedRunId"]) == ("OPEN", "run-13")
    assert (first["startedRunId"], first["openedValue"]) == ("run-6", 0.57)
    assert first["baseline"] == pytest.approx(0.916, abs=0.01)


@pytest.mark.parametrize("rule", HISTORY_RULES, ids=lambda rule: str(rule["condition"]))
def test_incident__bad_runs_never_become_normal_without_an_acknowledgement(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader, rule: dict[str, object],
) -> None:  # fmt: skip
    create_regressed(**rule)
    complete(*GOOD, *[0.57, 0.6] * 6)
    assert notified_states(benchmark_service) == ["FIRING"]
    incident = open_incident(benchmark_service)
    assert (incident["runs"], incident["value"]) == (12, 0.6)
    assert holds(rows) == [None] * 5 + ["INCIDENT"] * 12
    complete(*BACK)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    assert holds(rows)[-2:] == [None, None]
    assert holds(rows)[5:17] == ["INCIDENT"] * 12


def test_incident__a_further_fall_is_told_as_worse(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_regressed(severity="CRITICAL")
    complete(*GOOD, *GOOD, 0.7, 0.71, 0.7, 0.69, 0.7, 0.2)
    assert notified_states(benchmark_service) == ["FIRING", "WORSE"]
    newest = benchmark_service.list_items("/notifications")[0]
    assert newest["title"].startswith("Worse: Pelican: quality 0.7 → 0.2")
    assert newest["severity"] == "CRITICAL"


def test_incident__a_late_page_tells_what_changed_before_its_first_bad_run(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    """One run does not show a small fall: the run before the page is bad itself."""
    create_regressed()
    complete(*GOOD, *GOOD)
    complete.plan = complete.plan.model_copy(update={"agent_revision": 2})
    complete(0.872)
    assert notified_states(benchmark_service) == []
    complete(0.872, 0.872)

    [alert] = benchmark_service.list_items("/alerts")
    details = benchmark_service.get(f"/alerts/{alert['id']}")["details"]

    assert details["runs"]["width"] > 1
    assert details["changes"] == ["agent revision 1 → 2"]
    assert "in the last 2 runs" in str(benchmark_service.list_items("/notifications")[0])


def test_incident__a_partial_recovery_is_told_without_severity_and_keeps_it_open(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_regressed(severity="CRITICAL")
    complete(*GOOD, *GOOD, 0.3, 0.31, 0.3, 0.29, 0.3, 0.6, 0.61, 0.6, 0.6, 0.61)
    assert notified_states(benchmark_service) == ["FIRING", "PARTLY_BACK"]
    newest = benchmark_service.list_items("/notifications")[0]
    assert newest["title"] == (
        "Partly recovered: Pelican: quality 0.3 → 0.604 in 5 runs (bench-001)"
    )
    assert newest["severity"] == "INFO"
    assert open_incident(benchmark_service)["value"] == 0.61


@pytest.mark.parametrize(
    ("rule", "false_pages"),
    [({}, 0.1), ({"falsePagesPerMonth": 0.25}, 0.25)],
    ids=["of the service", "of the rule"],
)
def test_limit_of_the_service__is_that_of_each_series_without_its_own(
    benchmark_service: Service,
    create_regressed: RuleMaker,
    rule: dict[str, float],
    false_pages: float,
) -> None:
    create_regressed(**rule)
    create_regressed(id="rule-2", name="quality of the other team")
    complete = RunHistoryMaker(benchmark_service, false_pages=0.1)
    complete(*GOOD, 0.57)
    alerts = {alert["alertConfigId"]: alert for alert in benchmark_service.list_items("/alerts")}
    limit = benchmark_service.get(f"/alerts/{alerts['rule-1']['id']}")["details"]["runs"]["limit"]
    assert limit == pytest.approx(limit_of(false_pages))
    # Without the setting, which is that of the process that completed the run.
    promised = benchmark_service.get("/alert-configs/rule-1")["promisedFalsePages"]
    assert promised == rule.get("falsePagesPerMonth", 0.25)
    limit = benchmark_service.get(f"/alerts/{alerts['rule-2']['id']}")["details"]["runs"]["limit"]
    assert limit == pytest.approx(limit_of(0.1))


def test_incident__of_runs_that_are_no_longer_comparable_is_closed(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    """A state that cannot be left by data is a defect: the reference of the incident is gone."""
    for number, rule in enumerate(HISTORY_RULES):
        create_regressed(id=f"rule-{number}", **rule)
    complete(*GOOD, 0.57)
    assert notified_states(benchmark_service) == ["FIRING"] * 3
    complete(0.57, fingerprint="another dataset")
    assert notified_states(benchmark_service) == ["FIRING"] * 3 + ["RESOLVED"] * 3
    resolutions = {
        incident["resolution"] for incident in benchmark_service.list_items("/incidents")
    }
    assert resolutions == {"NOT_COMPARABLE"}


def test_incident__without_the_runs_before_it_is_closed(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    """Runs of an incident never join the history, so nothing else could end it."""
    for number, rule in enumerate(HISTORY_RULES):
        create_regressed(id=f"rule-{number}", **rule)
    complete(*GOOD, 0.57)
    for number in range(1, len(GOOD) + 1):
        benchmark_service.delete(f"/benchmark-runs/run-{number}")
        complete.levels["f"].pop(min(complete.levels["f"]))
    complete(0.92)
    assert notified_states(benchmark_service) == ["FIRING"] * 3 + ["RESOLVED"] * 3
    for incident in benchmark_service.list_items("/incidents"):
        assert incident["resolution"] == "NOT_COMPARABLE"
        assert "they were deleted" in incident["explanation"]


def test_no_data__ok_is_no_evidence_of_recovery_for_regressed(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_regressed(noData="OK")
    complete(*GOOD, 0.57, None, None, 0.56)
    assert notified_states(benchmark_service) == ["FIRING"]
    complete(*BACK)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]


def test_regressed__a_new_rule_starts_with_the_runs_that_exist(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    complete(*GOOD)
    create_regressed()
    complete(0.57)
    assert notified_states(benchmark_service) == ["FIRING"]


def test_cooldown__an_incident_that_opens_within_it_is_told_afterwards(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    # With one run a day, eight days after the page of the sixth run comes the fourteenth.
    create_regressed(cooldownMinutes=8 * 24 * 60)
    complete(*GOOD, 0.57, *BACK, 0.57, 0.56)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    complete(0.57)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED", "FIRING"]


def test_record_decisions__a_decision_on_an_outdated_state_is_repeated(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_regressed()
    complete(*GOOD)
    db = benchmark_service.resources.db
    late = RunHistoryMaker(benchmark_service)
    late.days = 100
    with db.begin() as session:
        seq = late.insert_run(session, "f", START + timedelta(days=100))
    decisions = AlertEvaluationService(db).evaluate_alerts_for_run(late.result(seq, 0.57, "f"))
    # Another run ends between the evaluation and the write; it comes earlier in run order.
    with db.begin() as session:
        stale = [type(decisions[0])(**{
            name: getattr(decisions[0], name) for name in decisions[0].__slots__
        } | {"seen_seq": -1})]  # fmt: skip
        with pytest.raises(StaleDecision):
            record_decisions(session, late.result(seq, 0.57, "f"), stale, START)


def test_backtest__names_the_runs_that_would_have_paged(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_regressed()
    complete(*GOOD, 0.57, *BACK, 0.57)
    events = [
        alert for alert in benchmark_service.list_items("/alerts") if alert["state"] == "FIRING"
    ]
    backtest = benchmark_service.post(
        "/alert-configs/backtest", {"alertConfigId": "rule-1", "agentId": "agent-001", "days": 3660}
    )
    assert backtest["pagedRunIds"] == [event["runId"] for event in reversed(events)]
    assert (backtest["fired"], backtest["resolved"]) == (2, 1)
