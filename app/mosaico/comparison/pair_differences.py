"""What changed between the traces and the plans of two runs; no database."""

from collections.abc import Sequence

from mosaico.comparison.attribute_differences import ComparedAttributes, find_differences
from mosaico.comparison.baseline_runs import BaselineRun
from mosaico.comparison.fallen_items import FallenItems
from mosaico.items.attributes import ItemAttributes
from mosaico.items.matrix import ItemPairing
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.plan_differences import describe_changes
from mosaico.run_store.recorded_attributes import WhatChanged


def compare_pair(
    attributes: tuple[ItemAttributes, ItemAttributes],
    plans: tuple[BaselineRun, RunPlan],
    fallen: FallenItems,
    pairing: ItemPairing | None,
    ruler: Sequence[str] = (),
) -> WhatChanged:
    """What changed between the traces and the plans of a baseline and a run; without a `pairing`, or with one that is
    not paired, over all items of the run. `ruler` says how the run is measured differently.
    """
    is_paired = pairing is not None and pairing.is_paired
    before, after = attributes
    baseline, plan = plans
    return find_differences(
        ComparedAttributes(
            before,
            after,
            pairing.candidate.items if pairing and is_paired else after.usage.items,
            fallen.items,
            fallen.metric,
            list(dict.fromkeys([*ruler, *describe_changes(baseline.plan, plan)])),
            is_paired=is_paired,
            baseline_run_id=baseline.id,
        )
    )
