"""The jobs of deliveries: which delivery of an endpoint is next, and which ones wait.

An endpoint has one job at a time. Its other deliveries wait in the table: PENDING while it is enabled,
HELD while it is disabled.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from mosaico.jobs.declarations import Deliver, HoldOrRestart
from mosaico.jobs.queue import NewJob, enqueue, enqueue_jobs
from mosaico.notifications import queries
from mosaico.notifications.models import Delivery, Endpoint
from mosaico.notifications.rules import DeliveryStatus, queue_lock

STATE_BATCH = 100


def enqueue_due_deliveries(session: Session, now: datetime) -> None:
    """Enqueue the next due delivery of every endpoint."""
    _enqueue(session, queries.list_next_deliveries(session, now))


def hold_or_restart(session: Session, endpoint_id: str, now: datetime) -> int:
    """Hold a batch of the pending deliveries of a disabled endpoint, or restart a batch of the held
    ones of an enabled endpoint, the oldest ones first.

    Returns: the size of the batch; fewer than `STATE_BATCH` are the last ones.
    """
    try:
        endpoint = queries.get_endpoint(session, endpoint_id, for_update=True)
    except queries.EndpointNotFound:
        return 0
    is_enabled = endpoint.disabled_at is None
    outdated = DeliveryStatus.HELD if is_enabled else DeliveryStatus.PENDING
    statement = (
        select(Delivery.id)
        .where(Delivery.endpoint_id == endpoint_id, Delivery.status == outdated)
        # Each in the order of its index. Ids are ordered by time, so that the oldest held ones restart
        # first, and are due first.
        .order_by(*([] if is_enabled else [Delivery.due_at]), Delivery.id)
        .limit(STATE_BATCH)
        .with_for_update()
    )
    delivery_ids = session.scalars(statement).all()
    if is_enabled:
        restart_deliveries(session, delivery_ids, [endpoint_id], now)
    else:
        deliveries = update(Delivery).where(Delivery.id.in_(delivery_ids))
        session.execute(deliveries.values(status=DeliveryStatus.HELD, due_at=None))
    return len(delivery_ids)


def hold_or_restart_all(session: Session, endpoint: Endpoint, now: datetime) -> None:
    """`hold_or_restart` for all deliveries: the first batch now, the others by a job."""
    session.flush()
    if hold_or_restart(session, endpoint.id, now) == STATE_BATCH:
        enqueue(session, HoldOrRestart(endpoint_id=endpoint.id))


def enqueue_next_deliveries(
    session: Session,
    endpoint_ids: Sequence[str],
    now: datetime | None = None,
    *,
    is_backlog: bool = False,
) -> None:
    """Enqueue the next delivery of each endpoint. One of a backlog, which follows another delivery
    at once, is not a short job: a long backlog would hold up all runs.

    An endpoint has one job at a time; its other due deliveries wait in the table, because hundreds
    of jobs for one slow host would slow the queue down for everyone. A delivery that is committed
    at this moment is found by the job's end or by the tick within a second.
    """
    if endpoint_ids:
        delivery_ids = queries.list_next_deliveries(session, now, endpoint_ids)
        _enqueue(session, delivery_ids, is_backlog=is_backlog)


def _enqueue(session: Session, delivery_ids: Sequence[str], *, is_backlog: bool = False) -> None:
    """Create a job for each delivery that has none; `rules.queue_lock` serializes jobs."""
    waiting = update(Delivery).where(Delivery.id.in_(delivery_ids), Delivery.due_at.is_not(None))
    # The update claims the deliveries: of two concurrent callers, the second one finds `due_at`
    # empty after the first has committed and creates no job.
    statement = waiting.values(due_at=None).returning(Delivery)
    # The session may hold these objects with their old `due_at`.
    deliveries = session.scalars(statement, execution_options={"populate_existing": True}).all()
    endpoint_of = queries.endpoints_of(session, deliveries)
    jobs = []
    for delivery in deliveries:
        endpoint = endpoint_of.get(delivery.endpoint_id)
        if endpoint is None:  # deleted since the deliveries were listed
            continue
        request = Deliver(delivery_id=delivery.id, fencing_token=delivery.fencing_token)
        is_slow = endpoint.slow_count > 0
        lock = queue_lock(endpoint.host, slow=is_slow)
        jobs.append(NewJob(request, lock, is_short=not is_slow and not is_backlog))
    enqueue_jobs(session, jobs)


def restart_deliveries(
    session: Session, delivery_ids: Sequence[str], endpoint_ids: Sequence[str], now: datetime
) -> None:
    """Start the retry schedule of deliveries to these endpoints from its first attempt."""
    restarted = update(Delivery).where(Delivery.id.in_(delivery_ids))
    session.execute(
        restarted.values(
            status=DeliveryStatus.PENDING,
            # The person has fixed the cause, so the short first waits are right again.
            attempts=0,
            fencing_token=Delivery.fencing_token + 1,
            # Before every newer delivery, also one that came since an earlier batch was restarted.
            due_at=func.least(Delivery.created_at, now),
        )
    )
    enqueue_next_deliveries(session, endpoint_ids, now)
