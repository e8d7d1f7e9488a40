"""Silences are created and changed."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from sqlalchemy import text

from mosaico.alerts.models import AlertSilence
from mosaico.alerts.silence_matchers import SilenceMatchers
from tests.support.every_page import write_every_page
from tests.support.page_reads import read_page
from tests.support.service import JSON, Service, pointers
from tests.support.stored import DatabaseReader


def test_create_silence__of_what_does_not_exist_is_refused(benchmark_service: Service) -> None:
    """It would hold back nothing."""
    later = "2099-01-01T00:00:00Z"
    matchers = {"alertConfigId": "none", "benchmarkId": "bench-001", "agentId": "bot"}
    refused = benchmark_service.expect_problem(
        422, "POST", "/silences", {"matchers": matchers, "endsAt": later}
    )
    assert pointers(refused) == ["/matchers/alertConfigId", "/matchers/agentId"]
    assert benchmark_service.get("/silences")["items"] == []


def test_create_silence__needs_a_matcher_and_an_end(benchmark_service: Service) -> None:
    later = "2099-01-01T00:00:00Z"
    assert pointers(
        benchmark_service.expect_problem(
            422, "POST", "/silences", {"matchers": {}, "endsAt": later}
        )
    ) == ["/matchers"]
    quiet = {"matchers": {"severity": "INFO"}, "endsAt": "2020-01-01T00:00:00Z"}
    assert pointers(benchmark_service.expect_problem(422, "POST", "/silences", quiet)) == [
        "/endsAt"
    ]
    # Without a time zone, and in the year 10000 of UTC.
    for never in ("2099-01-01T00:00:00", "9999-12-31T23:59:59-14:00"):
        unstorable = {**quiet, "endsAt": never}
        assert pointers(benchmark_service.expect_problem(422, "POST", "/silences", unstorable)) == [
            "/endsAt"
        ]
    silence = benchmark_service.post(
        "/silences", {**quiet, "id": "s-1", "endsAt": later, "comment": "move"}
    )
    assert benchmark_service.get("/silences/s-1") == silence
    assert [
        silence_view["id"]
        for silence_view in benchmark_service.list_items("/silences", active="true")
    ] == ["s-1"]
    benchmark_service.delete("/silences/s-1")
    assert benchmark_service.list_items("/silences") == []


@pytest.fixture
def silence(benchmark_service: Service) -> JSON:
    return benchmark_service.post(
        "/silences",
        {
            "id": "s-1",
            "matchers": {"severity": "INFO", "name": "quality*"},
            "endsAt": "2099-01-01T00:00:00Z",
            "comment": "move",
        },
    )


def test_update_silence__changes_the_sent_fields_and_matchers_only(
    benchmark_service: Service, silence: JSON
) -> None:
    changed = benchmark_service.patch(
        "/silences/s-1", {"matchers": {"agentId": "agent-001", "name": None}}
    )
    assert changed == {
        **silence,
        "matchers": {**silence["matchers"], "agentId": "agent-001", "name": None},
    }
    changed = benchmark_service.patch(
        "/silences/s-1", {"endsAt": "2098-01-01T00:00:00Z", "comment": None}
    )
    assert (changed["endsAt"], changed["comment"]) == ("2098-01-01T00:00:00Z", None)
    assert benchmark_service.get("/silences/s-1") == changed


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"matchers": {"severity": None, "name": None}}, "/matchers"),
        ({"matchers": {"agent": "agent-001"}}, "/matchers/agent"),
        ({"endsAt": "2020-01-01T00:00:00Z"}, "/endsAt"),
        ({"endsAt": None}, "/endsAt"),
        ({"startsAt": "2020-01-01T00:00:00Z"}, "/startsAt"),
    ],
)
def test_update_silence__an_invalid_change_is_refused_and_changes_nothing(
    benchmark_service: Service, silence: JSON, change: JSON, pointer: str
) -> None:
    problem = benchmark_service.expect_problem(422, "PATCH", "/silences/s-1", change)
    assert pointers(problem) == [pointer]
    assert benchmark_service.get("/silences/s-1") == silence


def test_update_silence__an_ended_silence_takes_a_comment_and_a_later_end(
    benchmark_service: Service, silence: JSON, rows: DatabaseReader
) -> None:
    # The API accepts no end in the past.
    with benchmark_service.resources.db.begin() as session:
        stored = session.get_one(AlertSilence, silence["id"])
        stored.starts_at, stored.ends_at = (datetime(2020, 1, day, tzinfo=UTC) for day in (1, 2))
    assert benchmark_service.list_items("/silences", active="true") == []
    benchmark_service.patch("/silences/s-1", {"comment": "moved"})
    benchmark_service.patch("/silences/s-1", {"endsAt": "2099-01-01T00:00:00Z"})
    [active] = benchmark_service.list_items("/silences", active="true")
    assert (active["id"], active["comment"]) == ("s-1", "moved")
    assert rows.value("SELECT count(*) FROM audit_log WHERE action = 'change_silence'") == 2


def test_list_silences__by_end_on_the_page_and_in_the_api(
    benchmark_service: Service,
) -> None:
    now = datetime.now(UTC)
    times = {"ended": (-3, -1), "current": (-1, 1), "later": (1, 2)}
    with benchmark_service.resources.db.begin() as session:
        session.add_all(
            AlertSilence(
                id=name, matchers=SilenceMatchers(name=f"{name}-*"), comment=None,
                starts_at=now + timedelta(days=start), ends_at=now + timedelta(days=end),
            )
            for name, (start, end) in times.items()
        )  # fmt: skip
    for query, names in (
        ("", {"ended", "current", "later"}),
        ("ended=true", {"ended"}),
        ("ended=false", {"current", "later"}),
        ("active=true", {"current"}),
        ("active=false", {"ended", "later"}),
        ("ended=false&active=false", {"later"}),
        ("active=true&ended=true", set()),
    ):
        page = read_page(benchmark_service, f"/inbox?tab=silenced&{query}")
        assert set(re.findall(r'id="s-(\w+)"', page)) == names, query
        # One field has both filters.
        [chosen] = re.findall(r'<option value="([^"]*)" selected', page) or [""]
        assert sorted(unescape(chosen).split("&")) == sorted(query.split("&"))
        [address] = re.findall(r'<a type="application/json" href="([^"]+)"', page)
        listed = benchmark_service.client.get(unescape(address)).json()["items"]
        assert {silence["id"] for silence in listed} == names
        # The tab counts those that have not ended.
        assert 'Silenced <span class="muted">2</span>' in page
    assert "Start again" in read_page(benchmark_service, "/inbox?tab=silenced&ended=true")
    sent = {"tab": "silenced", "when": "ended=false&active=false"}
    answer = benchmark_service.client.get("/inbox", params=sent, headers={"Accept": "text/html"})
    assert answer.headers["location"] == "/inbox?tab=silenced&ended=false&active=false"


def test_silence__page_and_api_have_what_it_held_back(service: Service) -> None:
    with service.resources.db.begin() as session:
        write_every_page(session)
        session.execute(
            text("UPDATE alert_events SET silence_id = 'silence-1' WHERE id = 'alert-1'")
        )
    page = read_page(service, "/inbox?tab=silenced")
    assert "held back 1 alert<" in page
    alerts = read_page(service, "/alert-history?silence=silence-1")
    assert set(re.findall(r'href="/alerts/events/([^"]+)"', alerts)) == {"alert-1"}
    assert [alert["id"] for alert in service.list_items("/alerts", silenceId="silence-1")] == [
        "alert-1"
    ]
    assert "held back no alert yet" in read_page_after_release(service)


def read_page_after_release(service: Service) -> str:
    with service.resources.db.begin() as session:
        session.execute(text("UPDATE alert_events SET silence_id = NULL"))
    return read_page(service, "/inbox?tab=silenced")
