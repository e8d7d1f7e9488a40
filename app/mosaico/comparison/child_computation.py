"""Computes intervals and changes of a run from item matrices; runs in a child process.

Imports numpy; call it only in a process that computes.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from mosaico.comparison.comparison_spec import (
    ComparisonResult,
    ComparisonSpec,
    ObservedValues,
)
from mosaico.comparison.equal_metrics import find_equal_metrics
from mosaico.comparison.run_changes import RunChanges
from mosaico.comparison.run_estimates import RunEstimates
from mosaico.comparison.tested_change import TestedChange
from mosaico.comparison.value_failures import ValueFailures
from mosaico.comparison.whole_run_rules import whole_runs_of
from mosaico.formula import compile_formula
from mosaico.items.formulas.properties import Line, ValueRange
from mosaico.items.formulas.run_statistics import (
    RunStatistics,
)
from mosaico.items.matrix import ItemMatrix
from mosaico.kpis.verdict_types import SubjectKey
from mosaico.statistics.multiplicity import benjamini_hochberg, max_t
from mosaico.statistics.verdict_rules import (
    ChangeVerdict,
    Side,
    Verdict,
    VerdictNote,
    VerdictRule,
    without_change,
)

T = TypeVar("T")


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
    run = RunEstimates(RunStatistics(spec.run, spec.count_metrics))
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
    run = RunEstimates(RunStatistics(spec.run, spec.count_metrics))
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
        no_items = without_change(Verdict.INCONCLUSIVE, VerdictNote.NO_ITEMS)
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
        return without_change(Verdict.INCONCLUSIVE, VerdictNote.TOO_LARGE)


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
