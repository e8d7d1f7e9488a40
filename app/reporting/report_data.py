"""Loads the data of a run report."""

from dataclasses import replace

from sqlalchemy.orm import Session

from app.alerts.queries import AlertFilter, SeriesFilter, list_events
from app.alerts.views import event_view
from app.comparison.schemas import CategoryValues
from app.comparison.stored_run_comparison import categories_in_child
from app.core.errors import NotFound
from app.core.keyset import MAX_LIMIT, PageQuery
from app.core.resources import Resources
from app.kpis.models import KpiHistory
from app.kpis.queries import KpiHistoryFilter, get_kpis_of_run, list_kpi_history
from app.kpis.schemas import KpiValueView
from app.metrics.registry import provider_for, ref_of_column
from app.metrics.types import Direction
from app.reporting.run_report import RunReport
from app.results.models import BenchmarkRun
from app.results.queries import get_run, list_run_metrics, list_trace_results
from app.results.rules import RunStatus, Validity
from app.results.trace_list import TraceListFilter
from app.runs.schemas import MetricAggregateView, TraceResultView
from app.runs.views import run_view, trace_result_view

RUNS_BACK = 30
MAX_ALERTS = 100
MAX_TRACES = 5_000


def load_report(res: Resources, run_id: str, public_url: str) -> RunReport:
    """The report of a run; at most the first 5,000 of its traces.

    Raises: `RunNotFound`, and the errors of `categories_in_child`.
    """
    with res.db.read() as session:
        run = get_run(session, run_id)
        kpis = get_kpis_of_run(session, run.seq)
        metrics = list_run_metrics(session, run.seq)
        alert_filter = AlertFilter(SeriesFilter(), run_ids=[run_id])
        alerts = list_events(session, PageQuery(MAX_ALERTS), alert_filter)
        report = RunReport(
            run=run_view(run),
            metrics=list(map(MetricAggregateView.model_validate, metrics)),
            kpis=list(map(KpiValueView.model_validate, kpis)),
            history={kpi.kpi_id: _history(session, kpi) for kpi in kpis},
            alerts=list(map(event_view, alerts.rows)),
            results=_results(session, run),
            direction=_direction(metrics[0].metric) if metrics else Direction.HIGHER_IS_BETTER,
            public_url=public_url,
        )
    return replace(report, categories=_categories(res, run))


def _categories(res: Resources, run: BenchmarkRun) -> list[CategoryValues]:
    """The values by category; none of a run that is not completed or has no traces anymore."""
    if run.status != RunStatus.COMPLETED or run.purged_at is not None:
        return []
    return categories_in_child(res.db, run.id, "category")


def _results(session: Session, run: BenchmarkRun) -> list[TraceResultView]:
    """The first traces; none of a run whose traces are purged."""
    results: list[TraceResultView] = []
    cursor = None
    while run.purged_at is None and len(results) < MAX_TRACES:
        query = PageQuery(min(MAX_LIMIT, MAX_TRACES - len(results)), cursor)
        page = list_trace_results(session, run, query, TraceListFilter())
        results += [trace_result_view(run.metric_keys or [], row) for row in page.rows]
        cursor = page.next_cursor
        if cursor is None:
            break
    return results


def _history(session: Session, kpi: KpiHistory) -> list[float]:
    """The values of a KPI in the valid runs before this one, oldest first, and its own."""
    of_kpi = KpiHistoryFilter(
        [kpi.benchmark_id], [kpi.agent_id], [kpi.kpi_id], until=kpi.recorded_at
    )
    earlier = list_kpi_history(session, PageQuery(RUNS_BACK - 1), of_kpi).rows
    valid = [entry for entry in reversed(earlier) if entry.validity == Validity.VALID]
    return [entry.value for entry in (*valid, kpi) if entry.value is not None]


def _direction(metric: str) -> Direction:
    """The direction of a metric; HIGHER_IS_BETTER when its plugin is no longer installed."""
    try:
        return provider_for(ref_of_column(metric)).spec.direction
    except NotFound:
        return Direction.HIGHER_IS_BETTER
