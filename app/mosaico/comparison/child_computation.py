"""Computes intervals and changes of a run from item matrices; runs in a child process.

Imports numpy and scipy; call it only in a process that computes.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import IntEnum
from functools import cached_property, partial
from typing import NamedTuple, TypeVar

import numpy as np

from mosaico.comparison.comparison_spec import (
    ComparisonResult,
    ComparisonSpec,
    KpiComparisonSpec,
    KpiInterval,
    MetricComparisonSpec,
    ObservedValues,
)
from mosaico.comparison.equal_metrics import find_equal_metrics
from mosaico.comparison.run_changes import INSTABILITY_NOTES, RunChanges
from mosaico.comparison.tested_change import TestedChange
from mosaico.comparison.value_failures import ValueFailures
from mosaico.comparison.whole_run_rules import whole_runs_of
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
from mosaico.items.formulas.properties import Line, ValueRange, is_tied, jumps
from mosaico.items.formulas.run_statistics import (
    EXTREMES,
    OVER_ALL_ITEMS,
    Mask,
    RunStatistics,
    reads_order_statistic,
    shared_labels,
)
from mosaico.items.matrix import ItemMatrix
from mosaico.kpis.verdict_types import RepeatedTrials, SubjectKey
from mosaico.metrics.registry import column_of
from mosaico.statistics.change import UnitInfluences
from mosaico.statistics.intervals import Interval
from mosaico.statistics.multiplicity import benjamini_hochberg, max_t
from mosaico.statistics.passes import at_least_k, pass_at_k, pass_hat_k
from mosaico.statistics.resampling import Draws, draw_run
from mosaico.statistics.trials import (
    REPEATED_TRIALS,
    ItemSums,
    mean_over_items,
)
from mosaico.statistics.value_interval import ValueEstimate, estimate_value, resampled_value
from mosaico.statistics.verdict_rules import (
    ChangeVerdict,
    Note,
    Side,
    Verdict,
    VerdictRule,
    without_change,
)

T = TypeVar("T")

# pass@k is shown for at most this k: nobody reads a longer table.
MAX_K = 10


@np.errstate(all="ignore")
def compute(
    spec: ComparisonSpec, adjusted_p: Mapping[str, float] | None = None
) -> ComparisonResult:
    """All intervals and changes of a run; the same spec gives the same bits.

    Numbers that overflow are left out. `adjusted_p` are adjusted p-values by metric column and KPI
    ID, for changes that are judged together with others than those of the spec.
    """
    if not spec.run.items:
        return ComparisonResult(
            failures=spec.failures, deciders=spec.deciders, lost_values=spec.lost_values
        )
    failures = ValueFailures(spec.failures)
    run = _RunEstimates(RunStatistics(spec.run, spec.count_metrics))
    result = ComparisonResult(
        metric_intervals=_attempt_each(
            failures,
            {
                (metric.column, None): partial(run.metric_interval, metric)
                for metric in spec.metrics
            },
        ),
        kpi_intervals=_attempt_each(
            failures, {(None, kpi.id): partial(run.kpi_interval, kpi) for kpi in spec.kpis}
        ),
        repeats=_attempt_each(
            failures,
            {
                (metric.column, None): partial(run.repeats, metric.column)
                for metric in spec.metrics
                if metric.is_success
            },
        ),
    )
    if spec.candidate is not None and spec.baseline is not None:
        changes = assess_changes(spec, spec.baseline, spec.candidate, failures, adjusted_p)
        result = replace(
            result,
            metrics={column: change for (column, _), change in changes.items() if column},
            kpis={kpi_id: change for (_, kpi_id), change in changes.items() if kpi_id},
        )
    return replace(
        result,
        failures=failures.by_key,
        deciders=spec.deciders,
        lost_values=spec.lost_values,
    )


@np.errstate(all="ignore")
def observed_values(spec: ComparisonSpec) -> ObservedValues:
    """The values of the metrics and KPIs of a run; one that is not finite is left out."""
    failures = ValueFailures(spec.failures)
    run = _RunEstimates(RunStatistics(spec.run, spec.count_metrics))
    metrics = _attempt_each(
        failures,
        {(metric.column, None): partial(run.value, metric.column) for metric in spec.metrics},
    )
    kpis = _attempt_each(
        failures, {(None, kpi.id): partial(run.value, kpi.formula) for kpi in spec.kpis}
    )
    return ObservedValues(_only_finite(metrics), _only_finite(kpis), failures.by_key)


def _attempt_each(
    failures: ValueFailures, computations: Mapping[SubjectKey, Callable[[], T | None]]
) -> dict[str, T]:
    """The results by column or KPI ID, without those that fail or are None."""
    results = {
        column or kpi_id or "": failures.attempt((column, kpi_id), compute)
        for (column, kpi_id), compute in computations.items()
    }
    return {name: result for name, result in results.items() if result is not None}


def _only_finite(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if math.isfinite(value)}


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


class _Subject(NamedTuple):
    """A KPI or metric to judge: a linear function of a tested signal.

    Subjects of one signal, and metrics with equal values, are one test, so that they never get different verdicts.
    """

    key: SubjectKey
    signal: str
    limits: ValueRange
    rule: VerdictRule
    line: Line | None
    family: "_Family"
    is_amount: bool

    @property
    def name(self) -> str:
        """The column of the metric or the ID of the KPI."""
        return self.key[0] or self.key[1] or ""


class _Family(IntEnum):
    """Changes that are judged together. A signal of several families belongs to the first."""

    JUDGED = 0
    KPI = 1
    METRIC = 2


@np.errstate(all="ignore")
def assess_changes(
    spec: ComparisonSpec,
    baseline: ItemMatrix,
    candidate: ItemMatrix,
    failures: ValueFailures,
    given_p: Mapping[str, float] | None = None,
) -> dict[SubjectKey, ChangeVerdict]:
    """The verdicts of metrics by (column, None) and of KPIs by (None, ID), without those that fail."""
    # The p-values that are given are those of single metrics.
    equal = find_equal_metrics(spec) if given_p is None else {}
    subjects = [
        subject._replace(signal=equal.get(subject.signal, subject.signal))
        for subject in sorted(_subjects(spec), key=lambda subject: subject.family)
    ]
    if not candidate.items:
        no_items = without_change(Verdict.INCONCLUSIVE, Note.NO_ITEMS)
        return {subject.key: no_items for subject in subjects}
    runs = (RunStatistics(matrix, spec.count_metrics) for matrix in (baseline, candidate))
    changes = RunChanges(
        *runs,
        is_paired=spec.is_paired,
        about=spec.about,
        judgements={metric.column: metric.judgement for metric in spec.metrics if metric.judgement},
    )
    tested = dict[str, TestedChange | ChangeVerdict]()
    families = dict[str, _Family]()
    for subject in subjects:
        if subject.signal in tested:
            continue
        test = partial(_unless_overflow, partial(_test, spec, changes, subject))
        # Each subject of a signal that fails has a failure of its own.
        if (change := failures.attempt(subject.key, test)) is not None:
            tested[subject.signal] = change
            families[subject.signal] = subject.family
    adjusted = _adjusted_p(tested, families)
    if given_p is not None:
        adjusted = {subject.signal: given_p.get(subject.name, 1.0) for subject in subjects}
    verdicts = {
        subject.key: failures.attempt(
            subject.key, partial(_judge, tested[subject.signal], subject, adjusted)
        )
        for subject in subjects
        if subject.signal in tested
    }
    return {key: verdict for key, verdict in verdicts.items() if verdict is not None}


def _judge(
    change: TestedChange | ChangeVerdict, subject: _Subject, adjusted_p: Mapping[str, float]
) -> ChangeVerdict:
    if isinstance(change, ChangeVerdict):
        return change
    p = adjusted_p.get(subject.signal)
    return _unless_overflow(partial(change.verdict, subject.rule, p, subject.line))


def _test(
    spec: ComparisonSpec, changes: RunChanges, subject: _Subject
) -> TestedChange | ChangeVerdict:
    is_falling = subject.line is not None and subject.line.slope < 0
    return changes.change(
        compile_formula(subject.signal),
        subject.limits,
        harm=_opposite(subject.rule.side) if is_falling else subject.rule.side,
        whole_runs=whole_runs_of(
            *subject.key,
            subject.line,
            subject.limits,
            is_amount=subject.is_amount,
            measured=spec.measured_runs,
            given_sd=spec.run_sd,
        ),
    )


def _unless_overflow(compute_change: Callable[[], T]) -> T | ChangeVerdict:
    """Numbers near the largest float have no spread that could be computed."""
    try:
        return compute_change()
    except OverflowError:
        return without_change(Verdict.INCONCLUSIVE, Note.TOO_LARGE)


def _subjects(spec: ComparisonSpec) -> Iterator[_Subject]:
    for metric in spec.metrics:
        if metric.rule is not None:
            yield _Subject(
                key=(metric.column, None),
                signal=metric.column,
                limits=metric.limits,
                rule=metric.rule,
                line=None,
                family=_Family.JUDGED if metric.is_judged else _Family.METRIC,
                is_amount=metric.is_amount,
            )
    for kpi in spec.kpis:
        if kpi.rule is not None:
            yield _Subject(
                key=(None, kpi.id),
                signal=str(kpi.line.reference) if kpi.line else kpi.formula,
                limits=kpi.limits,
                rule=kpi.rule,
                line=kpi.line,
                family=_Family.JUDGED if kpi.is_judged else _Family.KPI,
                is_amount=kpi.is_amount,
            )


def _adjusted_p(
    tested: Mapping[str, TestedChange | ChangeVerdict], families: Mapping[str, _Family]
) -> dict[str, float]:
    """The adjusted p-value of each signal.

    Of the judged ones any false call has a probability of 5 %; of the others, which are for
    information, 5 % of the calls are expected to be false.
    """
    adjusted = dict[str, float]()
    for family in _Family:
        tests = {
            signal: change.test
            for signal, change in tested.items()
            if families[signal] is family
            and isinstance(change, TestedChange)
            and change.test is not None
            and math.isfinite(change.test.p)
        }
        if family is _Family.JUDGED:
            p_values = max_t([*tests.values()])
        else:
            p_values = benjamini_hochberg(test.p for test in tests.values())
        adjusted.update(zip(tests, p_values, strict=True))
    return adjusted


def _opposite(side: Side) -> Side:
    return {Side.LOW: Side.HIGH, Side.HIGH: Side.LOW, Side.BOTH: Side.BOTH}[side]


class _RunEstimates:
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
            notes = (*notes, Note.ALL_ALIKE)
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

    def _notes(self, formula: CompiledFormula) -> tuple[Note, ...]:
        """Return whether the value is unstable or reads an extreme value."""
        notes = [Note.EXTREME] * any(ref.stat in EXTREMES for ref in formula.references)
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
