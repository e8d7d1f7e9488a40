"""The statistics that one formula reads in two runs, and its change as a sum over items.

Imports numpy; call it only in a process that computes.
"""

from collections.abc import Collection
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mosaico.formula import CompiledFormula, Reference
from mosaico.formula.rows import FormulaRows, evaluate_rows
from mosaico.items.formulas.compared_runs import ComparedRuns
from mosaico.items.formulas.linearization import (
    FloatArray,
    ItemSumStatistic,
    LinearChange,
    contributions_of,
    gradient_at,
    influences_of,
    log_ratio,
    mean_change,
    mean_of_sums,
    slopes_of_means,
    sums_of,
    value_at,
)
from mosaico.items.formulas.properties import ValueRange
from mosaico.items.formulas.run_statistics import (
    OVER_ALL_ITEMS,
    Mask,
    RunStatistics,
    shared_labels,
)
from mosaico.items.formulas.spread import (
    TrialNoise,
    design_effect,
    estimate_trial_noise,
    fit_items,
)
from mosaico.metrics.registry import column_of
from mosaico.statistics.change import satterthwaite
from mosaico.statistics.cost_power import LogNormalItems
from mosaico.statistics.power import ChangeModel
from mosaico.statistics.resampling import (
    SWAPS,
)
from mosaico.statistics.trials import (
    IntArray,
    reduce_trials,
    skewness_of_blocks,
    unit_sums,
)
from mosaico.statistics.verdict_rules import (
    Scale,
    Side,
)
from mosaico.statistics.whole_runs import NO_RUNS, RunEffect


class _StatisticsPair(NamedTuple):
    """The statistics of a formula in a baseline and in the candidate."""

    baseline: dict[Reference, ItemSumStatistic]
    candidate: dict[Reference, ItemSumStatistic]


class FormulaPair:
    """The statistics that a formula reads, in both runs."""

    def __init__(self, pair: ComparedRuns, formula: CompiledFormula) -> None:
        self.formula = formula
        self._pair = pair
        self.is_paired = pair.is_paired
        self.runs = (pair.baseline, pair.candidate)
        self._masks = {ref: self._mask(ref) for ref in formula.references}
        reading = [ref for ref in formula.references if ref.stat not in OVER_ALL_ITEMS]
        counts = [min(int(mask.sum()) for mask in self._masks[ref]) for ref in reading]
        self.has_items = not counts or any(counts)
        # A formula is not known better than its least known metric.
        every = min(run.item_count for run in self.runs)
        self.item_count = min((count for count in counts if count), default=every)
        least = next(
            (ref for ref, count in zip(reading, counts, strict=True) if count == self.item_count),
            None,
        )
        self._least = None if least is None else self._masks[least][1]
        clusters = self.runs[1].units() if self.runs[1].matrix.clusters else None
        self.cluster_count = (
            None if clusters is None else len(np.unique(clusters[self._selected(self._least)]))
        )

    def _mask(self, ref: Reference) -> tuple[Mask, Mask]:
        """The items of each run that count: with a value in both runs of the same items."""
        if ref.stat in OVER_ALL_ITEMS:
            first, second = (np.ones(run.item_count, dtype=np.bool_) for run in self.runs)
            return first, second
        first, second = (run.has_value(ref) for run in self.runs)
        return (first & second, first & second) if self._pair.is_paired else (first, second)

    def _selected(self, mask: Mask | None) -> Mask:
        return np.ones(self.runs[1].item_count, dtype=np.bool_) if mask is None else mask

    @cached_property
    def any_value(self) -> Mask:
        """The items with a value of any metric of the formula, of two runs of the same items."""
        masks = [masks[1] for masks in self._masks.values()]
        return np.logical_or.reduce(masks) if masks else self._selected(None)

    @cached_property
    def units(self) -> IntArray:
        """The unit of each item of the formula, from 0 without gaps."""
        units = self.runs[1].units()[self.any_value]
        return np.unique(units, return_inverse=True)[1].astype(np.intp)

    @property
    def unit_positions(self) -> tuple[IntArray, int]:
        """The units of the formula among all units of the runs, and the number of these."""
        units = self.runs[1].units()
        return np.unique(units[self.any_value]), int(units.max()) + 1

    @property
    def trials(self) -> float:
        """The mean number of traces per item of the candidate."""
        run = self.runs[1]
        return len(run.item_index) / max(1, run.item_count)

    @property
    def is_unchanged(self) -> bool:
        """Return whether every item has the same values in both runs."""
        first, second = self.runs
        columns = {column_of(ref.key) for ref in self.formula.references}
        return all(
            np.array_equal(
                getattr(first.item_sums(column), part), getattr(second.item_sums(column), part)
            )
            for column in columns
            for part in ("n", "total", "squares")
        )

    def _statistics(self, baseline: RunStatistics) -> "_StatisticsPair":
        """The statistics of a baseline, which may be one of several runs, and of the candidate."""
        runs = (baseline, self.runs[1])
        first, second = (dict[Reference, ItemSumStatistic](), dict[Reference, ItemSumStatistic]())
        for ref in self.formula.references:
            column = column_of(ref.key)
            labels = shared_labels(runs, column)
            values = baseline.values(column)
            center = float(np.nanmean(values)) if np.isfinite(values).any() else 0.0
            for statistics, run, mask in zip((first, second), runs, self._masks[ref], strict=True):
                statistics[ref] = run.statistic(ref, mask, center=center, labels=labels)
        return _StatisticsPair(first, second)

    def linearize(self, limits: ValueRange) -> LinearChange | None:
        """The change as a sum over items; None when a run has no value or no gradient.

        With several baseline runs the baseline of a KPI is the mean of its values in these runs, not
        its value of their mean: the minimum of two metrics, for example, is lower in a run than in
        a mean of runs, because noise lowers a minimum.
        """
        change = self._linearize(self._statistics(self.runs[0]), limits)
        runs = self._pair.baseline_runs
        if change is None or len(runs) == 1 or not self._is_averaged:
            return change
        by_run = [self._linearize(self._statistics(run), limits) for run in runs]
        return mean_change(
            change, [change_from for change_from in by_run if change_from is not None]
        )

    @property
    def _is_averaged(self) -> bool:
        """Return whether the formula is one of several means over the same items, so that its value
        in a mean of runs may differ from the mean of its values.
        """
        return (
            self._pair.is_paired
            and len(self.formula.references) > 1
            and all(
                ref.stat == "mean" and not self.runs[0].is_counted(ref)
                for ref in self.formula.references
            )
        )

    def _linearize(self, statistics: "_StatisticsPair", limits: ValueRange) -> LinearChange | None:
        first, second = statistics
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
            effect = log_ratio(candidate, baseline)
        else:
            effect = candidate - baseline
        before, between, after = (gradient or {} for gradient in gradients)
        if not self._pair.is_paired:
            own = (influences_of(first, before), influences_of(second, after))
            shared = (influences_of(first, between), influences_of(second, between))
            return LinearChange(baseline, candidate, effect, is_logarithm, *shared, *own, between)
        items = self.any_value
        mean_gradient = {
            # Simpson's rule: with one gradient a kink (MIN, CLAMP) could hide the change.
            ref: (before[ref] + 4 * between[ref] + after[ref]) / 6
            for ref in self.formula.references
        }
        changes = contributions_of(second, mean_gradient) - contributions_of(first, mean_gradient)
        if is_logarithm and effect * changes.sum() > 0:
            # Of large changes the rule is too coarse: their spread would hide them.
            changes *= effect / changes.sum()
        own_influences = (
            influences_of(first, before)[items], influences_of(second, after)[items]
        )  # fmt: skip
        return LinearChange(
            baseline,
            candidate,
            effect,
            is_logarithm,
            changes[items],
            own_influences[1] - own_influences[0],
            *own_influences,
            between,
        )

    def skewness(self, linear: LinearChange) -> float:
        """The skewness of the change between several baseline runs and one candidate."""
        runs = self.runs[0].matrix.runs
        if runs == 1 or any(ref.stat not in {"mean", "sum"} for ref in linear.gradient):
            return 0.0
        if any(self.runs[0].is_counted(ref) for ref in linear.gradient):
            return 0.0
        deviations = np.zeros((self.runs[1].item_count, runs + 1))
        for ref, weights in linear.gradient.items():
            blocks = np.stack([block for run in self.runs for block in run.by_run(ref)], axis=1)
            # An item without a value in a run has no deviation there.
            centered = blocks - np.nanmean(blocks, axis=1, keepdims=True)
            deviations += weights[0] * np.nan_to_num(centered)
        return skewness_of_blocks(
            deviations[self.any_value], self.units, is_logarithm=linear.is_logarithm
        )

    def model(
        self,
        linear: LinearChange,
        error: float,
        limits: ValueRange,
        harm: Side,
        *,
        items_variance: float | None = None,
        runs: RunEffect = NO_RUNS,
    ) -> ChangeModel | None:
        """The spread of the items, for the minimum detectable effect; `error` is the standard error
        of the change by its items alone, `runs` what whole runs add. `items_variance` is used in place of the variance of the changes when the
        noise of trials is unknown.
        """
        scale = Scale.RATIO if linear.is_logarithm else Scale.NUMBER
        if limits == (0.0, 1.0):
            scale = Scale.RATE
        items, units = len(linear.changes), unit_sums(None, self.units)
        noise = self._trial_noise(linear)
        has_spread = error or scale is Scale.RATE or noise or items_variance
        if not has_spread or min(items, len(units)) < 2:  # noqa: PLR2004 - a variance
            return None
        changes, trials = items * linear.changes, self.trials
        # One more change of one trial: items without any change say little about others.
        unseen = 1 / trials if scale is Scale.RATE else 0.0
        observed = (float(changes @ changes) + unseen) / (items + 1)
        if noise is not None:
            spread = max(0.0, observed - noise.explained)
            # Of unequal numbers of trials the few ones count: as if all items had such trials.
            trial = noise.explained * trials / 2
            trial_noise = noise.explained / 2
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
            design_effect=design_effect(changes, error, len(units)),
            units_per_item=(1 + satterthwaite(units / items)) / items,
            costs=self._costs(linear),
            runs=runs,
        )

    def _costs(self, linear: LinearChange) -> LogNormalItems | None:
        if not (linear.is_logarithm and self._pair.is_paired):
            return None
        return fit_items(self.runs, linear.gradient, self.any_value, self.units, linear.changes)

    def _item_values(self, linear: LinearChange) -> FloatArray:
        """The value of each item, half way between the runs; relative to the mean for ratios."""
        items = len(linear.changes)
        mean = 1.0 if linear.is_logarithm else (linear.baseline + linear.candidate) / 2
        return mean + items * (linear.baseline_influences + linear.candidate_influences) / 2

    def _trial_noise(self, linear: LinearChange) -> TrialNoise | None:
        """The noise of trials; None without an item that has several."""
        scores = [self.trace_values(linear, run) for run in self.runs]
        sums = [
            reduce_trials(run.item_index, run_scores, run.item_count)
            for run, run_scores in zip(self.runs, scores, strict=True)
            if run_scores is not None
        ]
        return estimate_trial_noise(sums)

    def trace_values(
        self, linear: LinearChange, run: RunStatistics, columns: Collection[str] | None = None
    ) -> FloatArray | None:
        """The contribution of each trace, by these metrics only if they are named, times the number of items; None for
        formulas of other statistics than means.
        """
        slopes = slopes_of_means(linear.gradient, self.formula.references)
        if slopes is None:
            return None
        items = len(linear.changes)
        terms = [
            items * slopes[ref.key] * run.values(column_of(ref.key))
            for ref in self.formula.references
            if slopes[ref.key] and (columns is None or column_of(ref.key) in columns)
        ]
        return np.sum(terms, axis=0) if terms else None

    def rows(self) -> tuple[FormulaRows, FormulaRows]:
        """The observed value of the formula in each run, its exchanges and its resamples.

        The instabilities are those of the resamples: where chance alone takes another branch.
        """
        pooled, draws = self._pair.pooled, self._pair.draws
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
