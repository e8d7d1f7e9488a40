"""Publish messages, make delivery attempts, and manage endpoints and the inbox."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import assert_never

from sqlalchemy import exists, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from app.core.batch_delete import delete_batch
from app.core.encryption import Secret, SecretBox
from app.core.errors import Conflict
from app.core.ids import new_id
from app.core.notify import notify_streams
from app.jobs.queue import enqueue_many
from app.notifications import queries
from app.notifications.endpoints import decrypt_recipient, get_signing_secrets
from app.notifications.models import Delivery, Endpoint, Notification
from app.notifications.registry import CHANNELS, ChannelSpec
from app.notifications.rules import (
    SLOW_AFTER_S,
    DeliveryStatus,
    pause_s,
    queue_lock,
    retry_wait_s,
    should_disable,
)
from app.notifications.types import (
    DeliveryFailed,
    DeliveryOutcome,
    DeliverySucceeded,
    MessageFact,
    MessageRejected,
    MessageSeverity,
    NotificationMessage,
    PublishedMessage,
    RecipientGone,
)

INBOX = "notifications"
DELIVER = "notifications.deliver"
RETENTION = timedelta(days=90)
ENDPOINT_DISABLED = "endpoint.disabled"


class EndpointDisabled(Conflict):
    """The endpoint is disabled; enable it with POST /api/v1/endpoints/{id}/enable first."""

    code = "endpoint-disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryJob:
    """The arguments of a delivery job; an outdated `fencing_token` makes it do nothing."""

    delivery_id: str
    fencing_token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """Everything that one attempt needs.

    `channel` is None if its plugin is not installed, `recipient` if its master key was lost.
    """

    channel: ChannelSpec | None
    message: PublishedMessage
    recipient: Secret | None
    signing_secrets: tuple[Secret, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """The result of an attempt; `chance` in [0, 1] is the jitter of the next wait."""

    outcome: DeliveryOutcome
    ended_at: datetime
    duration_s: float
    chance: float


def publish(
    session: Session,
    message: NotificationMessage,
    endpoint_ids: Iterable[str] = (),
    *,
    dedup_key: str | None = None,
    in_inbox: bool = True,
) -> str:
    """Publish a message to the inbox and to endpoints; returns the notification's id.

    Message, deliveries and jobs are written in the transaction of `session`. If a message with the
    same `dedup_key` exists, nothing is published, and the result is its id.
    """
    notification_id = _insert_notification(session, message, dedup_key, in_inbox=in_inbox)
    if notification_id is None:
        existing_id = select(Notification.id).where(Notification.dedup_key == dedup_key)
        return session.scalars(existing_id).one()
    endpoint_of = queries.get_endpoints_by_id(session, endpoint_ids)
    existing_ids = sorted(endpoint_of)
    session.add_all(
        _new_delivery(notification_id, endpoint_of[endpoint_id]) for endpoint_id in existing_ids
    )
    session.flush()
    _enqueue_next(session, existing_ids)
    notify_streams(session, INBOX)
    return notification_id


def begin_attempt(
    session: Session,
    job: DeliveryJob,
    box: SecretBox,
    public_url: str,
    now: datetime,
) -> DeliveryAttempt | None:
    """Prepare an attempt; None if the job is outdated.

    Creates the signing secret of the endpoint if its channel signs and there is none.
    """
    delivery, notification, endpoint = queries.get_delivery(
        session, job.delivery_id, for_update=True
    )
    if not _is_current(delivery, job):
        return None
    channel = CHANNELS.find(endpoint.channel)
    is_signed = channel is not None and channel.signed
    published = PublishedMessage(
        id=notification.id,
        published_at=notification.created_at,
        message=NotificationMessage.from_document(notification.message),
        public_url=public_url,
    )
    return DeliveryAttempt(
        channel=channel,
        message=published,
        recipient=decrypt_recipient(endpoint, box),
        signing_secrets=get_signing_secrets(session, endpoint, box, now) if is_signed else (),
    )


def finish_attempt(session: Session, job: DeliveryJob, result: AttemptResult) -> None:
    """Record the result of an attempt and plan the next one; nothing if the job is outdated."""
    delivery, _, endpoint = queries.get_delivery(session, job.delivery_id, for_update=True)
    if not _is_current(delivery, job):
        return
    delivery.fencing_token += 1
    delivery.attempts += 1
    delivery.tried_at = result.ended_at
    endpoint.slow_count = endpoint.slow_count + 1 if result.duration_s > SLOW_AFTER_S else 0
    endpoint.paused_until = None
    match result.outcome:
        case DeliverySucceeded():
            _record_success(delivery, endpoint, result)
        case DeliveryFailed(detail=detail) | MessageRejected(detail=detail):
            _record_failure(session, delivery, endpoint, result, detail)
        case RecipientGone(detail=detail):
            delivery.detail = detail
            reason = f"the recipient no longer exists: {detail}"
            _disable(session, endpoint, reason, result.ended_at)
        case _:
            assert_never(result.outcome)
    session.flush()
    _enqueue_next(session, [endpoint.id], result.ended_at)


def enqueue_due_deliveries(session: Session, now: datetime) -> None:
    """Enqueue the next due delivery of every endpoint."""
    _enqueue(session, queries.list_next_deliveries(session, now))


def redeliver(session: Session, delivery_id: str, now: datetime) -> Delivery:
    """Attempt a delivery again now, with a full retry schedule; a delivery with a job keeps it.

    Raises: `DeliveryNotFound`, `EndpointDisabled`.
    """
    delivery, _, endpoint = queries.get_delivery(session, delivery_id, for_update=True)
    if endpoint.disabled_at is not None:
        raise EndpointDisabled
    endpoint.paused_until = None
    if delivery.status != DeliveryStatus.PENDING or delivery.due_at is not None:
        _restart(session, [delivery], now)
    return delivery


def enable_endpoint(session: Session, endpoint_id: str, now: datetime) -> Endpoint:
    """Enable an endpoint; held deliveries are sent first."""
    endpoint = queries.get_endpoint(session, endpoint_id, for_update=True)
    if endpoint.disabled_at is not None:
        endpoint.disabled_at = endpoint.disabled_reason = endpoint.first_failed_at = None
        endpoint.paused_until, endpoint.slow_count = None, 0
        held_deliveries = select(Delivery).where(
            Delivery.endpoint_id == endpoint_id, Delivery.status == DeliveryStatus.HELD
        )
        _restart(session, session.scalars(held_deliveries.with_for_update()).all(), now)
    return endpoint


def set_read_at(session: Session, notification_id: str, read_at: datetime | None) -> Notification:
    """Mark a notification as read at a time, or as unread; the first time of reading stays."""
    notification = queries.get_notification(session, notification_id, for_update=True)
    if read_at is None or notification.read_at is None:
        notification.read_at = read_at
    session.flush()
    notify_streams(session, INBOX)
    return notification


def mark_all_read(session: Session, now: datetime) -> None:
    unread = Notification.read_at.is_(None)
    session.execute(update(Notification).where(unread).values(read_at=now))
    notify_streams(session, INBOX)


def delete_old_notifications(session: Session, now: datetime) -> int:
    """Delete a batch of notifications older than 90 days that have no pending delivery.

    Returns: the number deleted; see `delete_some`.
    """
    is_pending = exists().where(
        Delivery.notification_id == Notification.id, Delivery.status == DeliveryStatus.PENDING
    )
    is_old = Notification.created_at < now - RETENTION
    return delete_batch(session, Notification, is_old & ~is_pending)


def _is_current(delivery: Delivery, job: DeliveryJob) -> bool:
    is_pending = delivery.status == DeliveryStatus.PENDING
    return is_pending and delivery.fencing_token == job.fencing_token


def _insert_notification(
    session: Session, message: NotificationMessage, dedup_key: str | None, *, in_inbox: bool
) -> str | None:
    """The id of the new notification; None if the `dedup_key` exists."""
    document = message.to_document()
    row = insert(Notification).values(
        id=new_id(),
        topic=document["topic"],
        severity=document["severity"],
        title=document["title"],
        message=document,
        dedup_key=dedup_key,
        in_inbox=in_inbox,
    )
    statement = row.on_conflict_do_nothing(index_elements=[Notification.dedup_key])
    return session.scalars(statement.returning(Notification.id)).one_or_none()


def _new_delivery(notification_id: str, endpoint: Endpoint) -> Delivery:
    is_held = endpoint.disabled_at is not None
    return Delivery(
        id=new_id(),
        notification_id=notification_id,
        endpoint_id=endpoint.id,
        status=DeliveryStatus.HELD if is_held else DeliveryStatus.PENDING,
        due_at=None if is_held else func.now(),
        attempts=0,
        fencing_token=0,
    )


def _enqueue_next(
    session: Session, endpoint_ids: Sequence[str], now: datetime | None = None
) -> None:
    """Enqueue the next delivery of each endpoint.

    An endpoint has one job at a time; its other due deliveries wait in the table, because hundreds
    of jobs for one slow host would slow the queue down for everyone. A delivery that is committed
    at this moment is found by the job's end or by the tick within a second.
    """
    if endpoint_ids:
        _enqueue(session, queries.list_next_deliveries(session, now, endpoint_ids))


def _enqueue(session: Session, delivery_ids: Sequence[str]) -> None:
    """Create a job for each delivery that has none; `rules.queue_lock` serializes jobs."""
    waiting = update(Delivery).where(Delivery.id.in_(delivery_ids), Delivery.due_at.is_not(None))
    statement = waiting.values(due_at=None).returning(Delivery)
    deliveries = session.scalars(statement, execution_options={"populate_existing": True}).all()
    endpoint_of = queries.endpoints_of(session, deliveries)
    jobs_by_lock: dict[str, list[dict[str, object]]] = defaultdict(list)
    for delivery in deliveries:
        endpoint = endpoint_of[delivery.endpoint_id]
        job = DeliveryJob(delivery_id=delivery.id, fencing_token=delivery.fencing_token)
        jobs_by_lock[queue_lock(endpoint.host, slow=endpoint.slow_count > 0)].append(asdict(job))
    for lock, jobs in jobs_by_lock.items():
        enqueue_many(session, DELIVER, jobs, lock=lock)


def _restart(session: Session, deliveries: Sequence[Delivery], now: datetime) -> None:
    """Start the retry schedule from its first attempt."""
    for delivery in deliveries:
        delivery.status = DeliveryStatus.PENDING
        delivery.attempts = 0
        delivery.fencing_token += 1
        delivery.due_at = now
    session.flush()
    _enqueue_next(session, [delivery.endpoint_id for delivery in deliveries], now)


def _record_success(delivery: Delivery, endpoint: Endpoint, result: AttemptResult) -> None:
    delivery.status = DeliveryStatus.DELIVERED
    delivery.detail = None
    delivery.delivered_at = endpoint.delivered_at = result.ended_at
    endpoint.first_failed_at = None


def _record_failure(
    session: Session, delivery: Delivery, endpoint: Endpoint, result: AttemptResult, detail: str
) -> None:
    """Pause the endpoint and plan the next attempt; or disable the endpoint, or stop retrying."""
    delivery.detail = detail
    endpoint.paused_until = result.ended_at + timedelta(seconds=pause_s(endpoint.slow_count))
    endpoint.first_failed_at = endpoint.first_failed_at or result.ended_at
    if should_disable(endpoint.first_failed_at, result.ended_at):
        reason = (
            f"every delivery since {endpoint.first_failed_at:%Y-%m-%d %H:%M} UTC failed, the last"
            f" one with: {detail}"
        )
        _disable(session, endpoint, reason, result.ended_at)
        return
    outcome = result.outcome
    retry_after_s = outcome.retry_after_s if isinstance(outcome, DeliveryFailed) else None
    wait_s = retry_wait_s(delivery.attempts, retry_after_s, result.chance)
    if wait_s is None or isinstance(outcome, MessageRejected):
        delivery.status = DeliveryStatus.FAILED
    else:
        delivery.due_at = result.ended_at + timedelta(seconds=wait_s)


def _disable(session: Session, endpoint: Endpoint, reason: str, now: datetime) -> None:
    """Disable an endpoint, hold its pending deliveries, and publish a message about it."""
    endpoint.disabled_at, endpoint.disabled_reason = now, reason
    session.flush()
    pending = update(Delivery).where(
        Delivery.endpoint_id == endpoint.id, Delivery.status == DeliveryStatus.PENDING
    )
    session.execute(pending.values(status=DeliveryStatus.HELD, due_at=None))
    publish(session, _disabled_message(endpoint, reason))


def _disabled_message(endpoint: Endpoint, reason: str) -> NotificationMessage:
    return NotificationMessage(
        topic=ENDPOINT_DISABLED,
        severity=MessageSeverity.WARNING,
        title=f"Endpoint disabled: {endpoint.channel} {endpoint.recipient}",
        sentences=(
            f"{reason[:1].upper()}{reason[1:]}.",
            "Fix the cause, then enable the endpoint: held deliveries are then sent.",
        ),
        facts=(MessageFact("endpoint", endpoint.id),),
        link=f"/api/v1/endpoints/{endpoint.id}",
    )
