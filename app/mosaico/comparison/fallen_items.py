"""The items that fell between two runs by the metric that decides; pure."""

from collections.abc import Sequence
from typing import NamedTuple

from mosaico.comparison.comparison_rules import columns_of, metric_rule, spec_of
from mosaico.comparison.deciders import Deciders
from mosaico.items.flipped import find_flips, item_means
from mosaico.items.matrix import ItemPairing
from mosaico.kpis.evaluate import KpiValue
from mosaico.metrics.types import Direction
from mosaico.run_store.plan import PlannedMetric, RunPlan


class FallenItems(NamedTuple):
    """The items that fell by a metric; none, and no metric, where nothing with a better side is known of them."""

    metric: str | None = None
    items: Sequence[str] = ()


def find_fallen(pairing: ItemPairing, metric: PlannedMetric | None) -> FallenItems:
    """The items that flipped to the worse; without one, those that are worse at all."""
    if metric is None or not pairing.is_paired:
        return FallenItems()
    spec = spec_of(metric)
    if spec.direction is Direction.NEITHER:
        return FallenItems()
    less_is_better = spec.direction is Direction.LOWER_IS_BETTER
    before, after = (
        item_means(side, metric.column) for side in (pairing.baseline, pairing.candidate)
    )
    flips = find_flips(before, after, metric_rule(spec).scale, less_is_better=less_is_better)
    fallen = [flip.item_id for flip in flips if flip.harm > 0]
    sign = 1 if less_is_better else -1
    worse = (item for item in after if item in before and sign * (after[item] - before[item]) > 0)
    return FallenItems(metric.column, fallen or sorted(worse))


def find_fallen_by(
    deciders: Deciders, plan: RunPlan, kpis: Sequence[KpiValue], pairing: ItemPairing
) -> FallenItems:
    """The items that fell by what decides."""
    return find_fallen(pairing, _select_deciding_metric(deciders, plan, kpis, pairing))


def _select_deciding_metric(
    deciders: Deciders, plan: RunPlan, kpis: Sequence[KpiValue], pairing: ItemPairing
) -> PlannedMetric | None:
    """The first metric that decides, by itself or in a KPI; otherwise the first one with a better side."""
    planned = {
        metric.column: metric
        for metric in plan.metrics
        if metric.column in pairing.baseline.values and metric.column in pairing.candidate.values
    }
    columns = {value.kpi.name: [*columns_of(value)] for value in kpis}
    decisive = [column for name in deciders.judged for column in columns.get(name, [name])]
    directed = [
        column
        for column, metric in planned.items()
        if spec_of(metric).direction is not Direction.NEITHER
    ]
    names = [*decisive, *directed]
    return next((planned[column] for column in names if column in planned), None)
