from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from app.access import audit
from app.benchmarks.queries import get_benchmark
from app.core.batches import delete_some
from app.core.encryption import Secret, SecretBox
from app.core.errors import AppError, Conflict, Invalid
from app.core.ids import new_id
from app.jobs.queue import enqueue, enqueue_many
from app.results.rules import TriggerType
from app.runs.service import create_run
from app.triggers import queries
from app.triggers.models import TriggerEvent, WebhookSecret
from app.triggers.rules import (
    DEBOUNCE,
    EVENTS_KEPT,
    MAX_SECRETS,
    EventStatus,
    EventType,
    LangfuseEvent,
    digest,
    key_of,
    new_secret,
)
from app.triggers.schemas import LangfuseSecretCreate, WebhookRun

NO_AGENTS = "the benchmark evaluates no agent that is not archived; list one in `evaluates`"
NO_RULE = "no benchmark has a rule that fits it; rules stand in the field `triggers.langfuse`"
NO_KIND = "it is none of remote-experiment, prompt-version (made or changed) and monitor-alert"
NOBODY = "no benchmark waits for it any more"


class TooManySecrets(Conflict):
    """There are as many secrets as there may be; delete those that nobody signs with any more."""

    code = "too-many-secrets"


class WebhookIdReused(Conflict):
    """This webhook-id came with another body before; send a new id for a new call."""

    code = "webhook-id-reused"


class KnownSecret(NamedTuple):
    id: str
    key: bytes


class CreatedSecret(NamedTuple):
    """A new secret. `text` is the only copy of it."""

    row: WebhookSecret
    text: Secret


class Start(NamedTuple):
    """A run that an event asks for."""

    benchmark_id: str
    agent_id: str
    run_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A call that was signed: its id if it has one, its body's digest, and with which secret."""

    call_id: str
    fingerprint: str
    secret_id: str


def create_secret(
    session: Session,
    benchmark_id: str,
    box: SecretBox,
    now: datetime,
    *,
    earlier_end_after: timedelta | None = None,
) -> CreatedSecret:
    """Make a secret for a benchmark; the earlier ones count on, or end after that time.

    Raises: `TooManySecrets`, `BenchmarkNotFound`.
    """
    get_benchmark(session, benchmark_id, for_update=True)
    earlier = queries.secrets_of(session, benchmark_id, now)
    if earlier_end_after is not None:
        end = now + earlier_end_after
        for row in earlier:
            row.expires_at = min(row.expires_at or end, end)
    _require_room([row for row in earlier if row.expires_at is None or row.expires_at > now])
    text = new_secret()
    return CreatedSecret(_insert_secret(session, benchmark_id, None, text, box, now), Secret(text))


def keep_langfuse_secret(
    session: Session, body: LangfuseSecretCreate, box: SecretBox, now: datetime
) -> WebhookSecret:
    """Keep a secret that Langfuse made. Raises `TooManySecrets`."""
    _require_room(queries.secrets_of(session, None, now))
    return _insert_secret(session, None, body.name, body.secret.get_secret_value(), box, now)


def delete_secret(session: Session, benchmark_id: str | None, secret_id: str) -> None:
    """End a secret at once."""
    session.delete(queries.get_secret(session, benchmark_id, secret_id))
    session.flush()


def known_secrets(
    session: Session, benchmark_id: str | None, box: SecretBox, now: datetime
) -> list[KnownSecret]:
    """What calls for a benchmark, or of Langfuse, may be signed with now."""
    rows = queries.secrets_of(session, benchmark_id, now)
    return [KnownSecret(row.id, key_of(_reveal(row, box).reveal())) for row in rows]


def start_by_webhook(
    session: Session, benchmark_id: str, received: Received, body: WebhookRun, now: datetime
) -> TriggerEvent:
    """Start the runs that a signed call asks for; the same event again for the same call.

    Raises: `WebhookIdReused`, `Invalid` when there is no agent to run, whatever `create_run` does.
    """
    once_key = digest(EventType.WEBHOOK, benchmark_id, received.call_id)
    event = _insert_event(
        session, EventType.WEBHOOK, benchmark_id, now, once_key=once_key, received=received
    )
    if event is None:
        return _earlier(session, once_key, received.fingerprint)
    agents = [body.agent_id] if body.agent_id else queries.evaluated_agents(session, benchmark_id)
    if not agents:
        raise Invalid(f"{NO_AGENTS}, or send agentId")
    for agent_id in agents:
        _start(session, event, Start(benchmark_id, agent_id, body.run_name), TriggerType.WEBHOOK)
    _settle(session, event, now)
    return event


def record_langfuse(
    session: Session, told: LangfuseEvent, received: Received, now: datetime
) -> TriggerEvent:
    """Record an event of Langfuse; a job starts its runs. The same event again if it is known."""
    same = ("id", told.id) if told.id else ("call", received.secret_id, received.call_id)
    once_key = digest("langfuse", told.type, *same)
    benchmarks = queries.benchmarks_for_langfuse(session, told)
    event = _insert_event(
        session,
        told.type,
        told.dataset_name or told.prompt_name or told.monitor_id,
        now,
        once_key=once_key,
        received=received,
        details=asdict(told),
    )
    if event is None:
        return _earlier(session, once_key, None)
    event.benchmark_ids = list(benchmarks)
    if benchmarks:
        enqueue(session, "triggers.fire", event_id=event.id)
        session.flush()
    else:
        reason = NO_KIND if told.type is EventType.OTHER else NO_RULE
        _settle(session, event, now, reasons=[reason])
    return event


def note_event(
    session: Session,
    event_type: EventType,
    subject: str,
    now: datetime,
    *,
    details: dict[str, str] | None = None,
) -> None:
    """Record that something changed which a benchmark waits for.

    Those of one thing that follow within `DEBOUNCE` of the first are taken for one event; runs of
    one dataset that bear other names are other things.
    """
    noted = details or {}
    if not _starts(session, event_type, subject, noted):
        return
    row = insert(TriggerEvent).values(
        **_new_event(event_type, subject, now),
        once_key=digest(event_type, subject, *sorted(noted.values())),
        details=noted,
        due_at=now + DEBOUNCE,
    )
    changed = {"times": TriggerEvent.times + 1}
    session.execute(row.on_conflict_do_update(index_elements=[TriggerEvent.once_key], set_=changed))


def note_failure(
    session: Session, event_type: EventType, start: Start, reason: str, now: datetime
) -> None:
    """Record why nothing could be found out; the same failure of the same thing counts up."""
    failed = {
        "once_key": digest(event_type, start.benchmark_id, start.agent_id, reason),
        "details": {},
        "status": EventStatus.IGNORED,
        "benchmark_ids": [start.benchmark_id],
        "reason": reason,
        "settled_at": now,
    }
    row = insert(TriggerEvent).values({**_new_event(event_type, start.agent_id, now), **failed})
    changed = {"times": TriggerEvent.times + 1, "settled_at": now}
    session.execute(row.on_conflict_do_update(index_elements=[TriggerEvent.once_key], set_=changed))


def release_due(session: Session, now: datetime) -> None:
    """Let a job start the runs of the events that have waited long enough, each event once."""
    due = queries.due_events(session, now)
    for event in due:
        # What changes from now on is an event of its own.
        event.due_at = event.once_key = None
    session.flush()
    enqueue_many(session, "triggers.fire", [{"event_id": event.id} for event in due])


def fire(session: Session, event_id: str, now: datetime) -> None:
    """Start the runs of an event that waits, as the benchmarks say now; once."""
    event = queries.get_event(session, event_id, for_update=True)
    if event.status != EventStatus.WAITING:
        return
    starts = _starts(session, EventType(event.type), event.subject or "", event.details)
    by = TriggerType.WEBHOOK if event.secret_id else TriggerType.EVENT
    start_all(session, event, starts, by, now, otherwise=NOBODY)


def start_all(
    session: Session,
    event: TriggerEvent,
    starts: Iterable[Start],
    by: TriggerType,
    now: datetime,
    *,
    otherwise: str,
) -> None:
    """Start those of the runs that can be started, and settle the event with what came of it."""
    reasons = []
    for start in starts:
        try:
            with session.begin_nested():
                _start(session, event, start, by)
        except AppError as error:
            reasons.append(f"{start.benchmark_id}, {start.agent_id}: {error.detail}")
    if not event.run_ids and not reasons:
        reasons.append(otherwise)
    _settle(session, event, now, reasons=reasons)


def found_run(session: Session, start: Start, now: datetime) -> TriggerEvent:
    """A new run in a trace source, as an event."""
    details = {"run_name": start.run_name}
    event = _insert_event(session, EventType.NEW_RUN, start.agent_id, now, details=details)
    assert event is not None, "it has no key that another could have"
    return event


def purge_events(session: Session, now: datetime) -> int:
    """Forget some events of a week ago, and secrets that ended then; see `delete_some`."""
    session.execute(delete(WebhookSecret).where(WebhookSecret.expires_at < now - EVENTS_KEPT))
    return delete_some(session, TriggerEvent, TriggerEvent.received_at < now - EVENTS_KEPT)


def _starts(
    session: Session, event_type: EventType, subject: str, details: dict[str, Any]
) -> list[Start]:
    """The runs that an event asks for."""
    if event_type is EventType.AGENT_UPDATED:
        benchmarks = queries.benchmarks_for_agent(session, subject)
        return [Start(benchmark_id, subject, None) for benchmark_id in benchmarks]
    if event_type is EventType.DATASET_UPDATED:
        run_name = details.get("run_name")
        return _of_all_agents(
            session, queries.benchmarks_for_upload(session, subject, run_name), run_name
        )
    told = LangfuseEvent.stored(details)
    benchmarks = queries.benchmarks_for_langfuse(session, told)
    run_name = told.asks.get("run_name")
    if "agent_id" in told.asks:
        return [Start(each, told.asks["agent_id"], run_name) for each in benchmarks]
    return _of_all_agents(session, benchmarks, run_name)


def _of_all_agents(
    session: Session, benchmark_ids: Iterable[str], run_name: str | None
) -> list[Start]:
    return [
        Start(benchmark_id, agent_id, run_name)
        for benchmark_id in benchmark_ids
        for agent_id in queries.evaluated_agents(session, benchmark_id)
    ]


def _start(session: Session, event: TriggerEvent, start: Start, by: TriggerType) -> None:
    run = create_run(
        session,
        start.benchmark_id,
        start.agent_id,
        trigger=by,
        trigger_event_id=event.id,
        run_name=start.run_name,
    )
    actor = (
        audit.Actor(type="webhook", id=event.secret_id)
        if event.secret_id
        else audit.Actor(type="event", id=event.id)
    )
    audit.record(session, actor, "start_run", audit.Resource("benchmark-runs", run.id))
    event.run_ids = [*event.run_ids, run.id]
    event.benchmark_ids = sorted({*event.benchmark_ids, start.benchmark_id})


def _settle(
    session: Session, event: TriggerEvent, now: datetime, *, reasons: Iterable[str] = ()
) -> None:
    event.status = EventStatus.STARTED if event.run_ids else EventStatus.IGNORED
    event.reason = "; ".join(reasons) or None
    event.settled_at = now
    session.flush()


def _insert_event(
    session: Session,
    event_type: EventType,
    subject: str | None,
    now: datetime,
    *,
    once_key: str | None = None,
    received: Received | None = None,
    details: dict[str, Any] | None = None,
) -> TriggerEvent | None:
    """The event; None when there is one with this key. Waits for whoever writes that one now."""
    row = insert(TriggerEvent).values(
        **_new_event(event_type, subject, now),
        once_key=once_key,
        fingerprint=received.fingerprint if received else None,
        secret_id=received.secret_id if received else None,
        details=details or {},
    )
    statement = row.on_conflict_do_nothing(index_elements=[TriggerEvent.once_key])
    return session.scalars(statement.returning(TriggerEvent)).one_or_none()


def _new_event(event_type: EventType, subject: str | None, now: datetime) -> dict[str, Any]:
    return {
        "id": new_id(),
        "type": event_type,
        "subject": subject,
        "times": 1,
        "status": EventStatus.WAITING,
        "benchmark_ids": [],
        "run_ids": [],
        "received_at": now,
    }


def _earlier(session: Session, once_key: str, fingerprint: str | None) -> TriggerEvent:
    """The event of a call that came before; raises `WebhookIdReused` for another body."""
    event = session.scalars(select(TriggerEvent).where(TriggerEvent.once_key == once_key)).one()
    if fingerprint is not None and event.fingerprint != fingerprint:
        raise WebhookIdReused
    return event


def _require_room(rows: list[WebhookSecret]) -> None:
    if len(rows) >= MAX_SECRETS:
        raise TooManySecrets


def _insert_secret(
    session: Session,
    benchmark_id: str | None,
    name: str | None,
    text: str,
    box: SecretBox,
    now: datetime,
) -> WebhookSecret:
    row = WebhookSecret(id=new_id(), benchmark_id=benchmark_id, name=name, created_at=now)
    row.secret = box.encrypt(text, table="webhook_secrets", row=row.id, column="secret")
    session.add(row)
    session.flush()
    return row


def _reveal(row: WebhookSecret, box: SecretBox) -> Secret:
    return box.decrypt(row.secret, table="webhook_secrets", row=row.id, column="secret")
