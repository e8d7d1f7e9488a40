"""The changes of KPIs and metrics between two runs: one test for each.

Imports numpy and scipy; call it only in a process that computes.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from app.comparison.comparison_spec import ValueRange
from app.comparison.formula_properties import Line, jumps
from app.comparison.linearization import (
    FloatArray,
    Gradient,
    ItemSumStatistic,
    contributions_of,
    gradient_at,
    influences_of,
    mean_of_sums,
    slopes_of_means,
    sums_of,
    value_at,
)
from app.comparison.run_statistics import (
    EXTREMES,
    ORDER_STATISTICS,
    OVER_ALL_ITEMS,
    Mask,
    RunStatistics,
    pool_items,
    shared_labels,
)
from app.formula import CompiledFormula, Reference
from app.formula.rows import FormulaRows, InstabilityKind, evaluate_rows
from app.metrics.registry import column_of
from app.statistics.change import (
    ChangeTest,
    UnitInfluences,
    paired_change_test,
    skewness_of_blocks,
    unpaired_change_test,
)
from app.statistics.power import ChangeModel, settle_equivalence
from app.statistics.resampling import (
    SWAPS,
    DrawnPair,
    Trials,
    draw_pair,
    swap_test,
    trial_permutation_p,
)
from app.statistics.trials import IntArray, reduce_trials
from app.statistics.verdict_rules import (
    ALPHA,
    MIN_UNITS,
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
    method: str
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
        margin = rule.margin * scale.unit
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
                    mde=scale.detectable(rule.side),
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
                    remedy=scale.remedy(margin),
                    notes=self.notes,
                )
            )
        )

    @property
    def _difference(self) -> float:
        if self.is_logarithm:
            return math.log(self.candidate / self.baseline)
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

    def detectable(self, side: Side) -> float | None:
        model = self.change.model
        if model is None:
            return None
        effect = model.detectable_effect(self.change.items, max(1.0, self.change.trials))
        if not math.isfinite(effect):
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
        trials = max(1.0, change.trials)
        remedy = settle_equivalence(model, items=change.items, trials=trials, margin=margin / scale)
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
        self._baseline, self._candidate, self._is_paired = baseline, candidate, is_paired
        self._is_clustered = bool(candidate.matrix.clusters)

    def change(
        self, formula: CompiledFormula, limits: ValueRange, *, harm: Side
    ) -> TestedChange | ChangeVerdict:
        """The tested change of a formula, or a verdict without numbers where it has no value.

        `harm` is the direction for which the minimum detectable effect is estimated.
        """
        pair = _FormulaPair(self, formula)
        if not pair.has_items:
            return without_change(Verdict.INVALID, Note.NO_ITEMS)
        if any(ref.stat in ORDER_STATISTICS for ref in formula.references) or jumps(formula):
            return self._resampled(pair, limits)
        return self._linearized(pair, limits, harm)

    def _linearized(
        self, pair: "_FormulaPair", limits: ValueRange, harm: Side
    ) -> TestedChange | ChangeVerdict:
        linear = pair.linearize(limits)
        if linear is None:
            return without_change(Verdict.INCONCLUSIVE, Note.UNDEFINED, n_items=pair.item_count)
        width = None if linear.is_logarithm else limits.width
        notes = list[Note]()
        if self._is_paired:
            units = pair.units
            test = paired_change_test(
                linear.effect,
                linear.changes,
                linear.influences,
                units,
                width=width,
                skewness=pair.skewness(linear),
            ).among(*pair.unit_positions)
            method = "clustered t" if self._is_clustered else "paired t"
        else:
            own_units = (self._baseline.units(), self._candidate.units())
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
            method = "t of two samples"
            notes.append(Note.UNPAIRED)
        notes += self._few(pair, test)
        is_identical = self._is_paired and test.error == 0 and linear.effect == 0
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
            model=pair.model(linear, test.error, limits, harm) if self._is_paired else None,
            notes=tuple(notes),
        )

    def model_of_one_run(
        self, formula: CompiledFormula, limits: ValueRange, *, harm: Side
    ) -> ChangeModel | None:
        """The spread of the items when both runs are the same: from its trials, otherwise from the
        items themselves, which differ more than they will change. None when it is unknown.
        """
        pair = _FormulaPair(self, formula)
        linear = pair.linearize(limits) if pair.has_items else None
        if linear is None:
            return None
        own = UnitInfluences.of_items(linear.baseline_influences, pair.units).variance.variance
        return pair.model(linear, 0.0, limits, harm, items_variance=2 * own * len(linear.changes))

    def _few(self, pair: "_FormulaPair", test: ChangeTest) -> list[Note]:
        """Why even a change of all units could be chance, if it could."""
        if pair.cluster_count is not None and pair.cluster_count < pair.item_count:
            is_few = pair.cluster_count < MIN_UNITS or not test.can_decide
            return [Note.FEW_CLUSTERS] * is_few
        return [Note.FEW_ITEMS] * (pair.item_count < MIN_UNITS or not test.can_decide)

    def _resampled(self, pair: "_FormulaPair", limits: ValueRange) -> TestedChange | ChangeVerdict:
        """The change of a formula that jumps, by exchanging the runs."""
        if not self._is_paired:
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
            method="exchange of the runs" if test else "none",
            model=model,
            notes=tuple(dict.fromkeys(notes)),
        )

    @cached_property
    def _pooled(self) -> RunStatistics:
        pooled = pool_items(self._baseline.matrix, self._candidate.matrix)
        return RunStatistics(pooled, self._candidate.count_metrics)

    @cached_property
    def _draws(self) -> DrawnPair:
        return draw_pair(self._candidate.units())


class _LinearChange(NamedTuple):
    """A change with the contributions of the items, of shape (items of the formula,).

    `changes` add up to about the effect, `influences` (of the candidate minus of the baseline) to 0.
    For runs of different items these are the influences of baseline and candidate with the gradient
    between the runs.
    `gradient` is that between the runs, on the scale of the effect.
    """

    baseline: float
    candidate: float
    effect: float
    is_logarithm: bool
    changes: FloatArray
    influences: FloatArray
    baseline_influences: FloatArray
    candidate_influences: FloatArray
    gradient: Gradient


class _TrialNoise(NamedTuple):
    """The variance of one trial, and what the trials explain of the variance of a change."""

    trial: float
    explained: float


class _FormulaPair:
    """The statistics that a formula reads, in both runs."""

    def __init__(self, changes: "RunChanges", formula: CompiledFormula) -> None:
        self.formula = formula
        self._changes = changes
        self._runs = (changes._baseline, changes._candidate)  # noqa: SLF001 - one unit
        self._is_paired = changes._is_paired  # noqa: SLF001
        self._masks = {ref: self._mask(ref) for ref in formula.references}
        reading = [ref for ref in formula.references if ref.stat not in OVER_ALL_ITEMS]
        counts = [min(int(mask.sum()) for mask in self._masks[ref]) for ref in reading]
        self.has_items = not counts or any(counts)
        # A formula is not known better than its least known metric.
        every = min(run.item_count for run in self._runs)
        self.item_count = min((count for count in counts if count), default=every)
        least = next(
            (ref for ref, count in zip(reading, counts, strict=True) if count == self.item_count),
            None,
        )
        self._least = None if least is None else self._masks[least][1]
        clusters = self._runs[1].units() if self._runs[1].matrix.clusters else None
        self.cluster_count = (
            None if clusters is None else len(np.unique(clusters[self._selected(self._least)]))
        )

    def _mask(self, ref: Reference) -> tuple[Mask, Mask]:
        """The items of each run that count: with a value in both runs of the same items."""
        if ref.stat in OVER_ALL_ITEMS:
            first, second = (np.ones(run.item_count, dtype=np.bool_) for run in self._runs)
            return first, second
        first, second = (run.has_value(column_of(ref.key)) for run in self._runs)
        return (first & second, first & second) if self._is_paired else (first, second)

    def _selected(self, mask: Mask | None) -> Mask:
        return np.ones(self._runs[1].item_count, dtype=np.bool_) if mask is None else mask

    @cached_property
    def _any_value(self) -> Mask:
        """The items with a value of any metric of the formula, of two runs of the same items."""
        masks = [masks[1] for masks in self._masks.values()]
        return np.logical_or.reduce(masks) if masks else self._selected(None)

    @cached_property
    def units(self) -> IntArray:
        """The unit of each item of the formula, from 0 without gaps."""
        units = self._runs[1].units()[self._any_value]
        return np.unique(units, return_inverse=True)[1].astype(np.intp)

    @property
    def unit_positions(self) -> tuple[IntArray, int]:
        """The units of the formula among all units of the runs, and the number of these."""
        units = self._runs[1].units()
        return np.unique(units[self._any_value]), int(units.max()) + 1

    @property
    def trials(self) -> float:
        """The mean number of traces per item of the candidate."""
        run = self._runs[1]
        return len(run.item_index) / max(1, run.item_count)

    @property
    def is_unchanged(self) -> bool:
        """Whether every item has the same values in both runs."""
        first, second = self._runs
        columns = {column_of(ref.key) for ref in self.formula.references}
        return all(
            np.array_equal(
                getattr(first.item_sums(column), part), getattr(second.item_sums(column), part)
            )
            for column in columns
            for part in ("n", "total", "squares")
        )

    @cached_property
    def _statistics(
        self,
    ) -> tuple[dict[Reference, ItemSumStatistic], dict[Reference, ItemSumStatistic]]:
        first, second = (dict[Reference, ItemSumStatistic](), dict[Reference, ItemSumStatistic]())
        for ref in self.formula.references:
            column = column_of(ref.key)
            labels = shared_labels(self._runs, column)
            values = self._runs[0].values(column)
            center = float(np.nanmean(values)) if np.isfinite(values).any() else 0.0
            for statistics, run, mask in zip(
                (first, second), self._runs, self._masks[ref], strict=True
            ):
                statistics[ref] = run.statistic(ref, mask, center=center, labels=labels)
        return first, second

    def linearize(self, limits: ValueRange) -> _LinearChange | None:
        """The change as a sum over items; None when a run has no value or no gradient."""
        first, second = self._statistics
        points = [sums_of(first), mean_of_sums(first, second), sums_of(second)]
        values = [value_at(self.formula, first, point) for point in points]
        gradients = [gradient_at(self.formula, first, point) for point in points]
        baseline, middle, candidate = values
        if baseline is None or candidate is None or None in gradients or middle is None:
            return None
        is_logarithm = limits.is_multiplicative and baseline > 0 and candidate > 0
        if is_logarithm:
            gradients = [
                {ref: weights / value for ref, weights in gradient.items()}
                for gradient, value in zip(gradients, (baseline, middle, candidate), strict=True)
                if gradient is not None
            ]
            effect = math.log(candidate / baseline)
        else:
            effect = candidate - baseline
        before, between, after = (gradient or {} for gradient in gradients)
        if not self._is_paired:
            own = (influences_of(first, before), influences_of(second, after))
            shared = (influences_of(first, between), influences_of(second, between))
            return _LinearChange(baseline, candidate, effect, is_logarithm, *shared, *own, between)
        items = self._any_value
        mean_gradient = {
            # Simpson's rule: with one gradient a kink (MIN, CLAMP) could hide the change.
            ref: (before[ref] + 4 * between[ref] + after[ref]) / 6
            for ref in self.formula.references
        }
        changes = contributions_of(second, mean_gradient) - contributions_of(first, mean_gradient)
        own_influences = (
            influences_of(first, before)[items], influences_of(second, after)[items]
        )  # fmt: skip
        return _LinearChange(
            baseline,
            candidate,
            effect,
            is_logarithm,
            changes[items],
            own_influences[1] - own_influences[0],
            *own_influences,
            between,
        )

    def skewness(self, linear: _LinearChange) -> float:
        """The skewness of the change between several baseline runs and one candidate."""
        runs = self._runs[0].matrix.runs
        if runs == 1 or any(ref.stat not in {"mean", "sum"} for ref in linear.gradient):
            return 0.0
        if any(self._runs[0].is_counted(ref) for ref in linear.gradient):
            return 0.0
        deviations = np.zeros((self._runs[1].item_count, runs + 1))
        for ref, weights in linear.gradient.items():
            blocks = np.stack([block for run in self._runs for block in run.by_run(ref)], axis=1)
            # An item without a value in a run has no deviation there.
            centered = blocks - np.nanmean(blocks, axis=1, keepdims=True)
            deviations += weights[0] * np.nan_to_num(centered)
        return skewness_of_blocks(
            deviations[self._any_value], self.units, is_logarithm=linear.is_logarithm
        )

    def model(
        self,
        linear: _LinearChange,
        error: float,
        limits: ValueRange,
        harm: Side,
        *,
        items_variance: float | None = None,
    ) -> ChangeModel | None:
        """The spread of the items, for the minimum detectable effect; `error` is the standard error
        of the change. `items_variance` is used in place of the variance of the changes when the
        noise of trials is unknown.
        """
        scale = Scale.RATIO if linear.is_logarithm else Scale.NUMBER
        if limits == (0.0, 1.0):
            scale = Scale.RATE
        items, units = len(linear.changes), int(self.units.max()) + 1
        noise = self._trial_noise(linear)
        if items < 2 or not (error or scale is Scale.RATE or noise or items_variance):  # noqa: PLR2004
            return None
        changes, trials = items * linear.changes, self.trials
        # One more change of one trial: items without any change say little about others.
        unseen = 1 / trials if scale is Scale.RATE else 0.0
        observed = (float(changes @ changes) + unseen) / (items + 1)
        if noise is not None:
            spread, trial = max(0.0, observed - noise.explained), noise.trial
            trial_noise = noise.trial / trials
        else:
            spread, trial = observed if items_variance is None else items_variance, None
            trial_noise = spread / 2
        values = self._item_values(linear)
        if scale is Scale.RATE and harm is Side.HIGH:
            # Worse is more: the failures of such a rate are its complement.
            values = 1 - values
        mean = float(values.mean())
        return ChangeModel(
            scale=scale,
            items=spread,
            trial=trial,
            measured_trials=trials,
            mean=mean,
            square=max(mean * mean, float((values**2).mean()) - trial_noise),
            design_effect=self._design_effect(changes, error) if units < items else 1.0,
            units_per_item=units / items,
        )

    def _design_effect(self, changes: FloatArray, error: float) -> float:
        """The factor by which clusters increase the variance of the mean change."""
        plain = float(changes.var(ddof=1)) / len(changes)
        if plain > 0 and error > 0:
            return max(1.0, error**2 / plain)
        # Without changes the trials of a cluster are taken as one.
        return len(changes) / (float(self.units.max()) + 1)

    def _item_values(self, linear: _LinearChange) -> FloatArray:
        """The value of each item, half way between the runs; relative to the mean for ratios."""
        items = len(linear.changes)
        mean = 1.0 if linear.is_logarithm else (linear.baseline + linear.candidate) / 2
        return mean + items * (linear.baseline_influences + linear.candidate_influences) / 2

    def _trial_noise(self, linear: _LinearChange) -> "_TrialNoise | None":
        """The noise of trials; None without an item that has several in both runs."""
        scores = [self._trace_values(linear, run) for run in self._runs]
        sums = [
            reduce_trials(run.item_index, run_scores, run.item_count)
            for run, run_scores in zip(self._runs, scores, strict=True)
            if run_scores is not None
        ]
        if not sums:
            return None
        trial = np.concatenate([run.trial_variances for run in sums])
        explained = sum(run.trial_variances / np.maximum(run.n, 1) for run in sums)
        if not np.isfinite(explained).any():
            return None
        return _TrialNoise(float(np.nanmean(trial)), float(np.nanmean(explained)))

    def _trace_values(self, linear: _LinearChange, run: RunStatistics) -> FloatArray | None:
        """The contribution of each trace, times the number of items; None for formulas of other
        statistics than means.
        """
        slopes = slopes_of_means(linear.gradient, self.formula.references)
        if slopes is None:
            return None
        items = len(linear.changes)
        terms = [
            items * slopes[ref.key] * run.values(column_of(ref.key))
            for ref in self.formula.references
            if slopes[ref.key]
        ]
        return np.sum(terms, axis=0) if terms else None

    def are_these_items_changed(self, linear: _LinearChange) -> bool:
        """Whether the trials show a change of exactly these items."""
        if not self._is_paired:
            return False
        scores = [self._trace_values(linear, run) for run in self._runs]
        trials = []
        for run, run_scores in zip(self._runs, scores, strict=True):
            if run_scores is None:
                return False
            is_selected = self._selected(self._least)[run.item_index]
            trials.append(Trials(run_scores[is_selected], run.item_index[is_selected]))
        p = trial_permutation_p(*trials)
        return p is not None and p < ALPHA

    def rows(self) -> tuple[FormulaRows, FormulaRows]:
        """The observed value of the formula in each run, its exchanges and its resamples.

        The instabilities are those of the resamples: where chance alone takes another branch.
        """
        pooled, draws = self._changes._pooled, self._changes._draws  # noqa: SLF001
        runs = []
        for run_draws in draws:
            columns = {
                ref: pooled.rows(ref, np.concatenate(self._masks[ref]), run_draws)
                for ref in self.formula.references
            }
            resampled = {
                ref: np.delete(rows, np.s_[1 : SWAPS + 1]) for ref, rows in columns.items()
            }
            values = evaluate_rows(self.formula, columns).values
            runs.append(FormulaRows(values, evaluate_rows(self.formula, resampled).instabilities))
        return runs[0], runs[1]
