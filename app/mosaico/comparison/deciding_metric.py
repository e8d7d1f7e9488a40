"""Finds the metric by which the answers of a run are right or wrong: that of the KPI that decides."""

from collections.abc import Iterable, Iterator
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.comparison.comparison_rules import metric_rule, spec_of
from mosaico.comparison.deciders import CommonMetric, ExpectedAnswers, select_deciders
from mosaico.core.errors import AppError
from mosaico.formula import compile_formula
from mosaico.items.queries import IS_SHORT, REVISION
from mosaico.kpis.evaluate import PlannedKpi
from mosaico.metrics.registry import column_of
from mosaico.metrics.types import Direction, MetricSpec
from mosaico.run_store.deciding_metric import DecidingMetric
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.plan import PlannedMetric, RunPlan
from mosaico.run_store.queries import list_run_metrics
from mosaico.statistics.verdict_rules import Scale

# Whether expected answers are labels or texts is known from so many traces.
_SAMPLED_TRACES: Final = 2_000
_EXPECTED_ANSWERS: Final = text(
    f"""
    SELECT count(*) AS items, count(*) FILTER (WHERE is_short) AS short,
           count(DISTINCT revision) AS distinct, count(*) FILTER (WHERE is_short IS NULL) AS absent
    FROM (
        SELECT item_id, min(revision) AS revision, bool_and(is_short) AS is_short
        FROM (
            SELECT trace.item_id, {REVISION} AS revision, {IS_SHORT} AS is_short
            FROM collected_traces AS trace
            WHERE trace.collection_id = :collection AND trace.position < :limit
        ) AS traces
        GROUP BY item_id
    ) AS items
    """  # noqa: S608 - only constants
)
NOTHING_DECIDES: Final = (
    "no metric of the run says whether an answer is right: add pass or fail, or a metric of expected"
    " answers between 0 and 1, such as EXACT_MATCH or ROUGE"
)


def find_deciding_metric(session: Session, run: BenchmarkRun) -> DecidingMetric | None:
    """The first share between 0 and 1 in the KPIs of the gate, then in the other KPIs, then among the metrics that
    decide without KPIs; None where the run has no such metric.
    """
    if run.plan is None or not run.metric_keys:
        return None
    return first_share(run.plan, ()) or first_share(
        run.plan, _quality_columns(session, run, run.plan)
    )


def _columns_of(kpis: Iterable[PlannedKpi]) -> Iterator[str]:
    """The metrics of KPIs, in the order of their formulas."""
    for kpi in kpis:
        for reference in compile_formula(kpi.formula).references:
            yield column_of(reference.key)


def _quality_columns(session: Session, run: BenchmarkRun, plan: RunPlan) -> list[str]:
    """The metrics that decide about a run without KPIs, then all others but those of failed answers."""
    rows = {row.metric: row for row in list_run_metrics(session, run.seq)}
    measured = [
        # Of both runs of a comparison: here the run beside itself.
        CommonMetric(ref=metric.ref, spec=spec, items=row.n, mean=row.mean or 0.0)
        for metric in plan.metrics
        if (spec := _spec(metric)) and (row := rows.get(metric.column)) and row.n
    ]
    counts = session.execute(
        _EXPECTED_ANSWERS, {"collection": run.collection_id, "limit": _SAMPLED_TRACES}
    ).one()
    names = select_deciders(measured, ExpectedAnswers(*(2 * count for count in counts))).names
    return [*names, *(column for column in plan.columns if column not in plan.added_columns)]


def first_share(plan: RunPlan, columns: Iterable[str]) -> DecidingMetric | None:
    """The first share between 0 and 1 in the KPIs of the gate, in the other KPIs, and among `columns`."""
    planned = {metric.column: metric for metric in plan.metrics}
    by_gate = sorted(plan.kpis, key=lambda kpi: not kpi.gate)
    for column in (*_columns_of(by_gate), *columns):
        spec = _spec(planned[column]) if column in planned else None
        if spec and _is_share(spec):
            return DecidingMetric(column, spec.direction is Direction.LOWER_IS_BETTER)
    return None


def _is_share(spec: MetricSpec) -> bool:
    return metric_rule(spec).scale is Scale.RATE and spec.direction is not Direction.NEITHER


def _spec(metric: PlannedMetric) -> MetricSpec | None:
    """The specification of a metric; None when its plugin is gone."""
    try:
        return spec_of(metric)
    except AppError:
        return None
