"""Writes of triggers: events, and the runs that they start."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.orm import Session

from mosaico.access import audit
from mosaico.agents.queries import get_agent
from mosaico.agents.source_fields import LOCAL
from mosaico.benchmarks.queries import get_benchmark
from mosaico.benchmarks.service import source_of
from mosaico.core.batch_delete import delete_batch
from mosaico.core.defaults import KEEP_TRIGGER_EVENTS
from mosaico.core.errors import AppError, Conflict, Invalid
from mosaico.core.ids import new_id
from mosaico.jobs.declarations import StartEventRuns
from mosaico.jobs.queue import enqueue, enqueue_many
from mosaico.run_store.rules import TriggerType
from mosaico.runs.service import create_run
from mosaico.triggers import queries
from mosaico.triggers.models import TriggerEvent, WebhookSecret
from mosaico.triggers.remote_experiments import (
    asks_for_a_run,
    await_runs,
    has_awaited_runs,
    plan_experiment,
    require_runs,
)
from mosaico.triggers.rules import (
    DEBOUNCE,
    LangfuseEvent,
    RunRequest,
    TriggerEventStatus,
    TriggerEventType,
    digest,
)
from mosaico.triggers.schemas import WebhookRunRequest

REASON_NO_AGENT = "the benchmark has no unarchived agent; add an agent to `evaluates`"
REASON_NO_RULE = "no benchmark has a matching rule; add a rule to `triggers.langfuse`"
REASON_UNSUPPORTED_TYPE = (
    "the event type is not supported; supported: remote-experiment, prompt-version (created or"
    " updated), monitor-alert"
)
REASON_NO_BENCHMARK = "no benchmark has a matching trigger any more"


class WebhookIdReused(Conflict):
    """An earlier call with this webhook-id had another body; send a new webhook-id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedTriggerCall:
    """A call with a valid signature: its ID, the digest of its body and the signing secret."""

    call_id: str
    fingerprint: str
    secret_id: str


def start_runs_by_webhook(
    session: Session,
    benchmark_id: str,
    call: VerifiedTriggerCall,
    body: WebhookRunRequest,
    now: datetime,
) -> TriggerEvent:
    """Start the runs that a signed call requests; a repeated call returns its first event.

    Raises: `WebhookIdReused`, `Invalid` when there is no agent to run, and the errors of
            `create_run`.
    """
    dedup_key = digest(TriggerEventType.WEBHOOK, benchmark_id, call.call_id)
    event = _insert_event(
        session, TriggerEventType.WEBHOOK, benchmark_id, now, dedup_key=dedup_key, call=call
    )
    # The call was repeated: senders do so when the first response was lost.
    if event is None:
        return _find_earlier_event(session, dedup_key, call.fingerprint)
    agent_ids = (
        [body.agent_id] if body.agent_id else queries.list_evaluated_agents(session, benchmark_id)
    )
    if not agent_ids:
        raise Invalid(f"{REASON_NO_AGENT}, or send agentId")
    for agent_id in agent_ids:
        request = RunRequest(benchmark_id, agent_id, body.run_name)
        _start_run(session, event, request, TriggerType.WEBHOOK)
    settle_event(session, event, now)
    return event


def record_langfuse_event(
    session: Session, langfuse_event: LangfuseEvent, call: VerifiedTriggerCall, now: datetime
) -> TriggerEvent:
    """Record a Langfuse event and enqueue its runs; a repeated event returns its first record.

    Raises: `NothingRunsTheAgent` when a remote experiment asks for a run that nothing can make.
    """
    # A remote experiment has no ID, so the signed call itself identifies it.
    identity = (
        ("id", langfuse_event.id) if langfuse_event.id else ("call", call.secret_id, call.call_id)
    )
    dedup_key = digest("langfuse", langfuse_event.type, *identity)
    benchmark_ids = queries.find_benchmarks_for_langfuse(session, langfuse_event)
    event = _insert_event(
        session,
        langfuse_event.type,
        langfuse_event.dataset_name or langfuse_event.prompt_name or langfuse_event.monitor_id,
        now,
        dedup_key=dedup_key,
        call=call,
        details=langfuse_event.to_json(),
    )
    if event is None:
        return _find_earlier_event(session, dedup_key, None)
    event.benchmark_ids = list(benchmark_ids)
    if benchmark_ids:
        if asks_for_a_run(langfuse_event):
            requests = _langfuse_requests(session, langfuse_event)
            require_runs(plan_experiment(session, langfuse_event, requests, now))
        enqueue(session, StartEventRuns(event_id=event.id))
        session.flush()
    else:
        unsupported = langfuse_event.type is TriggerEventType.OTHER
        reason = REASON_UNSUPPORTED_TYPE if unsupported else REASON_NO_RULE
        settle_event(session, event, now, reasons=[reason])
    return event


def record_change(
    session: Session,
    event_type: TriggerEventType,
    subject: str,
    now: datetime,
    details: dict[str, str],
) -> None:
    """Record a change of an agent or a dataset, if a benchmark has a trigger for it.

    Changes of one subject within `DEBOUNCE` of the first one are counted as one event. Uploads of
    one dataset with different run names are separate events.
    """
    if not _resolve_requests(session, event_type, subject, details):
        return
    row = insert(TriggerEvent).values(
        **_new_event(event_type, subject, now),
        dedup_key=digest(event_type, subject, *sorted(details.values())),
        details=details,
        due_at=now + DEBOUNCE,
    )
    _insert_or_count(session, row, {})


def record_poll_failure(session: Session, request: RunRequest, reason: str, now: datetime) -> None:
    """Record why a poll failed; a repeated failure with the same reason is counted."""
    event_type = TriggerEventType.NEW_RUN
    failure = {
        "dedup_key": digest(event_type, request.benchmark_id, request.agent_id, reason),
        "details": {},
        "status": TriggerEventStatus.IGNORED,
        "benchmark_ids": [request.benchmark_id],
        "reason": reason,
        "settled_at": now,
    }
    row = insert(TriggerEvent).values({**_new_event(event_type, request.agent_id, now), **failure})
    _insert_or_count(session, row, {"settled_at": now})


def enqueue_due_events(session: Session, now: datetime) -> None:
    """Enqueue the start of the runs of each event whose waiting time is over, once."""
    events = queries.lock_due_events(session, now)
    for event in events:
        # Without its key the event is closed: a later change inserts an event of its own.
        event.due_at = event.dedup_key = None
    session.flush()
    enqueue_many(session, [StartEventRuns(event_id=event.id) for event in events], is_short=True)


def start_event_runs(session: Session, event_id: str, now: datetime) -> None:
    """Start the runs of a waiting event as the benchmarks are configured now; once."""
    event = queries.get_event(session, event_id, for_update=True)
    if event.status != TriggerEventStatus.WAITING or has_awaited_runs(session, event.id):
        return
    requests = _resolve_requests(
        session, TriggerEventType(event.type), event.subject or "", event.details
    )
    trigger = TriggerType.WEBHOOK if event.secret_id else TriggerType.EVENT
    reason = REASON_NO_BENCHMARK
    if event.type == TriggerEventType.REMOTE_EXPERIMENT:
        experiment = LangfuseEvent.from_json(event.details)
        if asks_for_a_run(experiment):
            plan = plan_experiment(session, experiment, requests, now)
            await_runs(session, event, plan.awaited, now)
            requests, reason = plan.started, "; ".join(plan.obstacles) or reason
            if plan.awaited and not requests:
                return
    start_runs(session, event, requests, trigger, now, default_reason=reason)


def start_runs(
    session: Session,
    event: TriggerEvent,
    requests: Iterable[RunRequest],
    trigger: TriggerType,
    now: datetime,
    *,
    default_reason: str,
) -> None:
    """Start each requested run that can be started, and settle the event with the errors.

    `default_reason` is the event's reason when there is neither a run nor an error.
    """
    reasons = []
    for request in requests:
        try:
            # A savepoint, so that a run that cannot be created does not undo the others.
            with session.begin_nested():
                _start_run(session, event, request, trigger)
        except AppError as error:
            reasons.append(f"{request.benchmark_id}, {request.agent_id}: {error.detail}")
    if not event.run_ids and not reasons:
        reasons.append(default_reason)
    settle_event(session, event, now, reasons=reasons)


def record_new_run(session: Session, request: RunRequest, now: datetime) -> TriggerEvent:
    """Record a new run of a trace source as an event."""
    details = {"runName": request.run_name}
    event = _insert_event(session, TriggerEventType.NEW_RUN, request.agent_id, now, details=details)
    assert event is not None, "an event without a dedup key cannot conflict"
    return event


def delete_expired_events(session: Session, now: datetime) -> int:
    """Delete expired secrets, and a batch of events after their retention; see `delete_batch`."""
    expired_before = now - KEEP_TRIGGER_EVENTS
    session.execute(delete(WebhookSecret).where(WebhookSecret.expires_at < expired_before))
    return delete_batch(session, TriggerEvent, TriggerEvent.received_at < expired_before)


def _resolve_requests(
    session: Session, event_type: TriggerEventType, subject: str, details: dict[str, Any]
) -> list[RunRequest]:
    """The runs that an event asks for, as the benchmarks are configured now."""
    if event_type is TriggerEventType.AGENT_UPDATED:
        benchmark_ids = queries.find_benchmarks_for_agent(session, subject)
        return [RunRequest(benchmark_id, subject, None) for benchmark_id in benchmark_ids]
    if event_type is TriggerEventType.DATASET_UPDATED:
        run_name, uploader = details.get("runName"), details.get("agentId")
        benchmark_ids = queries.find_benchmarks_for_upload(session, subject, run_name)
        requests = _requests_for_all_agents(session, benchmark_ids, run_name)
        return [
            request
            for request in requests
            if uploader in {None, request.agent_id} and _reads_uploads(session, request)
        ]
    return _langfuse_requests(session, LangfuseEvent.from_json(details))


def _langfuse_requests(session: Session, langfuse_event: LangfuseEvent) -> list[RunRequest]:
    benchmark_ids = queries.find_benchmarks_for_langfuse(session, langfuse_event)
    options = langfuse_event.run_options
    run_name = options.get("runName")
    if "agentId" in options:
        return [RunRequest(id_, options["agentId"], run_name) for id_ in benchmark_ids]
    return _requests_for_all_agents(session, benchmark_ids, run_name)


def _reads_uploads(session: Session, request: RunRequest) -> bool:
    benchmark = get_benchmark(session, request.benchmark_id)
    return source_of(benchmark, get_agent(session, request.agent_id)) == LOCAL


def _requests_for_all_agents(
    session: Session, benchmark_ids: Iterable[str], run_name: str | None
) -> list[RunRequest]:
    return [
        RunRequest(benchmark_id, agent_id, run_name)
        for benchmark_id in benchmark_ids
        for agent_id in queries.list_evaluated_agents(session, benchmark_id)
    ]


def _start_run(
    session: Session, event: TriggerEvent, request: RunRequest, trigger: TriggerType
) -> None:
    run = create_run(
        session,
        request.benchmark_id,
        request.agent_id,
        trigger=trigger,
        trigger_event_id=event.id,
        run_name=request.run_name,
    )
    actor = (
        audit.AuditActor(type="webhook", id=event.secret_id)
        if event.secret_id
        else audit.AuditActor(type="event", id=event.id)
    )
    audit.record_action(session, actor, "start_run", audit.AuditResource("benchmark-runs", run.id))
    # New lists: SQLAlchemy does not detect changes inside a JSON value.
    event.run_ids = [*event.run_ids, run.id]
    event.benchmark_ids = sorted({*event.benchmark_ids, request.benchmark_id})


def settle_event(
    session: Session, event: TriggerEvent, now: datetime, *, reasons: Iterable[str] = ()
) -> None:
    """End an event: STARTED if it has runs, otherwise IGNORED."""
    event.status = TriggerEventStatus.STARTED if event.run_ids else TriggerEventStatus.IGNORED
    event.reason = "; ".join(reasons) or None
    event.settled_at = now
    session.flush()


def _insert_event(
    session: Session,
    event_type: TriggerEventType,
    subject: str | None,
    now: datetime,
    *,
    dedup_key: str | None = None,
    call: VerifiedTriggerCall | None = None,
    details: dict[str, Any] | None = None,
) -> TriggerEvent | None:
    """Insert an event; None when an event holds the key.

    Locks: waits for a concurrent transaction that inserts the same key.
    """
    row = insert(TriggerEvent).values(
        **_new_event(event_type, subject, now),
        dedup_key=dedup_key,
        fingerprint=call.fingerprint if call else None,
        secret_id=call.secret_id if call else None,
        details=details or {},
    )
    statement = row.on_conflict_do_nothing(index_elements=[TriggerEvent.dedup_key])
    return session.scalars(statement.returning(TriggerEvent)).one_or_none()


def _insert_or_count(session: Session, row: Insert, changes: dict[str, Any]) -> None:
    """Insert an event, or count one more occurrence of the event that holds its key."""
    changes = {"occurrences": TriggerEvent.occurrences + 1, **changes}
    session.execute(
        row.on_conflict_do_update(index_elements=[TriggerEvent.dedup_key], set_=changes)
    )


def _new_event(event_type: TriggerEventType, subject: str | None, now: datetime) -> dict[str, Any]:
    return {
        "id": new_id(),
        "type": event_type,
        "subject": subject,
        "occurrences": 1,
        "status": TriggerEventStatus.WAITING,
        "benchmark_ids": [],
        "run_ids": [],
        "received_at": now,
    }


def _find_earlier_event(session: Session, dedup_key: str, fingerprint: str | None) -> TriggerEvent:
    """The event of an earlier call; raises `WebhookIdReused` when its body was different."""
    event = session.scalars(select(TriggerEvent).where(TriggerEvent.dedup_key == dedup_key)).one()
    if fingerprint is not None and event.fingerprint != fingerprint:
        raise WebhookIdReused
    return event
