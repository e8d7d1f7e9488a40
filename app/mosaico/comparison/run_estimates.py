"""The values of one run and their intervals, from its item matrix; runs in a child process.

Imports numpy; call it only in a process that computes.
"""

import math
from functools import cached_property

import numpy as np

from mosaico.comparison.comparison_spec import (
    KpiComparisonSpec,
    KpiInterval,
    MetricComparisonSpec,
)
from mosaico.comparison.run_changes import INSTABILITY_NOTES
from mosaico.formula import CompiledFormula, Reference, compile_formula
from mosaico.formula.ast import Metric
from mosaico.formula.rows import FormulaRows, evaluate_rows
from mosaico.items.formulas.linearization import (
    FloatArray,
    ItemSumStatistic,
    gradient_at,
    influences_of,
    sums_of,
    value_at,
)
from mosaico.items.formulas.properties import ValueRange, is_tied, jumps
from mosaico.items.formulas.run_statistics import (
    EXTREMES,
    OVER_ALL_ITEMS,
    Mask,
    RunStatistics,
    reads_order_statistic,
    shared_labels,
)
from mosaico.kpis.verdict_types import RepeatedTrials
from mosaico.metrics.registry import column_of
from mosaico.statistics.change import UnitInfluences
from mosaico.statistics.intervals import Interval
from mosaico.statistics.passes import at_least_k, pass_at_k, pass_hat_k
from mosaico.statistics.resampling import Draws, draw_run
from mosaico.statistics.trials import (
    REPEATED_TRIALS,
    ItemSums,
    mean_over_items,
)
from mosaico.statistics.value_interval import ValueEstimate, estimate_value, resampled_value
from mosaico.statistics.verdict_rules import (
    VerdictNote,
)

# pass@k is shown for at most this k: nobody reads a longer table.
MAX_K = 10


def trial_statistics(sums: ItemSums) -> list[RepeatedTrials]:
    """pass@k statistics for each k; none for grades and for single trials."""
    trials = int(sums.n.max(initial=0))
    if trials < REPEATED_TRIALS or not sums.are_binary:
        return []
    return [_trial_statistics(sums, k) for k in range(1, min(trials, MAX_K) + 1)]


def _trial_statistics(sums: ItemSums, k: int) -> RepeatedTrials:
    return RepeatedTrials(
        k=k,
        items=int((sums.n >= k).sum()),
        pass_at_k=mean_over_items(pass_at_k, sums, k) or 0.0,
        pass_hat_k=mean_over_items(pass_hat_k, sums, k) or 0.0,
        at_least_k=mean_over_items(at_least_k, sums, k) or 0.0,
    )


class RunEstimates:
    """The intervals of the values of one run."""

    def __init__(self, statistics: RunStatistics) -> None:
        self.statistics = statistics

    def value(self, formula: str) -> float:
        """The value of a formula; NaN where it is undefined."""
        compiled = compile_formula(formula)
        if reads_order_statistic(compiled):
            return float(self._rows(compiled).values[0])
        statistics = self._statistics(compiled)
        value = value_at(compiled, statistics, sums_of(statistics))
        return math.nan if value is None else value

    def _statistics(self, formula: CompiledFormula) -> dict[Reference, ItemSumStatistic]:
        return {
            ref: self.statistics.statistic(
                ref,
                self._items(ref),
                labels=shared_labels([self.statistics], column_of(ref.key)),
                center=self._center(ref),
            )
            for ref in formula.references
        }

    def repeats(self, column: str) -> list[RepeatedTrials] | None:
        """The pass@k statistics of a metric whose value 1 is a pass; None without repeated trials."""
        return trial_statistics(self.statistics.item_sums(column)) or None

    def metric_interval(self, metric: MetricComparisonSpec) -> Interval | None:
        """The interval of a metric."""
        estimate = self._estimate(compile_formula(metric.column), metric.limits)
        return _finite_interval(estimate.interval) if estimate else None

    def kpi_interval(self, kpi: KpiComparisonSpec) -> KpiInterval:
        """The interval of a KPI, from that of its signal when it is a linear function of one."""
        formula, line = compile_formula(kpi.formula), kpi.line
        estimate = self._estimate(
            compile_formula(str(line.reference)) if line else formula, kpi.limits
        )
        notes = self._notes(formula)
        if estimate is None:
            return KpiInterval(interval=None, threshold_probability=None, notes=notes)
        if line is not None:
            estimate = estimate.transformed(line.slope, line.offset)
        interval = _finite_interval(estimate.interval)
        if estimate.error == 0 and not jumps(formula):
            notes = (*notes, VerdictNote.ALL_ALIKE)
        return KpiInterval(
            interval=interval,
            threshold_probability=None
            if kpi.threshold_min is None
            else estimate.probability_at_least(kpi.threshold_min),
            notes=notes,
        )

    def _estimate(self, formula: CompiledFormula, limits: ValueRange) -> ValueEstimate | None:
        """The value of a formula in this run; None when it has none."""
        if any(ref.stat in EXTREMES for ref in formula.references):
            return None
        if jumps(formula) or reads_order_statistic(formula):
            rows = self._rows(formula).values
            return resampled_value(rows) if np.isfinite(rows[0]) else None
        statistics = self._statistics(formula)
        sums = sums_of(statistics)
        value, gradient = (
            value_at(formula, statistics, sums),
            gradient_at(formula, statistics, sums),
        )
        if value is None or gradient is None:
            return None
        masks = [self._items(ref) for ref in formula.references]
        items = np.logical_or.reduce(masks) if masks else np.ones(self.statistics.item_count, bool)
        units = np.unique(self.statistics.units()[items], return_inverse=True)[1]
        return estimate_value(
            value,
            UnitInfluences.of_items(influences_of(statistics, gradient)[items], units),
            minimum=limits.minimum,
            maximum=limits.maximum,
            passes=self._passes(formula),
        )

    def _passes(self, formula: CompiledFormula) -> int | None:
        """The number of values of a metric whose values are passes and failures; None of any other
        formula, also of one that reads nothing but that metric.
        """
        if not isinstance(formula.root, Metric) or formula.root.reference.stat != "mean":
            return None
        if self.statistics.is_counted(formula.root.reference):
            return None
        sums = self.statistics.item_sums(column_of(formula.root.reference.key))
        return int(sums.n.sum()) if sums.are_binary else None

    def _items(self, ref: Reference) -> Mask:
        if ref.stat in OVER_ALL_ITEMS:
            return np.ones(self.statistics.item_count, dtype=np.bool_)
        return self.statistics.has_value(ref)

    def _center(self, ref: Reference) -> float:
        values = self.statistics.values(column_of(ref.key))
        return float(np.nanmean(values)) if np.isfinite(values).any() else 0.0

    def _notes(self, formula: CompiledFormula) -> tuple[VerdictNote, ...]:
        """Return whether the value is unstable or reads an extreme value."""
        notes = [VerdictNote.EXTREME] * any(ref.stat in EXTREMES for ref in formula.references)
        if jumps(formula) or is_tied(formula):
            rows = self._rows(formula)
            notes += [INSTABILITY_NOTES[part.kind] for part in rows.instabilities]
        return tuple(dict.fromkeys(notes))

    @cached_property
    def _draws(self) -> Draws:
        return draw_run(self.statistics.units())

    def _rows(self, formula: CompiledFormula) -> FormulaRows:
        columns = {}
        for ref in formula.references:
            if ref not in self._columns:
                self._columns[ref] = self.statistics.rows(ref, self._items(ref), self._draws)
            columns[ref] = self._columns[ref]
        return evaluate_rows(formula, columns)

    @cached_property
    def _columns(self) -> dict[Reference, FloatArray]:
        return {}


def _finite_interval(interval: Interval | None) -> Interval | None:
    if interval is None or not math.isfinite(interval.high - interval.low):
        return None
    return interval
