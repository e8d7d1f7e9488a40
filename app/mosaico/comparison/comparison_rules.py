"""A run with its baseline: what is compared by which rules, and the verdicts of the result; pure."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

from mosaico.comparison.baseline_runs import Baseline
from mosaico.comparison.comparison_spec import (
    ComparisonSpec,
    KpiComparisonSpec,
    MetricComparisonSpec,
)
from mosaico.comparison.deciders import (
    CommonMetric,
    Deciders,
    ExpectedAnswers,
    are_settled,
    select_deciders,
)
from mosaico.comparison.value_coverage import LostValues, find_lost_values
from mosaico.comparison.value_failures import ValueFailures
from mosaico.formula import CompiledFormula, Reference, compile_formula
from mosaico.formula.bounds import Bounds, bounds_of
from mosaico.items.flipped import item_means
from mosaico.items.formulas.properties import Line, ValueRange, line_of
from mosaico.items.matrix import ItemMatrix, ItemPairing
from mosaico.kpis.evaluate import KpiValue
from mosaico.kpis.judge_types import PeopleAgreement
from mosaico.metrics.formula_direction import statistic_bounds
from mosaico.metrics.judgements import judgement_of
from mosaico.metrics.metric_gaps import MetricGap
from mosaico.metrics.registry import column_of, provider_for
from mosaico.metrics.run_value import is_counted, is_run_metric
from mosaico.metrics.types import Direction, MetricRef, MetricSpec
from mosaico.run_store.plan import PlannedMetric, RunPlan
from mosaico.run_store.plan_differences import (
    PlanDifferences,
    compare_plans,
)
from mosaico.statistics.verdict_rules import MARGIN, MIN_EFFECT, About, Scale, Side, VerdictRule
from mosaico.statistics.whole_runs import MeasuredRuns

HARM_SIDES = {
    Direction.HIGHER_IS_BETTER: Side.LOW,
    Direction.LOWER_IS_BETTER: Side.HIGH,
    Direction.NEITHER: Side.BOTH,
}
# Units that are compared as ratios: one more second matters after 1 s, but not after 100 s.
RATIO_UNITS = frozenset({"ms", "s", "USD", "tokens"})
# The margin of a KPI as a multiple of its minimum effect: the same ratio as that of the defaults.
MARGIN_FACTOR = MARGIN / MIN_EFFECT


class TestedSignal(NamedTuple):
    """The tested statistic of a formula: that of its `line`, otherwise the formula itself."""

    line: Line | None
    limits: ValueRange


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """A run with its plan, its KPI values and its baseline.

    `judged` names the KPIs and metrics that are judged together; empty: `select_deciders` selects them. `ruler` says how
    the run is measured differently from the run before it, if it is. `about` is the question that decides, in place of
    the one of the benchmark. `measured_runs` is how much whole runs vary, by series, and `run_sd` what the user states of it,
    in place of the number of the benchmark. `gaps` are the metrics that the run itself has too few values of, `agreements` how
    far its judges agree with people, by column.
    """

    plan: RunPlan
    kpis: Sequence[KpiValue]
    baseline: Baseline | None
    judged: Collection[str] = ()
    ruler: Sequence[str] = ()
    about: About | None = None
    measured_runs: Mapping[str, MeasuredRuns] = field(default_factory=dict)
    run_sd: float | None = None
    gaps: Mapping[str, MetricGap] = field(default_factory=dict)
    agreements: Mapping[str, PeopleAgreement] = field(default_factory=dict)

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
    def has_judgements(self) -> bool:
        """Return whether a metric is the opinion of a judge, so that equal answers tell of its drift."""
        return any(judgement_of(metric.column) for metric in self.plan.metrics)

    def weak_judges(self, columns: Collection[str]) -> tuple[PeopleAgreement, ...]:
        """Those of some metrics that are judges and agree with people less than the benchmark requires."""
        return tuple(
            agreement
            for column, agreement in self.agreements.items()
            if column in columns and agreement.is_below
        )

    @cached_property
    def count_metrics(self) -> dict[str, MetricRef]:
        """The metrics whose value of the run is computed from label counts, by column."""
        return {metric.column: metric.ref for metric in self.plan.metrics if is_counted(metric.ref)}

    @cached_property
    def differences(self) -> PlanDifferences:
        """The differences of the plan from those of the baseline runs."""
        runs = self.baseline.runs if self.baseline else ()
        return compare_plans((run.plan for run in runs), self.plan)

    def spec(self, run: ItemMatrix, pairing: ItemPairing | None) -> ComparisonSpec:
        """The computation of intervals, and of changes when there is a pairing with a baseline.

        Metrics and KPIs that changed their definition, or have values of too few items, get intervals, but no rule.
        """
        changed = self.differences
        matrices = (run, pairing.baseline, pairing.candidate) if pairing else (run,)
        columns = self._resampled_columns(matrices)
        failures = ValueFailures()
        deciders = self.deciders(pairing)
        lost = self._lost_values(pairing, columns)
        unmeasured = self.unmeasured(lost).keys()
        metrics = [
            failures.attempt(
                (metric.column, None),
                partial(
                    self._metric_spec,
                    metric,
                    is_comparable=metric.column not in changed.metrics | unmeasured,
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
                    is_comparable=not (
                        value.kpi.id in changed.kpis or columns_of(value) & unmeasured
                    ),
                    is_judged=value.kpi.name in deciders.judged,
                ),
            )
            for value in self.kpis
            if value.value is not None and columns_of(value) <= columns
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
            about=self.about or self.plan.baseline.about,
            lost_values=lost,
            measured_runs=self.measured_runs,
            run_sd=self.plan.baseline.run_sd if self.run_sd is None else self.run_sd,
        )

    def _lost_values(
        self, pairing: ItemPairing | None, columns: Collection[str]
    ) -> dict[str, LostValues]:
        """The metrics of which too few items have values. A ratio of counts is not one: it weighs items itself."""
        if pairing is None:
            return {}
        per_item = [column for column in columns if column not in self.count_metrics]
        return find_lost_values(pairing, per_item, self.plan.min_coverage)

    def unmeasured(self, lost: Mapping[str, LostValues]) -> dict[str, str]:
        """The reasons of the metrics, by column, that have values of too few items in one of the runs."""
        reasons = {column: values.describe(column) for column, values in lost.items()}
        # A range that is not known comes first: with it there are values.
        gaps = {
            column: gap.describe()
            for column, gap in self.gaps.items()
            if gap.failed or column not in lost
        }
        return reasons | gaps

    def deciders(self, pairing: ItemPairing | None) -> Deciders:
        """What decides about the compared items."""
        kpis = default_judged(self.kpis)
        if pairing is None:
            return select_deciders((), ExpectedAnswers(), named=list(self.judged), kpis=kpis)
        answers, changed = _expected_answers(pairing), self.differences.metrics
        common = list(self._common_metrics(pairing))
        comparable = [metric for metric in common if metric.spec.key not in changed]
        if self.judged or kpis:
            return select_deciders(comparable, answers, named=list(self.judged), kpis=kpis)
        deciders = select_deciders(comparable, answers)
        # A measure of quality that cannot be compared is not the same as none.
        return deciders if deciders.names else select_deciders(common, answers)

    def are_settled(self, pairing: ItemPairing, spare: Sequence[MetricRef]) -> bool:
        """Return whether the same metrics decide whatever the values of the `spare` ones are, which are not measured."""
        return are_settled(list(self._common_metrics(pairing)), _expected_answers(pairing), spare)

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

    def _metric_spec(
        self, metric: PlannedMetric, *, is_comparable: bool, is_judged: bool
    ) -> MetricComparisonSpec:
        spec = spec_of(metric)
        rule = metric_rule(spec)
        return MetricComparisonSpec(
            column=metric.column,
            rule=rule if is_comparable else None,
            limits=ValueRange(spec.minimum, spec.maximum),
            is_judged=is_judged,
            is_success=_is_rate(spec) and spec.direction is Direction.HIGHER_IS_BETTER,
            count_metric=metric.ref if is_counted(metric.ref) else None,
            judgement=judgement_of(metric.column),
        )

    def _kpi_spec(
        self, value: KpiValue, *, is_comparable: bool, is_judged: bool
    ) -> KpiComparisonSpec:
        signal = self.signal(compile_formula(value.kpi.formula))
        return KpiComparisonSpec(
            id=value.kpi.id,
            formula=value.kpi.formula,
            is_judged=is_judged,
            rule=self.kpi_rule(value) if is_comparable else None,
            limits=signal.limits,
            line=signal.line,
            threshold_min=value.kpi.threshold_min,
            is_amount=self.is_amount(compile_formula(value.kpi.formula)),
        )

    def signal(self, formula: CompiledFormula) -> TestedSignal:
        """Return the signal of a formula: a formula of one statistic has the limits of that
        statistic.
        """
        line = line_of(formula)
        if line is None:
            return TestedSignal(line, self.value_limits(formula))
        return TestedSignal(line, _value_range(self._bounds(formula)[line.reference]))

    def is_amount(self, formula: CompiledFormula) -> bool:
        """Whether a formula reads a time, a cost or a number of tokens."""
        planned = {metric.column: metric for metric in self.plan.metrics}
        specs = (spec_of(planned[column_of(ref.key)]) for ref in formula.references)
        return any(spec.unit in RATIO_UNITS for spec in specs)

    def value_limits(self, formula: CompiledFormula) -> ValueRange:
        """The smallest and the largest value of a formula."""
        return _value_range(bounds_of(formula, self._bounds(formula)))

    def _bounds(self, formula: CompiledFormula) -> dict[Reference, Bounds]:
        planned = {metric.column: metric for metric in self.plan.metrics}
        return {
            ref: statistic_bounds(ref.stat, spec_of(planned[column_of(ref.key)]))
            for ref in formula.references
        }

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
        return [spec_of(planned[column_of(ref.key)]) for ref in references_of(value)]


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
    # Divided first: the sum of numbers near the largest float is not one.
    mean = sum(math.fsum(value / len(values) for value in values.values()) / 2 for values in means)
    return CommonMetric(ref=metric.ref, spec=spec_of(metric), items=items, mean=mean)


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


def spec_of(metric: PlannedMetric) -> MetricSpec:
    return provider_for(metric.ref).spec


def references_of(value: KpiValue) -> tuple[Reference, ...]:
    return compile_formula(value.kpi.formula).references


def columns_of(value: KpiValue) -> set[str]:
    """The metrics that a KPI reads."""
    return {column_of(ref.key) for ref in references_of(value)}
