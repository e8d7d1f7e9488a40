"""The value that an alert rule watches: which one it is, how to read it, what a run measured."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from mosaico.alerts.rules import Observation, RunSpan, ValueSpec
from mosaico.comparison.comparison_rules import HARM_SIDES, RATIO_UNITS
from mosaico.core.errors import AppError
from mosaico.formula import Reference, compile_formula, read_reference
from mosaico.formula.bounds import Bounds, bounds_of
from mosaico.kpis.evaluate import KpiValue
from mosaico.kpis.judge_types import KpiCorrection
from mosaico.kpis.number_text import DIMENSIONLESS_UNITS
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.metrics.aggregate import Aggregate
from mosaico.metrics.formula_direction import statistic_bounds
from mosaico.metrics.metric_gaps import COUNTING_STATISTICS
from mosaico.metrics.registry import column_of, providers_for, ref_of_column
from mosaico.metrics.types import Direction, MetricSpec
from mosaico.run_store.run_history import PastRun
from mosaico.run_store.run_result import RunResult
from mosaico.statistics.anomaly import RunPoint
from mosaico.statistics.sequential import MAX_REFERENCE
from mosaico.statistics.verdict_rules import Side

# Units of counts: the mean of a metric is per trace, only its sum is the number in the run.
COUNT_UNITS = frozenset({"errors", "calls", "turns", "tokens"})


class RuleTarget(NamedTuple):
    """The value that a rule watches: a KPI by its ID, or a statistic of a metric."""

    kpi_id: str | None
    metric: Reference | None

    @property
    def has_series(self) -> bool:
        """Return whether runs store levels of the value: those of a KPI, and of the mean of a metric."""
        return self.metric is None or self.metric.stat == "mean"

    @classmethod
    def of(cls, kpi_id: str | None, metric: str | None) -> "RuleTarget":
        return cls(kpi_id, read_reference(metric) if metric else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The watched value in one run. `point` is None when the run has no value, for `reason`;
    `resolution` is how far one changed trace moves the value; `verdict` compares it with the
    baseline of that run. `corrected` is the value of a KPI that annotations correct, of which `point` is the mean of the
    scores.
    """

    spec: ValueSpec
    point: RunPoint | None
    corrected: float | None = None
    reason: str | None = None
    resolution: float = 0.0
    verdict: ValueVerdict | None = None

    def with_correction(
        self, value: float | None, correction: KpiCorrection | None
    ) -> "Measurement":
        """The measurement of a KPI with its value, if annotations correct it."""
        if correction is None or correction.reason is not None:
            return self
        return replace(self, corrected=value)


def measure(target: RuleTarget, result: RunResult) -> Measurement | None:
    """The watched value in a run that is not stored yet; None when the run did not compute it."""
    if target.metric is not None:
        column = column_of(target.metric.key)
        aggregate = result.aggregates.get(column)
        if aggregate is None:
            return None
        measurement = measure_metric(target.metric, aggregate)
        if column in result.gaps and target.metric.stat not in COUNTING_STATISTICS:
            measurement = replace(measurement, point=None, reason=result.gaps[column])
        return replace(measurement, verdict=result.verdicts.metrics.get(column))
    value = next((value for value in result.kpis if value.kpi.id == target.kpi_id), None)
    if value is None:
        return None
    verdict = result.verdicts.kpis.get(value.kpi.id)
    return replace(_measure_kpi_value(value, result.aggregates), verdict=verdict)


def _measure_kpi_value(value: KpiValue, aggregates: Mapping[str, Aggregate]) -> Measurement:
    kpi = value.kpi
    measurement = measure_kpi(
        name=kpi.name,
        direction=kpi.direction,
        unit=kpi.unit,
        formula=kpi.formula,
        value=value.value,
        reason=value.reason,
        aggregates=aggregates,
    )
    return measurement.with_correction(value.value, value.correction)


def measure_metric(reference: Reference, aggregate: Aggregate) -> Measurement:
    """Compute one statistic of a metric over a run."""
    column_spec = find_metric_spec(column_of(reference.key))
    spec = _value_spec(str(reference), column_spec, reference.stat)
    value = aggregate.statistic(reference.stat)
    if value is None:
        reason = aggregate.explain_missing(reference.stat) or "no trace has a value"
        return Measurement(spec=spec, point=None, reason=reason)
    is_mean = reference.stat == "mean"
    # Only a mean has a standard error that follows from the aggregate; percentiles and sums would
    # need the values of all traces.
    error = _standard_error(aggregate) if is_mean else None
    # One changed trace moves a mean of values between 0 and 1 by at most this much.
    resolution = 1 / aggregate.n if is_mean and spec.is_share and aggregate.n else 0.0
    return Measurement(spec=spec, point=RunPoint(value=value, error=error), resolution=resolution)


def measure_kpi(
    *,
    name: str,
    direction: str,
    unit: str | None,
    formula: str,
    value: float | None,
    reason: str | None,
    aggregates: Mapping[str, Aggregate],
) -> Measurement:
    """The value of a KPI in a run. A KPI that is nothing but a metric is read as that metric."""
    limits = _limits_of(formula)
    spec = ValueSpec(
        name=name,
        harm=HARM_SIDES[Direction(direction)],
        unit=unit,
        minimum=limits.low,
        maximum=limits.high,
    )
    reference = read_reference(formula)
    if reference and (aggregate := aggregates.get(column_of(reference.key))):
        measurement = measure_metric(reference, aggregate)
        # The KPI has its own name and direction, which win over those of the metric; its unit is
        # optional.
        unit = unit or measurement.spec.unit
        spec = replace(measurement.spec, name=name, harm=spec.harm, unit=unit)
        # A KPI has no value where its metric has too few. Runs of earlier versions have no percentiles.
        point = None if value is None else measurement.point or RunPoint(value=value, error=None)
        return replace(measurement, spec=spec, point=point, reason=reason)
    if value is None:
        return Measurement(spec=spec, point=None, reason=reason)
    error = _propagated_error(formula, aggregates)
    return Measurement(spec=spec, point=RunPoint(value=value, error=error))


def observe(
    measurement: Measurement | None,
    fingerprint: str | None,
    past: Sequence[PastRun],
    measurements: Mapping[int, Measurement],
    excluded: Sequence[RunSpan] = (),
) -> Observation:
    """The value of a run with its history: earlier valid runs of the same fingerprint that have a
    value. Runs of incidents are `excluded`, so that a regression never becomes the normal that later
    runs are compared with.
    """
    if measurement is None:
        return Observation(value=None, reason="the run did not compute it")
    # The newest runs: older ones say less about the present behavior of the agent.
    newest = islice(
        (
            earlier.point
            for run in reversed(past)
            if run.is_valid
            and run.fingerprint == fingerprint
            and not any(span.contains(run.seq) for span in excluded)
            and (earlier := measurements.get(run.seq)) is not None
            and earlier.point is not None
        ),
        MAX_REFERENCE,
    )
    return Observation(
        value=measurement.point.value if measurement.point else None,
        corrected=measurement.corrected,
        reason=measurement.reason,
        history=list(newest)[::-1],
        resolution=measurement.resolution,
        verdict=measurement.verdict,
    )


def find_metric_spec(column: str) -> MetricSpec | None:
    """The specification of a metric; None if the metric is no longer installed."""
    try:
        # Not `provider_for`: a chart asks for each of its points, and the signature of a factory is read slowly.
        [provider] = providers_for((ref_of_column(column),))
    except AppError:
        return None
    return provider.spec


def _propagated_error(formula: str, aggregates: Mapping[str, Aggregate]) -> float | None:
    """The standard error of a KPI: how far it moves when each mean moves by its own standard error,
    added up. None when the error of one of them is not known.

    The sum treats the means as fully correlated, because metrics of the same traces move together;
    that overstates the error rather than understating it.
    """
    compiled = compile_formula(formula)
    means: dict[Reference, float] = {}
    errors: dict[Reference, float] = {}
    for reference in compiled.references:
        aggregate = aggregates.get(column_of(reference.key))
        error = _standard_error(aggregate) if aggregate and reference.stat == "mean" else None
        if aggregate is None or aggregate.mean is None or error is None:
            return None
        means[reference], errors[reference] = aggregate.mean, error
    total = 0.0
    for reference, error in errors.items():
        low, high = (
            compiled.evaluate({**means, reference: means[reference] + sign * error}).value
            for sign in (-1, 1)
        )
        if low is None or high is None:
            return None
        total += abs(high - low) / 2
    return total


def _standard_error(aggregate: Aggregate) -> float | None:
    if aggregate.mean is None or aggregate.std is None or not aggregate.n:
        return None
    return float(aggregate.std / aggregate.n**0.5)


def _value_spec(name: str, spec: MetricSpec | None, statistic: str) -> ValueSpec:
    if statistic == "coverage":
        return ValueSpec(name=name, harm=Side.LOW, is_share=True, minimum=0.0, maximum=1.0)
    if spec is None or statistic in ("n", "count", "std"):
        return ValueSpec(name=name, harm=Side.BOTH, minimum=0.0 if spec else -math.inf)
    limits = statistic_bounds(statistic, spec)
    return ValueSpec(
        name=name,
        minimum=limits.low,
        maximum=limits.high,
        harm=HARM_SIDES[spec.direction],
        # A sum of shares can exceed 1.
        is_share=(spec.minimum, spec.maximum) == (0.0, 1.0) and statistic != "sum",
        logarithmic=spec.unit in RATIO_UNITS,
        unit=_unit(spec.unit, statistic),
    )


def _limits_of(formula: str) -> Bounds:
    """The range of a formula, from those of its metrics."""
    compiled = compile_formula(formula)
    limits = {
        ref: statistic_bounds(ref.stat, spec)
        for ref in compiled.references
        if (spec := find_metric_spec(column_of(ref.key))) is not None
    }
    return bounds_of(compiled, limits)


def _unit(unit: str, statistic: str) -> str | None:
    if unit in DIMENSIONLESS_UNITS:
        return None
    # A mean of counts must not look like the count of the run.
    return unit if statistic == "sum" or unit not in COUNT_UNITS else f"{unit} per trace"
