"""The inbox as a page shows it: messages with their alerts, deliveries and silences."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, exists, select
from sqlalchemy.orm import Session

from app.alerts import queries
from app.alerts.models import AlertEvent, AlertSilence
from app.alerts.rules import AlertEventState
from app.alerts.service import acknowledge
from app.alerts.silence_matchers import SilenceMatchers
from app.alerts.silences import start_silence
from app.core.errors import Invalid
from app.core.keyset import PageQuery, PageRows
from app.core.list_filters import match_columns
from app.notifications.inbox import set_read_at
from app.notifications.models import Delivery, Notification
from app.notifications.queries import list_notifications


class InboxEntry(NamedTuple):
    """A message with its alerts and its deliveries."""

    notification: Notification
    events: list[AlertEvent]
    deliveries: list[Delivery]

    @property
    def is_firing(self) -> bool:
        """Return whether the message contains a firing alert that is not acknowledged."""
        return any(
            event.state == AlertEventState.FIRING and event.verdict is None for event in self.events
        )


class InboxFilter(NamedTuple):
    """Filter of messages. The other fields select by the alerts of a message: one of them is of
    the agent and the benchmark, and is acknowledged.
    """

    unread: bool | None = None
    severity: str = ""
    agent_id: str = ""
    benchmark_id: str = ""
    is_acknowledged: bool = False

    def conditions(self) -> list[ColumnElement[bool]]:
        """The condition about the alerts; none without such a filter."""
        about = match_columns(
            (AlertEvent.agent_id, self.agent_id or None),
            (AlertEvent.benchmark_id, self.benchmark_id or None),
        )
        if self.is_acknowledged:
            about.append(AlertEvent.verdict.is_not(None))
        return (
            [exists().where(AlertEvent.notification_id == Notification.id, *about)] if about else []
        )


def list_entries(
    session: Session, query: PageQuery, inbox_filter: InboxFilter
) -> PageRows[InboxEntry]:
    """The messages of the inbox, newest first."""
    page = list_notifications(
        session,
        query,
        unread=inbox_filter.unread,
        severities=[inbox_filter.severity] if inbox_filter.severity else (),
        conditions=inbox_filter.conditions(),
    )
    ids = [notification.id for notification in page.rows]
    events = _events_by_notification(session, ids)
    deliveries: dict[str, list[Delivery]] = defaultdict(list)
    statement = select(Delivery).where(Delivery.notification_id.in_(ids)).order_by(Delivery.id)
    for delivery in session.scalars(statement):
        deliveries[delivery.notification_id].append(delivery)
    entries = [
        InboxEntry(notification, events[notification.id], deliveries[notification.id])
        for notification in page.rows
    ]
    return PageRows(entries, page.next_cursor)


def list_current_silences(session: Session, now: datetime) -> Sequence[AlertSilence]:
    """The silences that are active now."""
    return queries.list_active_silences(session, now)


def acknowledge_message(
    session: Session,
    notification_id: str,
    verdict: str,
    by: str,
    now: datetime,
    note: str | None = None,
) -> None:
    """Judge every firing alert of a message as true or noise, and mark the message as read."""
    for event in _events_by_notification(session, [notification_id])[notification_id]:
        if event.state == AlertEventState.FIRING and event.verdict is None:
            acknowledge(session, event.id, verdict, by, now, note)
    set_read_at(session, notification_id, now)


def silence_message(session: Session, notification_id: str, hours: int, now: datetime) -> None:
    """Silence the alerts of a message for some hours: their rules, otherwise its benchmark and agent.

    Raises: `Invalid` for a message without alerts and for more than 30 days.
    """
    events = _events_by_notification(session, [notification_id])[notification_id]
    if not events:
        raise Invalid("this message contains no alert, so there is nothing to silence")
    # One silence for each rule and agent, however many runs the message is about.
    targets = {(event.rule_id, event.benchmark_id, event.agent_id) for event in events}
    for rule_id, benchmark_id, agent_id in sorted(targets, key=str):
        matchers = SilenceMatchers(
            alert_config_id=rule_id, benchmark_id=benchmark_id, agent_id=agent_id
        )
        start_silence(session, matchers, hours, "silenced from the inbox", now)


def _events_by_notification(
    session: Session, notification_ids: Sequence[str]
) -> dict[str, list[AlertEvent]]:
    events: dict[str, list[AlertEvent]] = defaultdict(list)
    statement = select(AlertEvent).where(AlertEvent.notification_id.in_(notification_ids))
    for event in session.scalars(statement.order_by(AlertEvent.id)):
        events[str(event.notification_id)].append(event)
    return events


def list_silences_of_rule(
    session: Session, rule_id: str, benchmark_id: str, now: datetime
) -> list[AlertSilence]:
    """The active silences that hold back alerts of a rule, of one agent or of all."""
    return [
        silence
        for silence in queries.list_active_silences(session, now)
        if silence.matchers.alert_config_id in (None, rule_id)
        and silence.matchers.benchmark_id in (None, benchmark_id)
    ]


def list_silences_of_alert(
    session: Session, event: AlertEvent, now: datetime
) -> list[AlertSilence]:
    """The active silences that would hold back an alert now."""
    return [
        silence
        for silence in queries.list_active_silences(session, now)
        if silence.matchers.match(event)
    ]
