"""The spread of a KPI's or metric's change, estimated from the latest runs of a benchmark.

Imports numpy; call it only in a process that computes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mosaico.comparison.comparison_rules import TestedSignal
from mosaico.comparison.run_changes import RunChanges
from mosaico.comparison.schemas import VarianceBasis
from mosaico.comparison.tested_change import TestedChange
from mosaico.formula import CompiledFormula, compile_formula
from mosaico.items.formulas.run_statistics import RunStatistics
from mosaico.items.matrix import ItemMatrix, pair_items
from mosaico.metrics.types import MetricRef
from mosaico.statistics.fixed_items import FixedItemsPower
from mosaico.statistics.power import ChangeModel, Detector
from mosaico.statistics.verdict_rules import About, Side
from mosaico.statistics.whole_runs import NO_VARIATION, WholeRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSpread:
    """The spread of a change on the scale of its test, and how the value follows from that scale.

    `factor` is the size of the slope between the tested statistic and the value; `level` is the
    tested value on a logarithmic scale, None on any other. `tasks` is what the test of exactly these items finds, None where
    the data do not allow it. `about` is the question that a user chose.
    """

    basis: VarianceBasis
    model: ChangeModel
    items: int
    factor: float
    level: float | None
    tasks: FixedItemsPower | None = None
    about: About | None = None

    def question(self, trials: int) -> About:
        """The question that decides with so many trials."""
        if self.tasks is None or self.about is About.POPULATION:
            return About.POPULATION
        return About.TASKS if self.about or trials > 1 else About.POPULATION

    def detector(self, trials: int) -> Detector:
        """The test that answers it."""
        tasks = self.tasks if self.question(trials) is About.TASKS else None
        return tasks or self.model

    def detectable_tasks(self, items: int, trials: int) -> int | None:
        """The number of tasks that have to break to be found."""
        if self.tasks is None or self.question(trials) is not About.TASKS:
            return None
        found = self.tasks.planned(items, trials).detectable()
        return None if found is None else found.broken_items

    def detectable(self, items: int, trials: int) -> float:
        """The minimum detectable effect in the unit of the value; infinite when there is none."""
        effect = self.detector(trials).detectable_effect(items, trials)
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
    signal: TestedSignal,
    harm: Side,
    *,
    whole_runs: WholeRuns = NO_VARIATION,
    about: About | None = None,
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
    change = changes.change(tested, signal.limits, harm=harm, whole_runs=whole_runs)
    if not isinstance(change, TestedChange):
        return None
    model = change.model
    if basis is not VarianceBasis.TWO_RUNS:
        model = changes.model_of_one_run(tested, signal.limits, harm=harm, whole_runs=whole_runs)
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
        # Single trials of one run say nothing about how trials vary.
        tasks=change.tasks.power
        if change.tasks and basis is not VarianceBasis.ITEMS_OF_ONE_RUN
        else None,
        about=about,
    )


def _are_counted(pair: list[RunStatistics], formula: CompiledFormula) -> bool:
    """Return whether the label counts of all metrics exist, which a failing plugin may lack."""
    return all(
        not run.is_counted(ref) or run.has_counts(ref) for run in pair for ref in formula.references
    )
