"""Dead man's switch: alerts on schedules that were due and started no run, whatever the cause.

It only reads stored rows and runs in workers, so it also notices that no scheduler is running.
"""

from datetime import UTC, datetime, timedelta

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.alerts.schemas import AlertEventState
from app.alerts.service import EventNotice, publish_notice
from app.schedules.rules import SKIP_DETAILS, FireSkipReason

TICK_S = 60.0
# A scheduler that is restarted fires what it missed: only a longer absence is worth an alert.
OVERDUE_AFTER = timedelta(minutes=5)
# A longer time without any worker is not reported instant by instant when they return.
LOOKBACK = timedelta(hours=24)
BATCH_SIZE = 100

# The other reasons are not misses: another instant fired instead, or there was nothing to run.
MISSED_REASONS = (
    FireSkipReason.MISSED,
    FireSkipReason.OUTSIDE_CATCHUP_WINDOW,
    FireSkipReason.TOO_MANY_MISSED,
)
OVERDUE_DETAIL = "no scheduler fired it; start one with `mosaico scheduler`"

# `dedup_key` is the same for the same miss, so that each miss is reported once.
# `extract(epoch ...)` instead of the timestamp's text, which depends on the time zone of the
# session.
UNREPORTED = text(
    """
    SELECT schedule.id, schedule.name, schedule.benchmark_id, schedule.agent_id, missed.at,
           missed.reason, missed.detail, missed.dedup_key
    FROM (
        SELECT id AS schedule_id, next_run_at AS at, 'OVERDUE' AS reason, NULL AS detail,
               format('schedule-missed/%s/%s', id, extract(epoch FROM next_run_at)) AS dedup_key
        FROM schedule_configs WHERE next_run_at < cast(:now AS timestamptz) - :overdue_after
        UNION ALL
        SELECT schedule_id, due_at, reason, detail,
               format('schedule-missed/%s/%s', schedule_id, extract(epoch FROM due_at))
        FROM schedule_fires
        WHERE triggered_by = 'SCHEDULED' AND fired_at > cast(:now AS timestamptz) - :lookback
          AND (status = 'FAILED' OR reason = ANY(:reasons))
        UNION ALL
        SELECT id, disabled_at, 'DISABLED', disabled_reason,
               format('schedule-disabled/%s/%s', id, extract(epoch FROM disabled_at))
        FROM schedule_configs WHERE disabled_at > cast(:now AS timestamptz) - :lookback
    ) AS missed
    JOIN schedule_configs AS schedule ON schedule.id = missed.schedule_id
    WHERE NOT EXISTS (SELECT FROM alert_events WHERE dedup_key = missed.dedup_key)
    ORDER BY missed.at, schedule.id LIMIT :batch_size
    """
)


def report_missed_schedules(session: Session, now: datetime) -> int:
    """Raise an alert for each schedule that is overdue, could not start a run or was disabled.

    Returns: how many were reported; if `BATCH_SIZE`, call again in a new transaction.
    """
    rows = session.execute(
        UNREPORTED,
        {
            "now": now,
            "overdue_after": OVERDUE_AFTER,
            "lookback": LOOKBACK,
            "reasons": list(MISSED_REASONS),
            "batch_size": BATCH_SIZE,
        },
    ).all()
    for row in rows:
        notice = EventNotice(
            state=AlertEventState.SCHEDULE_MISSED,
            dedup_key=row.dedup_key,
            name=row.name,
            benchmark_id=row.benchmark_id,
            agent_id=row.agent_id,
            explanation=_explanation(row.name, row.at, row.reason, row.detail),
        )
        publish_notice(session, notice, now)
    return len(rows)


def _explanation(schedule_name: str, at: datetime, reason: str, detail: str | None) -> str:
    time = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if reason == "DISABLED":
        return (
            f"The schedule {schedule_name!r} was disabled at {time} and starts no more runs:"
            f" {detail}."
        )
    known_causes = {"OVERDUE": OVERDUE_DETAIL}
    known_causes |= {str(skip_reason): text for skip_reason, text in SKIP_DETAILS.items()}
    cause = known_causes.get(reason) or f"{reason}: {detail}"
    return f"The schedule {schedule_name!r} was due at {time} and started no run: {cause}."
