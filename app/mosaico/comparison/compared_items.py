"""The items of two stored runs side by side: the trials of a metric, its change, and what else differs."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from sqlalchemy import TextClause, select, text
from sqlalchemy.orm import Session

from mosaico.comparison.pair_comparison import MetricNotCompared
from mosaico.comparison.schemas import ComparedItemView, ItemMetricChange
from mosaico.core.keyset import PageQuery, PageRows, encode_cursor
from mosaico.core.offset_cursor import read_offset
from mosaico.items.queries import REVISION, read_item_inputs
from mosaico.metrics.registry import provider_for
from mosaico.metrics.types import Direction
from mosaico.run_store.models import BenchmarkRun, TraceResult
from mosaico.run_store.sql_means import sql_mean
from mosaico.run_store.trace_list import outcome_in_run
from mosaico.traces.models import CollectedTrace
from mosaico.traces.types import TraceOutcome

# The worst fall first, the greatest rise first, or by ID.
ItemOrder = Literal["fall", "rise", "item"]

# An item without a value on one side has no change: it is last.
_ORDERS: Final[Mapping[str, str]] = {
    "fall": 'harm DESC NULLS LAST, item_id COLLATE "C"',
    "rise": 'harm ASC NULLS LAST, item_id COLLATE "C"',
    "item": 'item_id COLLATE "C"',
}
_PAGE: Final = """
    SELECT * FROM (
        SELECT item_id,
               array_agg(value ORDER BY trial, position) FILTER (WHERE is_base) AS baseline,
               array_agg(value ORDER BY trial, position) FILTER (WHERE NOT is_base) AS candidate,
               min(revision) = max(revision) AS is_same_task,
               CAST(:sign AS int) * ({candidate_mean} - {baseline_mean}) AS harm
        FROM (
            SELECT trace.item_id, trace.trial, trace.position, run.seq = :baseline AS is_base,
                   result.values[CASE WHEN run.seq = :baseline THEN CAST(:baseline_column AS int)
                                      ELSE CAST(:candidate_column AS int) END] AS value,
                   {revision} AS revision
            FROM benchmark_runs AS run
            JOIN collected_traces AS trace ON trace.collection_id = run.collection_id
            LEFT JOIN trace_results AS result
              ON result.run_seq = run.seq AND result.position = trace.position
            WHERE run.seq IN (:baseline, :candidate) {where}
        ) AS trials
        GROUP BY item_id
        HAVING bool_or(is_base) AND NOT bool_and(is_base)
    ) AS items
    ORDER BY {order} OFFSET :offset LIMIT :limit
"""


def _page_of(order: str, where: str = "") -> TextClause:
    return text(
        _PAGE.format(
            revision=REVISION,
            order=order,
            where=where,
            baseline_mean=sql_mean("value", "is_base"),
            candidate_mean=sql_mean("value", "NOT is_base"),
        )
    )


_STATEMENTS: Final = {order: _page_of(keys) for order, keys in _ORDERS.items()}
_OF_ITEMS: Final = _page_of(_ORDERS["item"], "AND trace.item_id = ANY(:items)")
# The means of every metric of some items.
_MEANS_TEXT: Final = """
    SELECT trace.item_id, number, {mean} AS mean
    FROM collected_traces AS trace
    JOIN trace_results AS result ON result.run_seq = :run AND result.position = trace.position,
         unnest(result.values) WITH ORDINALITY AS cell (value, number)
    WHERE trace.collection_id = :collection AND trace.item_id = ANY(:items)
    GROUP BY trace.item_id, number
"""
_MEANS: Final = text(_MEANS_TEXT.format(mean=sql_mean("value")))


class _ItemRow(NamedTuple):
    item_id: str
    baseline: list[float | None]
    candidate: list[float | None]
    is_same_task: bool
    harm: float | None


def compare_items(
    session: Session,
    runs: tuple[BenchmarkRun, BenchmarkRun],
    metric: str | None,
    order: ItemOrder,
    query: PageQuery,
) -> PageRows[ComparedItemView]:
    """Return one page of the items that both runs have; without a metric, by the first one of both.

    Raises: `MetricNotCompared`, `BadCursor`.
    """
    metric = metric or _first_metric(*runs)
    offset = read_offset(query.cursor)
    parameters = {
        **_parameters(runs, metric),
        "offset": offset,
        # One more than the page: whether there is a next one.
        "limit": query.limit + 1,
    }
    rows = [_ItemRow(*row) for row in session.execute(_STATEMENTS[order], parameters)]
    items = _describe(session, runs, metric, rows[: query.limit])
    is_last = len(rows) <= query.limit
    return PageRows(items, None if is_last else encode_cursor([offset + query.limit]))


def describe_items(
    session: Session, runs: tuple[BenchmarkRun, BenchmarkRun], metric: str, item_ids: Sequence[str]
) -> dict[str, ComparedItemView]:
    """The given items by ID; without those that one of the runs does not have.

    Raises: `MetricNotCompared`.
    """
    parameters = {
        **_parameters(runs, metric),
        "items": list(item_ids),
        "offset": 0,
        "limit": len(item_ids),
    }
    rows = [_ItemRow(*row) for row in session.execute(_OF_ITEMS, parameters)]
    return {item.item_id: item for item in _describe(session, runs, metric, rows)}


def common_metrics(baseline: BenchmarkRun, candidate: BenchmarkRun) -> list[str]:
    """The metrics of both runs, in the order of the candidate."""
    before = set(baseline.metric_keys or [])
    return [name for name in candidate.metric_keys or [] if name in before]


def _first_metric(baseline: BenchmarkRun, candidate: BenchmarkRun) -> str:
    """The first metric of both runs. Raises: `MetricNotCompared` without any."""
    names = common_metrics(baseline, candidate)
    if not names:
        raise MetricNotCompared(
            "the runs have no metric in common, so their items cannot be compared"
        )
    return names[0]


def _parameters(runs: tuple[BenchmarkRun, BenchmarkRun], metric: str) -> dict[str, int]:
    baseline, candidate = runs
    return {
        "baseline": baseline.seq,
        "candidate": candidate.seq,
        "baseline_column": _column(baseline, metric),
        "candidate_column": _column(candidate, metric),
        "sign": 1 if less_is_better(candidate, metric) else -1,
    }


def _describe(
    session: Session,
    runs: tuple[BenchmarkRun, BenchmarkRun],
    metric: str,
    rows: Sequence[_ItemRow],
) -> list[ComparedItemView]:
    ids = [row.item_id for row in rows]
    sides = [_read_means(session, run, ids) for run in runs]
    inputs, errors = read_item_inputs(session, runs[1], ids), _read_errors(session, runs[1], ids)
    return [_view(row, metric, sides, inputs, errors) for row in rows]


def _column(run: BenchmarkRun, metric: str) -> int:
    """The position of a metric in the stored arrays, which count from 1."""
    names = run.metric_keys or []
    if metric not in names:
        raise MetricNotCompared(
            f"the run {run.id} has no metric {metric!r}; name one of {', '.join(names) or 'none'}"
        )
    return names.index(metric) + 1


def less_is_better(run: BenchmarkRun, metric: str) -> bool:
    """Return whether a rise of a metric of the run is harmful."""
    planned = run.plan.metrics if run.plan else ()
    refs = [metric_plan.ref for metric_plan in planned if metric_plan.column == metric]
    return bool(refs) and provider_for(refs[0]).spec.direction is Direction.LOWER_IS_BETTER


def _read_means(
    session: Session, run: BenchmarkRun, items: Sequence[str]
) -> dict[tuple[str, str], float | None]:
    """The mean of each metric by item and metric."""
    names = run.metric_keys or []
    added = run.plan.added_columns if run.plan else frozenset()
    parameters = {"run": run.seq, "collection": run.collection_id, "items": list(items)}
    return {
        (row.item_id, names[row.number - 1]): row.mean
        for row in session.execute(_MEANS, parameters)
        if row.number <= len(names) and (row.mean or names[row.number - 1] not in added)
    }


def _read_errors(session: Session, run: BenchmarkRun, items: Sequence[str]) -> dict[str, list[str]]:
    """Read the errors in the traces of items: failed tools, and outcomes other than scored."""
    result_of_trace = (TraceResult.run_seq == run.seq) & (
        TraceResult.position == CollectedTrace.position
    )
    statement = (
        select(
            CollectedTrace.item_id,
            CollectedTrace.outcome,
            CollectedTrace.tool_calls,
            TraceResult.notes,
        )
        .outerjoin(TraceResult, result_of_trace)
        .where(CollectedTrace.collection_id == run.collection_id, CollectedTrace.item_id.in_(items))
    )
    errors: dict[str, dict[str, None]] = {}
    for row in session.execute(statement):
        item_errors = errors.setdefault(row.item_id, {})
        if row.outcome != TraceOutcome.SCORED:
            item_errors[outcome_in_run(row.outcome, row.notes).replace("_", " ")] = None
        for call in row.tool_calls or []:
            if call.get("ok") is False:
                item_errors[f"tool {call['name']} failed"] = None
    return {item_id: list(texts) for item_id, texts in errors.items()}


def _view(
    row: _ItemRow,
    metric: str,
    sides: Sequence[Mapping[tuple[str, str], float | None]],
    inputs: Mapping[str, str],
    errors: Mapping[str, list[str]],
) -> ComparedItemView:
    before, after = sides
    names = dict.fromkeys(name for item, name in after if item == row.item_id)
    changes = [
        _change(name, before.get((row.item_id, name)), after.get((row.item_id, name)))
        for name in names
        if (row.item_id, name) in before
    ]
    metric_change = _change(metric, _mean(row.baseline), _mean(row.candidate))
    return ComparedItemView(
        item_id=row.item_id,
        input=inputs.get(row.item_id),
        is_same_task=row.is_same_task,
        metric=metric,
        baseline_trials=row.baseline,
        candidate_trials=row.candidate,
        baseline=metric_change.baseline,
        candidate=metric_change.candidate,
        change=metric_change.change,
        errors=errors.get(row.item_id, []),
        metrics=changes,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return _finite(sum(measured) / len(measured)) if measured else None


def _finite(number: float) -> float | None:
    """The number; None when it is beyond the range of a float."""
    return number if math.isfinite(number) else None


def _change(name: str, before: float | None, after: float | None) -> ItemMetricChange:
    change = None if before is None or after is None else _finite(after - before)
    return ItemMetricChange(metric=name, baseline=before, candidate=after, change=change)
