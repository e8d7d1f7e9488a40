"""Agents that are stale: no new data have come, although the schedule or their own rhythm promised some.

It is told in the inbox and on the page Morning. Recipients are notified where a rule says so with
`max_hours_without_run`; see `mosaico.alerts.missing_runs`.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import Row, text
from sqlalchemy.orm import Session

from mosaico.alerts.freshness import (
    LAST_GAPS,
    MISSED_TIMES,
    TOLD_WITHIN,
    describe_last_run,
    describe_no_data,
    stale_after,
)
from mosaico.alerts.publishing import EventNotice, publish_notices
from mosaico.alerts.rules import AlertEventState
from mosaico.alerts.schedule_zones import find_schedule_zone
from mosaico.core.batches import keyset_batches
from mosaico.core.text import describe_duration
from mosaico.run_store.models import NEW_DATA

TICK_S: Final = 300.0
PAIRS_PER_STATEMENT: Final = 100
# Of the stale agents that a page lists.
MAX_STALE: Final = 100

# From pair to pair of the index of new data, as `overview.queries.LAST_RUNS`.
_PAIRS: Final = text(
    f"""
    WITH RECURSIVE pair AS (
        SELECT CAST(:benchmark_id AS text) AS benchmark_id, CAST(:agent_id AS text) AS agent_id, 0 AS number
        UNION ALL
        SELECT following.benchmark_id, following.agent_id, number + 1 FROM pair CROSS JOIN LATERAL (
            SELECT benchmark_id, agent_id FROM benchmark_runs AS run
            WHERE (run.benchmark_id, run.agent_id) > (pair.benchmark_id, pair.agent_id) AND {NEW_DATA}
            ORDER BY run.benchmark_id, run.agent_id LIMIT 1
        ) AS following WHERE number < :row_count
    )
    SELECT pair.benchmark_id, pair.agent_id,
           benchmark.id IS NOT NULL AND agent.id IS NOT NULL AS is_watched,
           ARRAY(SELECT completed_at FROM benchmark_runs AS run
                 WHERE run.benchmark_id = pair.benchmark_id AND run.agent_id = pair.agent_id AND {NEW_DATA}
                 ORDER BY completed_at DESC LIMIT :time_count) AS times
    FROM pair
    LEFT JOIN benchmarks AS benchmark ON benchmark.id = pair.benchmark_id AND NOT benchmark.archived
    LEFT JOIN agents AS agent ON agent.id = pair.agent_id AND NOT agent.archived
    WHERE number > 0 ORDER BY number
    """  # noqa: S608 - constants
)
# Of each enabled schedule of the pairs: its first due times after the last new data whose run has ended, if one was
# started. A row may stand for several of them.
_DUE_TIMES: Final = text(
    """
    SELECT pair.benchmark_id, pair.agent_id, schedule.id,
           ARRAY(SELECT greatest(fire.fired_at, run.completed_at) FROM (
                     SELECT * FROM schedule_fires AS fire
                     WHERE fire.schedule_id = schedule.id AND fire.due_at > pair.since
                       AND fire.triggered_by = 'SCHEDULED' AND fire.status <> 'PENDING'
                     ORDER BY fire.due_at LIMIT :due_count
                 ) AS fire
                 LEFT JOIN benchmark_runs AS run ON run.id = fire.run_id
                 WHERE run.id IS NULL OR run.completed_at IS NOT NULL
                 ORDER BY fire.due_at) AS due_times
    FROM unnest(CAST(:benchmark_ids AS text[]), CAST(:agent_ids AS text[]), CAST(:since AS timestamptz[]))
        AS pair (benchmark_id, agent_id, since)
    JOIN schedule_configs AS schedule
      ON schedule.benchmark_id = pair.benchmark_id AND schedule.agent_id = pair.agent_id AND schedule.enabled
    """
)
_LAST_RUNS: Final = text(
    """
    SELECT pair.benchmark_id, pair.agent_id, run.id, run.seq, run.status, run.validity, run.validity_reasons,
           concat_ws(': ', run.error_code, run.error_message) AS error
    FROM unnest(CAST(:benchmark_ids AS text[]), CAST(:agent_ids AS text[]), CAST(:since AS timestamptz[]))
        AS pair (benchmark_id, agent_id, since)
    CROSS JOIN LATERAL (
        SELECT * FROM benchmark_runs AS run
        WHERE run.benchmark_id = pair.benchmark_id AND run.agent_id = pair.agent_id
          AND run.completed_at > pair.since AND run.rescore_of IS NULL
        ORDER BY run.seq DESC LIMIT 1
    ) AS run
    """
)
# The newest alerts about stale agents that have had no new data since.
_STALE: Final = text(
    f"""
    SELECT event.benchmark_id, event.agent_id, event.explanation, event.run_id, event.created_at,
           CAST(event.details ->> 'since' AS timestamptz) AS since
    FROM (SELECT * FROM alert_events WHERE state = 'STALE' ORDER BY created_at DESC, id DESC LIMIT :row_count)
        AS event
    JOIN benchmarks AS benchmark ON benchmark.id = event.benchmark_id AND NOT benchmark.archived
    JOIN agents AS agent ON agent.id = event.agent_id AND NOT agent.archived
    WHERE event.created_at >= :since AND NOT EXISTS (
        SELECT FROM benchmark_runs AS run
        WHERE run.benchmark_id = event.benchmark_id AND run.agent_id = event.agent_id AND {NEW_DATA}
          AND run.completed_at > CAST(event.details ->> 'since' AS timestamptz))
    ORDER BY event.created_at DESC
    """  # noqa: S608 - a constant
)


class _Pair(NamedTuple):
    """An agent on a benchmark, with the times of its last new data, oldest first."""

    benchmark_id: str
    agent_id: str
    times: Sequence[datetime]

    @property
    def last(self) -> datetime:
        return self.times[-1]


class _Stale(NamedTuple):
    """A pair that is stale since a time, and what was expected."""

    pair: _Pair
    at: datetime
    expected: str


def report_stale_agents(session: Session, now: datetime) -> int:
    """Tell the inbox of each agent that is stale, once for each gap. Returns how many were found."""
    notices = [
        notice
        for pairs in iter_pairs(session)
        for notice in _notices(session, _find_stale(session, pairs, now))
    ]
    publish_notices(session, notices, now)
    return len(notices)


def list_stale_agents(session: Session, now: datetime) -> Sequence[Row[Any]]:
    """The agents that are stale, those that were told last first; `since` is the time of their last new data."""
    return session.execute(_STALE, {"row_count": MAX_STALE, "since": now - TOLD_WITHIN}).all()


def iter_pairs(session: Session) -> Iterator[list[_Pair]]:
    """The agents on benchmarks that have had data, without archived ones, in batches."""

    def read(last: tuple[str, str], row_count: int) -> Sequence[Row[Any]]:
        parameters = {"benchmark_id": last[0], "agent_id": last[1], "row_count": row_count}
        return session.execute(_PAIRS, {**parameters, "time_count": LAST_GAPS + 1}).all()

    def key_of(row: Row[Any]) -> tuple[str, str]:
        return row.benchmark_id, row.agent_id

    for rows in keyset_batches(read, key_of, ("", ""), PAIRS_PER_STATEMENT):
        yield [
            _Pair(row.benchmark_id, row.agent_id, sorted(row.times))
            for row in rows
            if row.is_watched
        ]


def _find_stale(session: Session, pairs: Sequence[_Pair], now: datetime) -> list[_Stale]:
    """The pairs that became stale in the last `TOLD_WITHIN`."""
    schedules = _read_due_times(session, pairs)
    stale = []
    for pair in pairs:
        due_times = schedules.get((pair.benchmark_id, pair.agent_id))
        if due_times:
            # The rarest schedule decides: data may come with that one only.
            is_due = all(len(times) >= MISSED_TIMES for times in due_times)
            at = max(times[MISSED_TIMES - 1] for times in due_times) if is_due else None
            expected = f"{MISSED_TIMES} due times of its schedule have passed"
        else:
            at = stale_after(pair.times)
            expected = "the longest of its last gaps has passed twice"
            if at is not None:
                gap = (at - pair.last) / MISSED_TIMES
                expected = f"they came at least every {describe_duration(gap)} before"
        if at is not None and at <= now < at + TOLD_WITHIN:
            stale.append(_Stale(pair, at, expected))
    return stale


def _read_due_times(
    session: Session, pairs: Sequence[_Pair]
) -> dict[tuple[str, str], list[Sequence[datetime]]]:
    """The due times since the last new data, of each enabled schedule of the pairs that have one."""
    schedules: dict[tuple[str, str], list[Sequence[datetime]]] = defaultdict(list)
    for row in session.execute(_DUE_TIMES, {**_parameters(pairs), "due_count": MISSED_TIMES}):
        schedules[row.benchmark_id, row.agent_id].append(row.due_times)
    return schedules


def _parameters(pairs: Sequence[_Pair]) -> dict[str, list[Any]]:
    return {
        "benchmark_ids": [pair.benchmark_id for pair in pairs],
        "agent_ids": [pair.agent_id for pair in pairs],
        "since": [pair.last for pair in pairs],
    }


def _notices(session: Session, stale: Sequence[_Stale]) -> Iterator[EventNotice]:
    rows = session.execute(_LAST_RUNS, _parameters([each.pair for each in stale])).all()
    last_runs = {(row.benchmark_id, row.agent_id): row for row in rows}
    for each in stale:
        pair = each.pair
        run = last_runs.get((pair.benchmark_id, pair.agent_id))
        found = (
            describe_last_run(run.status, run.validity, run.validity_reasons or [], run.error)
            if run is not None
            else describe_last_run(None, None, [], None)
        )
        yield EventNotice(
            state=AlertEventState.STALE,
            dedup_key=f"stale/{pair.benchmark_id}/{pair.agent_id}/{pair.last.timestamp():.6f}",
            name="no new data",
            benchmark_id=pair.benchmark_id,
            agent_id=pair.agent_id,
            run_id=run.id if run is not None else None,
            run_seq=run.seq if run is not None else None,
            since=pair.last,
            is_quiet=True,
            title_note=each.expected,
            explanation=describe_no_data(
                pair.last,
                found,
                each.expected,
                find_schedule_zone(session, pair.benchmark_id, pair.agent_id),
            ),
        )
