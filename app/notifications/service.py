from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import assert_never

from sqlalchemy import exists, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from app.core.batches import delete_batch
from app.core.encryption import Secret, SecretBox
from app.core.errors import Conflict
from app.core.ids import new_id
from app.core.notify import notify_streams
from app.jobs.queue import enqueue_many
from app.notifications import queries
from app.notifications.endpoints import address_of, signing_keys
from app.notifications.models import Delivery, Endpoint, Notification
from app.notifications.registry import CHANNELS, ChannelSpec
from app.notifications.rules import SLOW_S, DeliveryStatus, is_given_up, lane, rest_s, wait_s
from app.notifications.types import (
    Delivered,
    Fact,
    Failed,
    Gone,
    Message,
    Notice,
    Outcome,
    Refused,
    Severity,
)

INBOX = "notifications"
DELIVER = "notifications.deliver"
KEPT = timedelta(days=90)
ENDPOINT_DISABLED = "endpoint.disabled"


class EndpointDisabled(Conflict):
    """This endpoint is disabled; enable it with POST /api/v1/endpoints/{id}/enable first."""

    code = "endpoint-disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryJob:
    """The arguments of a job: which try of a delivery."""

    delivery_id: str
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """All that one try of a delivery needs; `channel` is None where its plugin is not installed,
    `address` when it was given up.
    """

    channel: ChannelSpec | None
    notice: Notice
    address: Secret | None
    keys: tuple[Secret, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TryEnded:
    """How a try went: when it was over, how long it took; `chance` in [0, 1] spreads the next."""

    outcome: Outcome
    at: datetime
    took_s: float
    chance: float


def publish(
    session: Session,
    message: Message,
    endpoint_ids: Iterable[str] = (),
    *,
    once: str | None = None,
    listed: bool = True,
) -> str:
    """Put a message into the inbox and on its way to each endpoint; returns its id.

    All of it happens when the transaction of `session` commits, or nothing. What was published
    with the same `once` before is not published again: the id is that of the first. What is not
    `listed` is only part of a message that the inbox has.
    """
    notification_id = _insert_notification(session, message, once, listed=listed)
    if notification_id is None:
        known = select(Notification.id).where(Notification.once_key == once)
        return session.scalars(known).one()
    endpoints = queries.endpoints_by_id(session, endpoint_ids)
    session.add_all([_new_delivery(notification_id, endpoints[each]) for each in sorted(endpoints)])
    session.flush()
    _release(session, sorted(endpoints))
    notify_streams(session, INBOX)
    return notification_id


def begin_try(
    session: Session,
    job: DeliveryJob,
    box: SecretBox,
    public_url: str,
    now: datetime,
) -> Try | None:
    """What a try needs; None when it is no longer wanted.

    Makes the secret of an endpoint that is signed and has none.
    """
    sending = queries.get_sending(session, job.delivery_id, for_update=True)
    delivery, notification, endpoint = sending
    if not _is_wanted(delivery, job):
        return None
    channel = CHANNELS.find(endpoint.channel)
    keys = signing_keys(session, endpoint, box, now) if channel and channel.signed else ()
    notice = Notice(
        id=notification.id,
        at=notification.created_at,
        message=Message.stored(notification.message),
        public_url=public_url,
    )
    return Try(channel=channel, notice=notice, address=address_of(endpoint, box), keys=keys)


def end_try(session: Session, job: DeliveryJob, ended: TryEnded) -> None:
    """Write how a try went and when the next one is; nothing for one that is no longer wanted."""
    delivery, _, endpoint = queries.get_sending(session, job.delivery_id, for_update=True)
    if not _is_wanted(delivery, job):
        return
    delivery.round += 1
    delivery.attempts += 1
    delivery.tried_at = ended.at
    endpoint.slow_tries = endpoint.slow_tries + 1 if ended.took_s > SLOW_S else 0
    endpoint.rests_until = None
    match ended.outcome:
        case Delivered():
            _note_success(delivery, endpoint, ended)
        case Failed(detail=detail) | Refused(detail=detail):
            _note_failure(session, delivery, endpoint, ended, detail)
        case Gone(detail=detail):
            delivery.detail = detail
            _disable(session, endpoint, f"the recipient is gone: {detail}", ended.at)
        case _:
            assert_never(ended.outcome)
    session.flush()
    _release(session, [endpoint.id], ended.at)


def release_due(session: Session, now: datetime) -> None:
    """Put the deliveries on the queue whose next try is due, one for each endpoint."""
    _put_on_queue(session, queries.next_deliveries(session, now))


def redeliver(session: Session, delivery_id: str, now: datetime) -> Delivery:
    """Try a delivery again now, with all its tries before it; one that has a job keeps that.

    Raises: `DeliveryNotFound`, `EndpointDisabled`.
    """
    delivery, _, endpoint = queries.get_sending(session, delivery_id, for_update=True)
    if endpoint.disabled_at is not None:
        raise EndpointDisabled
    endpoint.rests_until = None
    if delivery.status != DeliveryStatus.PENDING or delivery.due_at is not None:
        _start_anew(session, [delivery], now)
    return delivery


def enable_endpoint(session: Session, endpoint_id: str, now: datetime) -> Endpoint:
    """Send to an endpoint again, first what was held."""
    endpoint = queries.get_endpoint(session, endpoint_id, for_update=True)
    if endpoint.disabled_at is not None:
        endpoint.disabled_at = endpoint.disabled_reason = endpoint.failing_since = None
        endpoint.rests_until, endpoint.slow_tries = None, 0
        held = select(Delivery).where(
            Delivery.endpoint_id == endpoint_id, Delivery.status == DeliveryStatus.HELD
        )
        _start_anew(session, session.scalars(held.with_for_update()).all(), now)
    return endpoint


def mark(session: Session, notification_id: str, read_at: datetime | None) -> Notification:
    """Note when a notification was read, or that it was not."""
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


def purge_notifications(session: Session, now: datetime) -> int:
    """Forget some notifications of 90 days ago, but for those that are still on their way; see
    `delete_some`.
    """
    on_its_way = exists().where(
        Delivery.notification_id == Notification.id, Delivery.status == DeliveryStatus.PENDING
    )
    return delete_batch(session, Notification, (Notification.created_at < now - KEPT) & ~on_its_way)


def _is_wanted(delivery: Delivery, job: DeliveryJob) -> bool:
    return delivery.status == DeliveryStatus.PENDING and delivery.round == job.round


def _insert_notification(
    session: Session, message: Message, once: str | None, *, listed: bool
) -> str | None:
    document = message.document()
    row = insert(Notification).values(
        id=new_id(),
        topic=document["topic"],
        severity=document["severity"],
        title=document["title"],
        message=document,
        once_key=once,
        listed=listed,
    )
    statement = row.on_conflict_do_nothing(index_elements=[Notification.once_key])
    return session.scalars(statement.returning(Notification.id)).one_or_none()


def _new_delivery(notification_id: str, endpoint: Endpoint) -> Delivery:
    held = endpoint.disabled_at is not None
    return Delivery(
        id=new_id(),
        notification_id=notification_id,
        endpoint_id=endpoint.id,
        status=DeliveryStatus.HELD if held else DeliveryStatus.PENDING,
        due_at=None if held else func.now(),
        attempts=0,
        round=0,
    )


def _release(session: Session, endpoint_ids: Sequence[str], now: datetime | None = None) -> None:
    """Put the next delivery of each of these endpoints on the queue.

    An endpoint has one job at a time; what else is due waits in its table. A queue in which
    hundreds wait for one slow host would be slow for everybody. Whoever comes between two looks is
    found by the next one, or within a second.
    """
    if endpoint_ids:
        _put_on_queue(session, queries.next_deliveries(session, now, endpoint_ids))


def _put_on_queue(session: Session, delivery_ids: Sequence[str]) -> None:
    """A job for each of these that has none; those of one lane run one after the other."""
    chosen = update(Delivery).where(Delivery.id.in_(delivery_ids), Delivery.due_at.is_not(None))
    statement = chosen.values(due_at=None).returning(Delivery)
    deliveries = session.scalars(statement, execution_options={"populate_existing": True}).all()
    endpoints = queries.endpoints_of(session, deliveries)
    lanes: dict[str, list[dict[str, object]]] = defaultdict(list)
    for delivery in deliveries:
        job = DeliveryJob(delivery_id=delivery.id, round=delivery.round)
        lanes[_lane(endpoints[delivery.endpoint_id])].append(asdict(job))
    for name, jobs in lanes.items():
        enqueue_many(session, DELIVER, jobs, lock=name)


def _lane(endpoint: Endpoint) -> str:
    return lane(endpoint.host, slow=endpoint.slow_tries > 0)


def _start_anew(session: Session, deliveries: Sequence[Delivery], now: datetime) -> None:
    for delivery in deliveries:
        delivery.status = DeliveryStatus.PENDING
        delivery.attempts = 0
        delivery.round += 1
        delivery.due_at = now
    session.flush()
    _release(session, [delivery.endpoint_id for delivery in deliveries], now)


def _note_success(delivery: Delivery, endpoint: Endpoint, ended: TryEnded) -> None:
    delivery.status = DeliveryStatus.DELIVERED
    delivery.detail = None
    delivery.delivered_at = endpoint.delivered_at = ended.at
    endpoint.failing_since = None


def _note_failure(
    session: Session, delivery: Delivery, endpoint: Endpoint, ended: TryEnded, detail: str
) -> None:
    delivery.detail = detail
    endpoint.rests_until = ended.at + timedelta(seconds=rest_s(endpoint.slow_tries))
    endpoint.failing_since = endpoint.failing_since or ended.at
    if is_given_up(endpoint.failing_since, ended.at):
        reason = f"it has only failed since {endpoint.failing_since:%Y-%m-%d %H:%M} UTC: {detail}"
        _disable(session, endpoint, reason, ended.at)
        return
    told_s = ended.outcome.retry_after_s if isinstance(ended.outcome, Failed) else None
    wait = wait_s(delivery.attempts, told_s, ended.chance)
    if wait is None or isinstance(ended.outcome, Refused):
        delivery.status = DeliveryStatus.FAILED
    else:
        delivery.due_at = ended.at + timedelta(seconds=wait)


def _disable(session: Session, endpoint: Endpoint, reason: str, now: datetime) -> None:
    """Send nothing there until somebody enables it; what is on its way waits for that."""
    endpoint.disabled_at, endpoint.disabled_reason = now, reason
    session.flush()
    waiting = update(Delivery).where(
        Delivery.endpoint_id == endpoint.id, Delivery.status == DeliveryStatus.PENDING
    )
    session.execute(waiting.values(status=DeliveryStatus.HELD, due_at=None))
    publish(session, _disabled_message(endpoint, reason))


def _disabled_message(endpoint: Endpoint, reason: str) -> Message:
    return Message(
        topic=ENDPOINT_DISABLED,
        severity=Severity.WARNING,
        title=f"{endpoint.channel} is no longer delivered to {endpoint.recipient}",
        sentences=(
            f"{reason[:1].upper()}{reason[1:]}.",
            "Mend it and enable the endpoint: what was held until then is sent.",
        ),
        facts=(Fact("endpoint", endpoint.id),),
        link=f"/api/v1/endpoints/{endpoint.id}",
    )
