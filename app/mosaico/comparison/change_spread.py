"""The spread of a KPI's or metric's change, estimated from the latest runs of a benchmark.

Imports numpy and scipy; call it only in a process that computes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mosaico.comparison.comparison_rules import Signal
from mosaico.comparison.run_changes import RunChanges, TestedChange
from mosaico.comparison.schemas import VarianceBasis
from mosaico.formula import CompiledFormula, compile_formula
from mosaico.items.formulas.run_statistics import RunStatistics
from mosaico.items.matrix import ItemMatrix, pair_items
from mosaico.metrics.types import MetricRef
from mosaico.statistics.power import ChangeModel
from mosaico.statistics.verdict_rules import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSpread:
    """The spread of a change on the scale of its test, and how the value follows from that scale.

    `factor` is the size of the slope between the tested statistic and the value; `level` is the
    tested value on a logarithmic scale, None on any other.
    """

    basis: VarianceBasis
    model: ChangeModel
    items: int
    factor: float
    level: float | None

    def detectable(self, items: int, trials: int) -> float:
        """The minimum detectable effect in the unit of the value; infinite when there is none."""
        effect = self.model.detectable_effect(items, trials)
        if self.level is None or effect == math.inf:
            return self.factor * effect
        return self.factor * self.level * math.expm1(min(effect, 700.0))

    def on_test_scale(self, change: float) -> float:
        """A change of the value as one on the scale of the test."""
        if self.level is None:
            return change / self.factor
        return math.log1p(change / (self.factor * self.level))


@np.errstate(all="ignore")
def estimate_spread(
    run: ItemMatrix,
    previous: ItemMatrix | None,
    count_metrics: Mapping[str, MetricRef],
    formula: CompiledFormula,
    signal: Signal,
    harm: Side,
) -> ChangeSpread | None:
    """The spread from two runs with common items, otherwise from one; None when it is unknown."""
    line = signal.line
    tested = compile_formula(str(line.reference)) if line else formula
    factor = abs(line.slope) if line else 1.0
    pairing = pair_items(previous, run) if previous else None
    if pairing is not None and pairing.is_paired and len(pairing.candidate.items) > 1:
        pair = [
            RunStatistics(side, count_metrics) for side in (pairing.baseline, pairing.candidate)
        ]
        basis = VarianceBasis.TWO_RUNS
    else:
        pair = [RunStatistics(run, count_metrics)] * 2
        basis = VarianceBasis.ITEMS_OF_ONE_RUN
    if not pair[0].item_count or not _are_counted(pair, tested):
        return None
    changes = RunChanges(pair[0], pair[1], is_paired=True)
    change = changes.change(tested, signal.limits, harm=harm)
    if not isinstance(change, TestedChange):
        return None
    model = change.model
    if basis is not VarianceBasis.TWO_RUNS:
        model = changes.model_of_one_run(tested, signal.limits, harm=harm)
        if model is not None and model.trial is not None:
            basis = VarianceBasis.TRIALS_OF_ONE_RUN
    if model is None:
        return None
    return ChangeSpread(
        basis=basis,
        model=model,
        items=change.items,
        factor=factor,
        level=change.candidate if change.is_logarithm else None,
    )


def _are_counted(pair: list[RunStatistics], formula: CompiledFormula) -> bool:
    """Return whether the label counts of all metrics exist, which a failing plugin may lack."""
    return all(
        not run.is_counted(ref) or run.has_counts(ref) for run in pair for ref in formula.references
    )
