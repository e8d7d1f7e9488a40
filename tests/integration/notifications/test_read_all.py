"""Marking all messages as read: in batches, and one entry in the audit log."""

import pytest
from sqlalchemy import text

from mosaico.core.clock import utc_now
from mosaico.notifications import inbox, service
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
