"""Computes intervals and changes of a run from item matrices; runs in a child process.

Imports numpy and scipy; call it only in a process that computes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from app.comparison.comparison_spec import (
    EXTREMES,
    ComparisonResult,
    ComparisonSpec,
    KpiComparisonSpec,
    KpiInterval,
    MetricComparisonSpec,
    ObservedValues,
)
from app.comparison.item_matrix import ItemMatrix
from app.formula import Reference, compile_formula
from app.formula.rows import FormulaRows, InstabilityKind, Mask, Rows, evaluate_rows
from app.kpis.verdict_types import RepeatedTrials
from app.metrics.registry import column_of, load_metrics, provider_for
from app.metrics.types import CountedMetric, MetricRef
from app.statistics.intervals import Interval
from app.statistics.means import estimate_mean
from app.statistics.multiplicity import adjust_verdicts, benjamini_hochberg
from app.statistics.paired_change import compare_items, compare_resampled
from app.statistics.resampling import (
    SEED,
    Draws,
    draw_items,
    resampled_counts,
    resampled_error,
    resampled_interval,
    resampled_statistic,
    share_at_least,
)
from app.statistics.trials import (
    IntArray,
    ItemSums,
    at_least_k,
    mean_over_items,
    pass_at_k,
    pass_hat_k,
    reduce_trials,
)
from app.statistics.unpaired_change import compare_unpaired
from app.statistics.verdict_rules import (
    ChangeVerdict,
    Note,
    Verdict,
    VerdictRule,
    drop_non_finite,
    without_change,
)

# pass@k is shown for at most this k: nobody reads a longer table.
MAX_K = 10
# These statistics include the items without a value.
_OVER_ALL_ITEMS = frozenset({"n", "count", "coverage"})
_INSTABILITY_NOTES = {InstabilityKind.TIE: Note.TIE, InstabilityKind.CLIFF: Note.CLIFF}


@np.errstate(all="ignore")
def compute(spec: ComparisonSpec) -> ComparisonResult:
    """All intervals and changes of a run; the same spec gives the same bits.

    Numbers that overflow are left out.
    """
    # Nothing can be drawn from no items.
    if not spec.run.items:
        return ComparisonResult()
    run = _ResampledRun(spec.run, spec.count_metrics)
    intervals = {metric.column: run.metric_interval(metric) for metric in spec.metrics}
    result = ComparisonResult(
        metric_intervals={
            column: interval for column, interval in intervals.items() if interval is not None
        },
        kpi_intervals={
            kpi.id: run.kpi_interval(kpi, intervals.get(kpi.column or "")) for kpi in spec.kpis
        },
        repeats={
            metric.column: statistics
            for metric in spec.metrics
            if metric.is_success and (statistics := trial_statistics(run.sums(metric.column)))
        },
    )
    if spec.candidate is None or spec.baseline is None:
        return result
    return _with_changes(result, spec, spec.baseline, spec.candidate)


def kpi_change_errors(spec: ComparisonSpec) -> dict[str, float | None]:
    """The standard error of each KPI's change between two runs of the same items, by KPI ID.

    Without a baseline it is the standard error of the value; None when unknown.
    """
    run = _ResampledRun(spec.candidate or spec.run, spec.count_metrics)
    baseline = None
    if spec.baseline is not None:
        baseline = _ResampledRun(spec.baseline, spec.count_metrics, run.draws)
        # Before any statistic is resampled: both runs are then limited to the items that both have.
        baseline.other, run.other = run, baseline
    errors: dict[str, float | None] = {}
    for kpi in spec.kpis:
        rows = run.formula_rows(kpi.formula).values
        if baseline is not None:
            rows = rows - baseline.formula_rows(kpi.formula).values
        errors[kpi.id] = resampled_error(rows, run.draws.unit_count)
    return errors


@np.errstate(all="ignore")
def observed_values(spec: ComparisonSpec) -> ObservedValues:
    """The values of the metrics and KPIs of a run; one that is not finite is left out."""
    run = _ResampledRun(spec.run, spec.count_metrics)
    metrics = {
        metric.column: float(run.rows(Reference(metric.column, "mean"))[0])
        for metric in spec.metrics
    }
    kpis = {kpi.id: float(run.formula_rows(kpi.formula).values[0]) for kpi in spec.kpis}
    return ObservedValues(_only_finite(metrics), _only_finite(kpis))


def _only_finite(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if math.isfinite(value)}


def trial_statistics(sums: ItemSums) -> list[RepeatedTrials]:
    """pass@k statistics for each k; none for grades and for single trials."""
    trials = int(sums.n.max(initial=0))
    if trials < 2 or not sums.are_binary:  # noqa: PLR2004 - repeated trials
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


def _with_changes(
    result: ComparisonResult, spec: ComparisonSpec, baseline: ItemMatrix, candidate: ItemMatrix
) -> ComparisonResult:
    rules = {metric.column: metric.rule for metric in spec.metrics if metric.rule is not None}
    kpis = [kpi for kpi in spec.kpis if kpi.rule is not None]
    if not candidate.items:
        no_items = without_change(Verdict.INCONCLUSIVE, Note.NO_ITEMS)
        return replace(
            result,
            metrics=dict.fromkeys(rules, no_items),
            kpis={kpi.id: no_items for kpi in kpis},
        )
    comparison = (_PairedRunChanges if spec.is_paired else _UnpairedRunChanges)(
        baseline, candidate, spec.count_metrics
    )
    metrics = {column: comparison.compare_metric(column, rule) for column, rule in rules.items()}
    changes = {kpi.id: comparison.compare_kpi(kpi) for kpi in kpis}
    return replace(
        result,
        metrics=_adjust(metrics),
        # A gate is a decision on one KPI: it must not become weaker because a benchmark has many
        # others.
        kpis=_adjust(changes, unadjusted={kpi.id for kpi in kpis if kpi.is_gate}),
    )


def _adjust(
    changes: Mapping[str, ChangeVerdict], unadjusted: AbstractSet[str] = frozenset()
) -> Mapping[str, ChangeVerdict]:
    """The changes adjusted for their number, except those in `unadjusted`."""
    # Before the adjustment, which cannot order NaN.
    finite = {name: drop_non_finite(change) for name, change in changes.items()}
    names = [name for name in finite if name not in unadjusted]
    adjusted = adjust_verdicts([finite[name] for name in names], benjamini_hochberg)
    return {**finite, **dict(zip(names, adjusted, strict=True))}


def _finite_interval(interval: Interval | None) -> Interval | None:
    if interval is None or not math.isfinite(interval.high - interval.low):
        return None
    return interval


class _ResampledRun:
    """A run and its resamples; each statistic is resampled once, however many KPIs read it.

    `count_metrics` are the metrics that are computed from label counts. `other` is a run of the same
    items: a metric then includes only the items with a value in both runs.
    """

    other: "_ResampledRun | None" = None

    def __init__(
        self, matrix: ItemMatrix, count_metrics: Mapping[str, MetricRef], draws: Draws | None = None
    ) -> None:
        self.matrix = matrix
        self.count_metrics = count_metrics
        self.clusters = matrix.clusters or None
        # Shared by both runs of a pair, so that each resample has the same items in both.
        self.draws = draws or draw_items(len(matrix.items), clusters=self.clusters)
        self._item_index: IntArray = np.asarray(matrix.item_index, dtype=np.intp)
        self._rows: dict[Reference, Rows] = {}
        self._masks: dict[str, Mask] = {}

    def sums(self, column: str) -> ItemSums:
        """The trials of a metric reduced to sums by item."""
        values = np.asarray(self.matrix.values[column])
        return reduce_trials(self._item_index, values, len(self.matrix.items))

    def has_value(self, column: str) -> Mask:
        """Mask of the items with a value of a metric."""
        if column not in self._masks:
            is_present = np.isfinite(np.asarray(self.matrix.values[column]))
            index = self._item_index[is_present]
            if column in self.count_metrics:
                # The label counts decide here: the value of the run is computed from them.
                index = np.asarray(self.matrix.counts[column].item_index, dtype=np.intp)
            self._masks[column] = np.bincount(index, minlength=len(self.matrix.items)) > 0
        return self._masks[column]

    def compared_items(self, column: str) -> Mask:
        """Mask of the items with a value of a metric in this run and in the other."""
        mask = self.has_value(column)
        return mask if self.other is None else mask & self.other.has_value(column)

    def effective_items(self, references: Iterable[Reference]) -> Mask:
        """The items of the referenced metric with the fewest items.

        A formula is not known better than its least known metric.
        """
        masks = [
            self.compared_items(column_of(ref.key))
            for ref in references
            if ref.stat not in _OVER_ALL_ITEMS
        ]
        all_items = np.ones(len(self.matrix.items), dtype=np.bool_)
        return min((mask for mask in masks if mask.any()), key=np.count_nonzero, default=all_items)

    def formula_rows(self, formula: str) -> FormulaRows:
        """The observed value of a formula, and its value in every resample."""
        compiled = compile_formula(formula)
        return evaluate_rows(compiled, {ref: self.rows(ref) for ref in compiled.references})

    def metric_interval(self, metric: MetricComparisonSpec) -> Interval | None:
        """The interval of a metric.

        A metric of label counts whose resamples are all equal gets the interval of its item means:
        its own would be a point, as if no other result were possible.
        """
        if metric.column in self.count_metrics:
            reference = Reference(metric.column, "mean")
            units = self.draws.size(self.effective_items([reference])).units
            interval = resampled_interval(self.rows(reference), units)
            if interval is not None and interval.low < interval.high:
                return interval
        estimate = estimate_mean(
            self.sums(metric.column), scale=metric.scale, clusters=self.clusters
        )
        return _finite_interval(estimate.interval) if estimate else None

    def kpi_interval(self, kpi: KpiComparisonSpec, metric: Interval | None) -> KpiInterval:
        """The interval of a KPI; `metric` is the interval of the metric that the KPI is the mean of."""
        rows = self.formula_rows(kpi.formula)
        references = compile_formula(kpi.formula).references
        resampled = None
        if np.isfinite(rows.values[0]):
            units = self.draws.size(self.effective_items(references)).units
            resampled = _finite_interval(resampled_interval(rows.values, units))
        # A KPI that is just a metric shows the metric's interval, so that the two never differ.
        interval, threshold = metric or resampled, kpi.threshold_min
        is_point = interval is not None and interval.low == interval.high
        return KpiInterval(
            interval=interval,
            threshold_probability=None
            if threshold is None
            else share_at_least(rows.values, threshold),
            notes=(*_formula_notes(rows, references), *(Note.ALL_ALIKE,) * is_point),
        )

    def rows(self, reference: Reference) -> Rows:
        """The observed value of a statistic, and its value in every resample."""
        if reference not in self._rows:
            column = column_of(reference.key)
            is_counted = column in self.count_metrics and reference.stat == "mean"
            self._rows[reference] = (
                self._count_rows(column)
                if is_counted
                else self._statistic_rows(column, reference.stat)
            )
        return self._rows[reference]

    def _statistic_rows(self, column: str, stat: str) -> Rows:
        values = np.asarray(self.matrix.values[column])
        if stat not in _OVER_ALL_ITEMS and self.other is not None:
            values = np.where(self.compared_items(column)[self._item_index], values, np.nan)
        return resampled_statistic(stat, values, self._item_index, self.draws)

    def _count_rows(self, column: str) -> Rows:
        load_metrics()
        counts, provider = self.matrix.counts[column], provider_for(self.count_metrics[column])
        assert isinstance(provider, CountedMetric)
        item_index = np.asarray(counts.item_index, dtype=np.intp)
        is_compared = self.compared_items(column)[item_index]
        return resampled_counts(
            np.array(counts.columns).T[is_compared],
            item_index[is_compared],
            np.asarray(counts.label_index, dtype=np.intp)[is_compared],
            self.draws,
            lambda labels, sums: provider.values_of_counts(
                [counts.labels[index] for index in labels], sums
            ),
        )


class _RunChanges(ABC):
    """A baseline and a candidate run, and the changes of metrics and KPIs between them."""

    def __init__(self, baseline: _ResampledRun, candidate: _ResampledRun) -> None:
        self._baseline, self._candidate = baseline, candidate
        self._trials = len(candidate.matrix.item_index) / len(candidate.matrix.items)

    def compare_metric(self, column: str, rule: VerdictRule) -> ChangeVerdict:
        """Metrics of label counts are resampled; all other metrics have a mean for every item."""
        if column in self._candidate.count_metrics:
            return self._compare_resampled_metric(column, rule)
        return self._compare_items(column, rule)

    def compare_kpi(self, kpi: KpiComparisonSpec) -> ChangeVerdict:
        """A KPI that is just a metric is compared as the metric; any other formula is resampled."""
        assert kpi.rule is not None
        if kpi.column is not None:
            return self.compare_metric(kpi.column, kpi.rule)
        references = compile_formula(kpi.formula).references
        baseline = self._baseline.formula_rows(kpi.formula)
        candidate = self._candidate.formula_rows(kpi.formula)
        notes = dict.fromkeys(
            (*_formula_notes(candidate, references), *_formula_notes(baseline, references))
        )
        return self._compare_rows(baseline.values, candidate.values, kpi.rule, references, notes)

    def _compare_resampled_metric(self, column: str, rule: VerdictRule) -> ChangeVerdict:
        reference = Reference(column, "mean")
        baseline, candidate = self._baseline.rows(reference), self._candidate.rows(reference)
        return self._compare_rows(baseline, candidate, rule, [reference])

    @abstractmethod
    def _compare_items(self, column: str, rule: VerdictRule) -> ChangeVerdict:
        """The change of a metric from its values by item."""

    @abstractmethod
    def _compare_rows(
        self,
        baseline: Rows,
        candidate: Rows,
        rule: VerdictRule,
        references: Sequence[Reference],
        notes: Iterable[Note] = (),
    ) -> ChangeVerdict:
        """The change of a value from its resamples; `references` are the statistics it is made of."""


class _PairedRunChanges(_RunChanges):
    """Two runs of the same items: each resample draws the same items in both runs."""

    def __init__(
        self,
        baseline: ItemMatrix,
        candidate: ItemMatrix,
        count_metrics: Mapping[str, MetricRef],
    ) -> None:
        resampled_candidate = _ResampledRun(candidate, count_metrics)
        resampled_baseline = _ResampledRun(baseline, count_metrics, resampled_candidate.draws)
        resampled_baseline.other = resampled_candidate
        resampled_candidate.other = resampled_baseline
        super().__init__(resampled_baseline, resampled_candidate)

    def _compare_items(self, column: str, rule: VerdictRule) -> ChangeVerdict:
        baseline, candidate = self._baseline.sums(column), self._candidate.sums(column)
        return compare_items(baseline, candidate, rule, clusters=self._candidate.clusters)

    def _compare_rows(
        self,
        baseline: Rows,
        candidate: Rows,
        rule: VerdictRule,
        references: Sequence[Reference],
        notes: Iterable[Note] = (),
    ) -> ChangeVerdict:
        return compare_resampled(
            baseline,
            candidate,
            rule,
            self._candidate.draws,
            trials=self._trials,
            notes=notes,
            items=self._candidate.effective_items(references),
        )


class _UnpairedRunChanges(_RunChanges):
    """Two runs of different items: each is resampled on its own, and they are two samples."""

    def __init__(
        self,
        baseline: ItemMatrix,
        candidate: ItemMatrix,
        count_metrics: Mapping[str, MetricRef],
    ) -> None:
        # Another seed: the same draws would correlate two independent samples.
        draws = draw_items(len(baseline.items), clusters=baseline.clusters or None, seed=SEED + 1)
        super().__init__(
            _ResampledRun(baseline, count_metrics, draws), _ResampledRun(candidate, count_metrics)
        )

    def _compare_items(self, column: str, rule: VerdictRule) -> ChangeVerdict:
        """Clustered items are resampled by cluster, because Welch's test has no clusters."""
        if self._candidate.clusters is not None:
            return self._compare_resampled_metric(column, rule)
        return compare_unpaired(self._baseline.sums(column), self._candidate.sums(column), rule)

    def _compare_rows(
        self,
        baseline: Rows,
        candidate: Rows,
        rule: VerdictRule,
        references: Sequence[Reference],
        notes: Iterable[Note] = (),
    ) -> ChangeVerdict:
        smaller = min(
            (self._baseline, self._candidate),
            key=lambda run: run.draws.size(run.effective_items(references)).units,
        )
        change = compare_resampled(
            baseline,
            candidate,
            rule,
            smaller.draws,
            items=smaller.effective_items(references),
            trials=self._trials,
            notes=dict.fromkeys((Note.UNPAIRED, *notes)),
        )
        return replace(change, method="bootstrap of two samples")


def _formula_notes(rows: FormulaRows, references: Iterable[Reference]) -> tuple[Note, ...]:
    """The notes on a formula whose resamples are unstable or read an extreme value."""
    notes = [_INSTABILITY_NOTES[instability.kind] for instability in rows.instabilities]
    if any(ref.stat in EXTREMES for ref in references):
        notes.append(Note.EXTREME)
    return tuple(dict.fromkeys(notes))
