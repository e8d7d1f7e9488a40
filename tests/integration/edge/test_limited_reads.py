"""Reads that are cut: what is left out is said, and what is read in batches is complete."""

import re
from datetime import timedelta
from typing import Final

import pytest
from sqlalchemy import text

from mosaico.alerts import inbox_view, queries, silences
from mosaico.core.dependents import DeletedResource
from mosaico.overview import cell_queries
from mosaico.overview import pages as overview_pages
from mosaico.overview import queries as overview_queries
from tests.support.every_page import write_every_page
from tests.support.page_reads import read_page
from tests.support.service import JSON, Service

HTML: Final = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
MESSAGE: Final = "note-0"


@pytest.fixture
def filled(service: Service) -> Service:
    """A service with a month of runs of seven pairs, an alert, a rule and a missed schedule."""
    with service.resources.db.begin() as session:
        write_every_page(session)
    return service


def cells_of(overview: JSON) -> list[tuple[str, str]]:
    return sorted((cell["benchmarkId"], cell["agentId"]) for cell in overview["cells"])


def test_overview__of_too_many_pairs_has_those_with_the_newest_runs(
    filled: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_queries, "MAX_CELLS", 2)
    overview = filled.get("/overview", hours=168)
    with filled.resources.db.read() as session:
        newest = session.execute(
            text(
                "SELECT benchmark_id, agent_id FROM benchmark_runs WHERE status IN ('COMPLETED', 'FAILED')"
                " GROUP BY 1, 2 ORDER BY max(seq) DESC LIMIT 2"
            )
        ).all()
    assert cells_of(overview) == sorted(map(tuple, newest))
    assert not overview["isComplete"]
    page = filled.client.get("/", headers=HTML).text
    assert "The 2 pairs with the newest runs" in page
    # The page of an agent reads its own pairs.
    assert 'href="/runs/' in filled.client.get("/agents/billing", headers=HTML).text


def test_overview__counts_missed_times_up_to_a_limit(
    filled: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (overview_queries, overview_pages):
        monkeypatch.setattr(module, "MAX_COUNTED", 1)
    assert filled.get("/overview", hours=168)["missedFires"] == 1
    assert "due time or more" in read_page(filled, "/?hours=168")


def test_rule__has_the_states_of_its_first_agents(
    filled: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled.resources.db.begin() as session:
        session.execute(
            text(
                "INSERT INTO alert_states (rule_id, agent_id, run_seq, run_id, state, breaches, clears, explanation,"
                " evaluated_at) SELECT 'rule-1', id, 1, 'run', 'OK', 0, 0, 'x', now() FROM agents"
                " ON CONFLICT DO NOTHING"
            )
        )
    agents = [state["agentId"] for state in filled.get("/alert-configs/rule-1")["states"]]
    assert agents == sorted(agents)
    assert len(agents) > 2
    monkeypatch.setattr(queries, "MAX_STATES", 2)
    states = filled.get("/alert-configs/rule-1")["states"]
    assert [state["agentId"] for state in states] == agents[:2]
    page = filled.client.get("/alerts/rule-1", headers=HTML).text
    assert f"2 of {len(agents)} agents, by ID" in page


def add_alerts(service: Service, count: int) -> None:
    """More firing alerts of the message."""
    with service.resources.db.begin() as session:
        session.execute(
            text(
                "INSERT INTO alert_events (id, dedup_key, state, rule_id, name, severity, benchmark_id, agent_id,"
                " explanation, details, notification_id) SELECT 'more-' || n, 'more-' || n, 'FIRING', rule_id, name,"
                " severity, benchmark_id, agent_id, explanation, details, :message"
                " FROM alert_events, generate_series(1, :count) AS n WHERE notification_id = :message"
            ),
            {"message": MESSAGE, "count": count},
        )


def test_inbox__shows_some_alerts_of_a_message_and_reads_all_in_batches(
    filled: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_alerts(filled, 6)
    monkeypatch.setattr(inbox_view, "MAX_LISTED", 3)
    monkeypatch.setattr("mosaico.core.batches.STATEMENT_ROWS", 2)
    entry = next(item for item in filled.get("/inbox")["items"] if item["id"] == MESSAGE)
    assert len(entry["alerts"]) == 3
    with filled.resources.db.read() as session:
        batches = list(inbox_view.iter_events(session, MESSAGE))
    assert [len(batch) for batch in batches] == [2, 2, 2, 1]
    assert len({event.id for batch in batches for event in batch}) == 7


def test_endpoint__in_use_names_some_rules(
    filled: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled.resources.db.begin() as session:
        session.execute(text("UPDATE alert_rules SET endpoints = '[\"endpoint-1\"]'"))
    monkeypatch.setattr(queries, "MAX_USERS", 1)
    problem = filled.expect_problem(409, "DELETE", "/endpoints/endpoint-1")
    assert len(re.findall(r"\(rule-", problem["detail"])) == 1
    with filled.resources.db.read() as session:
        assert (
            queries.find_rules_of_endpoint(session, DeletedResource("endpoint", "endpoint-2")) == []
        )


def test_silences__no_more_than_the_limit_are_open(
    filled: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = filled.resources.clock()
    body: JSON = {
        "matchers": {"benchmarkId": "support"},
        "endsAt": (now + timedelta(hours=1)).isoformat(),
    }
    # One exists already.
    monkeypatch.setattr(silences, "MAX_SILENCES", 2)
    second = filled.post("/silences", body)["id"]
    problem = filled.expect_problem(409, "POST", "/silences", body)
    assert problem["type"] == "/problems/too-many-silences"
    with filled.resources.db.begin() as session:
        session.execute(
            text("UPDATE alert_silences SET starts_at = now() - interval '2 h', ends_at = now() - interval '1 h' WHERE id = :id"),
            {"id": second},
        )  # fmt: skip
    third = filled.post("/silences", body)["id"]
    problem = filled.expect_problem(409, "PATCH", f"/silences/{second}", {"endsAt": body["endsAt"]})
    assert problem["type"] == "/problems/too-many-silences"
    later = (now + timedelta(hours=2)).isoformat()
    filled.patch(f"/silences/{third}", {"endsAt": later})
