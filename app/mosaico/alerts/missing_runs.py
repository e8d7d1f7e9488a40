"""Dead man's switch of agents: the recipients of a rule are notified when no new data come for some hours.

The field `max_hours_without_run` of a rule limits the gap between new data. A run that repeats old data, or has none,
ends no gap. Without the field a gap is told in the inbox only; see `mosaico.schedules.stale_agents`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import Row, TextClause, text
from sqlalchemy.orm import Session

from mosaico.alerts.freshness import describe_last_run, describe_no_data
from mosaico.alerts.models import EXPECTS_RUNS
from mosaico.alerts.publishing import EventNotice, publish_notices
from mosaico.alerts.rules import AlertEventState
from mosaico.alerts.schedule_zones import find_schedule_zone
from mosaico.core.batches import STATEMENT_ROWS, keyset_batches
from mosaico.core.text import count_noun
from mosaico.notifications.types import MessageSeverity
from mosaico.run_store.models import NEW_DATA

TICK_S = 60.0
BATCH_SIZE = 100

SELECT_RULES = text(
    f"""
    SELECT rule.id, rule.benchmark_id, rule.agent_id FROM alert_rules AS rule
    JOIN benchmarks AS benchmark ON benchmark.id = rule.benchmark_id AND NOT benchmark.archived
    WHERE {EXPECTS_RUNS} AND rule.id > :last_id ORDER BY rule.id LIMIT :row_count
    """  # noqa: S608 - a constant
)
# From agent to agent of the index on (benchmark_id, agent_id, completed_at): the others may be a million, and so may
# the runs of each.
SELECT_AGENTS = text(
    f"""
    WITH RECURSIVE found AS (
        SELECT CAST(:last_id AS text) AS id, 0 AS number
        UNION ALL
        SELECT (SELECT agent_id FROM benchmark_runs
                WHERE benchmark_id = :benchmark_id AND agent_id > found.id AND {NEW_DATA}
                ORDER BY agent_id LIMIT 1), number + 1
        FROM found WHERE found.id IS NOT NULL AND number < :row_count
    )
    SELECT id FROM found WHERE number > 0 AND id IS NOT NULL ORDER BY number
    """  # noqa: S608 - a constant
)
# Of pairs of a rule and an agent. `dedup_key` is the same for the same gap, so that each is reported once.
SELECT_GAPS = text(
    f"""
    SELECT * FROM (
        SELECT rule.id AS rule_id, rule.name, rule.severity, rule.benchmark_id,
               agent.id AS agent_id, rule.max_hours_without_run AS max_hours,
               last.run_id, ended.status, ended.validity, ended.validity_reasons, ended.error,
               coalesce(last.completed_at, rule.created_at) AS since,
               format('run-missed/%s/%s/%s', rule.id, agent.id, extract(
                   epoch FROM coalesce(last.completed_at, rule.created_at))) AS dedup_key
        FROM unnest(CAST(:rule_ids AS text[]), CAST(:agent_ids AS text[])) AS pair (rule_id, agent_id)
        JOIN alert_rules AS rule ON rule.id = pair.rule_id
        JOIN agents AS agent ON agent.id = pair.agent_id AND NOT agent.archived
        LEFT JOIN LATERAL (
            SELECT id AS run_id, completed_at FROM benchmark_runs
            WHERE benchmark_id = rule.benchmark_id AND agent_id = agent.id AND {NEW_DATA}
            ORDER BY completed_at DESC LIMIT 1
        ) AS last ON true
        LEFT JOIN LATERAL (
            SELECT status, validity, validity_reasons, concat_ws(': ', error_code, error_message) AS error
            FROM benchmark_runs
            WHERE benchmark_id = rule.benchmark_id AND agent_id = agent.id AND rescore_of IS NULL
              AND completed_at > coalesce(last.completed_at, rule.created_at)
            ORDER BY seq DESC LIMIT 1
        ) AS ended ON true
    ) AS gap
    WHERE since < cast(:now AS timestamptz) - max_hours * interval '1 hour'
      AND (SELECT id FROM alert_events WHERE dedup_key = gap.dedup_key LIMIT 1) IS NULL
    ORDER BY since, rule_id, agent_id LIMIT :batch_size
    """  # noqa: S608 - a constant
)


class ExpectedAgent(NamedTuple):
    """An agent of which a rule expects new data."""

    rule_id: str
    agent_id: str


def report_missing_runs(session: Session, now: datetime) -> int:
    """Notify the recipients of each rule whose agent has had no new data for too long, once for
    each gap.

    Returns: how many gaps were reported; if `BATCH_SIZE` or more, call again in a new transaction.
    """
    gaps: list[Row[Any]] = []
    expected = iter_expected(session)
    while len(gaps) < BATCH_SIZE and (batch := list(islice(expected, STATEMENT_ROWS))):
        gaps += find_gaps(session, batch, now)
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
            title_note=f"the limit is {count_noun(gap.max_hours, 'hour')}",
            explanation=_explain(gap, find_schedule_zone(session, gap.benchmark_id, gap.agent_id)),
        )
        for gap in gaps
    ]
    publish_notices(session, notices, now)
    return len(notices)


def iter_expected(session: Session) -> Iterator[ExpectedAgent]:
    """The agents of which rules expect data: that of the rule, or each that has had some."""
    for rule in _iter_rows(session, SELECT_RULES, {}):
        if rule.agent_id is not None:
            yield ExpectedAgent(rule.id, rule.agent_id)
            continue
        benchmark = {"benchmark_id": rule.benchmark_id}
        for agent in _iter_rows(session, SELECT_AGENTS, benchmark):
            yield ExpectedAgent(rule.id, agent.id)


def _iter_rows(
    session: Session, statement: TextClause, parameters: Mapping[str, str]
) -> Iterator[Row[Any]]:
    """The rows of a statement that returns `row_count` of them after the one with `last_id`."""

    def read(last_id: str, row_count: int) -> Sequence[Row[Any]]:
        page = {**parameters, "last_id": last_id, "row_count": row_count}
        return session.execute(statement, page).all()

    return chain.from_iterable(keyset_batches(read, lambda row: str(row.id), ""))


def find_gaps(
    session: Session, expected: Sequence[ExpectedAgent], now: datetime
) -> Sequence[Row[Any]]:
    """The gaps of some agents that no alert has reported."""
    rule_ids, agent_ids = zip(*expected, strict=True)
    parameters = {
        "rule_ids": list(rule_ids),
        "agent_ids": list(agent_ids),
        "now": now,
        "batch_size": BATCH_SIZE,
    }
    return session.execute(SELECT_GAPS, parameters).all()


def _explain(gap: Row[Any], zone: ZoneInfo) -> str:
    interval = "hour" if gap.max_hours == 1 else f"{gap.max_hours} hours"
    found = describe_last_run(gap.status, gap.validity, gap.validity_reasons or [], gap.error)
    text = describe_no_data(gap.since, found, f"new data are expected every {interval}", zone)
    if gap.run_id is None:
        text = text.replace("since ", "since the rule was created at ", 1)
    return f"{text} To start a run: mosaico runs start {gap.benchmark_id} {gap.agent_id}"
