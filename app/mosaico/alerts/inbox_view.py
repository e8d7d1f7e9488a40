"""The inbox as a page shows it: messages with their alerts, deliveries and silences."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, TextClause, exists, literal, select, text, tuple_
from sqlalchemy.orm import Session

from mosaico.alerts import silence_queries
from mosaico.alerts.judgement_undo import withdraw_judgement
from mosaico.alerts.models import AlertEvent, AlertSilence
from mosaico.alerts.rules import AlertEventState
from mosaico.alerts.schemas import AlertConfigView
from mosaico.alerts.service import acknowledge
from mosaico.alerts.silence_matchers import SilenceMatchers
from mosaico.alerts.silences import start_silence
from mosaico.core.batches import batched, keyset_batches
from mosaico.core.errors import Invalid
from mosaico.core.keyset import PageQuery, PageRows, WholeList
from mosaico.core.list_filters import match_columns
from mosaico.core.row_counts import count_rows
from mosaico.notifications.inbox import set_read_at
from mosaico.notifications.models import Delivery, Notification
from mosaico.notifications.queries import get_notification, list_notifications

# A message is about the runs of a night, and goes to the recipients of some rules. Nothing limits their number.
MAX_LISTED: Final = 50
_MESSAGES_PER_STATEMENT: Final = 10

# The first rows from a key on, each in the order of an index: of `notification_id = message.id` in the order of IDs
# the planner may read the rows of all other messages.
_FIRST_EVENTS: Final = text(
    """
    SELECT event.* FROM unnest(CAST(:ids AS text[])) AS message (id) CROSS JOIN LATERAL (
        SELECT * FROM alert_events WHERE (notification_id, id) > (message.id, '')
        ORDER BY notification_id, id LIMIT :limit
    ) AS event WHERE event.notification_id = message.id ORDER BY event.id
    """
)
_FIRST_DELIVERIES: Final = text(
    """
    SELECT delivery.* FROM unnest(CAST(:ids AS text[])) AS message (id) CROSS JOIN LATERAL (
        SELECT * FROM deliveries WHERE (notification_id, endpoint_id) > (message.id, '')
        ORDER BY notification_id, endpoint_id LIMIT :limit
    ) AS delivery WHERE delivery.notification_id = message.id ORDER BY delivery.id
    """
)

_Part = TypeVar("_Part", AlertEvent, Delivery)


class InboxEntry(NamedTuple):
    """A message with its alerts and its deliveries, `MAX_LISTED` of each at most."""

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
    the agent and the benchmark, of one of `agent_ids`, and is acknowledged.
    """

    unread: bool | None = None
    severity: str = ""
    agent_id: str = ""
    benchmark_id: str = ""
    is_acknowledged: bool = False
    agent_ids: Collection[str] | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """The condition about the alerts; none without such a filter."""
        about = match_columns(
            (AlertEvent.agent_id, self.agent_id or None),
            (AlertEvent.benchmark_id, self.benchmark_id or None),
        )
        if self.agent_ids is not None:
            about.append(AlertEvent.agent_id.in_(self.agent_ids))
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
    events = _list_parts(session, _FIRST_EVENTS, AlertEvent, ids)
    deliveries = _list_parts(session, _FIRST_DELIVERIES, Delivery, ids)
    entries = [
        InboxEntry(notification, events[notification.id], deliveries[notification.id])
        for notification in page.rows
    ]
    return page.with_rows(entries)


def acknowledge_message(
    session: Session,
    notification_id: str,
    verdict: str,
    by: str,
    now: datetime,
    note: str | None,
) -> None:
    """Judge every firing alert of a message as true or noise, and mark the message as read.

    Locks: the message before its incidents, as `incidents.acknowledge` does.
    """
    get_notification(session, notification_id, for_update=True)
    for event in chain.from_iterable(iter_events(session, notification_id)):
        if event.state == AlertEventState.FIRING and event.verdict is None:
            acknowledge(session, event.id, verdict, by, now, note)
    set_read_at(session, notification_id, now)


class DoneEntry(NamedTuple):
    """What a reader has done to a message: read it, or judged its alerts."""

    id: str
    title: str
    verdicts: Sequence[str]


def find_entry(session: Session, notification_id: str) -> DoneEntry | None:
    """A message that was read or acknowledged; None if it was not, or does not exist."""
    notification = session.get(Notification, notification_id)
    if notification is None or notification.read_at is None:
        return None
    events = chain.from_iterable(iter_events(session, notification_id))
    verdicts = sorted({event.verdict for event in events if event.verdict})
    return DoneEntry(notification.id, notification.title, verdicts)


def reopen_message(session: Session, notification_id: str) -> None:
    """Take back what was said of the alerts of a message, and mark it as unread.

    Locks: as `acknowledge_message`.
    Raises: `JudgementStands` when an incident was closed by it and a later run was judged since.
    """
    get_notification(session, notification_id, for_update=True)
    for event in chain.from_iterable(iter_events(session, notification_id)):
        if event.state == AlertEventState.FIRING and event.verdict is not None:
            withdraw_judgement(session, event.id)
    set_read_at(session, notification_id, None)


def silence_message(
    session: Session, notification_id: str, hours: int, by: str, now: datetime
) -> None:
    """Silence the alerts of a message for some hours: their rules, otherwise its benchmark and agent.

    Raises: `Invalid` for a message without alerts and for more than 30 days.
    """
    # One silence for each rule and agent, however many runs the message is about.
    targets = {
        (event.rule_id, event.benchmark_id, event.agent_id)
        for event in chain.from_iterable(iter_events(session, notification_id))
    }
    if not targets:
        raise Invalid("this message contains no alert, so there is nothing to silence")
    for rule_id, benchmark_id, agent_id in sorted(targets, key=str):
        matchers = SilenceMatchers(
            alert_config_id=rule_id, benchmark_id=benchmark_id, agent_id=agent_id
        )
        start_silence(session, matchers, hours, "silenced from the inbox", by, now)


def find_all_alerts(session: Session, entry: InboxEntry) -> WholeList | None:
    """All alerts, and how many a message has; None where the entry has each of them."""
    if len(entry.events) < MAX_LISTED:
        return None
    of_message = AlertEvent.notification_id == entry.notification.id
    total = count_rows(session, select(AlertEvent.id).where(of_message))
    return WholeList("/alert-history", total) if total != f"{len(entry.events):,}" else None


def _list_parts(
    session: Session, statement: TextClause, table: type[_Part], notification_ids: Sequence[str]
) -> dict[str, list[_Part]]:
    """The first alerts or deliveries of each message."""
    parts: dict[str, list[_Part]] = defaultdict(list)
    for batch in batched(notification_ids, _MESSAGES_PER_STATEMENT):
        parameters = {"ids": list(batch), "limit": MAX_LISTED}
        for part in session.scalars(select(table).from_statement(statement), parameters):
            parts[str(part.notification_id)].append(part)
    return parts


def iter_events(session: Session, notification_id: str) -> Iterator[Sequence[AlertEvent]]:
    """All alerts of a message, in batches."""
    key = tuple_(AlertEvent.notification_id, AlertEvent.id)

    def read(last_id: str, row_count: int) -> Sequence[AlertEvent]:
        statement = (
            select(AlertEvent)
            .where(key > tuple_(literal(notification_id), literal(last_id)))
            .order_by(AlertEvent.notification_id, AlertEvent.id)
            .limit(row_count)
        )
        events = session.scalars(statement)
        return [event for event in events if event.notification_id == notification_id]

    return keyset_batches(read, lambda event: event.id, "")


class _RuleAlert(NamedTuple):
    """An alert of a rule, as a silence matches it."""

    rule_id: str
    name: str
    severity: str
    benchmark_id: str
    agent_id: str


def list_silences_of_rule(
    session: Session, rule: AlertConfigView, now: datetime
) -> list[AlertSilence]:
    """The active silences that hold back alerts of a rule, of one of its agents or of all."""

    def alert_of(agent_id: str | None) -> _RuleAlert:
        return _RuleAlert(rule.id, rule.name, rule.severity, rule.benchmark_id, agent_id or "")

    return [
        silence
        for silence in silence_queries.list_active_silences(session, now)
        if silence.matchers.match(alert_of(rule.agent_id or silence.matchers.agent_id))
    ]


def list_silences_of_alert(
    session: Session, event: AlertEvent, now: datetime
) -> list[AlertSilence]:
    """The active silences that would hold back an alert now."""
    return [
        silence
        for silence in silence_queries.list_active_silences(session, now)
        if silence.matchers.match(event)
    ]
