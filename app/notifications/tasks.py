"""The jobs of notifications: deliver one message to one endpoint; look for what is due."""

import random
import time
from typing import Any

from app.core.resources import Resources
from app.jobs.handlers import HANDLERS, Job
from app.notifications import service
from app.notifications.registry import Outgoing
from app.notifications.service import DeliveryJob, Try, TryEnded
from app.notifications.types import Failed, Outcome

TICK_S = 1.0
MOST_TOLD = 400


@HANDLERS.handles(service.DELIVER, give_up="notifications.give_up")
def deliver(job: Job, **arguments: Any) -> None:
    """Try once. Whoever dies between sending and noting that sends the same again."""
    res, trying = job.resources, DeliveryJob(**arguments)
    with res.db.begin() as session:
        public_url = res.options.get("public_url", "")
        tried = service.begin_try(session, trying, res.secrets, public_url, res.clock())
    if tried is not None:
        began = time.monotonic()
        outcome = _send(res, tried)
        _end(res, trying, outcome, time.monotonic() - began)


@HANDLERS.handles("notifications.give_up")
def give_up(job: Job, code: str, message: str, **arguments: Any) -> None:
    """A try that could not even end counts as one that failed."""
    failed = Failed(detail=f"{code}: {message}"[:MOST_TOLD])
    _end(job.resources, DeliveryJob(**arguments), failed, 0.0)


def tick(res: Resources) -> None:
    """Put what is due on the queue."""
    with res.db.begin() as session:
        service.release_due(session, res.clock())


def _send(res: Resources, tried: Try) -> Outcome:
    if tried.channel is None:
        return Failed(detail="its channel is not installed here; `mosaico plugins` shows why")
    if tried.address is None:
        return Failed(detail="its address was given up; make the endpoint known again")
    outgoing = Outgoing(
        id=tried.notice.id,
        recipient=tried.address.reveal(),
        body=tried.channel.render(tried.notice),
        now=res.clock(),
        keys=tried.keys,
    )
    return tried.channel.send(res, outgoing)


def _end(res: Resources, trying: DeliveryJob, outcome: Outcome, took_s: float) -> None:
    chance = random.random()  # noqa: S311 - jitter
    ended = TryEnded(outcome=outcome, at=res.clock(), took_s=took_s, chance=chance)
    with res.db.begin() as session:
        service.end_try(session, trying, ended)
