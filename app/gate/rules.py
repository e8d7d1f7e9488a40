"""Decides whether a run passes the gate, from its comparison with a baseline; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from app.comparison.schemas import Comparison
from app.comparison.verdict_text import NOT_COMPARABLE, explain
from app.core.errors import AppError
from app.kpis.verdict_types import ValueVerdict
from app.statistics.intervals import Interval, unseen_share
from app.statistics.multiplicity import adjust_verdicts, holm
from app.statistics.power import check_non_inferiority
from app.statistics.verdict_rules import (
    MIN_ITEMS,
    ChangeVerdict,
    Note,
    Remedy,
    Scale,
    Side,
    Verdict,
)


class GateOutcome(StrEnum):
    """The outcome of a gate, and of each of its checks."""

    PASS = "PASS"  # noqa: S105 - no password, a verdict
    REGRESSION = "REGRESSION"
    INVALID = "INVALID"
    INCONCLUSIVE = "INCONCLUSIVE"


EXIT_CODES = {
    GateOutcome.PASS: 0,
    GateOutcome.REGRESSION: 1,
    GateOutcome.INVALID: 3,
    GateOutcome.INCONCLUSIVE: 4,
}
# The outcome of the gate is the first of these that one of its checks has. A regression counts
# before everything else: it is a fact, whatever the other KPIs could not show.
_BY_PRIORITY = (
    GateOutcome.REGRESSION,
    GateOutcome.INVALID,
    GateOutcome.INCONCLUSIVE,
    GateOutcome.PASS,
)
_OUTCOMES = {
    Verdict.REGRESSED: GateOutcome.REGRESSION,
    Verdict.IMPROVED: GateOutcome.PASS,
    Verdict.NO_EVIDENCE: GateOutcome.PASS,
    Verdict.INCONCLUSIVE: GateOutcome.INCONCLUSIVE,
    Verdict.INVALID: GateOutcome.INVALID,
}


class NothingToGate(AppError):
    """The run has nothing that the gate could check; a gate without a check never passes."""

    code = "nothing-to-gate"
    status = 422
    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTerms:
    """The limits of a gate, by the name of a KPI or metric.

    `max_drop` is the largest change for the worse that does not count. `non_inferiority_margins`
    are changes for the worse that the interval has to exclude. Without any name the gate checks the
    KPIs that are marked as gate, otherwise all KPIs, otherwise the metrics.
    `is_chosen_baseline` says that the user named the baseline: only then may the two runs have been
    measured under different conditions.
    """

    max_drop: Mapping[str, float] = field(default_factory=dict)
    non_inferiority_margins: Mapping[str, float] = field(default_factory=dict)
    is_chosen_baseline: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """The check of one KPI or metric; `effect`, with its 95 % interval, is candidate − baseline."""

    name: str
    requirement: str
    outcome: GateOutcome
    explanation: str
    baseline_value: float | None = None
    value: float | None = None
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    p_adjusted: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The outcome of a gate with its checks; `reason` explains an outcome without checks.

    With several `baselines` the candidate is compared with their mean.
    """

    outcome: GateOutcome
    candidate: str
    baselines: Sequence[str] = ()
    checks: Sequence[GateCheck] = ()
    reason: str | None = None
    differences: Sequence[str] = ()

    @property
    def baseline(self) -> str | None:
        """The baseline in words."""
        if len(self.baselines) > 1:
            return f"the mean of {', '.join(self.baselines)}"
        return next(iter(self.baselines), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _GateSubject:
    """A KPI or metric; `change` is None when it was not compared."""

    name: str
    verdict: ValueVerdict
    change: ChangeVerdict | None

    @property
    def scale(self) -> Scale:
        return self.verdict.scale or Scale.NUMBER


def decide(comparison: Comparison, terms: GateTerms) -> GateResult:
    """The gate result of a run that was compared with its baseline.

    Raises: `NothingToGate` for a run without traces and for an unknown KPI or metric.
    """
    verdict = comparison.verdict
    result = GateResult(
        outcome=GateOutcome.INVALID,
        candidate=comparison.candidate.id,
        baselines=comparison.baseline_run_ids,
    )
    if not comparison.candidate.traces:
        raise NothingToGate(
            f"the run {result.candidate} has no trace; a gate without a check never passes"
        )
    if verdict.verdict is Verdict.INVALID:
        return replace(result, reason=verdict.reason)
    if verdict.conditions and not terms.is_chosen_baseline:
        reason = f"{NOT_COMPARABLE}: {'; '.join(verdict.conditions)}"
        return replace(result, reason=reason, differences=verdict.differences)
    subjects = _subjects(comparison)
    checks = _regression_checks(comparison, subjects, terms)
    checks += [
        _non_inferiority_check(subjects[name], margin)
        for name, margin in terms.non_inferiority_margins.items()
    ]
    outcomes = {check.outcome for check in checks}
    outcome = next(outcome for outcome in _BY_PRIORITY if outcome in outcomes)
    return replace(result, outcome=outcome, checks=checks, differences=verdict.differences)


def _subjects(comparison: Comparison) -> dict[str, _GateSubject]:
    """By name; a KPI hides a metric of the same name."""
    metrics = {metric.metric: metric.verdict for metric in comparison.metrics}
    kpis = {kpi.name: kpi.verdict for kpi in comparison.kpis}
    return {
        name: _GateSubject(name=name, verdict=verdict, change=change_of_verdict(verdict))
        for name, verdict in {**metrics, **kpis}.items()
    }


def _regression_checks(
    comparison: Comparison, subjects: Mapping[str, _GateSubject], terms: GateTerms
) -> list[GateCheck]:
    """A check for each KPI that must not have regressed; p-values are adjusted together by Holm."""
    limits, margins = terms.max_drop, terms.non_inferiority_margins
    unknown = sorted({*limits, *margins} - {*subjects})
    if unknown:
        raise NothingToGate(
            f"the run has no KPI or metric {', '.join(map(repr, unknown))};"
            f" it has {', '.join(subjects) or 'none'}"
        )
    names = list(limits) if limits or margins else _default_names(comparison)
    if not (names or margins):
        raise NothingToGate("the run has neither a KPI nor a metric; add some to its benchmark")
    limited = [_with_limit(subjects[name], limits.get(name)) for name in names]
    adjusted = iter(
        adjust_verdicts([subject.change for subject in limited if subject.change is not None], holm)
    )
    return [
        _not_compared_check(subject)
        if subject.change is None
        else _verdict_check(subject, next(adjusted))
        for subject in limited
    ]


def _default_names(comparison: Comparison) -> list[str]:
    return (
        [kpi.name for kpi in comparison.kpis if kpi.gate]
        or [kpi.name for kpi in comparison.kpis]
        or [metric.metric for metric in comparison.metrics]
    )


def _with_limit(subject: _GateSubject, max_drop: float | None) -> _GateSubject:
    """The subject with `max_drop` in place of the KPI's own limits."""
    if max_drop is None or subject.change is None:
        return subject
    return replace(subject, change=replace(subject.change, min_effect=max_drop, margin=max_drop))


def _verdict_check(subject: _GateSubject, change: ChangeVerdict) -> GateCheck:
    return _check(
        subject,
        change,
        f"worse by at most {change.min_effect:g}",
        _OUTCOMES[change.verdict],
        explain(subject.name, change, subject.scale),
    )


def _non_inferiority_check(subject: _GateSubject, margin: float) -> GateCheck:
    """Non-inferiority: the interval has to exclude harm of `margin` or more.

    Several of these checks need no adjustment of their confidence: the gate passes only when all of
    them pass (intersection-union test, Berger 1982).
    """
    name, change = subject.name, subject.change
    requirement = f"not inferior by {margin:g}"
    if change is None:
        return replace(_not_compared_check(subject), requirement=requirement)
    if change.n_items < MIN_ITEMS:
        explanation = f"Non-inferiority of {name} is unknown: {Note.FEW_ITEMS.sentence}"
        return _check(subject, change, requirement, GateOutcome.INCONCLUSIVE, explanation)
    interval = _population_interval(change, subject.scale)
    if interval is None:
        explanation = f"Non-inferiority of {name} is unknown: its change has no interval."
        return _check(subject, change, requirement, GateOutcome.INCONCLUSIVE, explanation)
    harm = _harm(change, interval.low, interval.high)
    is_proven = check_non_inferiority(harm, margin).is_proven
    if is_proven:
        explanation = f"{name} is at most {margin:g} worse (95 % CI)."
        return _check(subject, change, requirement, GateOutcome.PASS, explanation)
    if is_proven is False:
        explanation = f"{name} is more than {margin:g} worse (95 % CI)."
        return _check(subject, change, requirement, GateOutcome.REGRESSION, explanation)
    explanation = (
        f"{name} may be up to {harm.high:.3g} worse (95 % CI): {change.n_items} items cannot show"
        f" that it is at most {margin:g} worse."
    )
    return _check(subject, change, requirement, GateOutcome.INCONCLUSIVE, explanation)


def _population_interval(change: ChangeVerdict, scale: Scale) -> Interval | None:
    """The interval of a change, also when all items changed by the same amount and it is a point.

    A point proves nothing about other items: among n items without a change, `unseen_share` of all
    items may still change, each by the full range of the scale. A NUMBER has no such range.
    """
    if change.low is None or change.high is None:
        return None
    if change.low < change.high:
        return Interval(low=change.low, high=change.high)
    if scale is Scale.NUMBER:
        return None
    reach = unseen_share(change.clusters or change.n_items)
    return Interval(low=change.low - reach, high=change.high + reach)


def _harm(change: ChangeVerdict, low: float, high: float) -> Interval:
    """The interval of the harm; without a better side a change in either direction is harm."""
    if change.side is Side.HIGH:
        return Interval(low=low, high=high)
    if change.side is Side.LOW:
        return Interval(low=-high, high=-low)
    nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return Interval(low=nearest, high=max(abs(low), abs(high)))


def _not_compared_check(subject: _GateSubject) -> GateCheck:
    """A KPI that was not compared is inconclusive; one without a value is invalid."""
    verdict = subject.verdict
    is_invalid = not verdict.has_value or verdict.verdict is Verdict.INVALID
    return GateCheck(
        name=subject.name,
        requirement="compared",
        outcome=GateOutcome.INVALID if is_invalid else GateOutcome.INCONCLUSIVE,
        explanation=f"{subject.name}: {verdict.explanation}",
    )


def _check(
    subject: _GateSubject,
    change: ChangeVerdict,
    requirement: str,
    outcome: GateOutcome,
    explanation: str,
) -> GateCheck:
    return GateCheck(
        name=subject.name,
        requirement=requirement,
        outcome=outcome,
        explanation=explanation,
        baseline_value=change.baseline_value,
        value=change.value,
        effect=change.effect,
        low=change.low,
        high=change.high,
        p_adjusted=change.p_adjusted,
    )


def change_of_verdict(verdict: ValueVerdict) -> ChangeVerdict | None:
    """The change behind a verdict, with its unadjusted p-value; None when nothing was compared."""
    if (
        verdict.effect is None
        or verdict.verdict is None
        or verdict.items is None
        or verdict.trials is None
        or verdict.method is None
        or verdict.min_effect is None
        or verdict.margin is None
        or verdict.side is None
    ):
        return None
    return ChangeVerdict(
        verdict=verdict.verdict,
        effect=verdict.effect,
        low=verdict.low,
        high=verdict.high,
        p=verdict.p,
        p_adjusted=verdict.p,
        mde=verdict.min_detectable_effect,
        n_items=verdict.items,
        trials=verdict.trials,
        method=verdict.method,
        baseline_value=verdict.baseline_value,
        value=verdict.value,
        min_effect=verdict.min_effect,
        margin=verdict.margin,
        side=verdict.side,
        fixed=_fixed_interval(verdict),
        clusters=verdict.clusters,
        remedy=_remedy(verdict),
        notes=tuple(verdict.notes),
    )


def _fixed_interval(verdict: ValueVerdict) -> Interval | None:
    if verdict.fixed_low is None or verdict.fixed_high is None:
        return None
    return Interval(low=verdict.fixed_low, high=verdict.fixed_high)


def _remedy(verdict: ValueVerdict) -> Remedy | None:
    if verdict.more_trials is None and Note.ADD_ITEMS not in verdict.notes:
        return None
    return Remedy(verdict.more_trials, Note.AT_BEST in verdict.notes)
