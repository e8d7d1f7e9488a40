"""Dead man's switch: alerts on schedules that were due and started no run, whatever the cause.

It only reads stored rows and runs in workers, so it also notices that no scheduler is running.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Row, text
from sqlalchemy.orm import Session

from mosaico.alerts.publishing import EventNotice, publish_notices
from mosaico.alerts.rules import AlertEventState
from mosaico.alerts.schedule_zones import named_zone
from mosaico.core.batches import keyset_batches
from mosaico.core.text import format_in_zone
from mosaico.notifications.types import MessageSeverity
from mosaico.run_store.rules import IN_PROGRESS
from mosaico.schedules.models import UNREPORTED_MISS
from mosaico.schedules.rules import SKIP_DETAILS, ConcurrencyPolicy, FireSkipReason

TICK_S = 60.0
# A scheduler that is restarted fires what it missed: only a longer absence is worth an alert.
OVERDUE_AFTER = timedelta(minutes=5)
# A short overlap is normal: a schedule of every minute with runs of five minutes skips four due times each time.
# After six hours the run hangs, or the schedule is too frequent; one of every night has missed one night.
BLOCKED_AFTER = timedelta(hours=6)
# A longer time without any worker is not reported instant by instant when they return.
LOOKBACK = timedelta(hours=24)
# One notice for each schedule in this time: a schedule of every minute would send one each minute.
REPORT_INTERVAL = timedelta(hours=1)
BATCH_SIZE = 50
# Of a run that hangs for weeks: more say nothing new.
MAX_SKIPS_COUNTED = 100

OVERDUE_DETAIL = "no scheduler fired it; start one with `mosaico scheduler`"

# `dedup_key` is the same for the same event, so that each is reported once.
# `extract(epoch ...)` instead of the timestamp's text, which depends on the time zone of the
# session.
SELECT_STOPPED = text(
    """
    SELECT schedule.id, schedule.name, schedule.benchmark_id, schedule.agent_id, stopped.at,
           stopped.is_disabled, schedule.disabled_reason, stopped.dedup_key, schedule.timezone
    FROM (
        SELECT id AS schedule_id, next_run_at AS at, false AS is_disabled,
               format('schedule-overdue/%s/%s', id, extract(epoch FROM next_run_at)) AS dedup_key
        FROM schedule_configs WHERE next_run_at < cast(:now AS timestamptz) - :overdue_after
        UNION ALL
        SELECT id, disabled_at, true,
               format('schedule-disabled/%s/%s', id, extract(epoch FROM disabled_at))
        FROM schedule_configs WHERE disabled_at > cast(:now AS timestamptz) - :lookback
    ) AS stopped
    JOIN schedule_configs AS schedule ON schedule.id = stopped.schedule_id
    WHERE NOT EXISTS (SELECT FROM alert_events WHERE dedup_key = stopped.dedup_key)
    ORDER BY stopped.at, schedule.id LIMIT :batch_size
    """
)
SELECT_UNFINISHED = text(
    """
    SELECT id, seq FROM benchmark_runs WHERE status = :status AND seq > :last_seq ORDER BY seq LIMIT :row_count
    """
)
# Most runs in progress are young, so few schedules have their skipped instants counted. `dedup_key` has the day of
# the run: a run that hangs for weeks is reported each day. `OFFSET 0` and `LIMIT 1` keep the order of the joins, each
# by an index for each run in progress: the planner expects most fires to be of runs, and read all runs and alerts.
SELECT_BLOCKED = text(
    """
    SELECT blocked.*,
           (SELECT count(*) FROM (
               SELECT FROM schedule_fires AS skipped
               WHERE skipped.schedule_id = blocked.id AND skipped.due_at > blocked.due_at
                 AND skipped.reason = :overlap
               ORDER BY skipped.due_at LIMIT :max_skips + 1) AS counted) AS skipped_count
    FROM (
        SELECT schedule.id, schedule.name, schedule.benchmark_id, schedule.agent_id, schedule.timezone, run.id AS run_id,
               run.seq AS run_seq, fire.due_at, fire.fired_at,
               format('schedule-blocked/%s/%s/%s', schedule.id, run.id, floor(
                   extract(epoch FROM cast(:now AS timestamptz) - fire.fired_at) / 86400)) AS dedup_key
        FROM unnest(CAST(:run_ids AS text[]), CAST(:run_seqs AS bigint[])) AS run (id, seq)
        CROSS JOIN LATERAL (
            SELECT schedule_id, due_at, fired_at FROM schedule_fires
            WHERE run_id = run.id AND fired_at < cast(:now AS timestamptz) - :blocked_after OFFSET 0) AS fire
        CROSS JOIN LATERAL (
            SELECT id, name, benchmark_id, agent_id, timezone FROM schedule_configs
            WHERE id = fire.schedule_id AND next_run_at IS NOT NULL AND concurrency_policy = :forbid
            OFFSET 0) AS schedule
    ) AS blocked
    CROSS JOIN LATERAL (
        SELECT FROM schedule_fires AS skipped
        WHERE skipped.schedule_id = blocked.id AND skipped.due_at > blocked.due_at
          AND skipped.reason = :overlap
        ORDER BY skipped.due_at LIMIT 1) AS first_skipped
    WHERE (SELECT id FROM alert_events WHERE dedup_key = blocked.dedup_key LIMIT 1) IS NULL
    ORDER BY blocked.fired_at, blocked.run_id LIMIT :batch_size
    """
)
# The schedules are locked, so that of two workers one reports a miss. The misses of a schedule that
# were reported less than an hour ago wait and are counted in its next notice.
REPORT_MISSES = text(
    f"""
    WITH missed AS (
        SELECT seq, schedule_id FROM schedule_fires
        WHERE triggered_by = 'SCHEDULED' AND fired_at > cast(:now AS timestamptz) - :lookback
          AND {UNREPORTED_MISS}
    ), claimed AS (
        SELECT id FROM schedule_configs
        WHERE id IN (SELECT schedule_id FROM missed) AND NOT EXISTS (
            SELECT FROM schedule_fires AS earlier
            WHERE earlier.schedule_id = schedule_configs.id
              AND earlier.reported_at > cast(:now AS timestamptz) - :report_interval)
        ORDER BY id LIMIT :batch_size FOR UPDATE SKIP LOCKED
    ), reported AS (
        UPDATE schedule_fires AS fire SET reported_at = :now
        FROM missed JOIN claimed ON claimed.id = missed.schedule_id
        WHERE fire.seq = missed.seq AND fire.reported_at IS NULL
        RETURNING fire.schedule_id, fire.due_at, fire.range_end, fire.reason, fire.detail
    )
    SELECT schedule.id, schedule.name, schedule.benchmark_id, schedule.agent_id,
           min(due_at), max(coalesce(range_end, due_at)), count(*), bool_or(range_end IS NOT NULL),
           count(DISTINCT reason), (array_agg(reason ORDER BY due_at DESC))[1],
           (array_agg(detail ORDER BY due_at DESC))[1], schedule.timezone,
           EXISTS (SELECT FROM alert_events WHERE dedup_key
                   = format('schedule-overdue/%s/%s', schedule.id, extract(epoch FROM min(due_at))))
    FROM reported JOIN schedule_configs AS schedule ON schedule.id = reported.schedule_id
    GROUP BY schedule.id ORDER BY min(due_at), schedule.id
    """  # noqa: S608 - a constant
)


class MissedInstants(NamedTuple):
    """The instants of a schedule that started no run since the last notice about it.

    With `has_ranges` there were more than `instants`. `reason` and `detail` are those of the last one,
    and `reasons` is how many there are. `was_overdue`: a notice about the first one was published
    while no scheduler ran.
    """

    schedule_id: str
    schedule_name: str
    benchmark_id: str
    agent_id: str
    first: datetime
    last: datetime
    instants: int
    has_ranges: bool
    reasons: int
    reason: str
    detail: str | None
    timezone: str
    was_overdue: bool


def report_missed_schedules(session: Session, now: datetime) -> int:
    """Raise one alert for each schedule that is overdue, started no runs, was disabled, or is blocked by
    its run. Schedules with the same recipients share a message.

    Returns: how many were reported; if `BATCH_SIZE` or more, call again in a new transaction.
    """
    notices = [
        *_stopped_schedules(session, now),
        *_blocked_schedules(session, now),
        *_missed_instants(session, now),
    ]
    publish_notices(session, notices, now)
    return len(notices)


def _stopped_schedules(session: Session, now: datetime) -> Iterator[EventNotice]:
    parameters = {
        "now": now,
        "overdue_after": OVERDUE_AFTER,
        "lookback": LOOKBACK,
        "batch_size": BATCH_SIZE,
    }
    for row in session.execute(SELECT_STOPPED, parameters):
        yield _notice(
            row,
            f"The schedule {row.name!r} was disabled at {_instant(row.at, row.timezone)} and starts no"
            f" more runs: {row.disabled_reason}. To enable it: mosaico schedules enable {row.id}"
            if row.is_disabled
            else f"The schedule {row.name!r} was due at {_instant(row.at, row.timezone)} and started no"
            f" run: {OVERDUE_DETAIL}.",
            f"is disabled: {row.disabled_reason}"
            if row.is_disabled
            else "did not run: no scheduler fired it",
        )


def _blocked_schedules(session: Session, now: datetime) -> Iterator[EventNotice]:
    for row in islice(_iter_blocked(session, now), BATCH_SIZE):
        count = row.skipped_count
        count_text = count if count <= MAX_SKIPS_COUNTED else f"more than {MAX_SKIPS_COUNTED}"
        skipped = "1 due time was" if count == 1 else f"{count_text} due times were"
        yield _notice(
            row,
            f"The schedule {row.name!r} started no run since {_instant(row.fired_at, row.timezone)}:"
            f" {skipped} skipped, because its run of that time is in progress and"
            f" its runs do not overlap. To cancel it: mosaico runs cancel {row.run_id}",
            "did not run: its earlier run is in progress",
            run_id=row.run_id,
            run_seq=row.run_seq,
        )


def _notice(
    row: Row[Any],
    explanation: str,
    title_note: str,
    *,
    run_id: str | None = None,
    run_seq: int | None = None,
) -> EventNotice:
    return EventNotice(
        state=AlertEventState.SCHEDULE_MISSED,
        dedup_key=row.dedup_key,
        name=row.name,
        schedule_id=row.id,
        benchmark_id=row.benchmark_id,
        agent_id=row.agent_id,
        run_id=run_id,
        run_seq=run_seq,
        title_note=title_note,
        explanation=explanation,
    )


def _iter_blocked(session: Session, now: datetime) -> Iterator[Row[Any]]:
    """The schedules whose run has been in progress for too long, found from the runs in progress."""
    parameters = {
        "now": now,
        "blocked_after": BLOCKED_AFTER,
        "forbid": ConcurrencyPolicy.FORBID,
        "overlap": FireSkipReason.OVERLAP,
        "max_skips": MAX_SKIPS_COUNTED,
        "batch_size": BATCH_SIZE,
    }
    for runs in iter_unfinished(session):
        of_runs = {"run_ids": [run.id for run in runs], "run_seqs": [run.seq for run in runs]}
        yield from session.execute(SELECT_BLOCKED, {**parameters, **of_runs})


def iter_unfinished(session: Session) -> Iterator[Sequence[Row[Any]]]:
    """The runs in progress, in batches."""
    for status in IN_PROGRESS:

        def read(last_seq: int, row_count: int, status: str = status) -> Sequence[Row[Any]]:
            page = {"status": status, "last_seq": last_seq, "row_count": row_count}
            return session.execute(SELECT_UNFINISHED, page).all()

        yield from keyset_batches(read, lambda run: int(run.seq), 0)


def _missed_instants(session: Session, now: datetime) -> Iterator[EventNotice]:
    parameters = {
        "now": now,
        "lookback": LOOKBACK,
        "report_interval": REPORT_INTERVAL,
        "batch_size": BATCH_SIZE,
    }
    for row in session.execute(REPORT_MISSES, parameters):
        missed = MissedInstants(*row)
        # The only instant was reported while it was overdue.
        if missed.was_overdue and missed.instants == 1 and not missed.has_ranges:
            continue
        yield EventNotice(
            state=AlertEventState.SCHEDULE_MISSED,
            dedup_key=f"schedule-missed/{missed.schedule_id}/{missed.last.timestamp():.6f}",
            name=missed.schedule_name,
            schedule_id=missed.schedule_id,
            benchmark_id=missed.benchmark_id,
            agent_id=missed.agent_id,
            title_note=f"did not run: {_cause_of(missed)}",
            explanation=_explain_misses(missed),
            # The outage was reported as CRITICAL when it began; this is its extent.
            severity=MessageSeverity.INFO if missed.was_overdue else None,
        )


def _cause_of(missed: MissedInstants) -> str:
    return SKIP_DETAILS.get(missed.reason) or f"{missed.reason}: {missed.detail}"


def _explain_misses(missed: MissedInstants) -> str:
    cause = _cause_of(missed)
    cause = cause if missed.reasons == 1 else f"{missed.reasons} causes, the last one: {cause}"
    return f"The schedule {missed.schedule_name!r} {_format_span(missed)}: {cause}."


def _format_span(missed: MissedInstants) -> str:
    if missed.instants == 1 and not missed.has_ranges:
        return f"was due at {_instant(missed.first, missed.timezone)} and started no run"
    count = f"more than {missed.instants}" if missed.has_ranges else str(missed.instants)
    return (
        f"started no run at {count} due times from {_instant(missed.first, missed.timezone)} to"
        f" {_instant(missed.last, missed.timezone)}"
    )


def _instant(at: datetime, zone_name: str) -> str:
    return format_in_zone(at, named_zone(zone_name), has_seconds=True)
