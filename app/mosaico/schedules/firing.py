"""Fires schedules: claim due schedules, record each instant, start its run, count its end.

`fire_due` runs in the scheduler and only writes rows and jobs; workers start the runs.
"""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.access.audit import AuditActor, AuditResource, record_action
from mosaico.benchmarks.queries import find_production
from mosaico.core.batch_delete import delete_batch
from mosaico.core.defaults import KEEP_SCHEDULE_FIRES
from mosaico.core.errors import AppError, Conflict, Invalid, Unavailable
from mosaico.core.text import count_noun
from mosaico.jobs.declarations import StartScheduledRuns
from mosaico.jobs.handlers import describe_error
from mosaico.jobs.queue import enqueue_many
from mosaico.run_store.rules import RunStatus, TriggerType, Validity
from mosaico.runs.service import cancel_run, create_run
from mosaico.runs.source_runs import ListedRun, find_evaluated_runs
from mosaico.schedules import queries, rules
from mosaico.schedules.models import ScheduleConfig, ScheduleFire
from mosaico.schedules.queries import Timetable
from mosaico.schedules.rules import (
    ConcurrencyPolicy,
    FireSkipReason,
    FireStatus,
    MisfirePolicy,
    MisfireRules,
    TickPlan,
)
from mosaico.schedules.service import disable, timing_error_message, timing_of
from mosaico.traces.production import TraceWindow

# More than a year: a yearly schedule still shows its previous instant.
DELETE_BATCH = 1_000
# Enqueuing is the slowest part of a tick, so fires share jobs. A fire with a pattern waits for the
# network and gets a job of its own.
FIRES_PER_JOB = 25

# Limit per transaction: an outage leaves many instants, and a statement has a timeout of seconds.
MAX_FIRES_PER_TRANSACTION = 10_000

# One statement for all fires of a transaction: row by row, 1,000 schedules that are due in the same
# second would take longer than the 500 ms that an instant may be late. The plan is copied from the
# schedule, so that an edit between the claim and the start does not change a fire.
INSERT_FIRES = text(
    """
    WITH written AS (
        INSERT INTO schedule_fires
            (schedule_id, due_at, range_end, fired_at, triggered_by, status, reason, plan)
        SELECT schedule.id, fire.due_at, fire.range_end, :now, :trigger, fire.status,
               fire.reason,
               CASE WHEN fire.status = 'PENDING' THEN jsonb_build_object(
                   'version', 1, 'benchmarkId', schedule.benchmark_id, 'agentId', schedule.agent_id,
                   'runNamePattern', schedule.run_name_pattern,
                   'concurrencyPolicy', schedule.concurrency_policy) END
        FROM jsonb_to_recordset(cast(:fires AS jsonb)) AS fire
            (ids text[], due_at timestamptz, range_end timestamptz, status text, reason text)
        CROSS JOIN unnest(fire.ids) AS fire_schedule_id
        JOIN schedule_configs AS schedule ON schedule.id = fire_schedule_id
        ORDER BY fire.due_at
        ON CONFLICT (schedule_id, due_at) DO NOTHING
        RETURNING seq, status, plan ->> 'runNamePattern' AS pattern
    )
    SELECT coalesce(array_agg(seq ORDER BY seq) FILTER (WHERE pattern IS NULL), '{}'),
           coalesce(array_agg(seq ORDER BY seq) FILTER (WHERE pattern IS NOT NULL), '{}')
    FROM written WHERE status = 'PENDING'
    """
)
# `ids` is an array, because all schedules of a group have the same next instant.
ADVANCE = text(
    """
    UPDATE schedule_configs AS schedule SET next_run_at = advanced.next_run_at
    FROM jsonb_to_recordset(cast(:advanced AS jsonb)) AS advanced (ids text[], next_run_at timestamptz)
    CROSS JOIN unnest(advanced.ids) AS advanced_id
    WHERE schedule.id = advanced_id
    """
)


class ScheduleStillRunning(Conflict):
    """An earlier run of the schedule is in progress; wait until it ends, or cancel it."""


class NewFires(NamedTuple):
    """A due instant of some schedules, before its rows are in `schedule_fires`."""

    schedule_ids: Sequence[str]
    due_at: datetime
    range_end: datetime | None = None
    reason: FireSkipReason | None = None

    def document(self) -> dict[str, Any]:
        return {
            "ids": self.schedule_ids,
            "due_at": _iso(self.due_at),
            "range_end": _iso(self.range_end),
            "status": FireStatus.SKIPPED if self.reason else FireStatus.PENDING,
            "reason": self.reason,
        }


class PendingFires(NamedTuple):
    """Fires whose runs are to be started, by `seq`.

    With a run name pattern, the trace source is searched first.
    """

    without_pattern: list[int]
    with_pattern: list[int]


def fire_due(session: Session, now: datetime, limit: int) -> int:
    """Claim due schedules, record their instants, enqueue the starts, and set `next_run_at`.

    Returns: how many were claimed; fewer than `limit` if no more are due or not locked.
    Locks:   the claimed schedules; those that other schedulers hold are skipped.
    """
    # Claim, fires, jobs and the new `next_run_at` are in one transaction: after a crash at any
    # point either all of them exist or none, and the instant is claimed again.
    groups = queries.claim_due(session, now, limit)
    fires: list[NewFires] = []
    advanced: list[dict[str, Any]] = []
    remaining = MAX_FIRES_PER_TRANSACTION
    for timetable, schedule_ids in groups:
        try:
            plan = _plan_tick(timetable, now)
        # The expression or the zone was valid when it was saved; new zone data can remove a zone.
        # The schedule is disabled with the reason, because firing in another zone would be wrong
        # silently.
        except Invalid as error:
            # One by one: only these few broken schedules are loaded as objects.
            for schedule_id in schedule_ids:
                schedule = queries.get_schedule(session, schedule_id)
                disable(schedule, timing_error_message(error), now)
            continue
        instants = len(plan.skip) + len(plan.fire)
        # Schedules beyond the limit are not advanced: they stay due for the next transaction.
        # At least one schedule, even if its instants alone exceed the limit: otherwise it would
        # never advance. `plan_tick` bounds the instants of one schedule.
        fitting_ids = schedule_ids[: max(remaining // max(instants, 1), 1)]
        fires += _new_fires(fitting_ids, plan)
        advanced.append({"ids": fitting_ids, "next_run_at": _iso(plan.next_run_at)})
        remaining -= len(fitting_ids) * instants
        if remaining <= 0:
            break
    session.flush()
    if advanced:
        _enqueue_starts(session, _insert_fires(session, fires, TriggerType.SCHEDULED, now))
        session.execute(ADVANCE, {"advanced": json.dumps(advanced)})
    # Counts the claimed schedules, also those beyond the limit: the caller stops at fewer than
    # `limit`, and theirs are still due.
    return sum(len(group.schedule_ids) for group in groups)


def trigger_now(session: Session, schedule_id: str, now: datetime) -> ScheduleFire:
    """Fire a schedule now, enabled or not; `next_run_at` does not change.

    Without a pattern the run starts in this transaction; with one, a job searches the source first.
    Raises: `ScheduleStillRunning` if the fire would only be skipped; else as `create_run`.
    """
    # Locks before it looks for active runs: two people who trigger at the same time would both see
    # none.
    schedule = queries.get_schedule(session, schedule_id, for_update=True)
    if schedule.concurrency_policy == ConcurrencyPolicy.FORBID:
        _require_no_active_run(session, schedule_id)
    pending = _insert_fires(session, [NewFires([schedule.id], now)], TriggerType.MANUAL, now)
    for seq in pending.without_pattern:
        # In this transaction, so that the response contains the run, and an error of `create_run`
        # reaches the caller instead of a log.
        start_fire(session, seq, now)
    _enqueue_starts(session, PendingFires([], pending.with_pattern))
    [seq] = (*pending.without_pattern, *pending.with_pattern)
    fire = session.get(ScheduleFire, seq)
    assert fire is not None
    return fire


def _require_no_active_run(session: Session, schedule_id: str) -> None:
    active_runs = queries.list_active_runs(session, schedule_id)
    if active_runs:
        raise ScheduleStillRunning(
            f"the run {active_runs[0]} of the schedule {schedule_id!r} is in progress, and"
            " its runs do not overlap; wait until it ends, cancel it, or start a parallel run"
            " with POST /api/v1/benchmark-runs"
        )


def start_fire(
    session: Session, seq: int, now: datetime, source_run: ListedRun | None = None
) -> None:
    """Start the run of a pending fire, or skip the fire if the concurrency policy forbids it.

    A fire whose `source_run` was evaluated before is skipped too. Does nothing if the fire is no
    longer pending, or the schedule was deleted.
    Locks:  the schedule, so that its instants start one after the other.
    Raises: as `create_run`.
    """
    locked = queries.lock_pending_fire(session, seq)
    # A repeated job (its worker died after the commit) finds the fire started and does nothing.
    if locked is None:
        return
    fire, schedule = locked
    # Under the lock of the schedule: without it, two instants could both see no active run and
    # start two.
    active_runs = queries.list_active_runs(session, schedule.id)
    # After that: a run that ended a moment ago may wait for its job to be counted. Each run is active
    # above or counted here, so that the maximum of consecutive failures holds exactly.
    _settle_ended_runs(session, schedule, now)
    if _is_stopped(fire, schedule):
        _skip(session, fire, FireSkipReason.DISABLED)
        return
    plan = fire.plan
    assert plan is not None, "a pending fire has a plan"
    # Checked under the lock: two schedules may have found the same run of the source.
    if source_run and find_evaluated_runs(session, plan.benchmark_id, plan.agent_id, [source_run]):
        _skip(session, fire, FireSkipReason.NO_NEW_RUN)
        return
    policy = plan.concurrency_policy
    if active_runs and policy is ConcurrencyPolicy.FORBID:
        _skip(session, fire, FireSkipReason.OVERLAP)
        return
    for run_id in active_runs if policy is ConcurrencyPolicy.REPLACE else ():
        cancel_run(session, run_id, now)
    try:
        with session.begin_nested():
            run = create_run(
                session,
                plan.benchmark_id,
                plan.agent_id,
                trigger=TriggerType(fire.triggered_by),
                schedule_id=schedule.id,
                run_name=source_run.selector if source_run else None,
                window=_due_window(session, plan.benchmark_id, fire.due_at),
            )
    except Unavailable:
        raise
    except AppError as error:
        # A person who triggers the schedule gets the error.
        if fire.triggered_by != TriggerType.SCHEDULED:
            raise
        # Counted under the same lock: a fire that starts now in another worker sees it.
        _record_start_failure(fire, schedule, now, **describe_error(error))
        session.flush()
        return
    # A run that a person triggered is in the audit log already, with that person as the actor.
    if run.triggered_by == TriggerType.SCHEDULED:
        actor = AuditActor(type="schedule", id=schedule.id)
        record_action(session, actor, "start_run", AuditResource("benchmark-runs", run.id))
    fire.status, fire.run_id = FireStatus.STARTED, run.id
    schedule.last_run_at = now
    session.flush()


def _due_window(session: Session, benchmark_id: str, due_at: datetime) -> TraceWindow | None:
    """The window of production traces of a due instant; None for a benchmark that reads a run.

    It ends with the instant and not with the start of its run: late runs leave no trace out between two
    instants and read none twice, and each missed instant reads its own window.
    """
    production = find_production(session, benchmark_id)
    return None if production is None else production.frozen(None, due_at).exact_window


def skip_fire(session: Session, seq: int) -> None:
    """Record that a pending fire starts no run, since the source has no new one."""
    locked = queries.lock_pending_fire(session, seq)
    if locked is not None:
        _skip(session, locked.fire, FireSkipReason.NO_NEW_RUN)


def fail_fire(session: Session, seq: int, code: str, message: str, now: datetime) -> None:
    """Record that the run could not be started; counts as a failure of the schedule."""
    locked = queries.lock_pending_fire(session, seq)
    if locked is None:
        return
    if _is_stopped(locked.fire, locked.schedule):
        _skip(session, locked.fire, FireSkipReason.DISABLED)
        return
    _record_start_failure(locked.fire, locked.schedule, now, code, message)
    session.flush()


def record_run_end(session: Session, run_id: str, now: datetime) -> None:
    """Count the end of a run for the schedule that started it, once.

    A valid completed run resets the failures, a failed run adds one. Cancelled and invalid runs
    do neither: they show nothing about the schedule.
    """
    schedule = queries.lock_schedule_of_run(session, run_id)
    if schedule is not None:
        _settle_ended_runs(session, schedule, now)


def _settle_ended_runs(session: Session, schedule: ScheduleConfig, now: datetime) -> None:
    """Count the ended runs of a locked schedule that are not counted yet, in the order of their ends."""
    # The job of a run may be repeated, and a run that is retried ends twice: each run counts once.
    for fire, run in queries.list_unsettled_ends(session, schedule.id):
        fire.settled_at = now
        if run.status == RunStatus.FAILED:
            _count_failure(schedule, f"{run.error_code}: {run.error_message}", now)
        elif run.status == RunStatus.COMPLETED and run.validity == Validity.VALID:
            schedule.consecutive_failures = 0
    session.flush()


def _is_stopped(fire: ScheduleFire, schedule: ScheduleConfig) -> bool:
    """Return whether failures disabled the schedule after the fire was claimed; a person may still
    trigger it.
    """
    return fire.triggered_by == TriggerType.SCHEDULED and schedule.disabled_at is not None


def _record_start_failure(
    fire: ScheduleFire, schedule: ScheduleConfig, now: datetime, code: str, message: str
) -> None:
    fire.status, fire.reason, fire.detail = FireStatus.FAILED, code, message
    # A failed start by a person is that person's to see; it must not disable the schedule.
    if fire.triggered_by == TriggerType.SCHEDULED:
        _count_failure(schedule, f"{code}: {message}", now)


def delete_old_fires(session: Session, now: datetime) -> int:
    """Delete a batch of fires older than `KEEP_SCHEDULE_FIRES`; returns the number deleted."""
    # Each status, because the index of the times begins with it.
    is_old = ScheduleFire.status.in_(FireStatus) & (ScheduleFire.due_at < now - KEEP_SCHEDULE_FIRES)
    return delete_batch(session, ScheduleFire, is_old, DELETE_BATCH)


def _count_failure(schedule: ScheduleConfig, error: str, now: datetime) -> None:
    schedule.consecutive_failures += 1
    if schedule.enabled and rules.should_disable(
        failures=schedule.consecutive_failures,
        max_failures=schedule.max_consecutive_failures,
        auto_disable=schedule.auto_disable_on_failure,
    ):
        reason = (
            f"{count_noun(schedule.consecutive_failures, 'failure')} in a row, the last one {error}"
        )
        disable(schedule, f"{reason}; fix the cause, then enable the schedule", now)


def _skip(session: Session, fire: ScheduleFire, reason: FireSkipReason) -> None:
    fire.status, fire.reason = FireStatus.SKIPPED, reason
    session.flush()


def _insert_fires(
    session: Session, fires: Sequence[NewFires], trigger_type: TriggerType, now: datetime
) -> PendingFires:
    """Insert the fires that do not exist yet; returns those that start a run.

    The unique key of (schedule, instant) makes each instant fire once, even if two schedulers, or
    a clock that was set back, arrive at it again.
    """
    # The conflict clause returns no row for an instant that exists, so a repeated tick enqueues
    # nothing.
    inserted = session.execute(
        INSERT_FIRES,
        {
            "now": now,
            "trigger": trigger_type,
            "fires": json.dumps([fire.document() for fire in fires]),
        },
    )
    return PendingFires(*inserted.one())


def _enqueue_starts(session: Session, pending: PendingFires) -> None:
    seqs = pending.without_pattern
    batches = [seqs[at : at + FIRES_PER_JOB] for at in range(0, len(seqs), FIRES_PER_JOB)]
    enqueue_many(session, [StartScheduledRuns(fires=batch) for batch in batches], is_short=True)
    # These list the runs of a source first, which may take as long as its server likes.
    enqueue_many(session, [StartScheduledRuns(fires=[seq]) for seq in pending.with_pattern])


def _iso(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None


def _new_fires(schedule_ids: Sequence[str], plan: TickPlan) -> list[NewFires]:
    skipped = [
        NewFires(schedule_ids, skip.due_at, skip.range_end, skip.reason) for skip in plan.skip
    ]
    return [*skipped, *(NewFires(schedule_ids, due_at) for due_at in plan.fire)]


def _plan_tick(timetable: Timetable, now: datetime) -> TickPlan:
    misfire_rules = MisfireRules(
        policy=MisfirePolicy(timetable.misfire_policy),
        catchup_window=timedelta(seconds=timetable.catchup_window_seconds),
    )
    return rules.plan_tick(timing_of(timetable), misfire_rules, timetable.next_run_at, now)
