"""Jobs of triggers, and the periodic tick of the worker that enqueues them."""

import logging

from mosaico.core.errors import NotFound, Unavailable
from mosaico.core.resources import Resources
from mosaico.jobs.declarations import (
    AwaitRun,
    FailAwaitedRun,
    PollSource,
    RecordChange,
    StartEventRuns,
)
from mosaico.jobs.handlers import HANDLERS, JobContext
from mosaico.traces.registry import CollectionFailed
from mosaico.triggers import awaited_runs, polling, remote_experiments, service
from mosaico.triggers.queries import SubscriptionKey
from mosaico.triggers.rules import RunRequest, TriggerEventType

log = logging.getLogger(__name__)

TICK_S = 5.0


def tick(res: Resources) -> None:
    """Enqueue the jobs of due events and due polls."""
    with res.db.begin() as session:
        service.enqueue_due_events(session, res.clock())
    due = polling.POLL_BATCH
    while due >= polling.POLL_BATCH:
        with res.db.begin() as session:
            due = polling.enqueue_due_polls(session, res.clock())
    with res.db.begin() as session:
        remote_experiments.enqueue_due_steps(session, res.clock())


@HANDLERS.register(RecordChange)
def on_event(job: JobContext, change: RecordChange) -> None:
    """Record the change of an agent or a dataset."""
    named = {"runName": change.run_name, "agentId": change.agent_id}
    res, details = job.resources, {name: value for name, value in named.items() if value}
    with res.db.begin() as session:
        event_type = TriggerEventType(change.event)
        service.record_change(session, event_type, change.subject, res.clock(), details)


@HANDLERS.register(StartEventRuns)
def start_runs(job: JobContext, start: StartEventRuns) -> None:
    """Start the runs of an event."""
    with job.resources.db.begin() as session:
        service.start_event_runs(session, start.event_id, job.resources.clock())


@HANDLERS.register(FailAwaitedRun)
def await_failed(job: JobContext, failure: FailAwaitedRun) -> None:
    """Settle the event when the agent could not be asked, or its runs not be listed, in any attempt."""
    awaited_runs.end_waiting(
        job.resources, (failure.event_id, failure.benchmark_id, failure.agent_id), failure.message
    )


@HANDLERS.register(AwaitRun, on_failure=FailAwaitedRun)
def await_run(job: JobContext, step: AwaitRun) -> None:
    """Forward a remote experiment to the agent, or look whether its run is complete."""
    awaited_runs.take_step(job.resources, (step.event_id, step.benchmark_id, step.agent_id))


@HANDLERS.register(PollSource)
def poll(job: JobContext, source: PollSource) -> None:
    """Poll the source for new runs of an agent, and start a run for each."""
    res, subscription = job.resources, SubscriptionKey(source.benchmark_id, source.agent_id)
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
            request = RunRequest(source.benchmark_id, source.agent_id, None)
            service.record_poll_failure(session, request, error.detail, res.clock())
        return
    with res.db.begin() as session:
        polling.start_new_runs(session, target, listed, newest, res.clock())
