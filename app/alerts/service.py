"""Writes to alerts: state changes of rules, notices, acknowledgements and silences."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.agents.models import Agent
from app.alerts import queries
from app.alerts.evaluation import AlertDecision
from app.alerts.messages import DisplayNames, render_alerts, silence_matches
from app.alerts.models import AlertEvent, AlertRule, AlertSilence, AlertState
from app.alerts.rules import AlertOutcome, AlertStatus, RuleState, advance
from app.alerts.schemas import AlertEventState, SilenceCreate, SilencePatch, rule_spec
from app.benchmarks.models import Benchmark
from app.core.errors import Conflict, ErrorItem, Invalid
from app.core.ids import new_id
from app.core.schemas import changed_fields
from app.notifications.service import publish
from app.notifications.types import MessageSeverity
from app.results.run_result import RunResult

CRITICAL_NOTICES = frozenset({AlertEventState.RUN_FAILED, AlertEventState.SCHEDULE_MISSED})


class NotAcknowledgeable(Conflict):
    """Only a FIRING alert can be acknowledged; acknowledge the first alert of the incident."""

    code = "not-acknowledgeable"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNotice:
    """Something that happened to a run or a schedule itself and not to a watched value.

    Notices with the same `dedup_key` are published once. Without a `severity` that of its state
    applies.
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


def record_decisions(
    session: Session, result: RunResult, decisions: Sequence[AlertDecision], now: datetime
) -> None:
    """Advance the state of each rule by one run and publish what changed, as one message for each
    group of recipients with the same alerts.

    A decision is dropped when its rule was edited or disabled after it was evaluated, or when the
    rule has already seen a later run.
    Locks: the rules (against edits), then their states.
    """
    if not result.is_valid:
        publish_notice(session, _invalid_run_notice(result), now)
        return
    rule_ids = [decision.rule_id for decision in decisions]
    if not rule_ids:
        return
    # Rules before states, both in the order of their IDs: every writer takes the locks in this order.
    rules = queries.lock_enabled_rules(session, rule_ids)
    states = _lock_states(session, sorted(rules), result.agent_id, now)
    events, firing_incidents = [], []
    for decision in decisions:
        rule, state = rules.get(decision.rule_id), states.get(decision.rule_id)
        # Deleted, disabled or edited since it was judged: the decision is about another rule.
        if rule is None or state is None or rule.revision != decision.revision:
            continue
        # States move forward in the order of runs only: a slow run that ends after its successor
        # was judged would otherwise fire or resolve on old news.
        if state.run_seq >= result.run_seq:
            continue
        if state.incident_id and decision.assessment.outcome is AlertOutcome.BREACH:
            firing_incidents.append(state.incident_id)
        events += _advance_state(rule, state, result, decision, now)
    # Before the new events: a recipient learns of an incident before it learns that it has ended.
    _publish_after_silence(session, firing_incidents, rules, now)
    _store_and_publish(session, events, rules, now)


def publish_notice(session: Session, notice: EventNotice, now: datetime) -> None:
    """Publish a notice about a run or a schedule to the recipients of all rules about it, once."""
    publish_notices(session, [notice], now)


def publish_notices(session: Session, notices: Sequence[EventNotice], now: datetime) -> None:
    """Publish notices, each once, to the recipients of all rules about its agent and benchmark. The
    notices for one recipient are one message.

    Locks: their `dedup_key`s, because two processes may report the same event at the same time.
    """
    events, endpoints = [], {}
    for notice in sorted(notices, key=lambda notice: notice.dedup_key):
        if _is_published(session, notice):
            continue
        event = _notice_event(notice, now)
        rules = queries.list_enabled_rules(session, notice.benchmark_id, notice.agent_id)
        endpoints[event.id] = list(dict.fromkeys(id_ for rule in rules for id_ in rule.endpoints))
        events.append(event)
    _store_and_publish(session, events, {}, now, notice_endpoints=endpoints)


def _is_published(session: Session, notice: EventNotice) -> bool:
    """Whether a notice was published; otherwise its key stays locked until the transaction ends."""
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
        name=notice.name,
        severity=notice.severity or default_severity,
        benchmark_id=notice.benchmark_id,
        agent_id=notice.agent_id,
        run_id=notice.run_id,
        run_seq=notice.run_seq,
        explanation=notice.explanation,
        details={},
        traces=[],
        created_at=now,
    )


def acknowledge(
    session: Session, event_id: str, verdict: str, by: str | None, now: datetime
) -> AlertEvent:
    """Store whether an alert was true or noise; a later acknowledgement replaces it.

    Raises: `AlertNotFound`; `NotAcknowledgeable` for an alert that is not FIRING.
    """
    event = queries.get_event(session, event_id, for_update=True)
    if event.state != AlertEventState.FIRING:
        raise NotAcknowledgeable(_not_acknowledgeable_detail(event))
    event.verdict, event.acknowledged_at, event.acknowledged_by = verdict, now, by
    session.flush()
    return event


def _check_silence(silence: AlertSilence, now: datetime | None) -> None:
    """Raises: `Invalid`; a silence may have ended already if `now` is None."""
    errors = []
    if not silence.matchers:
        detail = "is empty and would silence every alert; send at least one field"
        errors.append(ErrorItem(pointer="/matchers", detail=detail))
    if now is not None and silence.ends_at <= max(silence.starts_at, now):
        detail = "is in the past or not after `startsAt`; send a later time"
        errors.append(ErrorItem(pointer="/endsAt", detail=detail))
    if errors:
        raise Invalid("the silence is not valid; see `errors`", errors=errors)


def _not_acknowledgeable_detail(event: AlertEvent) -> str:
    remedy = (
        f"acknowledge {event.incident_id}, the first alert of the incident"
        if event.incident_id
        else "choose one of GET /api/v1/alerts?state=FIRING"
    )
    return f"this alert is {event.state}, and only a FIRING alert can be acknowledged; {remedy}"


def create_silence(session: Session, body: SilenceCreate, now: datetime) -> AlertSilence:
    """Raises: `Invalid` for a silence that matches everything or has already ended, `Conflict` when
    its ID is taken.
    """
    silence = AlertSilence(
        id=body.id or new_id(),
        matchers=body.matchers.model_dump(mode="json", exclude_none=True),
        comment=body.comment,
        starts_at=body.starts_at or now,
        ends_at=body.ends_at,
        created_at=now,
    )
    _check_silence(silence, now)
    session.add(silence)
    try:
        session.flush()
    except IntegrityError:
        raise Conflict(f"the silence ID {silence.id!r} is taken; choose another") from None
    return silence


def update_silence(
    session: Session, silence_id: str, body: SilencePatch, now: datetime
) -> AlertSilence:
    """Change the sent fields of a silence; an ended silence is reopened by a later `endsAt`.

    Raises: `SilenceNotFound`; `Invalid` for a silence that matches everything or, when `endsAt` is
    sent, has already ended.
    """
    silence = queries.get_silence(session, silence_id, for_update=True)
    fields = changed_fields(body)
    if "matchers" in fields:
        sent = fields["matchers"].model_dump(mode="json", exclude_unset=True)
        matchers = {**silence.matchers, **sent}
        silence.matchers = {name: value for name, value in matchers.items() if value is not None}
    silence.ends_at = fields.get("ends_at", silence.ends_at)
    silence.comment = fields.get("comment", silence.comment)
    _check_silence(silence, now if "ends_at" in fields else None)
    session.flush()
    return silence


def delete_silence(session: Session, silence_id: str) -> None:
    session.delete(queries.get_silence(session, silence_id))
    session.flush()


def reset_states(session: Session, rule: AlertRule, reason: str, now: datetime) -> None:
    """Resolve the open incidents of a rule, and delete its states so that it starts anew."""
    states = select(AlertState).where(AlertState.rule_id == rule.id)
    # Locked in one order, like everywhere: a run that ends now waits and then finds no state.
    for state in session.scalars(states.order_by(AlertState.agent_id).with_for_update()):
        if state.incident_id is not None:
            event = AlertEvent(
                id=new_id(),
                dedup_key=_dedup_key(AlertStatus.RESOLVED, rule.id, "", state.incident_id),
                state=AlertEventState.RESOLVED,
                rule_id=rule.id,
                name=rule.name,
                severity=rule.severity,
                benchmark_id=rule.benchmark_id,
                agent_id=state.agent_id,
                run_id=state.run_id,
                run_seq=state.run_seq,
                incident_id=state.incident_id,
                value=state.value,
                baseline=state.baseline,
                explanation=reason,
                details={},
                traces=[],
                created_at=now,
            )
            _store_and_publish(session, [event], {rule.id: rule}, now)
    session.execute(delete(AlertState).where(AlertState.rule_id == rule.id))


def _lock_states(
    session: Session, rule_ids: Sequence[str], agent_id: str, now: datetime
) -> dict[str, AlertState]:
    """The states of rules for an agent, by rule, locked; created for rules without one.

    The row is inserted before it is locked: a first run has none, and two runs that end at the same
    time must not both start from an empty state.
    """
    if not rule_ids:
        return {}
    initial = {
        "agent_id": agent_id,
        "run_seq": 0,
        "run_id": "",
        "state": AlertStatus.OK,
        "breaches": 0,
        "clears": 0,
        "explanation": "",
        "evaluated_at": now,
    }
    rows = [{"rule_id": rule_id, **initial} for rule_id in rule_ids]
    session.execute(insert(AlertState).values(rows).on_conflict_do_nothing())
    return queries.lock_states(session, rule_ids, agent_id)


def _advance_state(
    rule: AlertRule,
    row: AlertState,
    result: RunResult,
    decision: AlertDecision,
    now: datetime,
) -> list[AlertEvent]:
    """Advance one rule by one run; returns the event to publish, if any."""
    assessment = decision.assessment
    before = RuleState(
        status=AlertStatus(row.state),
        open=row.incident_id is not None,
        breaches=row.breaches,
        clears=row.clears,
        fired_at=row.fired_at,
    )
    state, notification = advance(before, assessment.outcome, rule_spec(rule), now)
    event_id = new_id()
    # The FIRING event gives its ID to the incident; RESOLVED carries the same one.
    incident_id = event_id if notification is AlertStatus.FIRING else row.incident_id
    row.state, row.breaches, row.clears = state.status, state.breaches, state.clears
    row.fired_at, row.incident_id = state.fired_at, incident_id if state.open else None
    row.value, row.baseline = assessment.value, assessment.baseline
    row.explanation, row.evaluated_at = assessment.explanation, now
    row.run_seq, row.run_id = result.run_seq, result.run_id
    if notification is None:
        return []
    return [
        AlertEvent(
            id=event_id,
            dedup_key=_dedup_key(notification, rule.id, result.run_id, incident_id),
            state=notification,
            rule_id=rule.id,
            name=rule.name,
            severity=rule.severity,
            benchmark_id=result.benchmark_id,
            agent_id=result.agent_id,
            run_id=result.run_id,
            run_seq=result.run_seq,
            incident_id=incident_id,
            value=assessment.value,
            baseline=assessment.baseline,
            explanation=assessment.explanation,
            details=assessment.details,
            traces=list(decision.traces) if notification is AlertStatus.FIRING else [],
            created_at=now,
        )
    ]


def _dedup_key(status: AlertStatus, rule_id: str, run_id: str, incident_id: str | None) -> str:
    """An incident is resolved once; anything else happens once for each rule and run."""
    if status is AlertStatus.RESOLVED:
        return f"resolved/{incident_id}"
    return f"{status.lower()}/{rule_id}/{run_id}"


def _store_and_publish(
    session: Session,
    events: Sequence[AlertEvent],
    rules: Mapping[str, AlertRule],
    now: datetime,
    *,
    notice_endpoints: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Store events and publish those that no silence holds back. An event goes to the endpoints of
    its rule, and a notice, which has no rule, to its `notice_endpoints`.
    """
    if not events:
        return
    silences = queries.list_active_silences(session, now)
    unpublished = _unpublished_incidents(session, events)
    by_endpoint: dict[str, list[AlertEvent]] = defaultdict(list)
    for event in events:
        silence_id = next((s.id for s in silences if silence_matches(s.matchers, event)), None)
        # Nobody is told of the end of an incident whose beginning was silenced.
        event.silence_id = silence_id or unpublished.get(event.incident_id or "")
        if event.silence_id is not None:
            continue
        rule = rules.get(event.rule_id or "")
        for endpoint_id in rule.endpoints if rule else (notice_endpoints or {}).get(event.id, ()):
            by_endpoint[endpoint_id].append(event)
    _publish(session, [event for event in events if event.silence_id is None], by_endpoint)
    # After publishing, because the events get the id of their notification there.
    session.add_all(events)
    session.flush()


def _unpublished_incidents(session: Session, events: Iterable[AlertEvent]) -> dict[str, str]:
    """The incidents that these events resolve and whose beginning a silence held back: the ID of
    that silence by incident.
    """
    resolved = [
        event.incident_id
        for event in events
        if event.state == AlertEventState.RESOLVED and event.incident_id
    ]
    silenced = queries.list_silenced_events(session, resolved)
    return {event.id: event.silence_id for event in silenced if event.silence_id}


def _publish_after_silence(
    session: Session,
    incident_ids: Sequence[str],
    rules: Mapping[str, AlertRule],
    now: datetime,
) -> None:
    """Publish incidents that began under a silence and still breach after it has ended."""
    silences = queries.list_active_silences(session, now)
    by_run: dict[str | None, list[AlertEvent]] = defaultdict(list)
    for event in queries.list_silenced_events(session, incident_ids):
        if not any(silence_matches(silence.matchers, event) for silence in silences):
            event.silence_id = None
            by_run[event.run_id].append(event)
    for events in by_run.values():
        _store_and_publish(session, events, rules, now)


def _publish(
    session: Session,
    events: Sequence[AlertEvent],
    by_endpoint: Mapping[str, Sequence[AlertEvent]],
) -> None:
    """Publish one message with all events to the inbox, and to each endpoint one message with its
    own events. Endpoints with the same events share a message.
    """
    if not events:
        return
    endpoints_by_events: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for endpoint_id, endpoint_events in by_endpoint.items():
        endpoints_by_events[tuple(event.id for event in endpoint_events)].append(endpoint_id)
    # The message of the inbox is also that of the endpoints which receive every event.
    with_all_events = endpoints_by_events.pop(tuple(event.id for event in events), [])
    names = _display_names(session, events[0])
    notification_id = publish(session, render_alerts(events, names), with_all_events)
    for event in events:
        event.notification_id = notification_id
    for endpoint_ids in endpoints_by_events.values():
        message = render_alerts(by_endpoint[endpoint_ids[0]], names)
        publish(session, message, endpoint_ids, in_inbox=False)


def _display_names(session: Session, event: AlertEvent) -> DisplayNames:
    """The names of the benchmark and the agent; their IDs where there is no name."""
    benchmark = session.get(Benchmark, event.benchmark_id)
    agent = session.get(Agent, event.agent_id)
    benchmark_name = benchmark.metadata_.get("name") if benchmark else None
    return DisplayNames(
        benchmark=str(benchmark_name or event.benchmark_id),
        agent=agent.name if agent else event.agent_id,
    )


def _invalid_run_notice(result: RunResult) -> EventNotice:
    reasons = "; ".join(result.validity.reasons) or "too few traces were measured"
    return EventNotice(
        state=AlertEventState.RUN_INVALID,
        dedup_key=f"run-invalid/{result.run_id}",
        name="run invalid",
        benchmark_id=result.benchmark_id,
        agent_id=result.agent_id,
        run_id=result.run_id,
        run_seq=result.run_seq,
        explanation=f"The numbers of this run cannot be trusted: {reasons}."
        " The states of the alert rules do not change.",
    )
