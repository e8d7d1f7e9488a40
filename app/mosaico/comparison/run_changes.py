"""The changes of KPIs and metrics between two runs: one test for each.

Imports numpy; call it only in a process that computes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from mosaico.comparison.tested_change import TestedChange
from mosaico.formula import CompiledFormula
from mosaico.formula.rows import InstabilityKind
from mosaico.items.formulas.compared_runs import ComparedRuns
from mosaico.items.formulas.linearization import LinearChange
from mosaico.items.formulas.pair import FormulaPair
from mosaico.items.formulas.properties import ValueRange, jumps
from mosaico.items.formulas.run_statistics import (
    EXTREMES,
    RunStatistics,
    reads_order_statistic,
)
from mosaico.items.formulas.samples import SamplePair, sample_change
from mosaico.items.formulas.task_tests import TaskTest, assess_tasks, judge_drift
from mosaico.statistics.change import (
    ChangeTest,
    UnitInfluences,
    paired_change_test,
)
from mosaico.statistics.power import ChangeModel
from mosaico.statistics.resampling import (
    swap_test,
)
from mosaico.statistics.trials import FloatArray
from mosaico.statistics.verdict_rules import (
    MIN_UNITS,
    About,
    ChangeMethod,
    ChangeVerdict,
    Judgement,
    Scale,
    Side,
    Verdict,
    VerdictNote,
    without_change,
)
from mosaico.statistics.whole_runs import NO_VARIATION, RunEffect, WholeRuns

NO_JUDGEMENTS: Final[Mapping[str, Judgement]] = {}
INSTABILITY_NOTES = {InstabilityKind.TIE: VerdictNote.TIE, InstabilityKind.CLIFF: VerdictNote.CLIFF}


class _SampleTest(NamedTuple):
    """The test of the items as a sample, and what is said of it."""

    test: ChangeTest
    method: ChangeMethod
    notes: list[VerdictNote]


class RunChanges:
    """A baseline and a candidate, and the tests of changes between them.

    With `is_paired` both hold the same items in the same order. `about` is the question that decides; without it
    the items themselves where most of them have several trials in both runs, otherwise the items as a sample.
    `judgements` are the metrics that are scores, and who gave them.
    """

    def __init__(
        self,
        baseline: RunStatistics,
        candidate: RunStatistics,
        *,
        is_paired: bool,
        about: About | None = None,
        judgements: Mapping[str, Judgement] = NO_JUDGEMENTS,
    ) -> None:
        self._about = about
        self._judgements = judgements
        self._runs = ComparedRuns(baseline, candidate, is_paired=is_paired)
        self._is_clustered = bool(candidate.matrix.clusters)

    def change(
        self,
        formula: CompiledFormula,
        limits: ValueRange,
        *,
        harm: Side,
        whole_runs: WholeRuns = NO_VARIATION,
    ) -> TestedChange | ChangeVerdict:
        """The tested change of a formula, or a verdict without numbers where it has no value.

        `harm` is the direction for which the minimum detectable effect is estimated, and `whole_runs` how much whole runs
        vary: by default not at all.
        """
        pair = FormulaPair(self._runs, formula)
        if not pair.has_items:
            return without_change(Verdict.INVALID, VerdictNote.NO_ITEMS)
        if reads_order_statistic(formula) or jumps(formula):
            return self._resampled(pair, limits, whole_runs)
        return self._linearized(pair, limits, harm, whole_runs)

    def _linearized(
        self, pair: FormulaPair, limits: ValueRange, harm: Side, whole_runs: WholeRuns
    ) -> TestedChange | ChangeVerdict:
        linear = pair.linearize(limits)
        if linear is None:
            return without_change(
                Verdict.INCONCLUSIVE, VerdictNote.UNDEFINED, n_items=pair.item_count
            )
        sample = self._sample_test(pair, linear, limits)
        drift = judge_drift(pair, linear, self._judgements)
        whole = self._run_effect(
            whole_runs, linear.baseline, sample.test.error, is_logarithm=linear.is_logarithm
        )
        # The drift of a judge moves all items of a run together, as a whole run does.
        runs = whole.widened(drift.variance) if drift else whole
        tasks = assess_tasks(pair, linear, limits, harm, runs)
        model = None
        if self._runs.is_paired:
            model = pair.model(linear, sample.test.error, limits, harm, runs=runs)
        return TestedChange(
            baseline=linear.baseline,
            candidate=linear.candidate,
            sampled=sample.test.widened(runs),
            tasks=tasks,
            judge=drift and drift.drift,
            about=self._question(tasks),
            is_logarithm=linear.is_logarithm,
            items=pair.item_count,
            trials=pair.trials,
            clusters=pair.cluster_count,
            method=sample.method,
            model=model,
            notes=(*sample.notes, *self._unknown(tasks)),
            whole_runs=runs.variation,
        )

    def _sample_test(
        self, pair: FormulaPair, linear: LinearChange, limits: ValueRange
    ) -> _SampleTest:
        """The test of the items as a sample, by what the items contribute alone."""
        if not self._runs.is_paired:
            samples = SamplePair(self._runs.baseline, self._runs.candidate)
            test, is_typical = sample_change(samples, pair.formula, linear, limits)
            notes = [
                VerdictNote.UNPAIRED,
                *[VerdictNote.TYPICAL] * is_typical,
                *self._few(pair, test),
            ]
            return _SampleTest(test, ChangeMethod.TWO_SAMPLE_T, notes)
        test = paired_change_test(
            linear.effect,
            linear.changes,
            linear.influences,
            pair.units,
            width=None if linear.is_logarithm else limits.width,
            skewness=pair.skewness(linear),
            is_logarithm=linear.is_logarithm,
        ).among(*pair.unit_positions)
        is_identical = test.error == 0 and linear.effect == 0
        notes = [*[VerdictNote.IDENTICAL] * is_identical, *self._few(pair, test)]
        method = ChangeMethod.CLUSTERED_T if self._is_clustered else ChangeMethod.PAIRED_T
        return _SampleTest(test, method, notes)

    def _run_effect(
        self, whole_runs: WholeRuns, level: float, error: float, *, is_logarithm: bool
    ) -> RunEffect:
        """What whole runs add to a change from such a baseline, whose items have this standard error."""
        return whole_runs.effect(
            level,
            is_logarithm=is_logarithm,
            baseline_runs=self._runs.baseline.matrix.runs,
            error=error if math.isfinite(error) else 0.0,
        )

    def _question(self, tasks: TaskTest | None) -> About:
        """The question that decides."""
        if tasks is None or self._about is About.POPULATION:
            return About.POPULATION
        return About.TASKS if self._about or tasks.is_repeated else About.POPULATION

    def _unknown(self, tasks: TaskTest | None) -> list[VerdictNote]:
        """What is said when the requested question has no answer."""
        return [VerdictNote.TASKS_UNKNOWN] * (self._about is About.TASKS and tasks is None)

    def model_of_one_run(
        self,
        formula: CompiledFormula,
        limits: ValueRange,
        *,
        harm: Side,
        whole_runs: WholeRuns = NO_VARIATION,
    ) -> ChangeModel | None:
        """The spread of the items when both runs are the same: from its trials, otherwise from the
        items themselves, which differ more than they will change. None when it is unknown.
        """
        if reads_order_statistic(formula):
            return None
        pair = FormulaPair(self._runs, formula)
        linear = pair.linearize(limits) if pair.has_items else None
        if linear is None:
            return None
        own = UnitInfluences.of_items(linear.baseline_influences, pair.units).variance.variance
        runs = self._run_effect(whole_runs, linear.baseline, 0.0, is_logarithm=linear.is_logarithm)
        variance = 2 * own * len(linear.changes)
        return pair.model(linear, 0.0, limits, harm, items_variance=variance, runs=runs)

    def _few(self, pair: FormulaPair, test: ChangeTest) -> list[VerdictNote]:
        """Return the reason why even a change of all units could be chance, if it could."""
        if pair.cluster_count is not None and pair.cluster_count < pair.item_count:
            is_few = pair.cluster_count < MIN_UNITS or not test.can_decide
            return [VerdictNote.FEW_CLUSTERS] * is_few
        return [VerdictNote.FEW_ITEMS] * (pair.item_count < MIN_UNITS or not test.can_decide)

    def _resampled(
        self, pair: FormulaPair, limits: ValueRange, whole_runs: WholeRuns
    ) -> TestedChange | ChangeVerdict:
        """The change of a formula that jumps, by exchanging the runs."""
        if not self._runs.is_paired:
            return without_change(
                Verdict.INCONCLUSIVE,
                VerdictNote.UNPAIRED,
                VerdictNote.JUMP,
                n_items=pair.item_count,
            )
        baseline, candidate = pair.rows()
        first, second = float(baseline.values[0]), float(candidate.values[0])
        if not (math.isfinite(first) and math.isfinite(second)):
            return without_change(
                Verdict.INCONCLUSIVE, VerdictNote.UNDEFINED, n_items=pair.item_count
            )
        notes = [
            INSTABILITY_NOTES[part.kind]
            for run in (baseline, candidate)
            for part in run.instabilities
        ]
        change = TestedChange(
            baseline=first,
            candidate=second,
            sampled=None,
            is_logarithm=limits.is_multiplicative and first > 0 and second > 0,
            items=pair.item_count,
            trials=pair.trials,
            clusters=pair.cluster_count,
            method=ChangeMethod.NONE,
            notes=tuple(dict.fromkeys(notes)),
        )
        if any(ref.stat in EXTREMES for ref in pair.formula.references):
            return replace(change, notes=(*change.notes, VerdictNote.EXTREME, *self._unknown(None)))
        rows = [run.values for run in (baseline, candidate)]
        return self._exchanged(pair, change, rows, limits, whole_runs)

    def _exchanged(
        self,
        pair: FormulaPair,
        change: TestedChange,
        rows: Sequence[FloatArray],
        limits: ValueRange,
        whole_runs: WholeRuns,
    ) -> TestedChange:
        """The change, tested by values of the formula in exchanged runs."""
        is_logarithm, is_jump = change.is_logarithm, jumps(pair.formula)
        first, second = (np.log(values) if is_logarithm else values for values in rows)
        test = swap_test(
            first,
            second,
            len(np.unique(pair.units)),
            width=None if is_logarithm else limits.width,
            is_stable=is_jump and not change.notes,
        )
        runs = self._run_effect(whole_runs, change.baseline, test.error, is_logarithm=is_logarithm)
        model = None
        if test.error and not is_jump:
            model = ChangeModel(
                scale=Scale.RATIO if is_logarithm else Scale.NUMBER,
                items=test.error * test.error * pair.item_count,
                trial=None,
                measured_trials=pair.trials,
                square=1.0,
                runs=runs,
            )
        identical = [VerdictNote.IDENTICAL] * pair.is_unchanged
        return replace(
            change,
            sampled=test.widened(runs),
            method=ChangeMethod.RUN_EXCHANGE,
            model=model,
            notes=(*identical, *change.notes, *self._few(pair, test), *self._unknown(None)),
            whole_runs=runs.variation,
        )
