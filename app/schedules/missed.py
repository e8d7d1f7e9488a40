"""The dead man's switch: tells of schedules that were to run and did not, whoever was to run them.

It reads what is stored and needs no scheduler: workers look, so that a scheduler that is gone is
noticed, too.
"""

from datetime import UTC, datetime, timedelta

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.alerts.schemas import EventState
from app.alerts.service import RunNotice, tell_notice
from app.schedules.rules import SKIP_DETAILS, SkipReason

TICK_S = 60.0
GRACE = timedelta(minutes=5)
LOOKED_BACK = timedelta(hours=24)
AT_ONCE = 100

# An instant that another one stands for, or for which there was nothing to do, was not missed.
MISSED = (
    SkipReason.MISSED,
    SkipReason.OUTSIDE_CATCHUP_WINDOW,
    SkipReason.TOO_MANY_MISSED,
)

UNTOLD = text(
    """
    SELECT schedule.id, schedule.name, schedule.benchmark_id, schedule.agent_id, missed.at,
           missed.reason, missed.detail, missed.once
    FROM (
        SELECT id AS schedule_id, next_run_at AS at, 'OVERDUE' AS reason, NULL AS detail,
               format('schedule-missed/%s/%s', id, extract(epoch FROM next_run_at)) AS once
        FROM schedule_configs WHERE next_run_at < cast(:now AS timestamptz) - :grace
        UNION ALL
        SELECT schedule_id, due_at, reason, detail,
               format('schedule-missed/%s/%s', schedule_id, extract(epoch FROM due_at))
        FROM schedule_fires
        WHERE triggered_by = 'SCHEDULED' AND fired_at > cast(:now AS timestamptz) - :back
          AND (status = 'FAILED' OR reason = ANY(:reasons))
        UNION ALL
        SELECT id, disabled_at, 'DISABLED', disabled_reason,
               format('schedule-disabled/%s/%s', id, extract(epoch FROM disabled_at))
        FROM schedule_configs WHERE disabled_at > cast(:now AS timestamptz) - :back
    ) AS missed
    JOIN schedule_configs AS schedule ON schedule.id = missed.schedule_id
    WHERE NOT EXISTS (SELECT FROM alert_events WHERE once_key = missed.once)
    ORDER BY missed.at, schedule.id LIMIT :most
    """
)


def tell_missed(session: Session, now: datetime) -> int:
    """Tell of schedules that are overdue, could start no run or were disabled; each once.

    Returns: how many were told; call again, in a new transaction, when it is `AT_ONCE`.
    """
    rows = session.execute(
        UNTOLD,
        {
            "now": now,
            "grace": GRACE,
            "back": LOOKED_BACK,
            "reasons": list(MISSED),
            "most": AT_ONCE,
        },
    ).all()
    for row in rows:
        notice = RunNotice(
            state=EventState.SCHEDULE_MISSED,
            once=row.once,
            name=row.name,
            benchmark_id=row.benchmark_id,
            agent_id=row.agent_id,
            explanation=_explanation(row.id, row.at, row.reason, row.detail),
        )
        tell_notice(session, notice, now)
    return len(rows)


def _explanation(schedule_id: str, at: datetime, reason: str, detail: str | None) -> str:
    when = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if reason == "DISABLED":
        return f"The schedule {schedule_id} was disabled at {when} and runs no more: {detail}."
    known = {"OVERDUE": "no scheduler has fired it; start one with `mosaico scheduler`"}
    known |= {str(skipped): said for skipped, said in SKIP_DETAILS.items()}
    why = known.get(reason) or f"{reason}: {detail}"
    return f"The schedule {schedule_id} was due at {when} and started no run: {why}."
