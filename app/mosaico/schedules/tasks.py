"""Jobs of schedules: start the runs of due instants, and count how they ended."""

from typing import NamedTuple

from mosaico.core.errors import AppError, Unavailable
from mosaico.core.resources import Resources
from mosaico.jobs.declarations import (
    DropFires,
    FailScheduledRuns,
    RecordRunEnd,
    SendHeartbeat,
    StartScheduledRuns,
)
from mosaico.jobs.handlers import HANDLERS, JobContext, describe_error
from mosaico.jobs.row_deletion import delete_rows
from mosaico.runs.source_runs import (
    ListedRun,
    match_names,
    read_dataset_source,
    select_complete_runs,
)
from mosaico.schedules import firing, heartbeat, queries, service
from mosaico.schedules.models import ScheduleFire
from mosaico.schedules.rules import FirePlan
from mosaico.schedules.service import RunLister
from mosaico.traces.registry import TRACE_SOURCES, RunNarrower, TraceQuery


class RunSearch(NamedTuple):
    """The search for the run of a trace source that a schedule evaluates."""

    list_runs: RunLister
    narrow_run: RunNarrower | None
    query: TraceQuery
    pattern: str


@HANDLERS.register(StartScheduledRuns, on_failure=FailScheduledRuns)
def start_runs(job: JobContext, due: StartScheduledRuns) -> None:
    """Start the runs of due instants; a repeated job skips those that are started."""
    with job.resources.db.read_statement() as session:
        plans = queries.list_plans(session, due.fires)
    for seq, plan in sorted(plans.items()):
        # Between two fires: a stopping worker returns the job, and its next attempt skips the
        # started ones.
        job.checkpoint()
        try:
            _start_run(job.resources, seq, plan)
        # The whole job is retried: the cause (database, network) is not the fire's, so it must not
        # count as a failure of the schedule.
        except Unavailable:
            raise
        # One broken schedule must not stop the other fires of the job.
        except AppError as error:
            record_start_failure(job, FailScheduledRuns(fires=[seq], **describe_error(error)))


@HANDLERS.register(FailScheduledRuns)
def record_start_failure(job: JobContext, failure: FailScheduledRuns) -> None:
    """Record that runs could not be started; counts as a failure of the schedule."""
    with job.resources.db.begin() as session:
        for seq in failure.fires:
            firing.fail_fire(session, seq, failure.code, failure.message, job.resources.clock())


@HANDLERS.register(RecordRunEnd)
def record_run_end(job: JobContext, end: RecordRunEnd) -> None:
    """Count the end of a run for its schedule."""
    with job.resources.db.begin() as session:
        firing.record_run_end(session, end.run_id, job.resources.clock())


@HANDLERS.register(DropFires)
def drop_fires(job: JobContext, dropped: DropFires) -> None:
    """Delete the fires of a deleted schedule, up to its last one."""
    condition = (ScheduleFire.schedule_id == dropped.schedule_id) & (
        ScheduleFire.seq <= dropped.last_fire
    )
    delete_rows(job, ScheduleFire, condition)


@HANDLERS.register(SendHeartbeat)
def send_heartbeat(job: JobContext, ping: SendHeartbeat) -> None:
    """Call the dead man's switch; a failure is logged, and the next minute has a job of its own."""
    heartbeat.send(job.resources, ping.minute)


def _start_run(res: Resources, seq: int, plan: FirePlan) -> None:
    """Start one run; with a pattern, on the newest matching run of the trace source."""
    search = _find_search(res, plan)
    # Before the transaction: a slow source would hold the lock of the schedule.
    source_run = _find_newest_run(res, search) if search else None
    with res.db.begin() as session:
        if search and source_run is None:
            firing.skip_fire(session, seq)
        else:
            firing.start_fire(session, seq, res.clock(), source_run)


def _find_search(res: Resources, plan: FirePlan) -> RunSearch | None:
    """The search in the trace source; None without a pattern."""
    if plan.run_name_pattern is None:
        return None
    with res.db.read() as session:
        source, query = read_dataset_source(session, plan.benchmark_id, plan.agent_id, res)
    return RunSearch(
        service.get_run_lister(source),
        TRACE_SOURCES.get(source).narrow_run,
        query,
        plan.run_name_pattern,
    )


def _find_newest_run(res: Resources, search: RunSearch) -> ListedRun | None:
    """The newest complete run that matches; uses the network, so call it outside a transaction."""
    source_runs = select_complete_runs(search.list_runs(res, search.query))
    # The list is newest first.
    newest = next(iter(match_names(source_runs, search.pattern)), None)
    if newest is None or search.narrow_run is None:
        return newest
    return newest.narrowed_to(search.narrow_run(res, search.query, newest.run))
