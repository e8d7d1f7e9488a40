"""Silences are created and changed."""

from datetime import UTC, datetime

import pytest

from app.alerts.models import AlertSilence
from tests.support.service import JSON, Service, pointers
from tests.support.stored import DatabaseReader


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
