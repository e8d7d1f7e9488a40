"""Marking all messages as read: in batches, and one entry in the audit log."""

import pytest
from sqlalchemy import text

from mosaico.core.clock import utc_now
from mosaico.notifications import inbox, queries, service
from mosaico.notifications.types import NotificationMessage
from tests.support.service import Service

BATCH = 3


@pytest.fixture
def seven_messages(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """Seven unread messages, more than two batches."""
    monkeypatch.setattr("mosaico.notifications.inbox.READ_BATCH", BATCH)
    for number in range(7):
        _publish(service, f"m-{number}")
    return service


def _publish(running: Service, title: str) -> None:
    with running.resources.db.begin() as session:
        service.publish(session, NotificationMessage(topic="test", title=title), [])


def test_read_all__marks_every_batch_and_is_recorded_once(seven_messages: Service) -> None:
    assert seven_messages.post("/notifications/read-all")["unread"] == 0
    assert seven_messages.get("/notifications", unread="true")["items"] == []
    assert len(seven_messages.get("/notifications", unread="false")["items"]) == 7
    assert len(seven_messages.get("/audit", action="read_all_notifications")["items"]) == 1


def test_read_all__each_batch_is_a_transaction_of_its_own(seven_messages: Service) -> None:
    db, sizes = seven_messages.resources.db, []

    def note_size(session: object) -> None:
        with db.read() as other:
            sizes.append(queries.count_unread(other))

    inbox.mark_all_read(db.with_commit_hook(note_size), utc_now())
    # Counted by another session before each commit: 7, then 3 less each time.
    assert sizes == [7, 4, 1]


def test_read_all__messages_after_the_request_stay_unread(seven_messages: Service) -> None:
    now = utc_now()
    with seven_messages.resources.db.begin() as session:
        session.execute(
            text("UPDATE notifications SET created_at = now() + interval '1 minute'"
                 " WHERE title = 'm-6'")
        )  # fmt: skip
    inbox.mark_all_read(seven_messages.resources.db, now)
    [message] = seven_messages.get("/notifications", unread="true")["items"]
    assert message["title"] == "m-6"


def test_count_unread__stops_at_its_limit(
    seven_messages: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_UNREAD_COUNTED", 5)
    with seven_messages.resources.db.read() as session:
        assert queries.count_unread(session) == 5
