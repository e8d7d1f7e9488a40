"""Dead man's switch of agents without a schedule: notices when no run completes for some hours.

Runs that a CI job, a webhook or a trace source starts have no due time that could be missed. The
field `max_hours_without_run` of a rule limits the gap between two runs.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.orm import Session

from app.alerts.messages import format_time
from app.alerts.publishing import EventNotice, publish_notices
from app.alerts.rules import AlertEventState
from app.notifications.types import MessageSeverity

TICK_S = 60.0
BATCH_SIZE = 100

# A rule without an agent expects runs of each agent that has completed one. Repetitions and rescored
# runs are no news about an agent. `dedup_key` is the same for the same gap, so that each is reported
# once.
SELECT_GAPS = text(
    """
    SELECT * FROM (
        SELECT rule.id AS rule_id, rule.name, rule.severity, rule.benchmark_id,
               agent.id AS agent_id, rule.max_hours_without_run AS max_hours,
               last.run_id, coalesce(last.completed_at, rule.created_at) AS since,
               format('run-missed/%s/%s/%s', rule.id, agent.id, extract(
                   epoch FROM coalesce(last.completed_at, rule.created_at))) AS dedup_key
        FROM alert_rules AS rule
        JOIN benchmarks AS benchmark ON benchmark.id = rule.benchmark_id
        JOIN agents AS agent ON agent.id = coalesce(rule.agent_id, agent.id)
        LEFT JOIN LATERAL (
            SELECT id AS run_id, completed_at FROM benchmark_runs
            WHERE benchmark_id = rule.benchmark_id AND agent_id = agent.id
              AND status = 'COMPLETED' AND confirms IS NULL AND rescore_of IS NULL
            ORDER BY completed_at DESC LIMIT 1
        ) AS last ON true
        WHERE rule.enabled AND rule.max_hours_without_run IS NOT NULL
          AND NOT benchmark.archived AND NOT agent.archived
          AND (rule.agent_id IS NOT NULL OR last.run_id IS NOT NULL)
    ) AS gap
    WHERE since < cast(:now AS timestamptz) - max_hours * interval '1 hour'
      AND NOT EXISTS (SELECT FROM alert_events WHERE dedup_key = gap.dedup_key)
    ORDER BY since, rule_id, agent_id LIMIT :batch_size
    """
)


def report_missing_runs(session: Session, now: datetime) -> int:
    """Notify the recipients of each rule whose agent has completed no run for too long, once for
    each gap.

    Returns: how many gaps were reported; if `BATCH_SIZE` or more, call again in a new transaction.
    """
    gaps = session.execute(SELECT_GAPS, {"now": now, "batch_size": BATCH_SIZE}).all()
    notices = [
        EventNotice(
            state=AlertEventState.RUN_MISSED,
            dedup_key=gap.dedup_key,
            name=gap.name,
            benchmark_id=gap.benchmark_id,
            agent_id=gap.agent_id,
            rule_id=gap.rule_id,
            since=gap.since,
            severity=MessageSeverity(gap.severity),
            explanation=_explain(gap),
        )
        for gap in gaps
    ]
    publish_notices(session, notices, now)
    return len(notices)


def _explain(gap: Row[Any]) -> str:
    beginning = "" if gap.run_id is not None else "the rule was created at "
    interval = "hour" if gap.max_hours == 1 else f"{gap.max_hours} hours"
    return (
        f"No run has completed since {beginning}{format_time(gap.since)}; a run is expected "
        f"every {interval}. To start a run: mosaico runs start {gap.benchmark_id} {gap.agent_id}"
    )
