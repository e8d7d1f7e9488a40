"""Sections that only the report of a run has: repeated trials, categories and the worst traces; pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mosaico.comparison.schemas import CategoryKpi, CategoryMetric, CategoryValues
from mosaico.core.text import format_number
from mosaico.kpis.number_text import FigureFormat
from mosaico.metrics.types import Direction
from mosaico.runs.schemas import MetricAggregateView, TraceResultView
from mosaico.traces.types import TraceOutcome

MAX_WORST_TRACES: Final = 10


def worst_results(
    results: Sequence[TraceResultView], metric: str, direction: Direction
) -> list[TraceResultView]:
    """The traces to look at first: failed traces, then those with the worst values."""
    sign = 1 if direction is Direction.HIGHER_IS_BETTER else -1

    def rank(result: TraceResultView) -> tuple[bool, float, str]:
        value = result.values.get(metric)
        is_scored = result.outcome is TraceOutcome.SCORED
        return is_scored, sign * value if value is not None else 0.0, result.trace_id

    candidates = [result for result in results if _is_candidate(result, metric)]
    return sorted(candidates, key=rank)[:MAX_WORST_TRACES]


def tabulate_repeats(metrics: Sequence[MetricAggregateView]) -> list[dict[str, Any]]:
    """A row per metric and k; none if no item has more than one trial."""
    return [
        {
            "metric": metric.metric,
            "k": trials.k,
            "shares": list(
                map(format_optional_number, (trials.pass_at_k, trials.pass_hat_k, trials.at_least_k))
            ),
            "items": trials.items,
        }
        for metric in metrics
        if metric.verdict
        for trials in metric.verdict.repeats
    ]  # fmt: skip


def tabulate_categories(categories: Sequence[CategoryValues]) -> dict[str, Any]:
    """A row per category, a column per KPI and metric."""
    by_name = list(map(_by_name, categories))
    formats = {
        name: _format_of([row[name] for row in by_name if name in row])
        for name in dict.fromkeys(name for row in by_name for name in row)
    }
    rows = [
        (values.category, values.items, list(_category_cells(row, formats)))
        for values, row in zip(categories, by_name, strict=True)
    ]
    return {"names": list(formats), "rows": rows}


def format_optional_number(value: float | None) -> str | None:
    return None if value is None else format_number(value)


def _by_name(values: CategoryValues) -> dict[str, CategoryKpi | CategoryMetric]:
    by_kpi = {kpi.name: kpi for kpi in values.kpis}
    return by_kpi | {metric.metric: metric for metric in values.metrics}


def _format_of(column: Sequence[CategoryKpi | CategoryMetric]) -> FigureFormat:
    """How the values of one KPI or metric in all categories are written."""
    if isinstance(column[0], CategoryMetric):
        return FigureFormat(None, is_share=False)
    return FigureFormat.of(kpi.value for kpi in column)


def _category_cells(
    by_name: Mapping[str, CategoryKpi | CategoryMetric], formats: Mapping[str, FigureFormat]
) -> Iterator[str | None]:
    for name, figures in formats.items():
        row = by_name.get(name)
        if row is None or row.value is None:
            yield row.reason if row else None
            continue
        interval = figures.write_range(row.interval_low, row.interval_high)
        yield f"{figures.write(row.value)} ({interval})" if interval else figures.write(row.value)


def _is_candidate(result: TraceResultView, metric: str) -> bool:
    return result.outcome is not TraceOutcome.SCORED or result.values.get(metric) is not None
