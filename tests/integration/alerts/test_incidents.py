"""Incidents over many runs: opening, recovery, end, and what people are told."""

import pytest

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
from tests.support.run_histories import RunHistoryMaker
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


def test_cooldown__an_incident_that_opens_within_it_is_told_afterwards(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    # With one run a day, eight days after the page of the sixth run comes the fourteenth.
    create_regressed(cooldownMinutes=8 * 24 * 60)
    complete(*GOOD, 0.57, *BACK, 0.57, 0.56)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    complete(0.57)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED", "FIRING"]
