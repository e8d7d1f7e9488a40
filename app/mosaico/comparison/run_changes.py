"""The changes of KPIs and metrics between two runs: one test for each.

Imports numpy and scipy; call it only in a process that computes.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from mosaico.formula import CompiledFormula, Reference
from mosaico.formula.rows import InstabilityKind
from mosaico.items.formulas.linearization import log_ratio
from mosaico.items.formulas.pair import ComparedRuns, FormulaPair, TaskTest
from mosaico.items.formulas.properties import Line, ValueRange, jumps
from mosaico.items.formulas.run_statistics import (
    EXTREMES,
    ORDER_STATISTICS,
    RunStatistics,
)
from mosaico.items.formulas.samples import RunPair, sample_change
from mosaico.statistics.change import (
    ChangeTest,
    UnitInfluences,
    paired_change_test,
)
from mosaico.statistics.fixed_items import DetectableChange, FixedItemsChange
from mosaico.statistics.power import ChangeModel, items_to_detect_any, settle_equivalence
from mosaico.statistics.resampling import (
    swap_test,
)
from mosaico.statistics.verdict_rules import (
    FEW,
    MIN_UNITS,
    About,
    Answer,
    ChangeMethod,
    ChangeVerdict,
    JudgeDrift,
    Judgement,
    Note,
    Remedy,
    RunVariation,
    Scale,
    Side,
    Verdict,
    VerdictRule,
    decide_verdict,
    drop_non_finite,
    without_change,
)
from mosaico.statistics.whole_runs import NO_RUNS, NO_VARIATION, RunEffect, WholeRuns

NO_JUDGEMENTS: Final[Mapping[str, Judgement]] = {}
INSTABILITY_NOTES = {InstabilityKind.TIE: Note.TIE, InstabilityKind.CLIFF: Note.CLIFF}


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedChange:
    """The tested change of one statistic or formula, before any adjustment.

    `sampled` is the test of the items as a sample, None when the change cannot be tested; the notes say why. `tasks` is
    that of exactly these items, None where the data do not allow it. `about` says which one decides. With
    `is_logarithm` the tests are of the logarithms. `model` is None when the spread of the items is unknown.
    """

    baseline: float
    candidate: float
    sampled: ChangeTest | None
    is_logarithm: bool
    items: int
    trials: float
    clusters: int | None
    method: ChangeMethod
    model: ChangeModel | None = None
    notes: tuple[Note, ...] = ()
    tasks: TaskTest | None = None
    about: About = About.POPULATION
    whole_runs: RunVariation | None = None
    judge: JudgeDrift | None = None

    @property
    def test(self) -> ChangeTest | FixedItemsChange | None:
        """The test that decides."""
        tasks = self._deciding_tasks
        return self.sampled if tasks is None else tasks.change

    @property
    def _deciding_tasks(self) -> TaskTest | None:
        return self.tasks if self.about is About.TASKS else None

    @property
    def deciding_notes(self) -> tuple[Note, ...]:
        """The notes about the question that decides: few items are enough for a question about themselves."""
        tasks = self._deciding_tasks
        if tasks is None or not tasks.change.can_decide:
            return self.notes
        return tuple(note for note in self.notes if note not in FEW)

    @property
    def deciding_model(self) -> ChangeModel | None:
        """The spread that more trials would reduce."""
        tasks = self._deciding_tasks
        if tasks is None:
            return self.model
        return ChangeModel(
            scale=Scale.NUMBER, items=0.0, trial=tasks.power.trial, runs=tasks.power.runs
        )

    @property
    def _is_constant(self) -> bool:
        """Whether all values are equal, which says nothing about how much they would vary."""
        model = self.deciding_model
        if model is None or model.costs is not None:
            return False
        by_items = replace(model, runs=NO_RUNS)
        return by_items.detectable_effect(self.items, max(1.0, self.trials)) <= 0

    def detectable(self) -> DetectableChange | None:
        """The minimum detectable effect of the test; infinite where it finds no change as often, None when that is
        unknown, or when even the largest change of these units could be chance.
        """
        if FEW & {*self.deciding_notes} or self._is_constant:
            return None
        if self._deciding_tasks:
            found = self._deciding_tasks.power.detectable()
            width = self._deciding_tasks.change.width
            is_possible = found is not None and (width is None or found.effect <= width)
            return found if is_possible else DetectableChange(effect=math.inf, broken_items=None)
        if self.model is None:
            return None
        effect = self.model.detectable_effect(self.items, max(1.0, self.trials))
        return DetectableChange(effect=effect, broken_items=None)

    @property
    def p(self) -> float | None:
        return None if self.test is None else self.test.p

    def verdict(
        self, rule: VerdictRule, p_adjusted: float | None, line: Line | None = None
    ) -> ChangeVerdict:
        """The verdict by a rule, of the value or of a linear function of it.

        The adjusted interval is that of the level at which the unadjusted p-value decides the same.
        """
        shape = line or Line(Reference("", ""), 1.0, 0.0)
        start = shape.offset + shape.slope * self.baseline
        scale = _DisplayScale(self, rule.scale, shape.slope, abs(start))
        alpha = rule.alpha
        if self.p and p_adjusted:
            alpha *= min(1.0, self.p / p_adjusted)
        low, high = scale.interval(rule.alpha)
        low_adjusted, high_adjusted = scale.interval(alpha)
        margin, mde = rule.margin * scale.unit, scale.detectable(rule.side)
        return decide_verdict(
            drop_non_finite(
                ChangeVerdict(
                    verdict=Verdict.INCONCLUSIVE,
                    effect=scale.display(self._effect) + 0.0,
                    low=low,
                    high=high,
                    low_adjusted=low_adjusted,
                    high_adjusted=high_adjusted,
                    p=self.p,
                    p_adjusted=p_adjusted,
                    mde=mde,
                    n_items=self.items,
                    trials=self.trials,
                    method=ChangeMethod.STRATIFIED if self._deciding_tasks else self.method,
                    baseline_value=start,
                    value=shape.offset + shape.slope * self.candidate,
                    min_effect=rule.min_effect * scale.unit,
                    margin=margin,
                    side=rule.side,
                    alpha=rule.alpha,
                    clusters=self.clusters,
                    items_needed=scale.items_needed() if mde is None else None,
                    remedy=scale.remedy(margin),
                    notes=self._all_notes(p_adjusted, rule),
                    about=self.about,
                    answers=tuple(self._answers(rule, shape, abs(start))),
                    tasks=self.tasks and self.tasks.found,
                    whole_runs=scale.whole_runs(),
                    judge=self.judge and self.judge._replace(shift=scale.display(self.judge.shift)),
                )
            )
        )

    def _answers(self, rule: VerdictRule, line: Line, start: float) -> Iterator[Answer]:
        """The answers to all questions that the data allow."""
        for about in About:
            if (self.tasks if about is About.TASKS else self.sampled) is None:
                continue
            answering = replace(self, about=about)
            scale = _DisplayScale(answering, rule.scale, line.slope, start)
            low, high = scale.interval(rule.alpha)
            yield Answer(
                about=about,
                low=low,
                high=high,
                p=answering.p,
                mde=scale.detectable(rule.side),
                broken_items=scale.broken_items(),
            )

    def _all_notes(self, p: float | None, rule: VerdictRule) -> tuple[Note, ...]:
        """The notes, and whether a change of these items says nothing about others."""
        is_called = p is not None and p < rule.alpha
        is_only_here = self.sampled is None or self.sampled.p >= rule.alpha or FEW & {*self.notes}
        if self._deciding_tasks and is_called and is_only_here:
            return (*self.deciding_notes, Note.THESE_ITEMS)
        return self.deciding_notes

    @property
    def _effect(self) -> float:
        return self.sampled.effect if self.sampled else self._difference

    @property
    def _difference(self) -> float:
        if self.is_logarithm:
            return log_ratio(self.candidate, self.baseline)
        return self.candidate - self.baseline


class _DisplayScale(NamedTuple):
    """Converts changes on the scale of a test into changes of a value.

    The value is a linear function with this slope of the tested one, and `start` its size in the
    baseline: changes on the scale RATIO are divided by it.
    """

    change: TestedChange
    scale: Scale
    slope: float
    start: float

    @property
    def is_relative(self) -> bool:
        return self.scale is Scale.RATIO and self.start > 0

    @property
    def unit(self) -> float:
        """The limits of a rule, which are fractions on the scales NUMBER and RATIO, in this unit."""
        if self.scale is Scale.RATE:
            return 1.0
        size = abs(self.slope * self.change.baseline)
        return size / self.start if self.is_relative else size

    def display(self, effect: float) -> float:
        absolute = self.slope * (
            self.change.baseline * math.expm1(min(effect, 700.0))
            if self.change.is_logarithm
            else effect
        )
        return absolute / self.start if self.is_relative else absolute

    def interval(self, alpha: float) -> tuple[float, float] | tuple[None, None]:
        interval = self.change.test.interval(alpha) if self.change.test else None
        if interval is None:
            return (None, None)
        low, high = sorted((self.display(interval.low), self.display(interval.high)))
        return (low, high)

    def whole_runs(self) -> RunVariation | None:
        """How much whole runs vary, in the unit of a change."""
        runs = self.change.whole_runs
        # A standard deviation is no change: that of a logarithm is the fraction of the value that was stated.
        size = abs(self.change.baseline) if self.change.is_logarithm else 1.0
        unit = abs(self.slope) * size / (self.start if self.is_relative else 1.0)
        return runs and runs._replace(sd=runs.sd * unit)

    def broken_items(self) -> int | None:
        """The number of items that have to break to be found."""
        detectable = self.change.detectable()
        return None if detectable is None else detectable.broken_items

    def items_needed(self) -> int | None:
        """The items that detect some change, where these detect none."""
        model, detectable = self.change.model, self.change.detectable()
        if self.change.about is About.TASKS or model is None or detectable is None:
            return None
        if math.isfinite(detectable.effect):
            return None
        return items_to_detect_any(model, trials=max(1.0, self.change.trials))

    def detectable(self, side: Side) -> float | None:
        detectable = self.change.detectable()
        if detectable is None or not math.isfinite(detectable.effect):
            return None
        effect = detectable.effect
        if effect <= 0:
            return None
        # A ratio and its inverse are equally far from 1 as logarithms only.
        is_fall = (side is Side.LOW) is (self.slope > 0)
        return abs(self.display(-effect if is_fall else effect))

    def remedy(self, margin: float) -> Remedy | None:
        model, change = self.change.deciding_model, self.change
        scale = abs(self.slope) / (self.start if self.is_relative else 1.0)
        if change.is_logarithm:
            scale *= abs(change.baseline)
        if model is None or scale == 0:
            return None
        trials, tested_margin = max(1.0, change.trials), margin / scale
        if change.is_logarithm:
            # The end above 0 is the farther one: a rise by m is less as a logarithm than a fall.
            tested_margin = math.log1p(tested_margin)
        remedy = settle_equivalence(model, items=change.items, trials=trials, margin=tested_margin)
        if remedy is None or remedy.more_trials is None:
            return remedy
        return remedy._replace(more_trials=max(1, math.ceil(remedy.more_trials - trials)))


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
            return without_change(Verdict.INVALID, Note.NO_ITEMS)
        if any(ref.stat in ORDER_STATISTICS for ref in formula.references) or jumps(formula):
            return self._resampled(pair, limits, whole_runs)
        return self._linearized(pair, limits, harm, whole_runs)

    def _linearized(
        self, pair: FormulaPair, limits: ValueRange, harm: Side, whole_runs: WholeRuns
    ) -> TestedChange | ChangeVerdict:
        linear = pair.linearize(limits)
        if linear is None:
            return without_change(Verdict.INCONCLUSIVE, Note.UNDEFINED, n_items=pair.item_count)
        width = None if linear.is_logarithm else limits.width
        notes = list[Note]()
        if self._runs.is_paired:
            units = pair.units
            test = paired_change_test(
                linear.effect,
                linear.changes,
                linear.influences,
                units,
                width=width,
                skewness=pair.skewness(linear),
                is_logarithm=linear.is_logarithm,
            ).among(*pair.unit_positions)
            method = ChangeMethod.CLUSTERED_T if self._is_clustered else ChangeMethod.PAIRED_T
        else:
            samples = RunPair(self._runs.baseline, self._runs.candidate)
            test, is_typical = sample_change(samples, pair.formula, linear, limits)
            method = ChangeMethod.TWO_SAMPLE_T
            notes += [Note.UNPAIRED, *[Note.TYPICAL] * is_typical]
        notes += self._few(pair, test)
        is_identical = self._runs.is_paired and test.error == 0 and linear.effect == 0
        if is_identical:
            notes = [Note.IDENTICAL, *notes]
        drift = pair.judge_drift(linear, self._judgements)
        own_error = test.error
        whole = self._run_effect(
            whole_runs, linear.baseline, own_error, is_logarithm=linear.is_logarithm
        )
        # The drift of a judge moves all items of a run together, as a whole run does.
        runs = whole.widened(drift.variance) if drift else whole
        tasks = pair.tasks(linear, limits, harm, runs)
        about = self._question(tasks)
        return TestedChange(
            baseline=linear.baseline,
            candidate=linear.candidate,
            sampled=test.widened(runs),
            tasks=tasks,
            judge=drift and drift.drift,
            about=about,
            is_logarithm=linear.is_logarithm,
            items=pair.item_count,
            trials=pair.trials,
            clusters=pair.cluster_count,
            method=method,
            model=pair.model(linear, own_error, limits, harm, runs=runs)
            if self._runs.is_paired
            else None,
            notes=(*notes, *self._unknown(tasks)),
            whole_runs=runs.variation,
        )

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

    def _unknown(self, tasks: TaskTest | None) -> list[Note]:
        """What is said when the requested question has no answer."""
        return [Note.TASKS_UNKNOWN] * (self._about is About.TASKS and tasks is None)

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
        if any(ref.stat in ORDER_STATISTICS for ref in formula.references):
            return None
        pair = FormulaPair(self._runs, formula)
        linear = pair.linearize(limits) if pair.has_items else None
        if linear is None:
            return None
        own = UnitInfluences.of_items(linear.baseline_influences, pair.units).variance.variance
        runs = self._run_effect(whole_runs, linear.baseline, 0.0, is_logarithm=linear.is_logarithm)
        variance = 2 * own * len(linear.changes)
        return pair.model(linear, 0.0, limits, harm, items_variance=variance, runs=runs)

    def _few(self, pair: FormulaPair, test: ChangeTest) -> list[Note]:
        """Return the reason why even a change of all units could be chance, if it could."""
        if pair.cluster_count is not None and pair.cluster_count < pair.item_count:
            is_few = pair.cluster_count < MIN_UNITS or not test.can_decide
            return [Note.FEW_CLUSTERS] * is_few
        return [Note.FEW_ITEMS] * (pair.item_count < MIN_UNITS or not test.can_decide)

    def _resampled(
        self, pair: FormulaPair, limits: ValueRange, whole_runs: WholeRuns
    ) -> TestedChange | ChangeVerdict:
        """The change of a formula that jumps, by exchanging the runs."""
        if not self._runs.is_paired:
            return without_change(
                Verdict.INCONCLUSIVE, Note.UNPAIRED, Note.JUMP, n_items=pair.item_count
            )
        baseline, candidate = pair.rows()
        first, second = float(baseline.values[0]), float(candidate.values[0])
        if not (math.isfinite(first) and math.isfinite(second)):
            return without_change(Verdict.INCONCLUSIVE, Note.UNDEFINED, n_items=pair.item_count)
        notes = [
            INSTABILITY_NOTES[part.kind]
            for run in (baseline, candidate)
            for part in run.instabilities
        ]
        is_logarithm = limits.is_multiplicative and first > 0 and second > 0
        test, model, variation = None, None, None
        if any(ref.stat in EXTREMES for ref in pair.formula.references):
            notes.append(Note.EXTREME)
        else:
            rows = [
                np.log(run.values) if is_logarithm else run.values for run in (baseline, candidate)
            ]
            test = swap_test(
                rows[0],
                rows[1],
                len(np.unique(pair.units)),
                width=None if is_logarithm else limits.width,
                is_stable=jumps(pair.formula) and not notes,
            )
            notes += self._few(pair, test)
            if pair.is_unchanged:
                notes = [Note.IDENTICAL, *notes]
            runs = self._run_effect(whole_runs, first, test.error, is_logarithm=is_logarithm)
            variation = runs.variation
            if test.error and not jumps(pair.formula):
                model = ChangeModel(
                    scale=Scale.RATIO if is_logarithm else Scale.NUMBER,
                    items=test.error**2 * pair.item_count,
                    trial=None,
                    measured_trials=pair.trials,
                    square=1.0,
                    runs=runs,
                )
            test = test.widened(runs)
        return TestedChange(
            baseline=first,
            candidate=second,
            sampled=test,
            is_logarithm=is_logarithm,
            items=pair.item_count,
            trials=pair.trials,
            clusters=pair.cluster_count,
            method=ChangeMethod.RUN_EXCHANGE if test else ChangeMethod.NONE,
            model=model,
            notes=(*dict.fromkeys(notes), *self._unknown(None)),
            whole_runs=variation,
        )
