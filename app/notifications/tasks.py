"""Jobs of notifications: deliver a message to an endpoint, and enqueue due deliveries."""

import random
import time
from typing import Any

from app.core.resources import Resources
from app.jobs.handlers import HANDLERS, JobContext
from app.jobs.row_deletion import delete_rows, repeat_batches
from app.notifications import delivery_jobs, service
from app.notifications.delivery_jobs import DeliveryJob
from app.notifications.endpoints import DROP_DELIVERIES
from app.notifications.models import Delivery
from app.notifications.registry import OutgoingMessage
from app.notifications.service import AttemptResult, DeliveryAttempt
from app.notifications.types import DeliveryFailed, DeliveryOutcome

# The first retry waits 5 s, so a second is precise enough.
TICK_S = 1.0
MAX_DETAIL_CHARS = 400


@HANDLERS.register(delivery_jobs.DELIVER, on_failure="notifications.delivery_crashed")
def deliver(job: JobContext, **arguments: Any) -> None:
    """Make one attempt.

    Delivery is at least once: a worker killed between sending and recording sends again.
    """
    res, delivery_job = job.resources, DeliveryJob(**arguments)
    with res.db.begin() as session:
        public_url = res.options.get("public_url", "")
        attempt = service.begin_attempt(session, delivery_job, res.secrets, public_url, res.clock())
    # After the transaction: a slow recipient must not hold its locks.
    if attempt is not None:
        # Monotonic, because a clock that is set would make an endpoint look slow.
        started = time.monotonic()
        outcome = _send(res, attempt)
        _finish(res, delivery_job, outcome, time.monotonic() - started)


@HANDLERS.register("notifications.delivery_crashed")
def record_crash(job: JobContext, code: str, message: str, **arguments: Any) -> None:
    """Record an attempt whose job crashed as a failed attempt."""
    # A crash (of a plugin channel, for example) is retried like any failure; the duration is
    # unknown and counts as fast.
    outcome = DeliveryFailed(detail=f"{code}: {message}"[:MAX_DETAIL_CHARS])
    _finish(job.resources, DeliveryJob(**arguments), outcome, 0.0)


@HANDLERS.register(DROP_DELIVERIES)
def drop_deliveries(job: JobContext, endpoint_id: str) -> None:
    """Delete the deliveries of a deleted endpoint."""
    delete_rows(job, Delivery, Delivery.endpoint_id == endpoint_id)


@HANDLERS.register(delivery_jobs.HOLD_OR_RESTART)
def hold_or_restart(job: JobContext, endpoint_id: str) -> None:
    """Hold the deliveries of a disabled endpoint, or restart the held ones of an enabled endpoint."""
    clock = job.resources.clock
    repeat_batches(
        job, lambda session: delivery_jobs.hold_or_restart(session, endpoint_id, clock())
    )


def tick(res: Resources) -> None:
    """Enqueue the deliveries that are due."""
    with res.db.begin() as session:
        delivery_jobs.enqueue_due_deliveries(session, res.clock())


def _send(res: Resources, attempt: DeliveryAttempt) -> DeliveryOutcome:
    if attempt.channel is None:
        return DeliveryFailed(
            detail="the channel is not installed on this worker; run `mosaico plugins` to see why"
        )
    if attempt.recipient is None:
        return DeliveryFailed(
            detail="the recipient was dropped because its master key was lost; save the endpoint again"
        )
    outgoing = OutgoingMessage(
        message_id=attempt.message.id,
        recipient=attempt.recipient.reveal(),
        body=attempt.channel.render(attempt.message),
        sent_at=res.clock(),
        signing_secrets=attempt.signing_secrets,
    )
    return attempt.channel.send(res, outgoing)


def _finish(
    res: Resources, delivery_job: DeliveryJob, outcome: DeliveryOutcome, duration_s: float
) -> None:
    # Drawn here and not in the service, which stays deterministic for tests.
    chance = random.random()  # noqa: S311 - jitter
    result = AttemptResult(
        outcome=outcome, ended_at=res.clock(), duration_s=duration_s, chance=chance
    )
    with res.db.begin() as session:
        service.finish_attempt(session, delivery_job, result)
