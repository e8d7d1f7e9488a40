"""All jobs: their names, and their arguments as the job table stores them.

A job is enqueued as an object of its class here, and its handler gets an equal object. The classes of all
domains are in this module, below all domains: a module may enqueue a job of a higher layer.

Wire format: the column `task_name` of `procrastinate_jobs` has `NAME`, and `args` the fields as a JSON object,
beside those that the queue adds (their names start with "_"; `mosaico.jobs.queue`).
"""

from datetime import datetime
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


class JobRequest(BaseModel):
    """A job to do. `NAME` is `<queue>.<job>`; workers may serve some of the queues only."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    NAME: ClassVar[str]

    @classmethod
    def queue(cls) -> str:
        return queue_of(cls.NAME)

    def arguments(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class FailureReport(JobRequest):
    """The report that a job has failed for good: error code and message, and the arguments of that job.

    Several kinds of jobs may have one report, so arguments without a field are ignored.
    """

    model_config = ConfigDict(extra="ignore")

    code: str
    message: str


def queue_of(name: str) -> str:
    """The queue of a job name: each domain has one, named by the part before the dot."""
    return name.partition(".")[0]


# Runs


class BeginRun(JobRequest):
    """Freeze the plan of a run."""

    NAME = "runs.begin"
    run_id: str


class CollectTraces(JobRequest):
    """Copy the traces of a run from their source."""

    NAME = "runs.collect"
    run_id: str


class ScoreShard(JobRequest):
    """Measure one shard of a run. In a queue of its own, so that workers can do nothing else."""

    NAME = "score.shard"
    run_id: str
    shard: int


class FinishRun(JobRequest):
    """Compute the result of a run, and its alerts."""

    NAME = "runs.finish"
    run_id: str


class FailRun(FailureReport):
    """Fail a run after one of its jobs."""

    NAME = "runs.on_failure"
    run_id: str


class DropPurgedRun(JobRequest):
    """Delete the traces and values of a run that was purged at this time, unless that was undone."""

    NAME = "runs.drop_purged"
    run_id: str
    purged_at: datetime


class DropResults(JobRequest):
    """Delete the values of a run."""

    NAME = "runs.drop_results"
    run_seq: int


class DropTraces(JobRequest):
    """Delete a collection with its traces, unless a run or an upload has it."""

    NAME = "runs.drop_traces"
    collection_id: int


class RemoveTexts(JobRequest):
    """Remove the texts of a collection that is marked for it."""

    NAME = "runs.remove_texts"
    collection_id: int


class EndLinks(JobRequest):
    """End the links of later runs over the same source run to a deleted run."""

    NAME = "runs.end_links"
    run_id: str


class CheckLateScores(JobRequest):
    """Look whether scores have arrived since a run was judged; `check` counts from 0."""

    NAME = "runs.check_late_scores"
    run_id: str
    check: int = 0


class WriteBackScores(JobRequest):
    """Write the scores of a run to its trace source."""

    NAME = "runs.write_back"
    run_id: str


class FailWriteBack(FailureReport):
    """Record on a run why its scores were not all written."""

    NAME = "runs.write_back_failed"
    run_id: str


# Schedules


class StartScheduledRuns(JobRequest):
    """Start the runs of due instants: the `seq` of their rows in `schedule_fires`."""

    NAME = "schedules.start"
    fires: list[int]


class FailScheduledRuns(FailureReport):
    """Record that the runs of due instants could not be started."""

    NAME = "schedules.start_failed"
    fires: list[int]


class RecordRunEnd(JobRequest):
    """Count the end of a run for its schedule."""

    NAME = "schedules.run_ended"
    run_id: str


class DropFires(JobRequest):
    """Delete the fires of a deleted schedule, up to the `seq` of its last one."""

    NAME = "schedules.drop_fires"
    schedule_id: str
    last_fire: int


class SendHeartbeat(JobRequest):
    """Call the dead man's switch for this minute. In a queue of its own, so that its last jobs are found at once."""

    NAME = "heartbeat.send"
    minute: datetime


# Triggers


class RecordChange(JobRequest):
    """Record the change of an agent or dataset (`subject`) for the triggers of benchmarks.

    `event` is a `TriggerEventType`; `run_name` and `agent_id` are those of an upload.
    """

    NAME = "triggers.on_event"
    event: str
    subject: str
    run_name: str | None = None
    agent_id: str | None = None


class StartEventRuns(JobRequest):
    """Start the runs of an event."""

    NAME = "triggers.start_runs"
    event_id: str


class AwaitRun(JobRequest):
    """Forward a remote experiment to the agent, or look whether its run is complete."""

    NAME = "triggers.await_run"
    event_id: str
    benchmark_id: str
    agent_id: str


class FailAwaitedRun(FailureReport):
    """Settle the event of a remote experiment whose run cannot be awaited."""

    NAME = "triggers.await_failed"
    event_id: str
    benchmark_id: str
    agent_id: str


class PollSource(JobRequest):
    """Poll a source for new runs of an agent."""

    NAME = "triggers.poll"
    benchmark_id: str
    agent_id: str


# Notifications


class Deliver(JobRequest):
    """Make one attempt of a delivery; an outdated `fencing_token` makes it do nothing."""

    NAME = "notifications.deliver"
    delivery_id: str
    fencing_token: int


class RecordCrash(FailureReport):
    """Record an attempt whose job crashed as a failed attempt."""

    NAME = "notifications.delivery_crashed"
    delivery_id: str
    fencing_token: int


class DropDeliveries(JobRequest):
    """Delete the deliveries of a deleted endpoint."""

    NAME = "notifications.drop_deliveries"
    endpoint_id: str


class HoldOrRestart(JobRequest):
    """Hold the deliveries of a disabled endpoint, or restart the held ones of an enabled endpoint."""

    NAME = "notifications.hold_or_restart"
    endpoint_id: str
