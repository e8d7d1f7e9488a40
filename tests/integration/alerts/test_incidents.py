"""Incidents over many runs: opening, recovery, noise, acceptance, and what people are told."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.alerts.evaluation.run_evaluation import AlertEvaluationService
from app.alerts.service import StaleDecision, record_decisions
from app.statistics.sequential import limit_of
from tests.integration.alerts.conftest import RULE
from tests.support.page_commands import command_environment, run_command
from tests.support.run_histories import START, RunHistoryMaker
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

GOOD = (0.92, 0.9, 0.93, 0.91, 0.92)

RuleMaker = Callable[..., JSON]


@pytest.fixture
def complete(benchmark_service: Service) -> RunHistoryMaker:
    return RunHistoryMaker(benchmark_service)


@pytest.fixture
def create_regressed(benchmark_service: Service) -> RuleMaker:
    def make(**fields: object) -> JSON:
        body = {**RULE, "condition": "REGRESSED", "threshold": None, "keepFiringForRuns": 0}
        return benchmark_service.post("/alert-configs", {**body, **fields})

    return make


def notified_states(service: Service) -> list[str]:
    """The states of all alerts in the order of their creation: IDs are ordered by time."""
    alerts = sorted(service.list_items("/alerts"), key=lambda alert: str(alert["id"]))
    return [alert["state"] for alert in alerts]


def open_incident(service: Service) -> JSON:
    [incident] = service.list_items("/incidents", state="OPEN")
    return incident


@pytest.mark.parametrize("path", ["/alerts", "/incidents"])
def test_list__filters_by_several_values_text_and_time(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker, path: str
) -> None:
    create_regressed(name="Quality of nightly runs")
    complete(*GOOD, 0.57, 0.56)
    [incident] = benchmark_service.list_items("/incidents")

    def count(**filters: Any) -> int:
        return len(benchmark_service.list_items(path, **filters))

    assert count() == count(benchmarkId=[incident["benchmarkId"], "another"]) == 1
    assert count(agentId=["another", "third"]) == 0
    assert count(text="NIGHTLY RUNS") == 1
    # As a wildcard of SQL it would be found.
    assert count(text="nightly%runs") == 0
    [entry] = benchmark_service.list_items(path)
    time = entry["createdAt"] if path == "/alerts" else entry["openedAt"]
    assert (count(**{"from": time}), count(to=time)) == (1, 0)
    severities = {severity: count(severity=severity) for severity in ("INFO", entry["severity"])}
    assert severities == {"INFO": 0, entry["severity"]: 1}


@pytest.mark.parametrize(("path", "time"), [("/alerts", "createdAt"), ("/incidents", "openedAt")])
def test_list__is_sorted_by_the_asked_field_page_by_page(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    path: str, time: str,
) -> None:  # fmt: skip
    for name in ("b", "a", "c"):
        create_regressed(id=name, name=name)
    complete(*GOOD, 0.57, 0.56)

    def names(**parameters: Any) -> list[str]:
        return [entry["name"] for entry in benchmark_service.list_items(path, **parameters)]

    newest_first = benchmark_service.list_items(path)
    assert names(sort="name", limit=1) == ["a", "b", "c"]
    assert names(sort="-name", limit=2) == ["c", "b", "a"]
    oldest_first = benchmark_service.list_items(path, sort=time.removesuffix("At"))
    assert oldest_first == newest_first[::-1]
    for sort in ("benchmark", "-agent", "state"):
        assert sorted(names(sort=sort, limit=1)) == ["a", "b", "c"]
    benchmark_service.expect_problem(422, "GET", path, params={"sort": "id"})


def holds(rows: DatabaseReader) -> list[Any]:
    return [row[0] for row in rows.all("SELECT baseline_hold FROM benchmark_runs ORDER BY seq")]


HISTORY_RULES: list[dict[str, object]] = [
    {"condition": "REGRESSED", "threshold": None},
    {"condition": "PERCENTAGE_DROP", "threshold": 10},
    {"condition": "ANOMALY_DETECTED", "threshold": None},
]


@pytest.mark.parametrize("rule", HISTORY_RULES, ids=lambda rule: str(rule["condition"]))
def test_incident__recovery_closes_it_and_a_second_collapse_is_told_like_the_first(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    rule: dict[str, object],
) -> None:  # fmt: skip
    create_regressed(**rule)
    complete(*GOOD, 0.57, 0.56)
    assert notified_states(benchmark_service) == ["FIRING"]
    complete(0.91, 0.92, 0.9)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    complete(0.57)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED", "FIRING"]
    second, first = benchmark_service.list_items("/incidents")
    assert (first["state"], first["resolution"]) == ("RESOLVED", "RECOVERED")
    # After five good runs, two bad ones and three good ones.
    assert (second["state"], second["startedRunId"]) == ("OPEN", "run-11")
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
    complete(0.92, 0.91)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    assert holds(rows)[-2:] == [None, None]
    assert holds(rows)[5:17] == ["INCIDENT"] * 12


@pytest.mark.parametrize("rule", HISTORY_RULES, ids=lambda rule: str(rule["condition"]))
def test_noise__returns_the_runs_and_closes_the_incident(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader, rule: dict[str, object],
) -> None:  # fmt: skip
    create_regressed(**rule)
    complete(*GOOD, 0.57, 0.56)
    incident = open_incident(benchmark_service)
    dismissed = benchmark_service.post(f"/incidents/{incident['id']}/noise")
    assert (dismissed["state"], dismissed["resolution"], dismissed["verdict"]) == (
        "RESOLVED", "NOISE", "noise",
    )  # fmt: skip
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    assert set(holds(rows)) == {None}
    # The dismissed runs are history: ordinary runs after them are no improvement and no incident.
    complete(0.91, 0.92)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    if rule["condition"] == "PERCENTAGE_DROP":
        [state] = benchmark_service.get("/alert-configs/rule-1")["states"]
        # The five runs before the newest one, the dismissed runs among them.
        assert state["baseline"] == pytest.approx((0.91 + 0.92 + 0.57 + 0.56 + 0.91) / 5)
    assert benchmark_service.get("/alert-configs/rule-1")["precision"]["noise"] == 1


@pytest.mark.parametrize("rule", HISTORY_RULES, ids=lambda rule: str(rule["condition"]))
def test_accept__the_new_level_is_the_baseline_of_later_runs(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader, rule: dict[str, object],
) -> None:  # fmt: skip
    create_regressed(**rule)
    complete(*GOOD, 0.72, 0.71, 0.73)
    incident = open_incident(benchmark_service)
    accepted = benchmark_service.post(
        f"/incidents/{incident['id']}/accept", {"note": "cheaper model"}
    )
    assert (accepted["resolution"], accepted["note"]) == ("ACCEPTED", "cheaper model")
    assert accepted["resolvedBy"]
    complete(0.72, 0.7, 0.71, 0.73, 0.72, 0.71)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    [state] = benchmark_service.get("/alert-configs/rule-1")["states"]
    assert state["baseline"] == pytest.approx(0.72, abs=0.02)
    complete(0.4)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED", "FIRING"]
    assert holds(rows)[7] is None
    problem = benchmark_service.expect_problem(
        409, "POST", f"/incidents/{incident['id']}/accept", {}
    )
    assert problem["type"].endswith("/incident-closed")


def test_accept_run__closes_the_incident_that_the_run_belongs_to(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_regressed()
    complete(*GOOD, 0.57, 0.56)
    benchmark_service.post("/benchmark-runs/run-7/accept", {"note": "a new data set"})
    [incident] = benchmark_service.list_items("/incidents")
    assert (incident["resolution"], incident["note"]) == ("ACCEPTED", "a new data set")
    complete(0.57, 0.56)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]


def test_acknowledge__keeps_the_incident_open_until_it_recovers(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_regressed()
    complete(*GOOD, 0.57)
    incident = open_incident(benchmark_service)
    acknowledged = benchmark_service.post(f"/incidents/{incident['id']}/acknowledge")
    assert (acknowledged["state"], acknowledged["verdict"]) == ("OPEN", "true")
    alert = benchmark_service.get(f"/alerts/{incident['alertId']}")
    assert (alert["verdict"], alert["incidentId"]) == ("true", incident["id"])
    complete(0.92, 0.91, 0.92)
    assert benchmark_service.get(f"/incidents/{incident['id']}")["resolution"] == "RECOVERED"


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
    complete(0.86)
    assert notified_states(benchmark_service) == []
    complete(0.86, 0.86)

    [alert] = benchmark_service.list_items("/alerts")
    details = benchmark_service.get(f"/alerts/{alert['id']}")["details"]

    assert details["runs"]["width"] > 1
    assert details["changes"] == ["agent revision 1 → 2"]
    assert "in the last 2 runs" in str(benchmark_service.list_items("/notifications")[0])


def test_incident__a_partial_recovery_is_told_without_severity_and_keeps_it_open(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_regressed(severity="CRITICAL")
    complete(*GOOD, *GOOD, 0.3, 0.31, 0.3, 0.29, 0.6, 0.61, 0.6)
    assert notified_states(benchmark_service) == ["FIRING", "PARTLY_BACK"]
    newest = benchmark_service.list_items("/notifications")[0]
    assert newest["title"] == (
        "Partly recovered: Pelican: quality 0.3 → 0.6033 in 3 runs (bench-001)"
    )
    assert newest["severity"] == "INFO"
    assert open_incident(benchmark_service)["value"] == 0.6


@pytest.mark.parametrize("answer", ["acknowledge", "noise"])
def test_incident__a_second_collapse_is_told_whatever_was_said_about_the_first(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker, answer: str
) -> None:
    create_regressed()
    complete(*GOOD, *GOOD, 0.57)
    benchmark_service.post(f"/incidents/{open_incident(benchmark_service)['id']}/{answer}")
    complete(0.91, 0.92, 0.9, 0.91)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    complete(0.3)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED", "FIRING"]


@pytest.mark.parametrize(
    ("rule", "promise"),
    [({}, 0.1 / 2), ({"falsePagesPerMonth": 0.25}, 0.25)],
    ids=["equal part", "own promise"],
)
def test_budget__of_the_service_is_shared_by_its_series(
    benchmark_service: Service, create_regressed: RuleMaker, rule: dict[str, float], promise: float
) -> None:
    create_regressed(**rule)
    create_regressed(id="rule-2", name="quality of the other team")
    complete = RunHistoryMaker(benchmark_service, false_pages_budget=0.1)
    complete(*GOOD, 0.57)
    alerts = {alert["alertConfigId"]: alert for alert in benchmark_service.list_items("/alerts")}
    limit = benchmark_service.get(f"/alerts/{alerts['rule-1']['id']}")["details"]["runs"]["limit"]
    assert limit == pytest.approx(limit_of(promise))
    limit = benchmark_service.get(f"/alerts/{alerts['rule-2']['id']}")["details"]["runs"]["limit"]
    assert limit == pytest.approx(limit_of(0.1 / 2))


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
    complete(0.92, 0.91, 0.92)
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
    # With one run a day, five days after the page of the sixth run comes the eleventh.
    create_regressed(cooldownMinutes=5 * 24 * 60)
    complete(*GOOD, 0.57, 0.92, 0.91, 0.57, 0.56)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    complete(0.57)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED", "FIRING"]


def test_fixed_threshold__has_no_level_to_accept_and_stays_out_of_histories(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader,
) -> None:  # fmt: skip
    create_rule(condition="LESS_THAN", threshold=0.8)
    complete(0.7, 0.7)
    incident = open_incident(benchmark_service)
    problem = benchmark_service.expect_problem(
        409, "POST", f"/incidents/{incident['id']}/accept", {}
    )
    assert problem["type"].endswith("/no-level-to-accept")
    benchmark_service.post(f"/incidents/{incident['id']}/noise")
    assert open_incident(benchmark_service)["verdict"] == "noise"
    assert set(holds(rows)) == {None}


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


def test_incidents__unknown_id_and_roles(
    benchmark_service: Service, create_regressed: RuleMaker
) -> None:
    problem = benchmark_service.expect_problem(404, "GET", "/incidents/gone")
    assert "GET /api/v1/incidents" in problem["detail"]
    problem = benchmark_service.expect_problem(404, "POST", "/incidents/gone/noise")
    assert problem["type"].endswith("/incident-not-found")
    problem = benchmark_service.expect_problem(
        422, "POST", "/alert-configs",
        {**RULE, "condition": "REGRESSED", "threshold": None, "forRuns": 2},
    )  # fmt: skip
    assert problem["errors"][0]["pointer"] == "/forRuns"
    problem = benchmark_service.expect_problem(
        422, "POST", "/alert-configs", {**RULE, "falsePagesPerMonth": 0.05}
    )
    # RULE has another condition, which makes no such promise.
    assert problem["errors"][0]["pointer"] == "/falsePagesPerMonth"


def test_backtest__names_the_runs_that_would_have_paged(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_regressed()
    complete(*GOOD, 0.57, 0.91, 0.92, 0.9, 0.57)
    events = [
        alert for alert in benchmark_service.list_items("/alerts") if alert["state"] == "FIRING"
    ]
    backtest = benchmark_service.post(
        "/alert-configs/backtest", {"alertConfigId": "rule-1", "agentId": "agent-001", "days": 3660}
    )
    assert backtest["pagedRunIds"] == [event["runId"] for event in reversed(events)]
    assert (backtest["fired"], backtest["resolved"]) == (2, 1)


def test_incident_commands__say_what_became_of_the_incident(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker, tmp_path: Path
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8, keepFiringForRuns=0)
    complete(0.7)
    incident_id = open_incident(benchmark_service)["id"]
    environment = command_environment(benchmark_service, tmp_path)

    def status_of(action: str) -> str:
        return run_command(
            f"mosaico incidents {action} {incident_id}", environment, tmp_path
        ).stderr

    assert "stays open until the value is within the threshold again" in status_of("noise")
    assert "it stays open until it recovers" in status_of("acknowledge")
    complete(0.9)
    assert "it ended at " in status_of("acknowledge")


def test_pages__say_before_a_false_alarm_is_reported_what_cannot_be_undone(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_regressed()
    complete(*GOOD, 0.57)
    incident = open_incident(benchmark_service)
    for path in (f"/incidents/{incident['id']}", f"/alerts/events/{incident['alertId']}", "/inbox"):
        page = benchmark_service.client.get(path, headers={"Accept": "text/html"}).text
        [form] = [form for form in page.split("<form")[1:] if "False alarm<" in form]
        assert "This cannot be undone." in form
