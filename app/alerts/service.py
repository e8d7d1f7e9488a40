from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.alerts import queries
from app.alerts.evaluation import Decision, Decisions, EvaluatedRun
from app.alerts.messages import message_of, silences
from app.alerts.models import AlertConfig, AlertEvent, AlertSilence, AlertStanding
from app.alerts.rules import AlertState, Outcome, Standing, advance
from app.alerts.schemas import EventState, SilenceCreate, rule_of
from app.core.errors import Conflict, ErrorItem, Invalid
from app.core.ids import new_id
from app.notifications.service import publish
from app.notifications.types import MessageSeverity

LOUD = frozenset({EventState.RUN_FAILED, EventState.SCHEDULE_MISSED})


class NotAcknowledgeable(Conflict):
    """Only an alert that is FIRING is right or wrong; acknowledge the one with which it began."""

    code = "not-acknowledgeable"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNotice:
    """Something that happened to a run or a schedule itself, and not to a value.

    `once` names what happened: it is told one time.
    """

    state: EventState
    once: str
    name: str
    benchmark_id: str
    agent_id: str
    explanation: str
    run_id: str | None = None
    run_seq: int | None = None


def record_decisions(session: Session, decisions: Decisions, now: datetime) -> None:
    """Move each rule on by one run and tell what changed, in one message for each circle of
    recipients.

    A rule that has seen a later run stays where it is, and so does one that was edited after it
    was read. Locks: the rules against edits, and where they stand.
    """
    run = decisions.run
    if not run.is_valid:
        tell_notice(session, _invalid(run), now)
        return
    ids = [decision.config_id for decision in decisions.items]
    if not ids:
        return
    configs = queries.lock_enabled(session, ids)
    standings = _standings(session, sorted(configs), run.agent_id, now)
    events, episodes = [], []
    for decision in decisions.items:
        config, standing = configs.get(decision.config_id), standings.get(decision.config_id)
        if config is None or standing is None or config.revision != decision.revision:
            continue
        if standing.run_seq < run.seq:
            if standing.episode and decision.assessment.outcome is Outcome.BREACH:
                episodes.append(standing.episode)
            events += _move(config, standing, run, decision, now)
    _tell_late(session, episodes, configs, now)
    _tell(session, events, configs, now)


def tell_notice(session: Session, notice: RunNotice, now: datetime) -> None:
    """Tell of a run or a schedule everybody whom a rule about it would tell; once.

    Locks: what happened, so that two who tell of it take turns.
    """
    turn = func.hashtextextended(notice.once, 3)
    session.execute(select(func.pg_advisory_xact_lock(turn)))
    known = select(AlertEvent.id).where(AlertEvent.once_key == notice.once)
    if session.scalar(known) is not None:
        return
    event = AlertEvent(
        id=new_id(),
        once_key=notice.once,
        state=notice.state,
        name=notice.name,
        severity=MessageSeverity.CRITICAL if notice.state in LOUD else MessageSeverity.WARNING,
        benchmark_id=notice.benchmark_id,
        agent_id=notice.agent_id,
        run_id=notice.run_id,
        run_seq=notice.run_seq,
        explanation=notice.explanation,
        details={},
        traces=[],
        created_at=now,
    )
    configs = queries.enabled_configs(session, notice.benchmark_id, notice.agent_id)
    _tell(session, [event], {}, now, everybody=configs)


def acknowledge(
    session: Session, event_id: str, verdict: str, by: str | None, now: datetime
) -> AlertEvent:
    """Keep whether an alert was right; what was said before is forgotten.

    Raises: `AlertNotFound`; `NotAcknowledgeable` for what did not fire.
    """
    event = queries.get_event(session, event_id, for_update=True)
    if event.state != EventState.FIRING:
        raise NotAcknowledgeable(_what_instead(event))
    event.verdict, event.acknowledged_at, event.acknowledged_by = verdict, now, by
    session.flush()
    return event


def _what_instead(event: AlertEvent) -> str:
    begun = (
        f"acknowledge {event.episode}, with which it began to fire"
        if event.episode
        else "acknowledge one of GET /api/v1/alerts?state=FIRING"
    )
    return f"this alert is {event.state}, and only one that is FIRING is right or wrong; {begun}"


def create_silence(session: Session, body: SilenceCreate, now: datetime) -> AlertSilence:
    """Raises: `Invalid` when it matches everything or has ended already, `Conflict` on its id."""
    matchers = body.matchers.model_dump(mode="json", exclude_none=True)
    starts_at = body.starts_at or now
    errors = []
    if not matchers:
        detail = "it would silence everything; name at least one field"
        errors.append(ErrorItem(pointer="/matchers", detail=detail))
    if body.ends_at <= max(starts_at, now):
        detail = "is not after the start, or over already; send a later one"
        errors.append(ErrorItem(pointer="/endsAt", detail=detail))
    if errors:
        raise Invalid("the silence is not valid; see `errors`", errors=errors)
    silence = AlertSilence(
        id=body.id or new_id(),
        matchers=matchers,
        comment=body.comment,
        starts_at=starts_at,
        ends_at=body.ends_at,
        created_at=now,
    )
    session.add(silence)
    try:
        session.flush()
    except IntegrityError:
        raise Conflict(f"the silence id {silence.id!r} is taken; choose another") from None
    return silence


def delete_silence(session: Session, silence_id: str) -> None:
    session.delete(queries.get_silence(session, silence_id))
    session.flush()


def _standings(
    session: Session, config_ids: Sequence[str], agent_id: str, now: datetime
) -> dict[str, AlertStanding]:
    """Where each rule stands, locked; made where no run was judged yet."""
    if not config_ids:
        return {}
    new = {
        "agent_id": agent_id,
        "run_seq": 0,
        "run_id": "",
        "state": AlertState.OK,
        "breaches": 0,
        "clears": 0,
        "explanation": "",
        "evaluated_at": now,
    }
    rows = [{"config_id": config_id, **new} for config_id in config_ids]
    session.execute(insert(AlertStanding).values(rows).on_conflict_do_nothing())
    return queries.lock_standings(session, config_ids, agent_id)


def _move(
    config: AlertConfig,
    row: AlertStanding,
    run: EvaluatedRun,
    decision: Decision,
    now: datetime,
) -> list[AlertEvent]:
    """One rule one run further, and the event if there is something to tell."""
    assessment = decision.assessment
    before = Standing(
        state=AlertState(row.state),
        open=row.episode is not None,
        breaches=row.breaches,
        clears=row.clears,
        fired_at=row.fired_at,
    )
    step = advance(before, assessment.outcome, rule_of(config), now)
    event_id = new_id()
    episode = event_id if step.told is AlertState.FIRING else row.episode
    row.state, row.breaches, row.clears = (
        step.standing.state,
        step.standing.breaches,
        step.standing.clears,
    )
    row.fired_at, row.episode = step.standing.fired_at, episode if step.standing.open else None
    row.value, row.baseline = assessment.value, assessment.baseline
    row.explanation, row.evaluated_at = assessment.explanation, now
    row.run_seq, row.run_id = run.seq, run.id
    if step.told is None:
        return []
    return [
        AlertEvent(
            id=event_id,
            once_key=_once_key(step.told, config.id, run, episode),
            state=step.told,
            config_id=config.id,
            name=config.name,
            severity=config.severity,
            benchmark_id=run.benchmark_id,
            agent_id=run.agent_id,
            run_id=run.id,
            run_seq=run.seq,
            episode=episode,
            value=assessment.value,
            baseline=assessment.baseline,
            explanation=assessment.explanation,
            details=assessment.details,
            traces=list(decision.traces) if step.told is AlertState.FIRING else [],
            created_at=now,
        )
    ]


def _once_key(told: AlertState, config_id: str, run: EvaluatedRun, episode: str | None) -> str:
    """What can happen one time: the end of an episode, anything else of a rule in a run."""
    if told is AlertState.RESOLVED:
        return f"resolved/{episode}"
    return f"{told.lower()}/{config_id}/{run.id}"


def forget_standings(session: Session, config: AlertConfig, why: str, now: datetime) -> None:
    """Resolve what fires, and let the rule start anew."""
    standings = select(AlertStanding).where(AlertStanding.config_id == config.id)
    for row in session.scalars(standings.order_by(AlertStanding.agent_id).with_for_update()):
        if row.episode is not None:
            event = AlertEvent(
                id=new_id(),
                once_key=f"resolved/{row.episode}",
                state=EventState.RESOLVED,
                config_id=config.id,
                name=config.name,
                severity=config.severity,
                benchmark_id=config.benchmark_id,
                agent_id=row.agent_id,
                run_id=row.run_id,
                run_seq=row.run_seq,
                episode=row.episode,
                value=row.value,
                baseline=row.baseline,
                explanation=why,
                details={},
                traces=[],
                created_at=now,
            )
            _tell(session, [event], {config.id: config}, now)
    session.execute(delete(AlertStanding).where(AlertStanding.config_id == config.id))


def _tell(
    session: Session,
    events: Sequence[AlertEvent],
    configs: Mapping[str, AlertConfig],
    now: datetime,
    *,
    everybody: Iterable[AlertConfig] = (),
) -> None:
    """Store events and publish those that no silence holds: all of them as one message of the inbox,
    and to each recipient, as one message too, those that it is to know.
    """
    if not events:
        return
    holding = queries.silences_at(session, now)
    everyone = list(dict.fromkeys(each for config in everybody for each in config.endpoints))
    known: dict[str, list[AlertEvent]] = defaultdict(list)
    untold = _untold(session, events)
    for event in events:
        held_by = next((each.id for each in holding if silences(each.matchers, event)), None)
        event.silence_id = held_by or untold.get(event.episode or "")
        if event.silence_id is not None:
            continue
        config = configs.get(event.config_id or "")
        for endpoint_id in config.endpoints if config else everyone:
            known[endpoint_id].append(event)
    _publish(session, [event for event in events if event.silence_id is None], known)
    session.add_all(events)
    session.flush()


def _untold(session: Session, events: Iterable[AlertEvent]) -> dict[str, str]:
    """The episodes that end with these events and of which nobody was told, by what held them."""
    ended = [each.episode for each in events if each.state == EventState.RESOLVED and each.episode]
    found = queries.held_events(session, ended)
    return {event.id: event.silence_id for event in found if event.silence_id}


def _tell_late(
    session: Session, episodes: Sequence[str], configs: Mapping[str, AlertConfig], now: datetime
) -> None:
    """Tell of what a silence held when it began to fire, and which still does after the silence."""
    holding = queries.silences_at(session, now)
    of_runs: dict[str | None, list[AlertEvent]] = defaultdict(list)
    for event in queries.held_events(session, episodes):
        if not any(silences(each.matchers, event) for each in holding):
            event.silence_id = None
            of_runs[event.run_id].append(event)
    for events in of_runs.values():
        _tell(session, events, configs, now)


def _publish(
    session: Session, told: Sequence[AlertEvent], known: Mapping[str, Sequence[AlertEvent]]
) -> None:
    """One message of everything, and one for each set of recipients that are to know some of it."""
    if not told:
        return
    readers: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for endpoint_id, events in known.items():
        readers[tuple(event.id for event in events)].append(endpoint_id)
    of_everything = readers.pop(tuple(event.id for event in told), [])
    notification_id = publish(session, message_of(told), of_everything)
    for event in told:
        event.notification_id = notification_id
    for endpoint_ids in readers.values():
        publish(session, message_of(known[endpoint_ids[0]]), endpoint_ids, in_inbox=False)


def _invalid(run: EvaluatedRun) -> RunNotice:
    reasons = "; ".join(run.reasons) or "too little was measured"
    return RunNotice(
        state=EventState.RUN_INVALID,
        once=f"run-invalid/{run.id}",
        name="run invalid",
        benchmark_id=run.benchmark_id,
        agent_id=run.agent_id,
        run_id=run.id,
        run_seq=run.seq,
        explanation=f"The numbers of this run cannot be trusted: {reasons}."
        " Its alerts stay as they were.",
    )
