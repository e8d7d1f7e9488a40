"""Confirm before page: a suspicious run of a harness is repeated, and both decide together."""

from datetime import UTC, datetime, timedelta

import pytest

from mosaico.alerts.confirmations import CONFIRM_TIMEOUT, settle_overdue
from mosaico.runs.service import fail_run
from tests.integration.alerts.conftest import RULE
from tests.support.run_histories import START, RunHistoryMaker
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

GOOD = (0.92, 0.9, 0.93, 0.91, 0.92)
REGRESSED = {**RULE, "condition": "REGRESSED", "threshold": None, "keepFiringForRuns": 0}


@pytest.fixture
def complete(benchmark_service: Service) -> RunHistoryMaker:
    """Good runs of a harness, and a suspicious one."""
    benchmark_service.post("/alert-configs", REGRESSED)
    complete = RunHistoryMaker(benchmark_service, source="harness")
    complete(*GOOD, 0.6)
    return complete


def state(service: Service) -> JSON:
    [state] = service.get("/alert-configs/rule-1")["states"]
    return dict(state)


def notified_states(service: Service) -> list[str]:
    alerts = sorted(service.list_items("/alerts"), key=lambda alert: str(alert["id"]))
    return [alert["state"] for alert in alerts]


def repetition(service: Service) -> JSON:
    runs = service.list_items("/benchmark-runs")
    [run] = [run for run in runs if run["confirms"] is not None]
    return run


def test_confirmation__is_pending_and_visible_until_the_repetition_has_ended(
    benchmark_service: Service, complete: RunHistoryMaker
) -> None:
    assert notified_states(benchmark_service) == []
    assert state(benchmark_service)["state"] == "PENDING"
    assert "is repeated with more trials" in state(benchmark_service)["explanation"]
    run = repetition(benchmark_service)
    assert (run["confirms"], run["triggeredBy"], run["status"]) == ("run-6", "EVENT", "PENDING")
    complete.confirm(0.62)
    assert notified_states(benchmark_service) == ["FIRING"]
    [incident] = benchmark_service.list_items("/incidents")
    assert (incident["openedRunId"], incident["startedRunId"]) == ("run-6", "run-6")
    [alert] = benchmark_service.list_items("/alerts")
    assert alert["details"]["runs"]["level"] == pytest.approx(0.62)


def test_confirmation__a_repetition_that_finds_nothing_pages_nobody(
    benchmark_service: Service, complete: RunHistoryMaker
) -> None:
    complete.confirm(0.9)
    assert (notified_states(benchmark_service), state(benchmark_service)["state"]) == ([], "OK")
    complete(0.91)
    assert notified_states(benchmark_service) == []


def test_confirmation__of_a_failed_repetition_the_run_alone_decides(
    benchmark_service: Service, complete: RunHistoryMaker
) -> None:
    run = repetition(benchmark_service)
    with benchmark_service.resources.db.begin() as session:
        fail_run(session, run["id"], "BUDGET", "no money is left", datetime.now(UTC))
    # Beside the notice that the repetition failed.
    assert "FIRING" in notified_states(benchmark_service)


def test_confirmation__retry_of_a_failed_repetition_is_a_repetition(
    benchmark_service: Service, complete: RunHistoryMaker
) -> None:
    run = repetition(benchmark_service)
    with benchmark_service.resources.db.begin() as session:
        fail_run(session, run["id"], "BUDGET", "no money is left", datetime.now(UTC))
    retried = benchmark_service.post(f"/benchmark-runs/{run['id']}/retry")
    assert (retried["retryOf"], retried["confirms"]) == (run["id"], "run-6")


def test_confirmation__a_late_repetition_is_not_awaited(
    benchmark_service: Service, complete: RunHistoryMaker
) -> None:
    # The suspicious run is the newest one: it has ended on the last of the days.
    due = START + timedelta(days=complete.days - 1) + CONFIRM_TIMEOUT
    for now, states in ((due, []), (due + timedelta(seconds=1), ["FIRING"])):
        with benchmark_service.resources.db.begin() as session:
            settle_overdue(session, now)
        assert notified_states(benchmark_service) == states
    complete.confirm(0.9)
    assert notified_states(benchmark_service) == ["FIRING"]


def test_confirmation__the_next_run_does_not_lose_the_page(
    benchmark_service: Service, complete: RunHistoryMaker
) -> None:
    complete(0.61)
    assert notified_states(benchmark_service) == ["FIRING"]
    [incident] = benchmark_service.list_items("/incidents")
    assert (incident["openedRunId"], incident["runs"]) == ("run-6", 2)


@pytest.mark.parametrize(("source", "confirms"), [("harness", False), ("local", True)])
def test_confirmation__other_sources_and_rules_without_it_page_at_once(
    benchmark_service: Service, rows: DatabaseReader, source: str, *, confirms: bool
) -> None:
    benchmark_service.post("/alert-configs", {**REGRESSED, "confirmRuns": confirms})
    RunHistoryMaker(benchmark_service, source=source)(*GOOD, 0.6)
    assert notified_states(benchmark_service) == ["FIRING"]
    assert rows.value("SELECT count(*) FROM benchmark_runs WHERE confirms IS NOT NULL") == 0
