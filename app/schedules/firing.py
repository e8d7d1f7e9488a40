"""Firing schedules: claim what is due, write each instant once, start its run, count its end."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import delete, select, text
from sqlalchemy.orm import Session

from app.access.audit import Actor, Resource, record
from app.core.errors import Conflict, Invalid
from app.jobs.queue import enqueue_many
from app.results.queries import get_run
from app.results.rules import RunStatus, TriggerType, Validity
from app.runs.service import cancel_run, create_run
from app.runs.source_runs import ListedRun, judged_runs
from app.schedules import queries, rules
from app.schedules.models import ScheduleConfig, ScheduleFire
from app.schedules.queries import Timetable
from app.schedules.rules import (
    ConcurrencyPolicy,
    FireStatus,
    MisfirePolicy,
    Misfires,
    SkipReason,
    TickPlan,
)
from app.schedules.service import disable, timing_of, why_unusable

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
                disable(queries.get_schedule(session, schedule_id), why_unusable(error), now)
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
    return rules.plan_tick(timing_of(due), misfires, due.next_run_at, now)
