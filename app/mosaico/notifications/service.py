"""Publish messages, make delivery attempts, and enable and disable endpoints."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, assert_never

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from mosaico.core.batches import batched
from mosaico.core.encryption import Secret, SecretBox
from mosaico.core.errors import Conflict
from mosaico.core.ids import new_id
from mosaico.core.row_limits import lift_limit
from mosaico.core.text import format_utc, replace_unstorable
from mosaico.core.web.page_paths import endpoint_page_path
from mosaico.jobs.declarations import Deliver
from mosaico.notifications import queries
from mosaico.notifications.delivery_jobs import (
    enqueue_next_deliveries,
    hold_or_restart_all,
    restart_deliveries,
)
from mosaico.notifications.endpoints import decrypt_recipient, get_signing_secrets
from mosaico.notifications.inbox import announce_inbox
from mosaico.notifications.models import Delivery, Endpoint, Notification
from mosaico.notifications.registry import CHANNELS, ChannelSpec
from mosaico.notifications.rules import (
    SLOW_AFTER_S,
    DeliveryStatus,
    pause_s,
    retry_wait_s,
    should_disable,
)
from mosaico.notifications.types import (
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

ENDPOINT_DISABLED = "endpoint.disabled"

# The endpoints that still exist are not deleted before the transaction ends; those of others are left out.
_STORE_DELIVERIES: Final = text(
    """
    WITH endpoint AS (
        SELECT id, disabled_at IS NOT NULL AS is_disabled FROM endpoints
        WHERE id = ANY(CAST(:endpoint_ids AS text[])) ORDER BY id FOR KEY SHARE
    )
    INSERT INTO deliveries (id, notification_id, endpoint_id, status, due_at)
    SELECT delivery.id, :notification_id, endpoint.id,
           CASE WHEN is_disabled THEN 'HELD' ELSE 'PENDING' END, CASE WHEN NOT is_disabled THEN now() END
    FROM endpoint
    JOIN unnest(CAST(:ids AS text[]), CAST(:endpoint_ids AS text[])) AS delivery (id, endpoint_id)
        ON delivery.endpoint_id = endpoint.id
    RETURNING endpoint_id
    """
)


class EndpointDisabled(Conflict):
    """The endpoint is disabled; enable it with POST /api/v1/endpoints/{id}/enable first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """The data of one attempt of a delivery.

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
    # A message is seen by its alerts, which name it later; a test has none.
    lift_limit(session)
    notification_id = _insert_notification(session, message, dedup_key, in_inbox=in_inbox)
    # The unique key decided: another process, or an earlier attempt of the same job, was first.
    if notification_id is None:
        existing_id = select(Notification.id).where(Notification.dedup_key == dedup_key)
        return session.scalars(existing_id).one()
    stored_endpoint_ids = list[str]()
    # The locks of all batches are held until the transaction ends; in one order, so that two messages to the
    # same endpoints cannot deadlock.
    for batch in batched(sorted(set(endpoint_ids))):
        ids = [new_id() for _ in batch]
        rows = {"notification_id": notification_id, "ids": ids, "endpoint_ids": list(batch)}
        stored_endpoint_ids += session.scalars(_STORE_DELIVERIES, rows)
    # The tick starts all others, `MAX_DUE` a second.
    enqueue_next_deliveries(session, stored_endpoint_ids[: queries.MAX_DUE])
    announce_inbox(session)
    return notification_id


def publish_test(session: Session, endpoint: Endpoint) -> str:
    """Publish a test message to an endpoint; returns the notification's id."""
    message = NotificationMessage(
        topic="test",
        title="Test message",
        sentences=(
            "This test message was requested in MOSAICO. This endpoint receives notifications.",
        ),
        facts=(MessageFact("channel", endpoint.channel),),
        link=endpoint_page_path(endpoint.id),
    )
    return publish(session, message, [endpoint.id])


def begin_attempt(
    session: Session,
    job: Deliver,
    box: SecretBox,
    public_url: str,
    now: datetime,
) -> DeliveryAttempt | None:
    """Prepare an attempt; None if the job is outdated or its endpoint was deleted or disabled.

    Creates the signing secret of the endpoint if its channel signs and there is none.
    """
    loaded = queries.find_delivery(session, job.delivery_id)
    if loaded is None or not _is_current(loaded.delivery, job):
        return None
    endpoint = loaded.endpoint
    if endpoint.disabled_at is not None:
        loaded.delivery.status = DeliveryStatus.HELD
        return None
    channel = CHANNELS.find(endpoint.channel)
    is_signed = channel is not None and channel.signed
    return DeliveryAttempt(
        channel=channel,
        # Rendered from the stored message in each attempt, so that every attempt sends the same bytes
        # and the recipient can recognize a repetition by its id.
        message=loaded.published(public_url),
        recipient=decrypt_recipient(endpoint, box),
        # Read for each attempt, not stored with the job: after a rotation the next attempt uses the
        # new secret.
        signing_secrets=get_signing_secrets(session, endpoint, box, now) if is_signed else (),
    )


def finish_attempt(session: Session, job: Deliver, result: AttemptResult) -> None:
    """Record the result of an attempt and plan the next one; nothing if the job is outdated."""
    loaded = queries.find_delivery(session, job.delivery_id)
    if loaded is None or not _is_current(loaded.delivery, job):
        return
    delivery, _, endpoint = loaded
    # From here on every other job for the same attempt is outdated, for example one that was
    # repeated because its worker looked dead.
    delivery.fencing_token += 1
    delivery.attempts += 1
    delivery.tried_at = result.ended_at
    # A slow success counts too: what matters is how long the endpoint occupies a worker.
    endpoint.slow_count = endpoint.slow_count + 1 if result.duration_s > SLOW_AFTER_S else 0
    # The pause followed from the previous failure; `_record_failure` sets a new one.
    endpoint.paused_until = None
    match result.outcome:
        case DeliverySucceeded(detail=detail):
            delivery.detail = detail
            _record_success(delivery, endpoint, result)
        case DeliveryFailed(detail=detail) | MessageRejected(detail=detail):
            _record_failure(session, delivery, endpoint, result, detail)
        case RecipientGone(detail=detail):
            # Disabled at once: waiting for 120 h of failures is pointless. The delivery itself is
            # held with all others and is sent after somebody enables the endpoint.
            delivery.detail = detail
            reason = f"the recipient no longer exists: {detail}"
            _disable(session, delivery, endpoint, reason, result.ended_at)
        case _:
            assert_never(result.outcome)
    # The query of the next delivery must see the new due time and the pause.
    session.flush()
    enqueue_next_deliveries(session, [endpoint.id], result.ended_at, is_backlog=True)


def redeliver(session: Session, delivery_id: str, now: datetime) -> Delivery:
    """Attempt a delivery again now, with a full retry schedule; a delivery with a job keeps it.

    Raises: `DeliveryNotFound`, `EndpointDisabled`.
    """
    delivery, _, endpoint = queries.get_delivery(session, delivery_id, for_update=True)
    if endpoint.disabled_at is not None:
        raise EndpointDisabled
    endpoint.paused_until = None
    # PENDING without `due_at` means that a job exists; a second one would send the message twice.
    if delivery.status != DeliveryStatus.PENDING or delivery.due_at is not None:
        session.flush()
        restart_deliveries(session, [delivery.id], [endpoint.id], now)
    return delivery


def enable_endpoint(session: Session, endpoint_id: str, now: datetime) -> Endpoint:
    """Enable an endpoint and restart its held deliveries, in batches; repeating it does no harm."""
    endpoint = queries.get_endpoint(session, endpoint_id, for_update=True)
    if endpoint.disabled_at is not None:
        endpoint.disabled_at = endpoint.disabled_reason = endpoint.first_failed_at = None
        endpoint.paused_until, endpoint.slow_count = None, 0
    hold_or_restart_all(session, endpoint, now)
    return endpoint


def _is_current(delivery: Delivery, job: Deliver) -> bool:
    is_pending = delivery.status == DeliveryStatus.PENDING
    return is_pending and delivery.fencing_token == job.fencing_token


def _insert_notification(
    session: Session, message: NotificationMessage, dedup_key: str | None, *, in_inbox: bool
) -> str | None:
    """The id of the new notification; None if the `dedup_key` exists."""
    row = insert(Notification).values(
        id=new_id(),
        topic=message.topic,
        severity=message.severity,
        title=replace_unstorable(message.title),
        message=message,
        dedup_key=dedup_key,
        in_inbox=in_inbox,
    )
    # Not a SELECT first: two evaluators could both find nothing. Without a key (NULL) there is
    # never a conflict.
    statement = row.on_conflict_do_nothing(index_elements=[Notification.dedup_key])
    return session.scalars(statement.returning(Notification.id)).one_or_none()


def _record_success(delivery: Delivery, endpoint: Endpoint, result: AttemptResult) -> None:
    delivery.status = DeliveryStatus.DELIVERED
    delivery.delivered_at = endpoint.delivered_at = result.ended_at
    endpoint.first_failed_at = None


def _record_failure(
    session: Session, delivery: Delivery, endpoint: Endpoint, result: AttemptResult, detail: str
) -> None:
    """Pause the endpoint and plan the next attempt; or disable the endpoint, or stop retrying."""
    delivery.detail = detail
    endpoint.paused_until = result.ended_at + timedelta(seconds=pause_s(endpoint.slow_count))
    # Kept from the first failure until a success, across messages: the endpoint is broken, not one
    # message.
    endpoint.first_failed_at = endpoint.first_failed_at or result.ended_at
    if should_disable(endpoint.first_failed_at, result.ended_at):
        reason = (
            f"every delivery since {format_utc(endpoint.first_failed_at)} failed, the last"
            f" one with: {detail}"
        )
        _disable(session, delivery, endpoint, reason, result.ended_at)
        return
    outcome = result.outcome
    retry_after_s = outcome.retry_after_s if isinstance(outcome, DeliveryFailed) else None
    wait_s = retry_wait_s(delivery.attempts, retry_after_s, result.chance)
    # A rejected message is rejected again in every attempt.
    if wait_s is None or isinstance(outcome, MessageRejected):
        delivery.status = DeliveryStatus.FAILED
    else:
        # From the end of the attempt: a timeout must not shorten the wait.
        delivery.due_at = result.ended_at + timedelta(seconds=wait_s)


def _disable(
    session: Session, delivery: Delivery, endpoint: Endpoint, reason: str, now: datetime
) -> None:
    """Disable an endpoint after an attempt, hold its deliveries, and publish a message about it."""
    # At once, and not by a batch that may come after somebody has enabled the endpoint: without a job
    # of its own, this one would then wait for ever, and with it all deliveries of the endpoint.
    delivery.status = DeliveryStatus.HELD
    # Before the message below is published: a delivery to this endpoint would otherwise be created
    # PENDING.
    endpoint.disabled_at, endpoint.disabled_reason = now, reason
    hold_or_restart_all(session, endpoint, now)
    # To the inbox only: a message to endpoints could make the next one fail and be disabled.
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
        link=endpoint_page_path(endpoint.id),
    )
