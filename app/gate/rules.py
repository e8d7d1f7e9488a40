"""Whether a run may pass: the verdicts of its KPIs, held against what somebody allows; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from app.comparison.schemas import Comparison
from app.comparison.verdict_view import NO_VALUE, NOT_COMPARABLE, explain
from app.core.errors import AppError
from app.statistics.anomaly import Side
from app.statistics.intervals import Interval, unseen_share
from app.statistics.multiplicity import holm
from app.statistics.power import no_worse_than
from app.statistics.verdict import (
    MIN_ITEMS,
    Judgement,
    Note,
    Remedy,
    Scale,
    Verdict,
    judged_together,
)


class GateOutcome(StrEnum):
    """What a gate says of a run, and of each of its KPIs."""

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
# Which outcome speaks for several: the first that one of them has. A KPI that fell has fallen,
# whatever became of the others.
_LOUDEST = (
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
    """Nothing that was asked for was measured; a gate without a case never passes."""

    code = "nothing-to-gate"
    status = 422
    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTerms:
    """What is allowed, by the name of a KPI or metric: `max_drop` is the largest change to the worse
    that does not count, `proved` the one that has to be ruled out.

    Where nothing is named, the gate consists of the KPIs that are marked as one, else of all KPIs,
    else of the metrics. A baseline that was `chosen` may have been measured under other conditions;
    the run's own may not.
    """

    max_drop: Mapping[str, float] = field(default_factory=dict)
    proved: Mapping[str, float] = field(default_factory=dict)
    chosen: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLine:
    """One KPI or metric at the gate; `effect` with its 95 % interval is candidate − baseline."""

    name: str
    asked: str
    outcome: GateOutcome
    explanation: str
    base: float | None = None
    value: float | None = None
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    p_adjusted: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """What the gate says, and why; `reason` stands in for lines where there are none. Of several
    `baselines` the run is held against the mean.
    """

    outcome: GateOutcome
    run: str
    baselines: Sequence[str] = ()
    lines: Sequence[GateLine] = ()
    reason: str | None = None
    differs: Sequence[str] = ()

    @property
    def against(self) -> str | None:
        """What the run was held against, in words."""
        if len(self.baselines) > 1:
            return f"the mean of {', '.join(self.baselines)}"
        return next(iter(self.baselines), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """A KPI or metric as it was compared; without a judgement where it was not."""

    name: str
    said: Mapping[str, Any]
    judgement: Judgement | None

    @property
    def scale(self) -> Scale:
        return Scale(self.said["scale"])


def decide(found: Comparison, terms: GateTerms) -> GateResult:
    """The gate of a run that was compared with its baseline.

    Raises: `NothingToGate` for a run without cases, and for a name that nothing has.
    """
    result = GateResult(
        outcome=GateOutcome.INVALID, run=found.candidate.id, baselines=found.base_run_ids
    )
    if not found.candidate.traces:
        raise NothingToGate(f"the run {result.run} measured no case; a gate never passes on none")
    if found.verdict["verdict"] == Verdict.INVALID:
        return replace(result, reason=found.verdict["reason"])
    if found.verdict["conditions"] and not terms.chosen:
        why = f"{NOT_COMPARABLE}: {'; '.join(found.verdict['conditions'])}"
        return replace(result, reason=why, differs=found.verdict["differs"])
    subjects = _subjects(found)
    allowed = _allowed(found, subjects, terms)
    lines = [*allowed, *(_proved(subjects[name], margin) for name, margin in terms.proved.items())]
    outcome = next(each for each in _LOUDEST if any(line.outcome is each for line in lines))
    return replace(result, outcome=outcome, lines=lines, differs=found.verdict["differs"])


def _subjects(found: Comparison) -> dict[str, _Subject]:
    metrics = {each.metric: each.verdict for each in found.metrics}
    kpis = {each.name: each.verdict for each in found.kpis}
    return {
        name: _Subject(name=name, said=said, judgement=judgement_of(said))
        for name, said in {**metrics, **kpis}.items()
    }


def _allowed(
    found: Comparison, subjects: Mapping[str, _Subject], terms: GateTerms
) -> list[GateLine]:
    """A line for each KPI that may not have regressed; they are judged together, by Holm."""
    unknown = sorted({*terms.max_drop, *terms.proved} - {*subjects})
    if unknown:
        raise NothingToGate(
            f"the run has no KPI or metric {', '.join(map(repr, unknown))};"
            f" it has {', '.join(subjects) or 'none'}"
        )
    names = _chosen(found) if not (terms.max_drop or terms.proved) else list(terms.max_drop)
    if not (names or terms.proved):
        raise NothingToGate("the run has neither a KPI nor a metric; name some in its benchmark")
    chosen = [_held(subjects[name], terms.max_drop.get(name)) for name in names]
    judged = iter(
        judged_together([each.judgement for each in chosen if each.judgement is not None], holm)
    )
    return [
        _without(each) if each.judgement is None else _verdict_line(each, next(judged))
        for each in chosen
    ]


def _chosen(found: Comparison) -> list[str]:
    marked = [each.name for each in found.kpis if each.gate]
    return marked or [each.name for each in found.kpis] or [each.metric for each in found.metrics]


def _held(subject: _Subject, max_drop: float | None) -> _Subject:
    """The same where another change counts than the KPI says by itself."""
    if max_drop is None or subject.judgement is None:
        return subject
    return replace(
        subject, judgement=replace(subject.judgement, min_effect=max_drop, margin=max_drop)
    )


def _verdict_line(subject: _Subject, judged: Judgement) -> GateLine:
    return _line(
        subject,
        judged,
        f"worse by at most {judged.min_effect:g}",
        _OUTCOMES[judged.verdict],
        explain(subject.name, judged, subject.scale),
    )


def _proved(subject: _Subject, margin: float) -> GateLine:
    """Non-inferiority: harm of `margin` or more is ruled out by the interval, or it is not.

    Several proofs need no adjustment: the gate passes only when each of them holds.
    """
    judged = subject.judgement
    asked = f"proved no worse than {margin:g}"
    if judged is None:
        return replace(_without(subject), asked=asked)
    if judged.n_items < MIN_ITEMS:
        said = f"Of {subject.name} nothing can be proved: {Note.FEW_ITEMS.words}"
        return _line(subject, judged, asked, GateOutcome.INCONCLUSIVE, said)
    interval = _of_other_items(judged, subject.scale)
    if interval is None:
        said = f"{subject.name} has no interval, so that nothing can be proved of it."
        return _line(subject, judged, asked, GateOutcome.INCONCLUSIVE, said)
    harm = _harm(judged, interval.low, interval.high)
    proven = no_worse_than(harm, margin).proven
    if proven:
        said = f"{subject.name} is proved to be no more than {margin:g} worse."
        return _line(subject, judged, asked, GateOutcome.PASS, said)
    if proven is False:
        said = f"{subject.name} is proved to be more than {margin:g} worse."
        return _line(subject, judged, asked, GateOutcome.REGRESSION, said)
    said = (
        f"{subject.name} may be up to {harm.high:.3g} worse: {judged.n_items} items cannot prove"
        f" that it is no more than {margin:g}."
    )
    return _line(subject, judged, asked, GateOutcome.INCONCLUSIVE, said)


def _of_other_items(judged: Judgement, scale: Scale) -> Interval | None:
    """The interval of a change, also where all items changed alike and it is a point.

    A point is no proof: as many others as can be without one among these may change, each by the
    whole scale. A number has no end of its scale.
    """
    if judged.low is None or judged.high is None:
        return None
    if judged.low < judged.high:
        return Interval(low=judged.low, high=judged.high)
    if scale is Scale.NUMBER:
        return None
    reach = unseen_share(judged.clusters or judged.n_items)
    return Interval(low=judged.low - reach, high=judged.high + reach)


def _harm(judged: Judgement, low: float, high: float) -> Interval:
    """From where to where the harm lies; a change to both sides is harm where nothing is better."""
    if judged.side is Side.HIGH:
        return Interval(low=low, high=high)
    if judged.side is Side.LOW:
        return Interval(low=-high, high=-low)
    nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return Interval(low=nearest, high=max(abs(low), abs(high)))


def _without(subject: _Subject) -> GateLine:
    """What was not compared; what was not even measured never passes."""
    unmeasured = (subject.said["reason"] or "").startswith(NO_VALUE)
    invalid = unmeasured or subject.said["verdict"] == Verdict.INVALID
    return GateLine(
        name=subject.name,
        asked="compared",
        outcome=GateOutcome.INVALID if invalid else GateOutcome.INCONCLUSIVE,
        explanation=f"{subject.name}: {subject.said['explanation']}",
    )


def _line(
    subject: _Subject, judged: Judgement, asked: str, outcome: GateOutcome, said: str
) -> GateLine:
    return GateLine(
        name=subject.name,
        asked=asked,
        outcome=outcome,
        explanation=said,
        base=judged.base,
        value=judged.value,
        effect=judged.effect,
        low=judged.low,
        high=judged.high,
        p_adjusted=judged.p_adjusted,
    )


def judgement_of(said: Mapping[str, Any]) -> Judgement | None:
    """The judgement that was told; None where no comparison was made."""
    if said.get("effect") is None:
        return None
    fixed = said["fixedLow"], said["fixedHigh"]
    return Judgement(
        verdict=Verdict(said["verdict"]),
        effect=said["effect"],
        low=said["low"],
        high=said["high"],
        p=said["p"],
        p_adjusted=said["p"],
        mde=said["mde"],
        n_items=said["items"],
        trials=said["trials"],
        method=said["method"],
        base=said["base"],
        value=said["value"],
        min_effect=said["minEffect"],
        margin=said["margin"],
        side=Side(said["side"]),
        fixed=Interval(low=fixed[0], high=fixed[1]) if None not in fixed else None,
        clusters=said["clusters"],
        remedy=_remedy(said),
        notes=tuple(map(Note, said["notes"])),
    )


def _remedy(said: Mapping[str, Any]) -> Remedy | None:
    notes = said["notes"]
    if said["moreTrials"] is None and Note.ADD_ITEMS not in notes:
        return None
    return Remedy(said["moreTrials"], Note.AT_BEST in notes)
