"""Loads the data of a chart and draws it."""

import math

from sqlalchemy.orm import Session

from mosaico.benchmarks.owner_names import read_names
from mosaico.comparison.change_text import change_bar
from mosaico.comparison.comparison_store import ComparisonRequest, compare_stored
from mosaico.comparison.stored_run_comparison import get_comparable_run
from mosaico.core.errors import Invalid, NotFound
from mosaico.core.resources import Resources
from mosaico.core.web.change_charts import ItemChange, changes_chart, items_chart
from mosaico.core.web.trend_chart import trend_chart
from mosaico.items.flipped import item_means
from mosaico.items.matrix import pair_items
from mosaico.items.queries import read_items
from mosaico.kpis.queries import get_kpis_of_run
from mosaico.metrics.registry import provider_for
from mosaico.metrics.types import Direction
from mosaico.run_store.kpi_trend import kpi_figures, list_kpi_points, trend_points
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.queries import get_run

RUNS_BACK = 60


class NothingToPlot(NotFound):
    """The run has no such KPI; `GET /api/v1/benchmark-runs/{runId}/kpis` lists the KPIs of the run."""


def draw_trend(res: Resources, run_id: str, kpi: str | None) -> str:
    """The chart of a KPI of the agent up to this run; by default of the first KPI by name."""
    with res.db.read() as session:
        run = get_run(session, run_id)
        kpis = get_kpis_of_run(session, run.seq)
        row = next((row for row in kpis if kpi in (None, row.kpi_id, row.name)), None)
        if row is None:
            names = ", ".join(row.name for row in kpis) or "none"
            requested = "no KPI" if kpi is None else f"no KPI {kpi!r}"
            raise NothingToPlot(f"the run {run_id} has {requested}; its KPIs: {names}")
        owners = read_names(session, [(run.benchmark_id, run.agent_id)])
        points = list_kpi_points(
            session, run.benchmark_id, run.agent_id, row.kpi_id, up_to=row, limit=RUNS_BACK
        )
    labels = {point.kpi.id: f"{point.kpi.recorded_at:%Y-%m-%d}" for point in points}
    figures = kpi_figures(points)
    return trend_chart(
        f"{row.name} of {owners.agents[run.agent_id]} in {owners.benchmarks[run.benchmark_id]}",
        trend_points(points, labels, {}, figures),
        row.unit,
        write=figures.write,
    )


def draw_changes(res: Resources, run_id: str, baseline_id: str) -> str:
    """The chart of the changes of KPIs, or of metrics when the run has no KPI."""
    comparison = compare_stored(res.db, ComparisonRequest((baseline_id,), run_id))
    verdicts = [(kpi.name, kpi.verdict) for kpi in comparison.kpis] or [
        (metric.metric, metric.verdict) for metric in comparison.metrics
    ]
    changes = [change for name, verdict in verdicts if (change := change_bar(name, verdict))]
    with res.db.read() as session:
        title = _compare_title(session, get_run(session, baseline_id), get_run(session, run_id))
    return changes_chart(f"{title}: changes with 95 % CI", changes)


def draw_items(res: Resources, run_id: str, baseline_id: str, metric: str) -> str:
    """The chart of the change of a metric for each item of both runs."""
    with res.db.read() as session:
        runs = [get_comparable_run(session, some_id) for some_id in (baseline_id, run_id)]
        plans = [run.begun_plan for run in runs]
        planned = next((planned for planned in plans[1].metrics if planned.column == metric), None)
        if planned is None or metric not in plans[0].columns:
            raise Invalid(f"the metric {metric!r} is not in both runs; name one that is in both")
        baseline, candidate = (
            read_items(session, {run.seq: plan.columns}, [metric], is_sample=plan.is_sample)
            for run, plan in zip(runs, plans, strict=True)
        )
        title = _compare_title(session, *runs)
    pairing = pair_items(baseline, candidate)
    before, after = (
        item_means(matrix, metric) if pairing.is_paired else {}
        for matrix in (pairing.baseline, pairing.candidate)
    )
    changes = [
        ItemChange(item, change)
        for item in after
        if item in before and math.isfinite(change := after[item] - before[item])
    ]
    direction = provider_for(planned.ref).spec.direction
    return items_chart(
        f"{title}: {metric} by item",
        changes,
        less_is_better=direction is Direction.LOWER_IS_BETTER,
    )


def _compare_title(session: Session, baseline: BenchmarkRun, run: BenchmarkRun) -> str:
    """The agents and the times of two runs: `Support bot, 2026-11-20 to 2026-11-21`."""
    owners = [(some_run.benchmark_id, some_run.agent_id) for some_run in (baseline, run)]
    agents = read_names(session, owners).agents
    names = dict.fromkeys(agents[some_run.agent_id] for some_run in (baseline, run))
    before, after = (f"{some_run.created_at:%Y-%m-%d}" for some_run in (baseline, run))
    if before == after:
        before, after = (f"{some_run.created_at:%Y-%m-%d %H:%M}" for some_run in (baseline, run))
    return f"{' and '.join(names)}, {before} to {after}"
