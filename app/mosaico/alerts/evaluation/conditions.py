"""Evaluates the condition of an alert rule for a valid run; pure."""

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist

from mosaico.alerts.details import AlertDetails, AnomalyDetails
from mosaico.alerts.evaluation.series_decision import scale_of
from mosaico.alerts.natural_scale import amount_of_change, value_of_level
from mosaico.alerts.rules import (
    AlertOutcome,
    Assessment,
    Condition,
    Observation,
    RuleSpec,
    ValueSpec,
)
from mosaico.comparison.judge_text import describe_weak_judges
from mosaico.core.text import format_number
from mosaico.kpis.number_text import format_amount, format_value, format_values, short_value
from mosaico.kpis.series_types import RunsEvidence, SeriesEvent, SeriesStatus
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.statistics.anomaly import RunPoint, Warmup, detect_anomaly, levels_of_values
from mosaico.statistics.verdict_rules import MIN_EFFECT, Side, Verdict

# Relative tolerance below which two numbers count as equal: 0.1 * 7 and 0.7 are the same value.
TOLERANCE = 1e-9

# INCONCLUSIVE, CHANGED and INVALID are absent on purpose: they decide nothing, see `_assess_verdict`.
VERDICT_OUTCOMES: Mapping[Verdict | None, AlertOutcome] = {
    Verdict.REGRESSED: AlertOutcome.BREACH,
    Verdict.NO_EVIDENCE: AlertOutcome.HEALTHY,
    Verdict.IMPROVED: AlertOutcome.HEALTHY,
}

REFERENCE_LOST = (
    "Too few runs from before the incident are left to compare with: they were deleted, or the"
    " benchmark or its items changed. The incident ends without evidence, and a new series begins."
)


def evaluate_condition(
    spec: RuleSpec, value_spec: ValueSpec, observation: Observation
) -> Assessment:
    """Evaluate the condition of a rule for a valid run."""
    assessment = _evaluate(spec, value_spec, observation)
    weak_judges = observation.verdict.weak_judges if observation.verdict else ()
    if not weak_judges:
        return assessment
    details = assessment.details.model_copy(update={"weak_judges": weak_judges})
    return name_weak_judges(replace(assessment, details=details))


def name_weak_judges(assessment: Assessment) -> Assessment:
    """The assessment, whose explanation names the judges of the value that agree too little with people."""
    explanation = assessment.explanation
    for sentence in describe_weak_judges(assessment.details.weak_judges):
        if sentence not in explanation:
            explanation = f"{explanation} {sentence}"
    return replace(assessment, explanation=explanation)


def _evaluate(spec: RuleSpec, value_spec: ValueSpec, observation: Observation) -> Assessment:
    value = observation.value
    if value is None:
        reason = observation.reason or "it was not computed"
        return _no_data(f"{value_spec.name} has no value: {reason}")
    if spec.condition is Condition.REGRESSED:
        if value_spec.harm is Side.BOTH:
            # Refused when a rule is saved; an older rule must not watch in silence.
            return _no_data(
                f"{value_spec.name} has no direction, so REGRESSED cannot tell what is worse; watch a KPI with"
                " a `direction`, or change the condition of the rule",
                value=value,
            )
        return _assess_verdict(value_spec, value, observation.verdict)
    if spec.condition is Condition.ANOMALY_DETECTED:
        return _assess_anomaly(spec, value_spec, observation, value)
    assert spec.threshold is not None, "checked when the rule was saved"
    if spec.condition.uses_history:
        return _assess_percentage(spec, value_spec, observation, value, abs(spec.threshold))
    absolute = value if observation.corrected is None else observation.corrected
    return _assess_threshold(spec, value_spec, absolute, spec.threshold)


def assess_evidence(value_spec: ValueSpec, alone: Assessment, evidence: RunsEvidence) -> Assessment:
    """Assess the evidence of the last runs together. `alone` is the comparison of the run with its baseline, which
    stays visible in the details.
    """
    outcome = _EVIDENCE_OUTCOMES[evidence.status]
    details = alone.details.model_copy(update={"runs": evidence})
    # The runs before the incident cannot be compared any more, so there is no number to report.
    if evidence.event is SeriesEvent.REFERENCE_LOST:
        return replace(alone, outcome=outcome, explanation=REFERENCE_LOST, details=details)
    if evidence.reference_level is None or evidence.level is None or evidence.effect is None:
        return replace(alone, outcome=outcome, details=details)
    assessment = replace(
        alone,
        outcome=outcome,
        baseline=_value_of(evidence.reference_level, value_spec, evidence),
        min_detectable_effect=_detectable_by_next_run(evidence, value_spec),
        explanation=explain_evidence(value_spec, alone.value, evidence),
        details=details,
    )
    return name_weak_judges(assessment)


def _detectable_by_next_run(evidence: RunsEvidence, value_spec: ValueSpec) -> float | None:
    """The harmful change that one run pages about with 80 % power; smaller ones take several runs."""
    if evidence.low is None or evidence.high is None or evidence.reference_level is None:
        return None
    # The range is that of the limit.
    error = (evidence.high - evidence.low) / (2 * evidence.limit)
    width, reference = evidence.width or 1, evidence.reference
    # From the error of the window's mean to that of one run.
    one_run = error * math.sqrt((1 + 1 / reference) / (1 / width + 1 / reference))
    fall = (evidence.limit + _NORMAL.inv_cdf(0.8)) * one_run
    if not value_spec.logarithmic:
        return fall
    # Of a time or a cost, a rise is the harm.
    change = fall if value_spec.harm is Side.HIGH else -fall
    ratio = abs(amount_of_change(change, is_relative=True))
    level = value_of_level(evidence.reference_level, evidence, is_relative=True)
    return min(level * ratio, sys.float_info.max)


_NORMAL = NormalDist()
_EVIDENCE_OUTCOMES = {
    SeriesStatus.WARMUP: AlertOutcome.WARMUP,
    SeriesStatus.OK: AlertOutcome.HEALTHY,
    SeriesStatus.FIRING: AlertOutcome.BREACH,
}


def explain_evidence(value_spec: ValueSpec, value: float | None, evidence: RunsEvidence) -> str:
    """The evidence over runs in one sentence that needs no knowledge of statistics."""
    level, reference = evidence.level, evidence.reference_level
    assert level is not None, "checked by the caller"
    assert reference is not None, "checked by the caller"
    count = evidence.width or 1
    window = "The last run" if count == 1 else f"The last {count} runs"
    verb = "is" if count == 1 else "are"
    fell = level < reference
    side = "below" if fell else "above"
    before = f"{evidence.reference} run{'' if evidence.reference == 1 else 's'} before"
    current = _value_of(level, value_spec, evidence)
    earlier = _value_of(reference, value_spec, evidence)
    # From and to 0 there is no number of percent.
    has_ratio = not value_spec.logarithmic or (current and earlier)
    amount = f"{_format_effect(evidence, value_spec)} " if has_ratio else ""
    sentences = [
        f"{value_spec.name} is {_with_unit(value, value_spec)}." if value is not None else "",
        (
            f"{window} {verb} {amount}{side} the {before}{_typical_item(evidence) if has_ratio else ''}"
            f" ({_with_unit(earlier, value_spec)} to {_with_unit(current, value_spec)}"
            f"{_format_interval(evidence, value_spec)})."
        ),
    ]
    return " ".join(filter(None, sentences))


def _typical_item(evidence: RunsEvidence) -> str:
    return ", by a typical item" if evidence.is_typical else ""


def _format_effect(evidence: RunsEvidence, value_spec: ValueSpec) -> str:
    effect = evidence.effect or 0.0
    if value_spec.logarithmic:
        return format_amount(abs(amount_of_change(effect, is_relative=True)), is_relative=True)
    return _with_unit(abs(effect), value_spec)


def _format_interval(evidence: RunsEvidence, value_spec: ValueSpec) -> str:
    if evidence.low is None or evidence.high is None:
        return ""
    low, high = (
        format_amount(
            amount_of_change(end, is_relative=value_spec.logarithmic),
            is_share=value_spec.is_share,
            is_relative=value_spec.logarithmic,
        )
        for end in (evidence.low, evidence.high)
    )
    return f", likely {low} to {high}"


def _value_of(level: float, value_spec: ValueSpec, evidence: RunsEvidence) -> float:
    return value_of_level(level, evidence, is_relative=value_spec.logarithmic)


def _assess_threshold(
    spec: RuleSpec, value_spec: ValueSpec, value: float, threshold: float
) -> Assessment:
    # Values that differ only by rounding are equal for every condition: neither below nor above.
    equal = abs(value - threshold) <= TOLERANCE * max(abs(value), abs(threshold))
    is_breach = {
        Condition.LESS_THAN: value < threshold and not equal,
        Condition.GREATER_THAN: value > threshold and not equal,
        Condition.EQUALS: equal,
        Condition.NOT_EQUALS: not equal,
    }[spec.condition]
    relation = "equal to" if equal else "below" if value < threshold else "above"
    limit = short_value(threshold, value_spec.unit, is_share=value_spec.is_share)
    return Assessment(
        outcome=AlertOutcome.BREACH if is_breach else AlertOutcome.HEALTHY,
        value=value,
        explanation=f"{value_spec.name} is {_with_unit(value, value_spec)}, {relation} the"
        f" threshold of {_with_unit(threshold, value_spec)}.",
        details=AlertDetails(title_note=f"{relation} {limit}"),
    )


def _assess_percentage(
    spec: RuleSpec,
    value_spec: ValueSpec,
    observation: Observation,
    value: float,
    percent: float,
) -> Assessment:
    name = value_spec.name
    earlier = [point.value for point in observation.history[-spec.baseline_runs :]]
    if not earlier:
        return _warmup(value, f"{name} has no earlier valid run to compare with.")
    # The mean of several runs: with one run, its chance would decide about the next one.
    baseline = sum(earlier) / len(earlier)
    change = _percentage(value, baseline)
    # Finite values of opposite size can still overflow in the quotient.
    if baseline and not math.isfinite(change):
        return _too_large(value_spec, value)
    # The condition names the direction; for a cost, a rise is the harm.
    harmful_change = -change if spec.condition is Condition.PERCENTAGE_DROP else change
    minimum_effect = spec.minimum_effect or 0.0
    is_breach = _reaches(harmful_change, percent) and _reaches(
        abs(value - baseline), minimum_effect
    )
    is_small = harmful_change >= percent and not is_breach
    return Assessment(
        outcome=AlertOutcome.BREACH if is_breach else AlertOutcome.HEALTHY,
        value=value,
        baseline=baseline,
        min_detectable_effect=max(percent / 100 * abs(baseline), minimum_effect),
        explanation=f"{_describe_change(value_spec, value, baseline, change)} (mean of"
        f" {_last_runs(len(earlier))}); the limit is {format_number(percent)} %."
        + (" The change is below the minimum effect." if is_small else ""),
        details=AlertDetails(title_note=f"limit {format_number(percent)} %"),
    )


def _percentage(value: float, baseline: float) -> float:
    """The change in percent. That of a baseline of 0 is infinite: it exceeds every limit."""
    if baseline == 0:
        return math.copysign(math.inf, value) if value else 0.0
    return (value - baseline) / abs(baseline) * 100


def _describe_change(value_spec: ValueSpec, value: float, baseline: float, percent: float) -> str:
    now, before = _with_unit(value, value_spec), _with_unit(baseline, value_spec)
    if math.isclose(value, baseline, rel_tol=TOLERANCE):
        return f"{value_spec.name} is {now}, unchanged from {before}"
    direction = "fell" if value < baseline else "rose"
    if math.isinf(percent):
        return f"{value_spec.name} {direction} to {now}, from {before}"
    return (
        f"{value_spec.name} {direction} by {format_number(abs(percent))} % to {now}, from {before}"
    )


def _assess_anomaly(
    spec: RuleSpec, value_spec: ValueSpec, observation: Observation, value: float
) -> Assessment:
    name = value_spec.name
    try:
        levels, scale = observation.levels, scale_of(value_spec)
        if not levels:
            points = [*observation.history, RunPoint(value=value)]
            levels, scale = levels_of_values(points, scale, observation.resolution)
        judged = detect_anomaly(
            levels,
            side=value_spec.harm,
            scale=scale,
            critical=None if spec.threshold is None else abs(spec.threshold),
        )
    # Values near the limit of a float: no data, because infinity cannot be compared or stored.
    except OverflowError:
        return _too_large(value_spec, value)
    if isinstance(judged, Warmup):
        return _warmup(
            value,
            f"{name} is {_with_unit(value, value_spec)}; there is no earlier run to compare it with.",
        )
    minimum_effect = _anomaly_minimum_effect(spec, value_spec, judged.center)
    is_large = _reaches(abs(judged.level - judged.center), minimum_effect)
    is_breach = judged.is_anomaly and is_large
    # Statistical significance alone does not fire: with many traces tiny changes are significant.
    is_small = judged.is_anomaly and not is_large
    # The statistics know no limits of the value: nobody expects 1.046 of a share.
    low, high = (
        min(max(end, value_spec.minimum), value_spec.maximum) for end in (judged.low, judged.high)
    )
    expected = " to ".join(
        format_values([low, high], value_spec.unit, is_share=value_spec.is_share)
    )
    window = (
        f"; the last {judged.width} runs are {_with_unit(judged.level, value_spec)} together"
        if judged.width > 1
        else ""
    )
    return Assessment(
        outcome=AlertOutcome.BREACH if is_breach else AlertOutcome.HEALTHY,
        value=value,
        baseline=judged.center,
        min_detectable_effect=max(judged.min_detectable_effect, minimum_effect),
        explanation=f"{name} is {_with_unit(value, value_spec)}{window}; expected {expected} after"
        f" {_last_runs(judged.history)} before (z {format_number(judged.z)}, limit"
        f" {format_number(judged.critical)})."
        + (" The change is below the minimum effect." if is_small else ""),
        details=AlertDetails(
            anomaly=AnomalyDetails.of(judged, low, high), title_note=f"expected {expected}"
        ),
    )


def _assess_verdict(
    value_spec: ValueSpec, value: float, verdict: ValueVerdict | None
) -> Assessment:
    """The outcome of a comparison with the baseline. A verdict that decides nothing changes nothing:
    it counts as warm-up and not as a healthy run.
    """
    if verdict is None:
        return _warmup(
            value,
            f"{value_spec.name} is {_with_unit(value, value_spec)} and was not compared with a"
            " baseline.",
        )
    return Assessment(
        outcome=VERDICT_OUTCOMES.get(verdict.verdict, AlertOutcome.WARMUP),
        value=value,
        baseline=verdict.baseline_value,
        min_detectable_effect=verdict.min_detectable_effect,
        explanation=verdict.explanation,
        details=AlertDetails(verdict=verdict),
    )


def _anomaly_minimum_effect(spec: RuleSpec, value_spec: ValueSpec, expected: float) -> float:
    if spec.minimum_effect is not None:
        return spec.minimum_effect
    # As for verdicts.
    return MIN_EFFECT if value_spec.is_share else MIN_EFFECT * abs(expected)


def _too_large(value_spec: ValueSpec, value: float) -> Assessment:
    return _no_data(f"the values of {value_spec.name} are too large to compare", value=value)


def _no_data(explanation: str, *, value: float | None = None) -> Assessment:
    return Assessment(outcome=AlertOutcome.NO_DATA, value=value, explanation=f"{explanation}.")


def _warmup(value: float, explanation: str) -> Assessment:
    return Assessment(outcome=AlertOutcome.WARMUP, value=value, explanation=explanation)


def _reaches(value: float, limit: float) -> bool:
    """Return whether a value is at least the limit, up to rounding errors."""
    return value >= limit * (1 - TOLERANCE)


def _with_unit(value: float, value_spec: ValueSpec) -> str:
    return format_value(value, value_spec.unit, is_share=value_spec.is_share)


def _last_runs(count: int) -> str:
    return "the last valid run" if count == 1 else f"the last {count} valid runs"
