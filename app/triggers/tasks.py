"""Jobs of triggers, and the periodic tick of the worker that enqueues them."""

import logging

from app.core.errors import NotFound, Unavailable
from app.core.resources import Resources
from app.jobs.handlers import HANDLERS, JobContext
from app.traces.registry import CollectionFailed
from app.triggers import awaited_runs, polling, remote_experiments, repetitions, service
from app.triggers.queries import SubscriptionKey
from app.triggers.rules import RunRequest, TriggerEventType

log = logging.getLogger(__name__)

TICK_S = 5.0


def tick(res: Resources) -> None:
    """Enqueue the jobs of due events and due polls."""
    with res.db.begin() as session:
        service.enqueue_due_events(session, res.clock())
    with res.db.begin() as session:
        polling.enqueue_due_polls(session, res.clock())
    with res.db.begin() as session:
        remote_experiments.enqueue_due_steps(session, res.clock())


@HANDLERS.register("triggers.on_event")
def on_event(
    job: JobContext,
    *,
    event: str,
    subject: str,
    run_name: str | None = None,
    agent_id: str | None = None,
) -> None:
    """Record the change of an agent or a dataset."""
    named = {"runName": run_name, "agentId": agent_id}
    res, details = job.resources, {name: value for name, value in named.items() if value}
    with res.db.begin() as session:
        service.record_change(
            session, TriggerEventType(event), subject, res.clock(), details=details
        )


@HANDLERS.register("triggers.start_runs")
def start_runs(job: JobContext, *, event_id: str) -> None:
    """Start the runs of an event."""
    with job.resources.db.begin() as session:
        service.start_event_runs(session, event_id, job.resources.clock())


@HANDLERS.register("triggers.await_failed")
def await_failed(
    job: JobContext,
    *,
    event_id: str,
    benchmark_id: str,
    agent_id: str,
    message: str,
    **_: object,
) -> None:
    """Settle the event when the agent could not be asked, or its runs not be listed, in any attempt."""
    awaited_runs.end_waiting(job.resources, (event_id, benchmark_id, agent_id), message)


@HANDLERS.register("triggers.await_run", on_failure="triggers.await_failed")
def await_run(job: JobContext, *, event_id: str, benchmark_id: str, agent_id: str) -> None:
    """Forward a remote experiment to the agent, or look whether its run is complete."""
    awaited_runs.take_step(job.resources, (event_id, benchmark_id, agent_id))


@HANDLERS.register("triggers.ask_agent", on_failure="runs.on_failure")
def ask_agent(job: JobContext, *, run_id: str) -> None:
    """Ask the agent to make a suspicious run again."""
    repetitions.ask_agent(job.resources, run_id)


@HANDLERS.register("triggers.look_for_run", on_failure="runs.on_failure")
def look_for_run(job: JobContext, *, run_id: str) -> None:
    """Begin the repetition of a run when the agent has made it."""
    repetitions.look_for_run(job.resources, run_id)


@HANDLERS.register("triggers.poll")
def poll(job: JobContext, *, benchmark_id: str, agent_id: str) -> None:
    """Poll the source for new runs of an agent, and start a run for each."""
    res, subscription = job.resources, SubscriptionKey(benchmark_id, agent_id)
    try:
        with res.db.read() as session:
            target = polling.find_target(session, subscription, res)
        if target is None:
            return
        listed = polling.list_complete_runs(target, res)
        with res.db.read() as session:
            changed = polling.find_changed_runs(session, target, listed)
        newest = polling.find_newest_runs(target, res, changed)
    except Unavailable:
        raise  # the job is retried
    except (CollectionFailed, NotFound) as error:
        log.warning("poll for new runs failed: benchmark=%s agent=%s: %s", *subscription, error)
        with res.db.begin() as session:
            request = RunRequest(benchmark_id, agent_id, None)
            service.record_poll_failure(
                session, TriggerEventType.NEW_RUN, request, error.detail, res.clock()
            )
        return
    with res.db.begin() as session:
        polling.start_new_runs(session, target, listed, newest, res.clock())
