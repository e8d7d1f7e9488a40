"""The changes of KPIs and metrics between two runs: one test for each.

Imports numpy and scipy; call it only in a process that computes.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mosaico.formula import CompiledFormula, Reference
from mosaico.formula.rows import InstabilityKind
from mosaico.items.formulas.linearization import log_ratio
from mosaico.items.formulas.pair import ComparedRuns, FormulaPair
from mosaico.items.formulas.properties import Line, ValueRange, jumps
from mosaico.items.formulas.run_statistics import (
    EXTREMES,
    ORDER_STATISTICS,
    RunStatistics,
)
from mosaico.statistics.change import (
    ChangeTest,
    UnitInfluences,
    paired_change_test,
    unpaired_change_test,
)
from mosaico.statistics.power import ChangeModel, items_to_detect_any, settle_equivalence
from mosaico.statistics.resampling import (
    swap_test,
)
from mosaico.statistics.verdict_rules import (
    FEW,
    MIN_UNITS,
    ChangeMethod,
    ChangeVerdict,
    Note,
    Remedy,
    Scale,
    Side,
    Verdict,
    VerdictRule,
    decide_verdict,
    drop_non_finite,
    without_change,
)

INSTABILITY_NOTES = {InstabilityKind.TIE: Note.TIE, InstabilityKind.CLIFF: Note.CLIFF}


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedChange:
    """The tested change of one statistic or formula, before any adjustment.

    `test` is None when the change cannot be tested; the notes say why. With `is_logarithm` the test
    is one of the logarithms. `model` is None when the spread of the items is unknown.
    """

    baseline: float
    candidate: float
    test: ChangeTest | None
    is_logarithm: bool
    items: int
    trials: float
    clusters: int | None
    method: ChangeMethod
    model: ChangeModel | None = None
    notes: tuple[Note, ...] = ()

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
                    effect=scale.display(self.test.effect if self.test else self._difference) + 0.0,
                    low=low,
                    high=high,
                    low_adjusted=low_adjusted,
                    high_adjusted=high_adjusted,
                    p=self.p,
                    p_adjusted=p_adjusted,
                    mde=mde,
                    n_items=self.items,
                    trials=self.trials,
                    method=self.method,
                    baseline_value=start,
                    value=shape.offset + shape.slope * self.candidate,
                    min_effect=rule.min_effect * scale.unit,
                    margin=margin,
                    side=rule.side,
                    alpha=rule.alpha,
                    clusters=self.clusters,
                    items_needed=scale.items_needed() if mde is None else None,
                    remedy=scale.remedy(margin),
                    notes=self.notes,
                )
            )
        )

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

    @property
    def _detectable_effect(self) -> float | None:
        """The minimum detectable effect of the test; None when even the largest change of these
        units could be chance.
        """
        model = self.change.model
        if model is None or FEW & {*self.change.notes}:
            return None
        return model.detectable_effect(self.change.items, max(1.0, self.change.trials))

    def items_needed(self) -> int | None:
        """The items that detect some change, where these detect none."""
        model = self.change.model
        if model is None or self._detectable_effect != math.inf:
            return None
        return items_to_detect_any(model, trials=max(1.0, self.change.trials))

    def detectable(self, side: Side) -> float | None:
        effect = self._detectable_effect
        if effect is None or not math.isfinite(effect):
            return None
        # A ratio and its inverse are equally far from 1 as logarithms only.
        is_fall = (side is Side.LOW) is (self.slope > 0)
        return abs(self.display(-effect if is_fall else effect))

    def remedy(self, margin: float) -> Remedy | None:
        model, change = self.change.model, self.change
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

    With `is_paired` both hold the same items in the same order.
    """

    def __init__(
        self, baseline: RunStatistics, candidate: RunStatistics, *, is_paired: bool
    ) -> None:
        self._runs = ComparedRuns(baseline, candidate, is_paired=is_paired)
        self._is_clustered = bool(candidate.matrix.clusters)

    def change(
        self, formula: CompiledFormula, limits: ValueRange, *, harm: Side
    ) -> TestedChange | ChangeVerdict:
        """The tested change of a formula, or a verdict without numbers where it has no value.

        `harm` is the direction for which the minimum detectable effect is estimated.
        """
        pair = FormulaPair(self._runs, formula)
        if not pair.has_items:
            return without_change(Verdict.INVALID, Note.NO_ITEMS)
        if any(ref.stat in ORDER_STATISTICS for ref in formula.references) or jumps(formula):
            return self._resampled(pair, limits)
        return self._linearized(pair, limits, harm)

    def _linearized(
        self, pair: FormulaPair, limits: ValueRange, harm: Side
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
            own_units = (self._runs.baseline.units(), self._runs.candidate.units())
            test = max(
                (
                    unpaired_change_test(
                        linear.effect,
                        UnitInfluences.of_items(first, own_units[0]),
                        UnitInfluences.of_items(second, own_units[1]),
                        width=width,
                    )
                    # A run with large outliers hides them with the gradient at its own mean.
                    for first, second in (
                        (linear.baseline_influences, linear.candidate_influences),
                        (linear.changes, linear.influences),
                    )
                ),
                key=lambda test: test.p,
            )
            method = ChangeMethod.TWO_SAMPLE_T
            notes.append(Note.UNPAIRED)
        notes += self._few(pair, test)
        is_identical = self._runs.is_paired and test.error == 0 and linear.effect == 0
        if is_identical:
            notes = [Note.IDENTICAL, *notes]
        elif Note.FEW_ITEMS in notes and pair.are_these_items_changed(linear):
            notes.append(Note.THESE_ITEMS)
        return TestedChange(
            baseline=linear.baseline,
            candidate=linear.candidate,
            test=test,
            is_logarithm=linear.is_logarithm,
            items=pair.item_count,
            trials=pair.trials,
            clusters=pair.cluster_count,
            method=method,
            model=pair.model(linear, test.error, limits, harm) if self._runs.is_paired else None,
            notes=tuple(notes),
        )

    def model_of_one_run(
        self, formula: CompiledFormula, limits: ValueRange, *, harm: Side
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
        return pair.model(linear, 0.0, limits, harm, items_variance=2 * own * len(linear.changes))

    def _few(self, pair: FormulaPair, test: ChangeTest) -> list[Note]:
        """Return the reason why even a change of all units could be chance, if it could."""
        if pair.cluster_count is not None and pair.cluster_count < pair.item_count:
            is_few = pair.cluster_count < MIN_UNITS or not test.can_decide
            return [Note.FEW_CLUSTERS] * is_few
        return [Note.FEW_ITEMS] * (pair.item_count < MIN_UNITS or not test.can_decide)

    def _resampled(self, pair: FormulaPair, limits: ValueRange) -> TestedChange | ChangeVerdict:
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
        test, model = None, None
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
            if test.error and not jumps(pair.formula):
                model = ChangeModel(
                    scale=Scale.RATIO if is_logarithm else Scale.NUMBER,
                    items=test.error**2 * pair.item_count,
                    trial=None,
                    measured_trials=pair.trials,
                    square=1.0,
                )
        return TestedChange(
            baseline=first,
            candidate=second,
            test=test,
            is_logarithm=is_logarithm,
            items=pair.item_count,
            trials=pair.trials,
            clusters=pair.cluster_count,
            method=ChangeMethod.RUN_EXCHANGE if test else ChangeMethod.NONE,
            model=model,
            notes=tuple(dict.fromkeys(notes)),
        )
