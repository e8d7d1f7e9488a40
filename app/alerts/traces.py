"""The traces behind a change. Runs stand above alerts, so their tables are read here by name."""

from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

CHANGED_TRACES = text(
    """
    WITH valued AS (
        SELECT run.seq, trace.trace_id, trace.item_id, trace.url,
               result.values[array_position(run.metric_keys, :metric)] AS value
        FROM benchmark_runs AS run
        JOIN trace_results AS result ON result.run_seq = run.seq
        JOIN collected_traces AS trace
          ON trace.collection_id = run.collection_id AND trace.position = result.position
        WHERE run.seq IN (:run, :earlier)
    ), before AS (
        SELECT item_id, avg(value) AS value FROM valued
        WHERE seq = :earlier AND value IS NOT NULL GROUP BY item_id
    )
    SELECT valued.trace_id, valued.item_id, valued.url, valued.value, before.value
    FROM valued LEFT JOIN before ON before.item_id = valued.item_id
    WHERE valued.seq = :run AND valued.value IS NOT NULL
      AND (before.value IS NULL OR :sign * (valued.value - before.value) > 0)
    ORDER BY :sign * (valued.value - coalesce(before.value, :typical)) DESC, valued.trace_id
    LIMIT :most
    """
)


class ChangedTrace(NamedTuple):
    """A trace that went the harmful way: its value now, and that of its item in the run before."""

    trace_id: str
    item_id: str
    url: str | None
    value: float
    before: float | None


def changed_traces(
    session: Session, metric: str, run_seq: int, earlier: int | None, *, down: bool, most: int
) -> list[ChangedTrace]:
    """The traces of a run that changed most for the worse, worst first."""
    asked = {"metric": metric, "run": run_seq, "earlier": earlier, "most": most}
    rows = session.execute(CHANGED_TRACES, {**asked, "sign": -1 if down else 1, "typical": 0.0})
    return [ChangedTrace(*row) for row in rows]
