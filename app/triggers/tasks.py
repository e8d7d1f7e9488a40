"""The jobs of triggers, and what the worker does for them from time to time."""

import logging

from app.core.errors import NotFound, Unavailable
from app.core.resources import Resources
from app.jobs.handlers import HANDLERS, Job
from app.traces.registry import CollectionFailed
from app.triggers import polling, service
from app.triggers.queries import Watched
from app.triggers.rules import EventType
from app.triggers.service import Start

log = logging.getLogger(__name__)

TICK_S = 5.0


def tick(res: Resources) -> None:
    """Put on the queue what is due: events that have waited, places to look for new runs."""
    with res.db.begin() as session:
        service.release_due(session, res.clock())
    with res.db.begin() as session:
        polling.release_due_looks(session, res.clock())


@HANDLERS.handles("triggers.on_event")
def on_event(job: Job, *, event: str, subject: str, run_name: str | None = None) -> None:
    """Something changed that benchmarks may wait for."""
    res, details = job.resources, {} if run_name is None else {"run_name": run_name}
    with res.db.begin() as session:
        service.note_event(session, EventType(event), subject, res.clock(), details=details)


@HANDLERS.handles("triggers.fire")
def fire(job: Job, *, event_id: str) -> None:
    """Start the runs of an event."""
    with job.resources.db.begin() as session:
        service.fire(session, event_id, job.resources.clock())


@HANDLERS.handles("triggers.look")
def look(job: Job, *, benchmark_id: str, agent_id: str) -> None:
    """Look for new runs of an agent and start a run for each."""
    res, watched = job.resources, Watched(benchmark_id, agent_id)
    try:
        with res.db.read() as session:
            place = polling.find_look(session, watched, res)
        if place is None:
            return
        listed = polling.list_complete(place, res)
    except Unavailable:
        raise
    except (CollectionFailed, NotFound) as error:
        log.warning("new runs of %s for %s not found out: %s", agent_id, benchmark_id, error)
        with res.db.begin() as session:
            start = Start(benchmark_id, agent_id, None)
            service.note_failure(session, EventType.NEW_RUN, start, error.detail, res.clock())
        return
    with res.db.begin() as session:
        polling.judge_new(session, place, listed, res.clock())
