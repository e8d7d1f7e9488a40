"""A run as one HTML file: its page, printed, with its categories, repeated trials and worst traces.

The file has no script and loads nothing.
"""

from itertools import chain
from typing import Any, Final

from fastapi import Request
from sqlalchemy.orm import Session

from mosaico.comparison.deciding_metric import find_deciding_metric
from mosaico.comparison.schemas import CategoryPage
from mosaico.comparison.stored_run_comparison import categories_in_child
from mosaico.core.errors import NotFound
from mosaico.core.keyset import iter_pages
from mosaico.core.resources import Resources
from mosaico.core.text import shorten
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import render_file
from mosaico.metrics.registry import provider_for, ref_of_column
from mosaico.metrics.types import Direction
from mosaico.reporting.report_sections import (
    format_optional_number,
    tabulate_categories,
    tabulate_repeats,
    worst_results,
)
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.queries import get_run, list_shown_metrics, list_trace_results
from mosaico.run_store.rules import RunStatus
from mosaico.run_store.trace_list import TraceListFilter
from mosaico.runs.pages.run_view import load_run_page
from mosaico.runs.schemas import MetricAggregateView, TraceResultView
from mosaico.runs.views import trace_result_view

MAX_TRACES: Final = 5_000
MAX_TEXT_CHARS: Final = 300


def render_report(request: Request, res: Resources, run_id: str) -> str:
    """The file of a run, with at most the first 5,000 of its traces.

    Raises: `RunNotFound`, and the errors of `categories_in_child`.
    """
    with res.db.read() as session:
        run = get_run(session, run_id)
        view = load_run_page(session, run_id, res, request=request)
        rows = list_shown_metrics(session, run)
        metrics = list(map(MetricAggregateView.model_validate, rows))
        results = _results(session, run)
    metric = metrics[0].metric if metrics else ""
    categories = _categories(res, run)
    return render_file(
        request,
        "run.html",
        title=f"{view['agent']}, {view['benchmark']}",
        address=path_of("runs", run_id),
        **view,
        repeats=tabulate_repeats(metrics),
        categories=tabulate_categories(categories.items),
        category_count=categories.total,
        worst_metric=metric,
        worst=[
            _trace_row(run_id, result, metric)
            for result in (worst_results(results, metric, _direction(metric)) if metrics else ())
        ],
        trace_count=len(results),
    )


def _categories(res: Resources, run: BenchmarkRun) -> CategoryPage:
    """The values by category; none of a run that is not completed or has no traces anymore."""
    if run.status != RunStatus.COMPLETED or run.purged_at is not None:
        return CategoryPage(items=[], total=0)
    return categories_in_child(res.db, run.id, "category")


def _results(session: Session, run: BenchmarkRun) -> list[TraceResultView]:
    """The first traces; none of a run whose traces are purged."""
    if run.purged_at is not None:
        return []
    pages = iter_pages(
        lambda query: list_trace_results(session, run, query, TraceListFilter()), MAX_TRACES
    )
    columns, decider = run.metric_keys or [], find_deciding_metric(session, run)
    return [trace_result_view(columns, row, decider) for row in chain.from_iterable(pages)]


def _trace_row(run_id: str, result: TraceResultView, metric: str) -> dict[str, Any]:
    return {
        "id": result.trace_id,
        "url": path_of("runs", run_id, "traces", result.trace_id),
        "outcome": result.outcome,
        "is_right": result.is_right,
        "value": format_optional_number(result.values.get(metric)),
        "texts": [
            shorten(text or "", MAX_TEXT_CHARS)
            for text in (result.input, result.expected_output, result.output)
        ],
    }


def _direction(metric: str) -> Direction:
    """The direction of a metric; HIGHER_IS_BETTER when its plugin is no longer installed."""
    try:
        return provider_for(ref_of_column(metric)).spec.direction
    except NotFound:
        return Direction.HIGHER_IS_BETTER
