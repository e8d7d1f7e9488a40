"""The items of a run that flipped since its baseline, each by its worst answer: one statement, which reads no texts."""

from typing import Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.comparison.deciding_metric import find_deciding_metric
from mosaico.comparison.run_answers import find_ordered_metric
from mosaico.items.flipped import FLIP_CHANGE
from mosaico.items.queries import REVISION
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.sql_means import sql_mean
from mosaico.statistics.verdict_rules import Scale

# As `is_flipped` of `mosaico.items.flipped`; an item with another task is another item. One trial without a value is not
# the agent's, and the last that is shown.
_FLIPPED: Final = text(
    f"""
    SELECT worst, item_id FROM (
        SELECT item_id, {sql_mean("value", "is_now")} AS now, {sql_mean("value", "NOT is_now")} AS before,
               (array_agg(trace_id ORDER BY value * :sign NULLS LAST, trial, position) FILTER (WHERE is_now))[1] AS worst
        FROM (
            SELECT trace.item_id, trace.trial, trace.position, trace.trace_id, run.seq = :now AS is_now,
                   result.values[array_position(run.metric_keys, :metric)] AS value, {REVISION} AS revision
            FROM benchmark_runs AS run
            JOIN collected_traces AS trace USING (collection_id)
            LEFT JOIN trace_results AS result ON result.run_seq = run.seq AND result.position = trace.position
            WHERE run.seq IN (:now, :before)
        ) AS trials
        GROUP BY item_id
        HAVING min(revision) = max(revision) AND bool_or(is_now) AND NOT bool_and(is_now)
    ) AS items
    WHERE now <> before AND abs(now - before) >= :change * CASE WHEN CAST(:is_rate AS boolean) THEN 1 ELSE abs(before) END
    ORDER BY (now - before) * :sign, item_id COLLATE "C"
    LIMIT :limit
    """  # noqa: S608 - only constants
)


class FlippedAnswer(NamedTuple):
    """The worst trial now of an item that flipped."""

    trace_id: str
    item_id: str


def list_flipped_answers(
    session: Session, run: BenchmarkRun, baseline: BenchmarkRun, limit: int
) -> list[FlippedAnswer]:
    """The items that fell or rose by half or more, the worst fall first; none of a run without a metric with a better
    direction.
    """
    metric = find_ordered_metric(run, find_deciding_metric(session, run))
    if metric is None:
        return []
    parameters = {
        "now": run.seq,
        "before": baseline.seq,
        "metric": metric.column,
        # The lowest value of a metric of which more is better is the worst.
        "sign": -1 if metric.less_is_better else 1,
        "change": FLIP_CHANGE,
        "is_rate": metric.scale is Scale.RATE,
        "limit": limit,
    }
    return [FlippedAnswer(*row) for row in session.execute(_FLIPPED, parameters)]
