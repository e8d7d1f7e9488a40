"""Alerts move forward only, and are told once, however runs end and however many write at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.alerts.evaluation import AlertDecision
from app.alerts.rules import AlertOutcome, Assessment
from app.alerts.service import record_decisions
from app.core.clock import utc_now
from tests.integration.alerts.conftest import RULE
from tests.support.results import run_result
from tests.support.service import Service
from tests.support.stored import DatabaseReader


def decision(outcome: AlertOutcome) -> AlertDecision:
    assessment = Assessment(outcome=outcome, value=0.5, explanation="It fell.")
    return AlertDecision(rule_id="rule-1", revision=1, assessment=assessment)


@pytest.fixture
def judged(ready: Service) -> Service:
    ready.post("/alert-configs", {**RULE, "keepFiringForRuns": 0})
    return ready


def record(service: Service, seq: int, outcome: AlertOutcome) -> None:
    with service.resources.db.begin() as session:
        record_decisions(session, run_result(seq), [decision(outcome)], utc_now())


def states(service: Service) -> list[str]:
    return [each["state"] for each in reversed(service.listed("/alerts"))]


def test_an_older_run_that_ends_late_changes_nothing(judged: Service) -> None:
    record(judged, 2, AlertOutcome.BREACH)
    record(judged, 1, AlertOutcome.HEALTHY)
    record(judged, 2, AlertOutcome.HEALTHY)
    assert states(judged) == ["FIRING"]
    record(judged, 3, AlertOutcome.HEALTHY)
    assert states(judged) == ["FIRING", "RESOLVED"]


def test_a_rule_that_was_edited_while_a_run_was_judged_says_nothing_of_that_run(
    judged: Service,
) -> None:
    judged.patch("/alert-configs/rule-1", {"threshold": 20})
    record(judged, 1, AlertOutcome.BREACH)
    assert states(judged) == []


def test_two_who_judge_the_same_runs_at_once_tell_each_episode_once(
    judged: Service, rows: DatabaseReader
) -> None:
    episodes = 6
    together = threading.Barrier(2)

    def judge(_: int) -> None:
        for seq in range(1, 2 * episodes + 1):
            together.wait(timeout=60)
            record(judged, seq, AlertOutcome.BREACH if seq % 2 else AlertOutcome.HEALTHY)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(judge, range(2)))
    assert states(judged) == ["FIRING", "RESOLVED"] * episodes
    assert rows.value("SELECT count(*) FROM notifications") == 2 * episodes
    assert rows.value("SELECT count(DISTINCT incident_id) FROM alert_events") == episodes


@pytest.mark.prove
def test_ten_thousand_judgements_of_five_tell_each_episode_once(
    judged: Service, rows: DatabaseReader
) -> None:
    def judge(worker: int) -> None:
        for seq in range(1, 2001):
            record(judged, seq, AlertOutcome.BREACH if seq % 2 else AlertOutcome.HEALTHY)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(judge, range(5)))
    told = states(judged)
    assert told == (["FIRING", "RESOLVED"] * len(told))[: len(told)]
    repeated = "SELECT count(*) FROM (SELECT 1 FROM alert_events GROUP BY incident_id, state HAVING count(*) > 1) AS x"
    assert rows.value(repeated) == 0
