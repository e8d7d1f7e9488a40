"""Decides whether a run passes the gate, from its comparison with a baseline; pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from mosaico.comparison.change_text import format_limit
from mosaico.comparison.deciders import REASONS, DecidedBy
from mosaico.comparison.judge_text import describe_weak_judges
from mosaico.comparison.run_verdict_text import NOT_COMPARABLE
from mosaico.comparison.schemas import Comparison
from mosaico.comparison.whole_run_text import describe_one_look, describe_whole_runs
from mosaico.core.errors import UnusableInput
from mosaico.core.parameter_names import parameter_name
from mosaico.gating.reasons import (
    describe_drop,
    describe_missing,
    describe_non_inferiority,
    describe_samples,
    has_too_few,
    limit_text,
    unseen_harm,
)
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.statistics.margins import (
    Harm,
    MarginOutcome,
    assess_drop,
    assess_non_inferiority,
    harm_of,
)
from mosaico.statistics.verdict_rules import (
    ALPHA,
    About,
    RunsBasis,
    Scale,
    Side,
    Verdict,
    VerdictNote,
)


class GateOutcome(StrEnum):
    """The outcome of a gate, and of each of its checks.

    CHANGED: a proved change of a value of which nobody said which way is better. NOT_MEASURED: nothing measures quality.
    """

    PASS = "PASS"  # noqa: S105 - no password, a verdict
    REGRESSION = "REGRESSION"
    INVALID = "INVALID"
    NOT_MEASURED = "NOT_MEASURED"
    CHANGED = "CHANGED"
    INCONCLUSIVE = "INCONCLUSIVE"


EXIT_CODES = {
    GateOutcome.PASS: 0,
    GateOutcome.REGRESSION: 1,
    GateOutcome.INVALID: 3,
    GateOutcome.NOT_MEASURED: 3,
    GateOutcome.CHANGED: 4,
    GateOutcome.INCONCLUSIVE: 4,
}
# The outcome of the gate is the first of these that one of its checks has. A regression counts
# before everything else: it is a fact, whatever the other KPIs could not show.
_BY_PRIORITY = (
    GateOutcome.REGRESSION,
    GateOutcome.INVALID,
    GateOutcome.NOT_MEASURED,
    GateOutcome.CHANGED,
    GateOutcome.INCONCLUSIVE,
    GateOutcome.PASS,
)
_OUTCOMES = {
    MarginOutcome.PASS: GateOutcome.PASS,
    MarginOutcome.FAIL: GateOutcome.REGRESSION,
    MarginOutcome.INCONCLUSIVE: GateOutcome.INCONCLUSIVE,
}


class NothingToGate(UnusableInput):
    """The run has no KPI or metric to check; a gate without checks never passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTerms:
    """The requirements of a gate, by the name of a KPI or metric.

    `requested` must not have regressed. `max_drop` is the largest change for the worse that does
    not count, in place of the KPI's own minimum effect. `non_inferiority_margins` are changes for
    the worse that the interval has to exclude. Without any name the gate judges what decides the
    comparison (`select_deciders`).
    `inconclusive_passes` None lets an inconclusive check pass unless it is one of non-inferiority.
    `is_chosen_baseline` says that the user named the baseline: only then may the two runs have been
    measured under different conditions. `about` is the question that decides, and `run_sd` how much whole runs
    vary, in place of those of the benchmark.
    """

    requested: Sequence[str] = ()
    max_drop: Mapping[str, float] = field(default_factory=dict)
    non_inferiority_margins: Mapping[str, float] = field(default_factory=dict)
    inconclusive_passes: bool | None = None
    is_chosen_baseline: bool = True
    about: About | None = None
    run_sd: float | None = None

    @property
    def names(self) -> list[str]:
        """The KPIs and metrics that are judged together; empty when none was named."""
        return list(dict.fromkeys((*self.requested, *self.max_drop, *self.non_inferiority_margins)))

    def with_columns(self, columns: Mapping[str, str], requested: Sequence[str]) -> "GateTerms":
        """The terms with metrics by their columns instead of the names that a user gave them."""
        return replace(
            self,
            requested=requested,
            max_drop={columns.get(name, name): drop for name, drop in self.max_drop.items()},
            non_inferiority_margins={
                columns.get(name, name): margin
                for name, margin in self.non_inferiority_margins.items()
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """The check of one KPI or metric. `reason` is the meaning of the numbers of `verdict` for the
    check; `verdict` is None for a check of the run as a whole.
    """

    name: str
    requirement: str
    outcome: GateOutcome
    reason: str
    verdict: ValueVerdict | None = None
    is_non_inferiority: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFigure:
    """A KPI or metric that is shown and not judged."""

    name: str
    verdict: ValueVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The outcome of a gate with its checks; `reason` explains an outcome without checks.

    With several `baselines` the candidate is compared with their mean. With `inconclusive_passes`
    an INCONCLUSIVE outcome has the exit code 0. `choice` is the reason for the selection when no
    names were given; then `figures`, which were not judged, are shown for information. `ruler` says how the
    run is measured differently from the one before. `items` is the number of items that both runs have, None for runs
    that are compared as two samples. `page` is the URL of the page of a run,
    `comparison_page` that of its comparison with the baselines. `remarks` are sentences about how much
    whole runs vary, about several looks, and about judges that agree too little with people.
    """

    outcome: GateOutcome
    candidate: str
    baselines: Sequence[str] = ()
    checks: Sequence[GateCheck] = ()
    figures: Sequence[GateFigure] = ()
    inconclusive_passes: bool = True
    choice: str | None = None
    reason: str | None = None
    differences: Sequence[str] = ()
    ruler: Sequence[str] = ()
    items: int | None = None
    page: str | None = None
    comparison_page: str | None = None
    remarks: Sequence[str] = ()

    @property
    def baseline(self) -> str | None:
        """The baseline in words."""
        if len(self.baselines) > 1:
            return f"the mean of {', '.join(self.baselines)}"
        return next(iter(self.baselines), None)

    @property
    def passes_inconclusive(self) -> bool:
        """Return whether the gate passes although it could not decide."""
        return self.outcome is GateOutcome.INCONCLUSIVE and self.inconclusive_passes

    @property
    def exit_code(self) -> int:
        return 0 if self.passes_inconclusive else EXIT_CODES[self.outcome]


def decide(comparison: Comparison, terms: GateTerms) -> GateResult:
    """The gate result of a run that was compared with its baseline.

    Raises: `NothingToGate` for a run without traces and for an unknown KPI or metric.
    """
    verdict = comparison.verdict
    result = GateResult(
        outcome=GateOutcome.INVALID,
        candidate=comparison.candidate.id,
        baselines=comparison.baseline_run_ids,
        differences=verdict.differences,
        ruler=verdict.measured_differently,
        items=(verdict.items and verdict.items.compared) or None,
    )
    if not comparison.candidate.traces:
        raise NothingToGate(
            f"the run {result.candidate} has no traces; a gate without checks never passes"
        )
    if verdict.conditions and not terms.is_chosen_baseline:
        return replace(result, reason=f"{NOT_COMPARABLE}: {'; '.join(verdict.conditions)}")
    verdicts = _verdicts_by_name(comparison)
    judged = _judged_names(comparison, verdicts, terms)
    if not judged:
        return replace(result, outcome=GateOutcome.NOT_MEASURED, reason=verdict.reason)
    is_unmeasured = any(VerdictNote.NO_ITEMS in verdicts[name].notes for name in judged)
    if verdict.verdict is Verdict.INVALID and not is_unmeasured:
        return replace(result, reason=verdict.reason)
    checks = [*_drop_checks(verdicts, judged, terms), *_non_inferiority_checks(verdicts, terms)]
    outcomes = {check.outcome for check in checks}
    return replace(
        result,
        outcome=next(outcome for outcome in _BY_PRIORITY if outcome in outcomes),
        checks=checks,
        figures=[] if terms.names else _figures(comparison, verdicts, judged),
        inconclusive_passes=_passes_inconclusive(checks, terms),
        choice=None if terms.names else _choice(comparison, judged),
    )


def with_remarks(result: GateResult, *, is_file: bool) -> GateResult:
    """The result with what its reader has to know about samples, whole runs and weak judges."""
    named = {check.name: check.verdict for check in result.checks if check.verdict is not None}
    verdicts = named.values()
    weak_judges = dict.fromkeys(judge for verdict in verdicts for judge in verdict.weak_judges)
    remarks = [
        *describe_samples(named),
        *describe_whole_runs(verdicts, is_file=is_file),
        *describe_weak_judges(weak_judges),
    ]
    is_assumed = any(
        # With some runs it is assumed as well, but a history was given.
        (runs := verdict.whole_runs) is not None
        and runs.basis is RunsBasis.ASSUMED
        and not runs.runs
        for verdict in verdicts
    )
    if is_file and is_assumed and result.outcome is GateOutcome.REGRESSION:
        remarks.append(describe_one_look())
    return replace(result, remarks=remarks)


def passes_by_default(terms: GateTerms) -> bool:
    """Return whether an outcome without any check passes when it is inconclusive."""
    if terms.inconclusive_passes is not None:
        return terms.inconclusive_passes
    return not terms.non_inferiority_margins


def _passes_inconclusive(checks: Iterable[GateCheck], terms: GateTerms) -> bool:
    if terms.inconclusive_passes is not None:
        return terms.inconclusive_passes
    # A proof was required, and there is none.
    return not any(
        check.is_non_inferiority and check.outcome is GateOutcome.INCONCLUSIVE for check in checks
    )


def _verdicts_by_name(comparison: Comparison) -> dict[str, ValueVerdict]:
    """By name; a KPI hides a metric of the same name."""
    metrics = {metric.metric: metric.verdict for metric in comparison.metrics}
    return metrics | {kpi.name: kpi.verdict for kpi in comparison.kpis}


def _judged_names(
    comparison: Comparison, verdicts: Mapping[str, ValueVerdict], terms: GateTerms
) -> list[str]:
    unknown = sorted({*terms.names} - {*verdicts})
    if unknown:
        raise NothingToGate(
            f"the run has no KPI or metric {', '.join(map(repr, unknown))};"
            f" it has {', '.join(verdicts) or 'none'}"
        )
    if not verdicts:
        raise NothingToGate("the run has neither a KPI nor a metric; add some to its benchmark")
    named = terms.names or comparison.judged
    guard = verdicts.get(comparison.guard or "")
    is_worse = guard is not None and guard.verdict is Verdict.REGRESSED
    return list(
        dict.fromkeys([*named, *([comparison.guard] if comparison.guard and is_worse else [])])
    )


def _figures(
    comparison: Comparison, verdicts: Mapping[str, ValueVerdict], judged: Sequence[str]
) -> list[GateFigure]:
    """What is shown and not judged, without metrics that equal another one on each item."""
    copies = {metric.metric for metric in comparison.metrics if metric.same_as is not None}
    return [
        GateFigure(name=name, verdict=verdict)
        for name, verdict in verdicts.items()
        if name not in judged and name not in copies and verdict.effect is not None
    ]


def _choice(comparison: Comparison, judged: Sequence[str]) -> str | None:
    """The reason for the default selection of the judged values."""
    if comparison.decided_by in (DecidedBy.NAMED, DecidedBy.KPIS):
        return None
    names = [parameter_name(option) for option in ("--metrics", "--kpi", "--max-drop")]
    verb = "decides" if len(judged) == 1 else "decide"
    return (
        f"{', '.join(judged)} {verb}: {REASONS[comparison.decided_by]}; name others with"
        f" {', '.join(names[:-1])} or {names[-1]}"
    )


def _drop_checks(
    verdicts: Mapping[str, ValueVerdict], judged: Sequence[str], terms: GateTerms
) -> list[GateCheck]:
    names = [
        name
        for name in judged
        if name in terms.max_drop or name not in terms.non_inferiority_margins
    ]
    return [_drop_check(name, verdicts[name], terms.max_drop.get(name)) for name in names]


def _drop_check(name: str, verdict: ValueVerdict, max_drop: float | None) -> GateCheck:
    harm = _harm(verdict)
    if harm is None:
        return _not_compared_check(name, verdict)
    limit = (verdict.min_effect or 0.0) if max_drop is None else max_drop
    outcome = _assess_drop(verdict, harm, limit)
    return GateCheck(
        name=name,
        requirement=_requirement(verdict, limit),
        outcome=_gate_outcome(verdict, outcome),
        reason=describe_drop(verdict, harm, limit, outcome),
        verdict=verdict,
    )


def _requirement(verdict: ValueVerdict, limit: float) -> str:
    harmed = "changed" if verdict.side is Side.BOTH else "worse"
    return f"{harmed} by at most {limit_text(verdict, limit)}" if limit else f"not {harmed}"


def _gate_outcome(verdict: ValueVerdict, outcome: MarginOutcome) -> GateOutcome:
    """The outcome of a check: a proved change fails only when it is known which way is better."""
    if outcome is MarginOutcome.FAIL and verdict.side is Side.BOTH:
        return GateOutcome.CHANGED
    return _OUTCOMES[outcome]


def _assess_drop(verdict: ValueVerdict, harm: Harm, limit: float) -> MarginOutcome:
    """Fails on a proved change for the worse of at least the limit, and passes when a larger one is
    ruled out. Runs without any change pass.
    """
    if has_too_few(verdict):
        return MarginOutcome.INCONCLUSIVE
    if VerdictNote.IDENTICAL in verdict.notes:
        return MarginOutcome.PASS
    if harm.low is None and _is_proved(verdict) and harm.estimate > 0:
        # A formula with jumps has a test and no interval.
        return MarginOutcome.FAIL if harm.estimate >= limit else MarginOutcome.INCONCLUSIVE
    return assess_drop(harm, limit)


def _is_proved(verdict: ValueVerdict) -> bool:
    return verdict.p_adjusted is not None and verdict.p_adjusted < ALPHA


def _non_inferiority_checks(
    verdicts: Mapping[str, ValueVerdict], terms: GateTerms
) -> list[GateCheck]:
    return [
        _non_inferiority_check(name, verdicts[name], margin)
        for name, margin in terms.non_inferiority_margins.items()
    ]


def _non_inferiority_check(name: str, verdict: ValueVerdict, margin: float) -> GateCheck:
    """Non-inferiority: the interval has to exclude harm of `margin` or more.

    Several of these checks need no adjustment of their confidence: the gate passes only when all of
    them pass (intersection-union test, Berger 1982).
    """
    allowed = format_limit(margin, verdict.scale)
    requirement = f"proved not worse by {allowed}"
    harm = _harm(verdict, is_adjusted=False)
    if harm is None:
        check = _not_compared_check(name, verdict)
        return replace(check, requirement=requirement, is_non_inferiority=True)
    outcome = assess_non_inferiority(harm, margin)
    return GateCheck(
        name=name,
        requirement=requirement,
        outcome=_gate_outcome(verdict, outcome),
        reason=describe_non_inferiority(verdict, harm, allowed, outcome),
        verdict=verdict,
        is_non_inferiority=True,
    )


def _harm(verdict: ValueVerdict, *, is_adjusted: bool = True) -> Harm | None:
    """The harm of a change with its interval; None when nothing was compared."""
    if verdict.effect is None or verdict.side is None:
        return None
    if has_too_few(verdict):
        return harm_of(verdict.effect, None, None, verdict.side)
    if VerdictNote.IDENTICAL in verdict.notes:
        return _identical_harm(verdict)
    low, high = (
        (verdict.low_adjusted, verdict.high_adjusted)
        if is_adjusted
        else (verdict.low, verdict.high)
    )
    return harm_of(verdict.effect, low, high, verdict.side)


def _identical_harm(verdict: ValueVerdict) -> Harm:
    """Among items without a change, `unseen_share` of all items may still change by the full range
    of a rate; other values have no such range.
    """
    if verdict.scale is not Scale.RATE:
        return Harm(None, 0.0, None)
    return harm_of(0.0, -unseen_harm(verdict), unseen_harm(verdict), verdict.side or Side.BOTH)


def _not_compared_check(name: str, verdict: ValueVerdict) -> GateCheck:
    """Return the check of a value without a comparison: invalid if it is not measured in both runs,
    inconclusive if it cannot be tested.
    """
    is_measured = verdict.has_value and verdict.verdict is not Verdict.INVALID
    is_unmeasured = not is_measured or VerdictNote.NO_ITEMS in verdict.notes
    return GateCheck(
        name=name,
        requirement="measured in both runs" if is_unmeasured else "compared",
        outcome=GateOutcome.INVALID if is_unmeasured else GateOutcome.INCONCLUSIVE,
        reason=describe_missing(verdict),
        verdict=verdict,
    )
