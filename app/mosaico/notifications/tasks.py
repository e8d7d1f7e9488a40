"""Jobs of notifications: deliver a message to an endpoint, and enqueue due deliveries."""

import random
import time

from mosaico.core.resources import Resources
from mosaico.jobs.declarations import Deliver, DropDeliveries, HoldOrRestart, RecordCrash
from mosaico.jobs.handlers import HANDLERS, JobContext
from mosaico.jobs.row_deletion import delete_rows, repeat_batches
from mosaico.notifications import delivery_jobs, service
from mosaico.notifications.models import Delivery
from mosaico.notifications.registry import OutgoingMessage
from mosaico.notifications.service import AttemptResult, DeliveryAttempt
from mosaico.notifications.types import DeliveryFailed, DeliveryOutcome

# The first retry waits 5 s, so a second is precise enough.
TICK_S = 1.0
MAX_DETAIL_CHARS = 400


@HANDLERS.register(Deliver, on_failure=RecordCrash)
def deliver(job: JobContext, delivery: Deliver) -> None:
    """Make one attempt.

    Delivery is at least once: a worker killed between sending and recording sends again.
    """
    res = job.resources
    with res.db.begin() as session:
        attempt = service.begin_attempt(session, delivery, res.secrets, res.public_url, res.clock())
    # After the transaction: a slow recipient must not hold its locks.
    if attempt is not None:
        # Monotonic, because a clock that is set would make an endpoint look slow.
        started = time.monotonic()
        outcome = _send(res, attempt)
        _finish(res, delivery, outcome, time.monotonic() - started)


@HANDLERS.register(RecordCrash)
def record_crash(job: JobContext, crash: RecordCrash) -> None:
    """Record an attempt whose job crashed as a failed attempt."""
    # A crash (of a plugin channel, for example) is retried like any failure; the duration is
    # unknown and counts as fast.
    outcome = DeliveryFailed(detail=f"{crash.code}: {crash.message}"[:MAX_DETAIL_CHARS])
    delivery = Deliver(delivery_id=crash.delivery_id, fencing_token=crash.fencing_token)
    _finish(job.resources, delivery, outcome, 0.0)


@HANDLERS.register(DropDeliveries)
def drop_deliveries(job: JobContext, dropped: DropDeliveries) -> None:
    """Delete the deliveries of a deleted endpoint."""
    delete_rows(job, Delivery, Delivery.endpoint_id == dropped.endpoint_id)


@HANDLERS.register(HoldOrRestart)
def hold_or_restart(job: JobContext, changed: HoldOrRestart) -> None:
    """Hold the deliveries of a disabled endpoint, or restart the held ones of an enabled endpoint."""
    clock = job.resources.clock
    repeat_batches(
        job, lambda session: delivery_jobs.hold_or_restart(session, changed.endpoint_id, clock())
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


def _finish(res: Resources, delivery: Deliver, outcome: DeliveryOutcome, duration_s: float) -> None:
    # Drawn here and not in the service, which stays deterministic for tests.
    chance = random.random()  # noqa: S311 - jitter
    result = AttemptResult(
        outcome=outcome, ended_at=res.clock(), duration_s=duration_s, chance=chance
    )
    with res.db.begin() as session:
        service.finish_attempt(session, delivery, result)
