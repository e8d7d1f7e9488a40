"""What somebody said of an incident is taken back: everything stands as before, until the next run is judged."""

from typing import Any, Final

import pytest

from tests.integration.alerts.conftest import (
    BACK,
    GOOD,
    HISTORY_RULES,
    RuleMaker,
    holds,
    notified_states,
    open_incident,
)
from tests.support.page_reads import HTML
from tests.support.run_histories import RunHistoryMaker
from tests.support.service import Service
from tests.support.stored import DatabaseReader

# All that a judgement of an incident may change, but times and texts of alerts.
STORED: Final = (
    (
        "SELECT run_seq, state, is_open, breaches, clears, fired_at, incident_id, series, breach_seq, clear_seq, excluded"
        " FROM alert_states ORDER BY rule_id"
    ),
    "SELECT id, baseline_hold, accepted_at, accepted_by, acceptance_note FROM benchmark_runs ORDER BY seq",
    "SELECT run_seq, series, state FROM run_series ORDER BY run_seq, series",
    (
        "SELECT state, resolution, end_seq, resolved_at, resolved_by, note, verdict, acknowledged_at, explanation"
        " FROM incidents ORDER BY id"
    ),
    "SELECT verdict, acknowledged_at, note FROM alert_events WHERE state = 'FIRING' ORDER BY id",
    "SELECT read_at FROM notifications WHERE topic = 'alert.firing' ORDER BY id",
)  # fmt: skip
JUDGEMENTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "true": ("/incidents/{incident}/acknowledge", {}),
    "noise": ("/incidents/{incident}/noise", {}),
    "accept": ("/incidents/{incident}/accept", {"note": "cheaper model"}),
    "accept run": ("/benchmark-runs/{run}/accept", {"note": "cheaper model"}),
}


def read_stored(rows: DatabaseReader) -> list[Any]:
    return [rows.all(query) for query in STORED]


@pytest.mark.parametrize(
    ("rule", "judgement"),
    [
        # Each judgement of one rule, and one of each other rule; `make prove` has the other pairs, too.
        pytest.param(
            rule,
            judgement,
            id=f"{rule['condition']}-{judgement}",
            marks=[] if rule is HISTORY_RULES[0] or judgement == "noise" else pytest.mark.prove,
        )
        for rule in HISTORY_RULES
        for judgement in JUDGEMENTS
    ],
)
def test_undo__restores_what_the_judgement_changed(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader, rule: dict[str, object], judgement: str,
) -> None:  # fmt: skip
    create_regressed(**rule)
    complete(*GOOD, 0.57, 0.56)
    incident = open_incident(benchmark_service)
    before = read_stored(rows)
    path, body = JUDGEMENTS[judgement]
    runs = benchmark_service.list_items("/benchmark-runs")
    benchmark_service.post(path.format(incident=incident["id"], run=runs[0]["id"]), body)
    assert read_stored(rows) != before
    benchmark_service.post(f"/incidents/{incident['id']}/undo")
    assert read_stored(rows) == before
    # It goes on as if nothing had been said, and ends once.
    complete(*GOOD)
    [ended] = benchmark_service.list_items("/incidents")
    assert (ended["state"], ended["resolution"]) == ("RESOLVED", "RECOVERED")


def test_undo__of_a_closed_incident_is_refused_when_a_later_run_was_judged(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader,
) -> None:  # fmt: skip
    create_regressed()
    complete(*GOOD, 0.57, 0.56)
    incident = open_incident(benchmark_service)
    address = f"/incidents/{incident['id']}/undo"
    problem = benchmark_service.expect_problem(409, "POST", address)
    assert problem["type"].endswith("/judgement-stands")
    benchmark_service.post(f"/incidents/{incident['id']}/noise")
    complete(0.91)
    benchmark_service.expect_problem(409, "POST", address)
    assert set(holds(rows)) == {None}
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]


def test_undo__takes_a_late_false_alarm_out_of_the_history_again(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader,
) -> None:  # fmt: skip
    create_regressed()
    complete(*GOOD, 0.57, 0.56, *BACK)
    [incident] = benchmark_service.list_items("/incidents")
    assert incident["resolution"] == "RECOVERED"
    before = read_stored(rows)
    benchmark_service.post(f"/incidents/{incident['id']}/noise")
    assert read_stored(rows) != before
    benchmark_service.post(f"/incidents/{incident['id']}/undo")
    assert read_stored(rows) == before


def test_undo__in_the_inbox_takes_back_a_false_alarm(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader,
) -> None:  # fmt: skip
    create_regressed()
    complete(*GOOD, 0.57, 0.56)
    [message] = benchmark_service.list_items("/inbox")
    before = read_stored(rows)
    for path, fields in (("ack", {"verdict": "noise"}), ("undo", {})):
        address = f"/inbox/{message['id']}/{path}"
        response = benchmark_service.client.post(address, data=fields, headers=HTML)
        assert response.status_code == 303, response.text
    assert read_stored(rows) == before
