import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import delete, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.access.audit import Actor, Resource, record
from app.agents.queries import get_agent
from app.benchmarks.queries import get_benchmark
from app.core.errors import Conflict, ErrorItem, Invalid, NotFound
from app.core.ids import new_id
from app.core.resources import Resources
from app.core.schemas import fields
from app.jobs.queue import enqueue_many
from app.runs.listed import ListedRun, judged_runs
from app.runs.queries import get_run
from app.runs.rules import RunStatus, TriggerType, Validity
from app.runs.service import cancel_run, create_run, require_runnable
from app.schedules import queries, rules
from app.schedules.cron import DstPolicy
from app.schedules.models import ScheduleConfig, ScheduleFire
from app.schedules.queries import Timetable
from app.schedules.rules import (
    ConcurrencyPolicy,
    FireStatus,
    MisfirePolicy,
    Misfires,
    SkipReason,
    TickPlan,
    Timing,
)
from app.schedules.schemas import ScheduleCreate
from app.traces.registry import TRACE_SOURCES, SourceRun, TraceQuery

RunLister: TypeAlias = Callable[[Resources, TraceQuery], Sequence[SourceRun]]

WHEN = frozenset({"cron_expression", "timezone", "dst_policy", "enabled"})
WHAT = frozenset({"benchmark_id", "agent_id", "run_name_pattern"})
FIRES_KEPT = timedelta(days=400)
PURGE_BATCH = 10_000
# To put ten thousand jobs on the queue takes longer than all else; with a pattern, starting a run
# waits for the network, and so has a job of its own.
FIRES_PER_JOB = 25

# What one transaction writes at most: an outage leaves many instants, and each statement has
# seconds.
MOST_FIRES = 10_000

INSERT_FIRES = text(
    """
    WITH written AS (
        INSERT INTO schedule_fires
            (schedule_id, due_at, until, fired_at, triggered_by, status, reason, plan)
        SELECT schedule.id, fire.due_at, fire.until, :now, :trigger, fire.status, fire.reason,
               CASE WHEN fire.status = 'PENDING' THEN jsonb_build_object(
                   'benchmarkId', schedule.benchmark_id, 'agentId', schedule.agent_id,
                   'runNamePattern', schedule.run_name_pattern,
                   'concurrencyPolicy', schedule.concurrency_policy) END
        FROM jsonb_to_recordset(cast(:fires AS jsonb)) AS fire
            (ids text[], due_at timestamptz, until timestamptz, status text, reason text)
        CROSS JOIN unnest(fire.ids) AS fired
        JOIN schedule_configs AS schedule ON schedule.id = fired
        ORDER BY fire.due_at
        ON CONFLICT (schedule_id, due_at) DO NOTHING
        RETURNING seq, status, plan ->> 'runNamePattern' AS pattern
    )
    SELECT coalesce(array_agg(seq ORDER BY seq) FILTER (WHERE pattern IS NULL), '{}'),
           coalesce(array_agg(seq ORDER BY seq) FILTER (WHERE pattern IS NOT NULL), '{}')
    FROM written WHERE status = 'PENDING'
    """
)
ADVANCE = text(
    """
    UPDATE schedule_configs AS schedule SET next_run_at = advanced.next_run_at
    FROM jsonb_to_recordset(cast(:advanced AS jsonb)) AS advanced (ids text[], next_run_at timestamptz)
    CROSS JOIN unnest(advanced.ids) AS fired
    WHERE schedule.id = fired
    """
)


class StillRunning(Conflict):
    """A run of the schedule is under way and may not be joined; wait for its end, or cancel it."""

    code = "schedule-still-running"


class NewFires(NamedTuple):
    """A due instant of some schedules, which is about to have its rows in `schedule_fires`."""

    schedule_ids: Sequence[str]
    due_at: datetime
    until: datetime | None = None
    reason: SkipReason | None = None

    def document(self) -> dict[str, Any]:
        return {
            "ids": self.schedule_ids,
            "due_at": _text(self.due_at),
            "until": _text(self.until),
            "status": FireStatus.SKIPPED if self.reason else FireStatus.PENDING,
            "reason": self.reason,
        }


class PendingFires(NamedTuple):
    """Instants whose runs are to be started, by `seq`: at once, or when the source was asked."""

    plain: list[int]
    searching: list[int]


def create_schedule(session: Session, body: ScheduleCreate, now: datetime) -> ScheduleConfig:
    """Raises: `NotFound` and `Conflict` as starting the run would, `Invalid` with what is wrong."""
    schedule = ScheduleConfig(**{**fields(body), "id": body.id or new_id()})
    _require_runnable(session, schedule)
    first = rules.first_instant(_timing(schedule), now)
    schedule.next_run_at = first if schedule.enabled else None
    session.add(schedule)
    try:
        _write(session)
    except IntegrityError:
        raise Conflict(
            f"the schedule id {schedule.id!r} is taken; choose another or PATCH that one"
        ) from None
    session.refresh(schedule)
    return schedule


def change_schedule(
    session: Session, schedule_id: str, values: Mapping[str, Any], now: datetime
) -> ScheduleConfig:
    """Write the given fields. Instants that were claimed keep what the schedule was.

    When it is due is computed anew from now where that may have changed; who enables a schedule
    forgives its failures.
    Raises: as `create_schedule`; `ScheduleNotFound`.
    """
    schedule = queries.get_schedule(session, schedule_id, for_update=True)
    changed = {name for name, value in values.items() if getattr(schedule, name) != value}
    for name in changed:
        setattr(schedule, name, values[name])
    if changed & WHAT:
        _require_runnable(session, schedule)
    if changed & WHEN:
        first = rules.first_instant(_timing(schedule), now)
        schedule.next_run_at = first if schedule.enabled else None
    if "enabled" in changed:
        schedule.consecutive_failures = 0
        schedule.disabled_at = schedule.disabled_reason = None
    if values:
        schedule.revision += 1
        schedule.updated_at = now
    _write(session)
    return schedule


def delete_schedule(session: Session, schedule_id: str) -> None:
    """Delete a schedule with its history of fires. Runs that it started stay and go on."""
    session.delete(queries.get_schedule(session, schedule_id, for_update=True))
    session.execute(delete(ScheduleFire).where(ScheduleFire.schedule_id == schedule_id))
    session.flush()


def fire_due(session: Session, now: datetime, limit: int) -> int:
    """Claim schedules that are due, write what becomes of each instant, and advance them.

    Returns: how many were claimed; fewer than `limit` when no more are due, or others hold them.
    Locks:   the claimed schedules; those that others hold are left to them.
    """
    claimed = queries.claim_due(session, now, limit)
    fires: list[NewFires] = []
    advanced: list[dict[str, Any]] = []
    room = MOST_FIRES
    for timetable, together in claimed:
        try:
            plan = _plan(timetable, now)
        except Invalid as error:
            for schedule_id in together:
                disable(queries.get_schedule(session, schedule_id), _unusable(error), now)
            continue
        instants = len(plan.skip) + len(plan.fire)
        # The others stay due.
        ids = together[: max(room // max(instants, 1), 1)]
        fires += _new_fires(ids, plan)
        advanced.append({"ids": ids, "next_run_at": _text(plan.next_run_at)})
        room -= len(ids) * instants
        if room <= 0:
            break
    session.flush()
    if advanced:
        _enqueue_starts(session, _insert_fires(session, fires, TriggerType.SCHEDULED, now))
        session.execute(ADVANCE, {"advanced": json.dumps(advanced)})
    return sum(len(due.ids) for due in claimed)


def recompute(session: Session, now: datetime, after_id: str, limit: int) -> str | None:
    """Compute anew when some schedules are due: the zone data may have changed, or the clock been
    set back. What is due already is left alone, and an instant that has fired does not fire again.

    Returns: the id to go on after; None when these were the last.
    """
    schedules = queries.claim_waiting(session, now, after_id, limit)
    for schedule in schedules:
        try:
            schedule.next_run_at = _timing(schedule).next(now)
        except Invalid as error:
            disable(schedule, _unusable(error), now)
    session.flush()
    return schedules[-1].id if len(schedules) == limit else None


def trigger(session: Session, schedule_id: str, now: datetime) -> ScheduleFire:
    """Fire a schedule now, whether it is enabled or not; its timetable stays as it is.

    Without a pattern the run starts here; with one a job asks the source first.
    Raises: `StillRunning` when it would only be skipped; else as starting a run does.
    """
    schedule = queries.get_schedule(session, schedule_id, for_update=True)
    if schedule.concurrency_policy == ConcurrencyPolicy.FORBID:
        _require_none_under_way(session, schedule_id)
    pending = _insert_fires(session, [NewFires([schedule.id], now)], TriggerType.MANUAL, now)
    for seq in pending.plain:
        start_fire(session, seq, now)
    _enqueue_starts(session, PendingFires([], pending.searching))
    [seq] = (*pending.plain, *pending.searching)
    fire = queries.find_fire(session, seq)
    assert fire is not None
    return fire


def _require_none_under_way(session: Session, schedule_id: str) -> None:
    under_way = queries.runs_under_way(session, schedule_id)
    if under_way:
        raise StillRunning(
            f"the run {under_way[0]} of the schedule {schedule_id!r} is under way, and its"
            " concurrencyPolicy is FORBID; wait for its end, cancel it, or start a run beside it:"
            " POST /api/v1/benchmark-runs"
        )


def start_fire(session: Session, seq: int, now: datetime, found: ListedRun | None = None) -> None:
    """Start the run of a claimed instant, unless one of the schedule is under way and may not be
    joined, or the run that was found was judged; nothing when this was done or the schedule is
    gone.

    Locks:   the schedule, so that its instants start one after the other.
    Raises: as `create_run`.
    """
    locked = queries.lock_fire(session, seq)
    if locked is None or locked.fire.status != FireStatus.PENDING:
        return
    fire, schedule = locked
    plan = fire.plan or {}
    benchmark_id, agent_id = plan["benchmarkId"], plan["agentId"]
    if found and judged_runs(session, benchmark_id, agent_id, [found]):
        _skip(session, fire, SkipReason.NO_NEW_RUN)
        return
    under_way = queries.runs_under_way(session, schedule.id)
    policy = ConcurrencyPolicy(plan["concurrencyPolicy"])
    if under_way and policy is ConcurrencyPolicy.FORBID:
        _skip(session, fire, SkipReason.OVERLAP)
        return
    for run_id in under_way if policy is ConcurrencyPolicy.REPLACE else ():
        cancel_run(session, run_id, now)
    run = create_run(
        session,
        benchmark_id,
        agent_id,
        trigger=TriggerType(fire.triggered_by),
        run_name=found.asked_as if found else None,
    )
    if run.triggered_by == TriggerType.SCHEDULED:
        actor = Actor(type="schedule", id=schedule.id)
        record(session, actor, "start_run", Resource("benchmark-runs", run.id))
    fire.status, fire.run_id = FireStatus.STARTED, run.id
    schedule.last_run_at = now
    session.flush()


def skip_fire(session: Session, seq: int, reason: SkipReason) -> None:
    """Record that a claimed instant starts nothing."""
    locked = queries.lock_fire(session, seq)
    if locked is not None and locked.fire.status == FireStatus.PENDING:
        _skip(session, locked.fire, reason)


def fail_fire(session: Session, seq: int, code: str, message: str, now: datetime) -> None:
    """Record that no run could be started; that counts as a failure of the schedule."""
    locked = queries.lock_fire(session, seq)
    if locked is None or locked.fire.status != FireStatus.PENDING:
        return
    locked.fire.status, locked.fire.reason = FireStatus.FAILED, code
    locked.fire.detail = message
    if locked.fire.triggered_by == TriggerType.SCHEDULED:
        _count_failure(locked.schedule, f"{code}: {message}", now)
    session.flush()


def settle(session: Session, run_id: str, now: datetime) -> None:
    """Let the end of a run count for the schedule that started it, once.

    A completed run resets the failures, a failed one counts. One that was cancelled, or completed
    with numbers that cannot be trusted, does neither.
    """
    locked = queries.lock_fire_of_run(session, run_id)
    if locked is None or locked.fire.settled_at is not None:
        return
    fire, schedule = locked
    fire.settled_at = now
    run = get_run(session, run_id)
    if run.status == RunStatus.FAILED:
        _count_failure(schedule, f"{run.error_code}: {run.error_message}", now)
    elif run.status == RunStatus.COMPLETED and run.validity == Validity.VALID:
        schedule.consecutive_failures = 0
    session.flush()


def disable(schedule: ScheduleConfig, reason: str, now: datetime) -> None:
    """Switch a schedule off and say why; it stays so until somebody enables it."""
    schedule.enabled, schedule.next_run_at = False, None
    schedule.disabled_at, schedule.disabled_reason = now, reason
    schedule.revision += 1
    schedule.updated_at = now


def purge_fires(session: Session, now: datetime) -> int:
    """Forget some of the instants that are older than `FIRES_KEPT`; returns how many."""
    old = select(ScheduleFire.seq).where(ScheduleFire.due_at < now - FIRES_KEPT).limit(PURGE_BATCH)
    purged = session.execute(
        delete(ScheduleFire).where(ScheduleFire.seq.in_(old)).returning(ScheduleFire.seq)
    )
    return len(purged.all())


def _count_failure(schedule: ScheduleConfig, what: str, now: datetime) -> None:
    schedule.consecutive_failures += 1
    if schedule.enabled and rules.gives_up(
        failures=schedule.consecutive_failures,
        most=schedule.max_consecutive_failures,
        auto_disable=schedule.auto_disable_on_failure,
    ):
        failures = schedule.consecutive_failures
        reason = f"{failures} failures in a row, the last one {what}"
        disable(schedule, f"{reason}; mend the cause, then enable the schedule", now)


def _skip(session: Session, fire: ScheduleFire, reason: SkipReason) -> None:
    fire.status, fire.reason = FireStatus.SKIPPED, reason
    session.flush()


def _insert_fires(
    session: Session, fires: Sequence[NewFires], trigger_type: TriggerType, now: datetime
) -> PendingFires:
    """Write the fires that are not there yet; returns those that are to start a run."""
    written = session.execute(
        INSERT_FIRES,
        {
            "now": now,
            "trigger": trigger_type,
            "fires": json.dumps([fire.document() for fire in fires]),
        },
    )
    return PendingFires(*written.one())


def _enqueue_starts(session: Session, pending: PendingFires) -> None:
    plain = pending.plain
    shared = (plain[at : at + FIRES_PER_JOB] for at in range(0, len(plain), FIRES_PER_JOB))
    jobs = [{"fires": fires} for fires in (*shared, *([seq] for seq in pending.searching))]
    enqueue_many(session, "schedules.start", jobs)


def _text(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None


def _new_fires(ids: Sequence[str], plan: TickPlan) -> list[NewFires]:
    skipped = [NewFires(ids, each.due_at, each.until, each.reason) for each in plan.skip]
    return [*skipped, *(NewFires(ids, due_at) for due_at in plan.fire)]


def _plan(due: Timetable, now: datetime) -> TickPlan:
    misfires = Misfires(
        policy=MisfirePolicy(due.misfire_policy),
        catchup_window=timedelta(seconds=due.catchup_window_seconds),
    )
    return rules.plan_tick(_timing(due), misfires, due.next_run_at, now)


def _write(session: Session) -> None:
    """Raises: `NotFound` when what a schedule names has just been deleted."""
    try:
        session.flush()
    except IntegrityError as error:
        if getattr(error.orig, "sqlstate", None) == "23503":  # foreign key
            raise NotFound(
                "the benchmark or the agent was deleted at this moment; choose another"
            ) from None
        raise


def _timing(schedule: ScheduleConfig | Timetable) -> Timing:
    return Timing(
        cron_expression=schedule.cron_expression,
        timezone=schedule.timezone,
        dst_policy=DstPolicy(schedule.dst_policy),
    )


def _unusable(error: Invalid) -> str:
    return f"when it is due can no longer be computed: {error}"


def _require_runnable(session: Session, schedule: ScheduleConfig) -> None:
    benchmark = get_benchmark(session, schedule.benchmark_id)
    require_runnable(session, benchmark, get_agent(session, schedule.agent_id))
    if schedule.run_name_pattern:
        lister_of(benchmark.source)


def lister_of(source: str) -> RunLister:
    """What lists the runs of a source; raises `Invalid` where nothing does."""
    list_runs = TRACE_SOURCES.get(source).list_runs
    if list_runs is None:
        raise Invalid(
            f"the source {source!r} of the benchmark cannot list its runs; leave runNamePattern out",
            errors=[ErrorItem(pointer="/runNamePattern", detail="needs a source with runs")],
        )
    return list_runs
