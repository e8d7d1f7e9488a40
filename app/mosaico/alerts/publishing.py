"""Publishes alerts: stores them and sends one message for each agent, night and recipient.

While other runs of the agent are in progress, its alerts wait for theirs, so that the runs of a night are
one message.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mosaico.access.models import Person
from mosaico.agents.models import Agent
from mosaico.alerts import event_queries, queries, silence_queries
from mosaico.alerts.alert_recipients import record_message, record_recipients
from mosaico.alerts.details import AlertDetails
from mosaico.alerts.level_change import AlertFields
from mosaico.alerts.messages import DisplayNames, render_alerts
from mosaico.alerts.models import AlertEvent, AlertRule, Incident
from mosaico.alerts.rules import AlertEventState
from mosaico.alerts.schedule_zones import find_schedule_zone
from mosaico.alerts.shared_incidents import leave_out_told
from mosaico.benchmarks.models import Benchmark
from mosaico.core.batches import batched
from mosaico.core.ids import new_id
from mosaico.notifications.service import publish
from mosaico.notifications.types import MessageSeverity
from mosaico.run_store.run_history import has_unfinished_runs

TICK_S = 15.0
# A row has a long document and a dozen indexes.
EVENTS_PER_STATEMENT = 100
# A page must not wait long for a run that takes hours.
GATHER_LIMIT = timedelta(minutes=15)
# What is not told of an incident whose beginning nobody was told.
_ENDS = frozenset({AlertEventState.RESOLVED, AlertEventState.DISMISSED})
CRITICAL_NOTICES = frozenset({AlertEventState.RUN_FAILED, AlertEventState.SCHEDULE_MISSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNotice:
    """Something that happened to a run or a schedule itself and not to a watched value.

    Notices with the same `dedup_key` are published once. Without a `severity` that of its state
    applies. With a `rule_id` only the recipients of that rule are notified, and nobody if it `is_quiet`: it is in the
    inbox. `since` is when it began, `title_note` as in `AlertDetails`.
    """

    state: AlertEventState
    dedup_key: str
    name: str
    benchmark_id: str
    agent_id: str
    explanation: str
    run_id: str | None = None
    run_seq: int | None = None
    severity: MessageSeverity | None = None
    rule_id: str | None = None
    since: datetime | None = None
    schedule_id: str | None = None
    title_note: str | None = None
    is_quiet: bool = False


def publish_notice(session: Session, notice: EventNotice, now: datetime) -> None:
    """Publish a notice about a run or a schedule to the recipients of all rules about it, once."""
    publish_notices(session, [notice], now, after_run=notice.run_id)


def publish_notices(
    session: Session,
    notices: Sequence[EventNotice],
    now: datetime,
    *,
    after_run: str | None = None,
) -> None:
    """Publish notices, each once, to the recipients of all rules about its agent and benchmark. The
    notices for one recipient are one message. `after_run` as in `store_and_publish`.

    Locks: their `dedup_key`s, because two processes may report the same event at the same time.
    """
    events, endpoints = [], {}
    # Hundreds of schedules may be about one agent and benchmark.
    list_rules = cache(partial(queries.list_enabled_rules, session))
    for notice in sorted(notices, key=lambda notice: notice.dedup_key):
        if _is_published(session, notice):
            continue
        event = _notice_event(notice, now)
        rules = list_rules(notice.benchmark_id, notice.agent_id)
        if notice.is_quiet:
            rules = []
        elif notice.rule_id is not None:
            rules = [rule for rule in rules if rule.id == notice.rule_id]
        endpoints[event.id] = list(dict.fromkeys(id_ for rule in rules for id_ in rule.endpoints))
        events.append(event)
    store_and_publish(session, events, {}, now, after_run=after_run, notice_endpoints=endpoints)


def _is_published(session: Session, notice: EventNotice) -> bool:
    """Return whether a notice was published; otherwise its key stays locked until the transaction
    ends.
    """
    key_hash = func.hashtextextended(notice.dedup_key, 3)
    # There is no row to lock before the event exists.
    session.execute(select(func.pg_advisory_xact_lock(key_hash)))
    published = select(AlertEvent.id).where(AlertEvent.dedup_key == notice.dedup_key)
    return session.scalar(published) is not None


def _notice_event(notice: EventNotice, now: datetime) -> AlertEvent:
    default_severity = (
        MessageSeverity.CRITICAL if notice.state in CRITICAL_NOTICES else MessageSeverity.WARNING
    )
    return AlertEvent(
        id=new_id(),
        dedup_key=notice.dedup_key,
        state=notice.state,
        rule_id=notice.rule_id,
        name=notice.name,
        severity=notice.severity or default_severity,
        benchmark_id=notice.benchmark_id,
        agent_id=notice.agent_id,
        run_id=notice.run_id,
        run_seq=notice.run_seq,
        explanation=notice.explanation,
        details=AlertDetails(
            since=notice.since, schedule_id=notice.schedule_id, title_note=notice.title_note
        ),
        created_at=now,
    )


def store_and_publish(
    session: Session,
    events: Sequence[AlertEvent],
    rules: Mapping[str, AlertRule],
    now: datetime,
    *,
    after_run: str | None = None,
    notice_endpoints: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Store events and publish those that no silence holds back. An event goes to the endpoints of
    its rule, and a notice, which has no rule, to its `notice_endpoints`.

    Events that follow from the run `after_run` are of one agent; they wait while other runs of it are in
    progress, at most for `GATHER_LIMIT`, and are then one message with the events of those.
    """
    if not events:
        return
    silences = silence_queries.list_active_silences(session, now)
    unpublished = _unpublished_incidents(session, events)
    for event in events:
        silence_id = next((s.id for s in silences if s.matchers.match(event)), None)
        # No notification is sent about the end of an incident whose beginning was silenced.
        event.silence_id = silence_id or unpublished.get(event.incident_id or "")
        rule = rules.get(event.rule_id or "")
        event.endpoint_ids = list(
            rule.endpoints if rule else (notice_endpoints or {}).get(event.id, ())
        )
    record_recipients(session, events)
    audible = []
    for event in events:
        if event.silence_id is None:
            audible.append(event)
        else:
            event.endpoint_ids = None
    if audible and after_run is not None:
        audible = _gather(session, audible, after_run, now)
    _publish(session, audible)
    # After publishing, because the events get the id of their notification there.
    for batch in batched(events, EVENTS_PER_STATEMENT):
        session.add_all(batch)
        session.flush()


def publish_gathered(session: Session, after: str, now: datetime) -> str | None:
    """Publish the events of one agent that wait for its other runs and need not wait any longer.

    Returns the agent, the first one by ID after another one; None if none is left.
    """
    agent_id = event_queries.find_gathering_agent(session, after)
    if agent_id is not None:
        events = event_queries.lock_gathered_events(session, agent_id)
        if _is_due(events, now) or not has_unfinished_runs(session, agent_id):
            _publish(session, events)
        session.flush()
    return agent_id


def _gather(
    session: Session, events: list[AlertEvent], after_run: str, now: datetime
) -> list[AlertEvent]:
    """The events to publish now, with those that waited for them; none while other runs of the agent are
    in progress.
    """
    agent_id = events[0].agent_id
    waiting = event_queries.lock_gathered_events(session, agent_id)
    if not _is_due(waiting, now) and has_unfinished_runs(session, agent_id, besides=after_run):
        for event in events:
            event.publish_by = now + GATHER_LIMIT
        return []
    return [*waiting, *events]


def _is_due(events: Sequence[AlertEvent], now: datetime) -> bool:
    """Return whether events have waited long enough, or are as many as a message may have."""
    return len(events) >= event_queries.MAX_GATHERED or any(
        event.publish_by is not None and event.publish_by <= now for event in events
    )


def _unpublished_incidents(session: Session, events: Iterable[AlertEvent]) -> dict[str, str]:
    """The incidents that these events end or dismiss and whose beginning a silence held back: the ID of
    that silence by incident.
    """
    resolved = [event.incident_id for event in events if event.state in _ENDS and event.incident_id]
    silenced = event_queries.list_silenced_events(session, resolved)
    return {event.id: event.silence_id for event in silenced if event.silence_id}


def publish_after_silence(
    session: Session,
    incident_ids: Sequence[str],
    rules: Mapping[str, AlertRule],
    now: datetime,
    *,
    after_run: str,
) -> None:
    """Publish incidents that began under a silence and still breach in the run `after_run`."""
    silences = silence_queries.list_active_silences(session, now)
    by_run: dict[str | None, list[AlertEvent]] = defaultdict(list)
    for event in event_queries.list_silenced_events(session, incident_ids):
        if not any(silence.matchers.match(event) for silence in silences):
            event.silence_id = None
            by_run[event.run_id].append(event)
    for events in by_run.values():
        store_and_publish(session, events, rules, now, after_run=after_run)


def _publish(session: Session, events: Sequence[AlertEvent]) -> None:
    """Publish one message with all events to the inbox, and to each endpoint one message with its
    own events, without those that tell it nothing new. Endpoints with the same events share a message.
    """
    if not events:
        return
    leave_out_told(session, events)
    by_endpoint: dict[str, list[AlertEvent]] = defaultdict(list)
    for event in events:
        for endpoint_id in event.endpoint_ids or ():
            by_endpoint[endpoint_id].append(event)
        event.endpoint_ids = event.publish_by = None
    endpoints_by_events: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for endpoint_id, endpoint_events in by_endpoint.items():
        endpoints_by_events[tuple(event.id for event in endpoint_events)].append(endpoint_id)
    # The message of the inbox is also that of the endpoints which receive every event.
    with_all_events = endpoints_by_events.pop(tuple(event.id for event in events), [])
    names = DisplayNameReader(session)
    notification_id = publish(session, render_alerts(events, names), with_all_events)
    for event in events:
        event.notification_id = notification_id
        record_message(event, notification_id, with_all_events)
    for endpoint_ids in endpoints_by_events.values():
        own_events = by_endpoint[endpoint_ids[0]]
        own_id = publish(session, render_alerts(own_events, names), endpoint_ids, in_inbox=False)
        for event in own_events:
            record_message(event, own_id, endpoint_ids)


def benchmark_name(session: Session, benchmark_id: str) -> str:
    """The name of a benchmark; its ID when it was deleted."""
    benchmark = session.get(Benchmark, benchmark_id)
    return benchmark.display_name if benchmark else benchmark_id


class DisplayNameReader:
    """The names of benchmarks and agents of alerts, their IDs where there is no name, and the zones of their times."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._zone_of = cache(partial(find_schedule_zone, session))

    def __call__(self, alert: AlertFields) -> DisplayNames:
        # The session keeps the rows: each is read once, however many alerts there are.
        incident = self._session.get(Incident, alert.incident_id) if alert.incident_id else None
        person = (
            self._session.get(Person, incident.assignee_id)
            if incident and incident.assignee_id
            else None
        )
        names = self.names(alert.benchmark_id, alert.agent_id)
        return names._replace(assignee=person.name if person else "")

    def names(self, benchmark_id: str, agent_id: str) -> DisplayNames:
        """The names of a benchmark and an agent."""
        agent = self._session.get(Agent, agent_id)
        return DisplayNames(
            benchmark=benchmark_name(self._session, benchmark_id),
            agent=agent.name if agent else agent_id,
            zone=self._zone_of(benchmark_id, agent_id),
        )
