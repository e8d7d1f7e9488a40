"""Whether one slice of the items, by a tag or an attribute, fell alone."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from mosaico.comparison.attribute_text import describe_fallen_slice
from mosaico.comparison.comparison_rules import metric_rule, spec_of
from mosaico.comparison.deciding_metric import first_share
from mosaico.items.flipped import item_means
from mosaico.items.matrix import ItemPairing
from mosaico.kpis.verdict_types import FallenSlice, RunVerdict
from mosaico.run_store.deciding_metric import DecidingMetric
from mosaico.run_store.plan import RunPlan

_TAG: Final = "tag:"
# A digest of the task, which no reader knows.
_TASK: Final = "tag:task:"


def find_fallen_slice(
    plan: RunPlan,
    judged: Sequence[str],
    pairing: ItemPairing,
    features: Mapping[str, AbstractSet[str]],
) -> FallenSlice | None:
    """The slice that fell alone by the metric that decides; None without one, and for runs without shared items.

    `judged` are the KPIs and metrics that decide, and `features` those of `ItemAttributes`. Imports numpy;
    call it only in a worker process.
    """
    from mosaico.statistics import slices

    decider = first_share(plan, judged)
    if decider is None or not pairing.is_paired:
        return None
    harms = _harms(decider, pairing)
    items = {item: position for position, item in enumerate(harms)}
    members = {
        name.removeprefix(_TAG): [items[item] for item in tagged if item in items]
        for name, tagged in features.items()
        if name.startswith(_TAG) and not name.startswith(_TASK)
    }
    planned = next(metric for metric in plan.metrics if metric.column == decider.column)
    min_effect = metric_rule(spec_of(planned)).min_effect
    fall = slices.find_fallen_slice(list(harms.values()), members, min_effect)
    if fall is None:
        return None
    sign = 1 if decider.less_is_better else -1
    return FallenSlice(
        tag=fall.name,
        metric=decider.column,
        items=fall.items,
        change=sign * fall.harm,
        other_items=fall.other_items,
        other_change=sign * fall.other_harm,
        p_adjusted=fall.p,
        slices=fall.slices,
    )


def with_fallen_slice(verdict: RunVerdict, fallen: FallenSlice | None) -> RunVerdict:
    """The verdict of a run that first says which slice fell alone."""
    if fallen is None:
        return verdict
    explanation = f"{describe_fallen_slice(fallen)} {verdict.explanation}"
    return verdict.model_copy(update={"fallen_slice": fallen, "explanation": explanation})


def _harms(decider: DecidingMetric, pairing: ItemPairing) -> dict[str, float]:
    """The changes of the shared items to the worse."""
    before, now = (
        item_means(side, decider.column) if decider.column in side.values else {}
        for side in (pairing.baseline, pairing.candidate)
    )
    sign = 1 if decider.less_is_better else -1
    return {item: sign * (now[item] - before[item]) for item in now if item in before}
