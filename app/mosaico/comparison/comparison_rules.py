"""A run with its baseline: what is compared by which rules, and the verdicts of the result; pure."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from mosaico.comparison.baselines import Baseline
from mosaico.comparison.comparison_spec import (
    ComparisonResult,
    ComparisonSpec,
    KpiComparisonSpec,
    KpiInterval,
    MetricComparisonSpec,
)
from mosaico.comparison.deciders import (
    CommonMetric,
    DecidedBy,
    Deciders,
    ExpectedAnswers,
    select_deciders,
)
from mosaico.comparison.value_failures import ValueFailures, describe_failure
from mosaico.comparison.verdict_text import (
    NOT_COMPARABLE,
    not_compared,
    render_run,
    render_verdict,
    run_not_compared,
)
from mosaico.formula import CompiledFormula, Reference, compile_formula
from mosaico.formula.bounds import Bounds, bounds_of
from mosaico.items.flipped import item_means
from mosaico.items.formulas.properties import Line, ValueRange, line_of
from mosaico.items.matrix import ItemMatrix, ItemPairing
from mosaico.kpis.evaluate import KpiValue
from mosaico.kpis.verdict_types import (
    BaselineRuns,
    ComparedItems,
    RunVerdict,
    RunVerdicts,
    SubjectKey,
    ValueVerdict,
)
from mosaico.metrics.formula_direction import statistic_bounds
from mosaico.metrics.registry import column_of, provider_for
from mosaico.metrics.run_value import is_counted, is_run_metric
from mosaico.metrics.types import Direction, MetricRef, MetricSpec
from mosaico.run_store.plan import PlanDifferences, PlannedMetric, RunPlan, compare_plans
from mosaico.statistics.verdict_rules import MARGIN, MIN_EFFECT, Scale, Side, Verdict, VerdictRule

HARM_SIDES = {
    Direction.HIGHER_IS_BETTER: Side.LOW,
    Direction.LOWER_IS_BETTER: Side.HIGH,
    Direction.NEITHER: Side.BOTH,
}
# Units that are compared as ratios: one more second matters after 1 s, but not after 100 s.
RATIO_UNITS = frozenset({"ms", "s", "USD", "tokens"})
# The margin of a KPI as a multiple of its minimum effect: the same ratio as that of the defaults.
MARGIN_FACTOR = MARGIN / MIN_EFFECT
CHANGED_METRIC = f"{NOT_COMPARABLE}, which has another version of the metric; rescore the baseline"
CHANGED_KPI = f"{NOT_COMPARABLE}: its formula or its metrics changed; rescore the baseline"
# The source in the plan of a file that is compared without a server.
FILE_SOURCE = "file"
NOT_PER_ITEM = "its value of the whole run is neither a mean over items nor computed from counts"


class Signal(NamedTuple):
    """The tested statistic of a formula: that of its `line`, otherwise the formula itself."""

    line: Line | None
    limits: ValueRange


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """A run with its plan, its KPI values and its baseline.

    `judged` names the KPIs and metrics that are judged together; empty: `select_deciders` selects them.
    """

    plan: RunPlan
    kpis: Sequence[KpiValue]
    baseline: Baseline | None
    judged: Collection[str] = ()

    @property
    def item_columns(self) -> list[str]:
        """The metrics whose value of the run is computed from its items."""
        counted = self.count_metrics
        return [
            metric.column
            for metric in self.plan.metrics
            if metric.column in counted or not is_run_metric(metric.ref)
        ]

    @property
    def count_metrics(self) -> dict[str, MetricRef]:
        """The metrics whose value of the run is computed from label counts, by column."""
        return {metric.column: metric.ref for metric in self.plan.metrics if is_counted(metric.ref)}

    @property
    def differences(self) -> PlanDifferences:
        """The differences of the plan from those of the baseline runs."""
        runs = self.baseline.runs if self.baseline else ()
        return compare_plans((run.plan for run in runs), self.plan)

    def spec(self, run: ItemMatrix, pairing: ItemPairing | None) -> ComparisonSpec:
        """The computation of intervals, and of changes when there is a pairing with a baseline.

        Metrics and KPIs that changed their definition get intervals, but no rule.
        """
        changed = self.differences
        matrices = (run, pairing.baseline, pairing.candidate) if pairing else (run,)
        columns = self._resampled_columns(matrices)
        failures = ValueFailures()
        deciders = self.deciders(pairing)
        metrics = [
            failures.attempt(
                (metric.column, None),
                partial(
                    self._metric_spec,
                    metric,
                    is_changed=metric.column in changed.metrics,
                    is_judged=metric.column in deciders.judged,
                ),
            )
            for metric in self.plan.metrics
            if metric.column in columns
        ]
        kpis = [
            failures.attempt(
                (None, value.kpi.id),
                partial(
                    self._kpi_spec,
                    value,
                    is_changed=value.kpi.id in changed.kpis,
                    is_judged=value.kpi.name in deciders.judged,
                ),
            )
            for value in self.kpis
            if value.value is not None
            and {column_of(ref.key) for ref in _references(value)} <= columns
        ]
        return ComparisonSpec(
            run=run,
            candidate=pairing.candidate if pairing else None,
            baseline=pairing.baseline if pairing else None,
            is_paired=pairing.is_paired if pairing else True,
            metrics=[metric for metric in metrics if metric is not None],
            kpis=[kpi for kpi in kpis if kpi is not None],
            failures=failures.by_key,
            deciders=deciders,
        )

    def deciders(self, pairing: ItemPairing | None) -> Deciders:
        """What decides about the compared items."""
        kpis = default_judged(self.kpis)
        if self.judged or kpis or pairing is None:
            return select_deciders((), ExpectedAnswers(), named=list(self.judged), kpis=kpis)
        answers, changed = _expected_answers(pairing), self.differences.metrics
        common = list(self._common_metrics(pairing))
        comparable = [metric for metric in common if metric.spec.key not in changed]
        deciders = select_deciders(comparable, answers)
        # A measure of quality that cannot be compared is not the same as none.
        return deciders if deciders.names else select_deciders(common, answers)

    def _common_metrics(self, pairing: ItemPairing) -> Iterator[CommonMetric]:
        columns = set(self.item_columns)
        for metric in self.plan.metrics:
            common = _common_metric(metric, pairing) if metric.column in columns else None
            if common is not None:
                yield common

    def kpi_rule(self, value: KpiValue) -> VerdictRule:
        """The changes of a KPI that count; a linear function of a metric has the metric's rule."""
        side = HARM_SIDES[Direction(value.kpi.direction)]
        min_effect = value.kpi.min_effect
        if min_effect is not None:
            return VerdictRule(side=side, min_effect=min_effect, margin=MARGIN_FACTOR * min_effect)
        line = line_of(compile_formula(value.kpi.formula))
        specs = self._metric_specs(value)
        if line is not None and line.reference.stat == "mean":
            scale = metric_rule(specs[0]).scale
            # The limits of a rate are absolute: 100 times a rate has limits 100 times as large.
            factor = abs(line.slope) if scale is Scale.RATE else 1.0
            rule = VerdictRule(side=side, scale=scale)
            return replace(rule, min_effect=factor * rule.min_effect, margin=factor * rule.margin)
        is_rate = value.value is not None and 0 <= value.value <= 1 and all(map(_is_rate, specs))
        return VerdictRule(side=side, scale=Scale.RATE if is_rate else Scale.NUMBER)

    def render(self, result: ComparisonResult, pairing: ItemPairing) -> RunVerdicts:
        """The verdicts of a run that was compared with its baseline."""
        assert self.baseline is not None
        changed = self.differences
        failures = ValueFailures(result.failures)
        metrics = {
            metric.column: _verdict_or_failure(
                failures,
                (metric.column, None),
                metric.column,
                partial(self._metric_verdict, metric, result, changed),
            )
            for metric in self.plan.metrics
        }
        kpis = {
            value.kpi.id: _verdict_or_failure(
                failures,
                (None, value.kpi.id),
                value.kpi.name,
                partial(self._kpi_verdict, value, result, changed),
            )
            for value in self.kpis
        }
        run = render_run(
            self._deciding_verdicts(result.deciders, metrics, kpis),
            noun="KPI" if kpis else "metric",
            is_measured=result.deciders.by is not DecidedBy.NOTHING,
            is_file=self.plan.source == FILE_SOURCE,
            baseline=self._baseline_runs(),
            items=ComparedItems(
                compared=len(pairing.candidate.items) if pairing.is_paired else 0,
                only_baseline=pairing.only_baseline,
                only_candidate=pairing.only_candidate,
                revised=pairing.revised,
                left_out=pairing.left_out,
                are_samples=pairing.are_samples,
            ),
            differences=changed,
            failures=self._failure_reasons(failures),
        )
        return _with_results(run, metrics, kpis, replace(result, failures=failures.by_key))

    def render_not_compared(
        self, result: ComparisonResult, reason: str, verdict: Verdict | None = None
    ) -> RunVerdicts:
        """The verdicts of a run that was not compared, with the intervals of its values."""
        failures = ValueFailures(result.failures)
        run = run_not_compared(
            reason,
            verdict,
            baseline=self._baseline_runs(),
            differences=self.differences,
            failures=self._failure_reasons(failures),
        )

        def value_verdict(key: SubjectKey, name: str) -> ValueVerdict:
            failure = failures.by_key.get(key)
            more = f"; {describe_failure(name, failure)}" if failure else ""
            return not_compared(f"{reason}{more}", verdict)

        metrics = {
            metric.column: value_verdict((metric.column, None), metric.column)
            for metric in self.plan.metrics
        }
        kpis = {
            value.kpi.id: value_verdict((None, value.kpi.id), value.kpi.name) for value in self.kpis
        }
        return _with_results(run, metrics, kpis, result)

    def _deciding_verdicts(
        self,
        deciders: Deciders,
        metrics: Mapping[str, ValueVerdict],
        kpis: Mapping[str, ValueVerdict],
    ) -> list[ValueVerdict]:
        """The verdicts that are that of the run: of its KPIs, otherwise of the metrics that decide."""
        if kpis:
            return list(kpis.values())
        guard = metrics.get(deciders.guard or "")
        is_worse = guard is not None and guard.verdict is Verdict.REGRESSED
        names = deciders.judged if is_worse else deciders.names
        return [metrics[name] for name in names if name in metrics]

    def _failure_reasons(self, failures: ValueFailures) -> list[str]:
        """The reasons of all failures, each with the name of its metric or KPI."""
        names = {value.kpi.id: value.kpi.name for value in self.kpis}
        return [
            describe_failure(column or names.get(kpi_id or "", kpi_id or ""), failure)
            for (column, kpi_id), failure in failures.by_key.items()
        ]

    def _metric_spec(
        self, metric: PlannedMetric, *, is_changed: bool, is_judged: bool
    ) -> MetricComparisonSpec:
        spec = _spec(metric)
        rule = metric_rule(spec)
        return MetricComparisonSpec(
            column=metric.column,
            rule=None if is_changed else rule,
            limits=ValueRange(spec.minimum, spec.maximum),
            is_judged=is_judged,
            is_success=_is_rate(spec) and spec.direction is Direction.HIGHER_IS_BETTER,
            count_metric=metric.ref if is_counted(metric.ref) else None,
        )

    def _kpi_spec(self, value: KpiValue, *, is_changed: bool, is_judged: bool) -> KpiComparisonSpec:
        signal = self.signal(compile_formula(value.kpi.formula))
        return KpiComparisonSpec(
            id=value.kpi.id,
            formula=value.kpi.formula,
            is_judged=is_judged,
            rule=None if is_changed else self.kpi_rule(value),
            limits=signal.limits,
            line=signal.line,
            threshold_min=value.kpi.threshold_min,
        )

    def signal(self, formula: CompiledFormula) -> Signal:
        """Return the signal of a formula: a formula of one statistic has the limits of that
        statistic.
        """
        line = line_of(formula)
        if line is None:
            return Signal(line, self._value_limits(formula))
        return Signal(line, _value_range(self._bounds(formula)[line.reference]))

    def _value_limits(self, formula: CompiledFormula) -> ValueRange:
        """The smallest and the largest value of a formula."""
        return _value_range(bounds_of(formula, self._bounds(formula)))

    def _bounds(self, formula: CompiledFormula) -> dict[Reference, Bounds]:
        planned = {metric.column: metric for metric in self.plan.metrics}
        return {
            ref: statistic_bounds(ref.stat, _spec(planned[column_of(ref.key)]))
            for ref in formula.references
        }

    def _metric_verdict(
        self, metric: PlannedMetric, result: ComparisonResult, changed: PlanDifferences
    ) -> ValueVerdict:
        change = result.metrics.get(metric.column)
        if change is not None:
            spec = _spec(metric)
            scale = metric_rule(spec).scale
            limits = ValueRange(spec.minimum, spec.maximum)
            return render_verdict(metric.column, change, scale, unit=spec.unit, limits=limits)
        if metric.column in changed.metrics:
            return not_compared(CHANGED_METRIC, Verdict.INVALID)
        return not_compared(NOT_PER_ITEM)

    def _kpi_verdict(
        self, value: KpiValue, result: ComparisonResult, changed: PlanDifferences
    ) -> ValueVerdict:
        kpi, change = value.kpi, result.kpis.get(value.kpi.id)
        if change is not None:
            scale = self.kpi_rule(value).scale
            limits = self._value_limits(compile_formula(kpi.formula))
            return render_verdict(
                kpi.name, change, scale, unit=kpi.unit, gate=kpi.gate, limits=limits
            )
        if value.value is None:
            return not_compared(f"it has no value: {value.reason}", has_value=False)
        if kpi.id in changed.kpis:
            return not_compared(CHANGED_KPI, Verdict.INVALID)
        return not_compared(NOT_PER_ITEM)

    def _baseline_runs(self) -> BaselineRuns | None:
        if self.baseline is None:
            return None
        return BaselineRuns(
            mode=self.baseline.mode, run_ids=tuple(run.id for run in self.baseline.runs)
        )

    def _resampled_columns(self, matrices: Sequence[ItemMatrix]) -> set[str]:
        """The columns that can be resampled: label counts have to exist in all matrices."""
        counted = self.count_metrics
        return {
            column
            for column in self.item_columns
            if column not in counted or all(column in matrix.counts for matrix in matrices)
        }

    def _metric_specs(self, value: KpiValue) -> list[MetricSpec]:
        planned = {metric.column: metric for metric in self.plan.metrics}
        return [_spec(planned[column_of(ref.key)]) for ref in _references(value)]


def default_judged(kpis: Sequence[KpiValue]) -> list[str]:
    """The names of the KPIs that are judged together by default: the KPIs of the gate, otherwise
    all KPIs.
    """
    return [value.kpi.name for value in kpis if value.kpi.gate] or [
        value.kpi.name for value in kpis
    ]


def _value_range(bounds: Bounds) -> ValueRange:
    return ValueRange(*(end if math.isfinite(end) else None for end in bounds))


def metric_rule(spec: MetricSpec) -> VerdictRule:
    """The changes of a metric that count."""
    other = Scale.RATIO if spec.unit in RATIO_UNITS else Scale.NUMBER
    return VerdictRule(
        side=HARM_SIDES[spec.direction], scale=Scale.RATE if _is_rate(spec) else other
    )


def _common_metric(metric: PlannedMetric, pairing: ItemPairing) -> CommonMetric | None:
    """The metric; None when one of the runs has no value of it."""
    means = [item_means(side, metric.column) for side in (pairing.baseline, pairing.candidate)]
    if not all(means):
        return None
    before, after = means
    items = len(before.keys() & after.keys()) if pairing.is_paired else min(map(len, means))
    mean = sum(math.fsum(values.values()) / len(values) for values in means) / 2
    return CommonMetric(ref=metric.ref, spec=_spec(metric), items=items, mean=mean)


def _expected_answers(pairing: ItemPairing) -> ExpectedAnswers:
    sides = (pairing.baseline, pairing.candidate)
    return ExpectedAnswers(
        items=sum(len(side.items) for side in sides),
        absent=sum(side.short.count(None) for side in sides),
        short=sum(side.short.count(True) for side in sides),
        distinct=2 * len({revision for side in sides for revision in side.revisions}),
    )


def _is_rate(spec: MetricSpec) -> bool:
    return (spec.minimum, spec.maximum) == (0.0, 1.0)


def _spec(metric: PlannedMetric) -> MetricSpec:
    return provider_for(metric.ref).spec


def _references(value: KpiValue) -> tuple[Reference, ...]:
    return compile_formula(value.kpi.formula).references


def _verdict_or_failure(
    failures: ValueFailures, key: SubjectKey, name: str, render: Callable[[], ValueVerdict]
) -> ValueVerdict:
    """A verdict; without one, and with the reason, where any part of it failed."""
    verdict = failures.attempt(key, render)
    if verdict is None or key in failures.by_key:
        return not_compared(describe_failure(name, failures.by_key[key]))
    return verdict


def _with_results(
    run: RunVerdict,
    metrics: Mapping[str, ValueVerdict],
    kpis: Mapping[str, ValueVerdict],
    result: ComparisonResult,
) -> RunVerdicts:
    """The verdicts with the intervals and trial statistics that every run has."""
    return RunVerdicts(
        run=run,
        metrics={
            column: verdict.model_copy(update={"repeats": tuple(result.repeats.get(column, ()))})
            for column, verdict in metrics.items()
        },
        kpis={
            kpi: _with_interval_facts(verdict, result.kpi_intervals.get(kpi))
            for kpi, verdict in kpis.items()
        },
        metric_intervals=result.metric_intervals,
        kpi_intervals={
            kpi: interval.interval
            for kpi, interval in result.kpi_intervals.items()
            if interval.interval
        },
        failures=result.failures,
    )


def _with_interval_facts(verdict: ValueVerdict, interval: KpiInterval | None) -> ValueVerdict:
    """The verdict of a KPI with its threshold probability and warnings."""
    if interval is None:
        return verdict
    return verdict.model_copy(
        update={
            "threshold_probability": interval.threshold_probability,
            "warnings": tuple(note.sentence for note in interval.notes),
        }
    )
