"""Whether what decides about a run is measured; pure."""

from collections.abc import Iterator, Mapping, Sequence

from mosaico.comparison.comparison_rules import default_judged, spec_of
from mosaico.comparison.deciders import CommonMetric, ExpectedAnswers, select_deciders
from mosaico.kpis.evaluate import KpiValue
from mosaico.metrics.aggregate import Aggregate
from mosaico.metrics.metric_gaps import MetricGap
from mosaico.run_store.plan import RunPlan, is_score_column


def unmeasured_deciders(
    plan: RunPlan,
    kpis: Sequence[KpiValue],
    aggregates: Mapping[str, Aggregate],
    gaps: Mapping[str, MetricGap],
) -> str | None:
    """The reason why a run is invalid: nothing that decides about it has values of enough items; None otherwise.

    A run of which the answers failed is valid: its failures are measured, and are a check of their own.
    """
    if any(gap.failed for gap in gaps.values()):
        return None
    names = default_judged(kpis)
    if names:
        judged = [value for value in kpis if value.kpi.name in names]
        if not all(value.is_incomplete for value in judged):
            return None
        return "; ".join(dict.fromkeys(filter(None, (value.reason for value in judged))))
    columns = select_deciders(list(_measured(plan, aggregates)), ExpectedAnswers()).names
    if not columns or not {*columns} <= gaps.keys():
        return None
    return "; ".join(f"{column}: {gaps[column].describe()}" for column in columns)


def _measured(plan: RunPlan, aggregates: Mapping[str, Aggregate]) -> Iterator[CommonMetric]:
    """The metrics with values, and all scores: a benchmark names them, so that they are expected."""
    for metric in plan.metrics:
        aggregate = aggregates[metric.column]
        if aggregate.n or is_score_column(metric.column):
            yield CommonMetric(
                ref=metric.ref,
                spec=spec_of(metric),
                items=aggregate.n,
                mean=aggregate.mean or 0.0,
            )
