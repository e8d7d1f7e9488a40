"""Builds the stored verdict of a KPI or metric and its explanation in plain sentences; pure."""

import math
from dataclasses import replace

from mosaico.comparison.change_text import (
    ChangeText,
    describe_change,
    format_limit,
    scale_of_change,
)
from mosaico.comparison.judge_text import describe_judge
from mosaico.comparison.question_text import (
    changed_tasks,
    describe_detectable,
    describe_second_answer,
    describe_tasks,
    second_answer,
    stored_answer,
)
from mosaico.core.text import capitalized, count_noun, sentence_of
from mosaico.items.formulas.properties import ValueRange
from mosaico.kpis.series_types import RunsEvidence, SeriesEvent, SeriesStatus
from mosaico.kpis.verdict_types import JudgedAnswers, ValueVerdict, WholeRunVariation
from mosaico.statistics.verdict_rules import FEW, ChangeVerdict, Scale, Verdict, VerdictNote

UNLIMITED = ValueRange(None, None)
LOST_METRIC = "a metric is no longer installed; install its plugin again"
_OVER_RUNS = {
    SeriesStatus.WARMUP: "too few to compare",
    SeriesStatus.OK: "no incident",
    SeriesStatus.FIRING: "incident open",
}
_CHANGED_OVER_RUNS = {
    SeriesEvent.OPENED: "incident opened",
    SeriesEvent.WORSE: "incident open, worse",
    SeriesEvent.PARTLY_BACK: "incident open, partly back",
    SeriesEvent.RESOLVED: "recovered",
    SeriesEvent.IMPROVED: "improved",
    SeriesEvent.REFERENCE_LOST: "incident closed, nothing to compare with",
}
_EFFECTS = {
    Verdict.REGRESSED: "worse",
    Verdict.IMPROVED: "better",
    Verdict.CHANGED: "a change",
}
# Other sentences say what these notes mean.
_PHRASED_NOTES = frozenset({VerdictNote.AT_BEST})


def not_compared(
    reason: str, verdict: Verdict | None = None, *, has_value: bool = True
) -> ValueVerdict:
    """The verdict of a KPI or metric that was not compared."""
    return ValueVerdict(
        verdict=verdict,
        reason=reason,
        explanation=f"{capitalized(reason)}.",
        has_value=has_value,
    )


def describe_runs_evidence(evidence: RunsEvidence) -> str:
    """The verdict of the last runs together, in a few words, beside that of the run alone."""
    if evidence.event is not None:
        return f"over runs: {_CHANGED_OVER_RUNS[evidence.event]}"
    return f"over runs: {_OVER_RUNS[evidence.status]}"


def render_verdict(
    name: str,
    change: ChangeVerdict,
    scale: Scale,
    *,
    unit: str | None = None,
    gate: bool = False,
    limits: ValueRange = UNLIMITED,
    remedy: str | None = None,
) -> ValueVerdict:
    """The verdict of one KPI or metric that was compared with its baseline; `limits` are those of its
    value, `remedy` is how to give it a better direction.
    """
    if VerdictNote.NO_DIRECTION not in change.notes:
        remedy = None
    scale = scale_of_change(change, scale) or scale
    if scale is not Scale.RATIO:
        change = _within_limits(change, limits)
    return ValueVerdict(
        verdict=change.verdict,
        explanation=" ".join(
            filter(None, (explain(name, change, scale, unit), remedy and sentence_of(remedy)))
        ),
        remedy=remedy,
        baseline_value=change.baseline_value,
        value=change.value,
        effect=change.effect,
        low=change.low,
        high=change.high,
        low_adjusted=change.low_adjusted,
        high_adjusted=change.high_adjusted,
        p=change.p,
        p_adjusted=change.p_adjusted,
        min_detectable_effect=change.mde,
        min_effect=change.min_effect,
        margin=change.margin,
        scale=scale,
        unit=unit,
        side=change.side,
        items=change.n_items,
        trials=change.trials,
        more_trials=change.more_trials,
        items_needed=change.items_needed,
        clusters=change.clusters,
        about=change.about,
        answers=tuple(map(stored_answer, change.answers)),
        min_detectable_tasks=change.broken_items,
        changed_tasks=changed_tasks(change),
        whole_runs=change.whole_runs and WholeRunVariation(**change.whole_runs._asdict()),
        judged_answers=None if change.judge is None else JudgedAnswers(**change.judge._asdict()),
        method=change.method,
        gate=gate,
        notes=change.notes,
    )


def _within_limits(change: ChangeVerdict, limits: ValueRange) -> ChangeVerdict:
    """The change with intervals that do not lead beyond the smallest and the largest value."""
    baseline = change.baseline_value
    if baseline is None:
        return change
    lowest = -math.inf if limits.minimum is None else limits.minimum - baseline
    highest = math.inf if limits.maximum is None else limits.maximum - baseline

    def clip(end: float | None) -> float | None:
        return None if end is None else min(max(end, lowest), highest)

    return replace(
        change,
        low=clip(change.low),
        high=clip(change.high),
        low_adjusted=clip(change.low_adjusted),
        high_adjusted=clip(change.high_adjusted),
        answers=tuple(
            replace(answer, low=clip(answer.low), high=clip(answer.high))
            for answer in change.answers
        ),
    )


def explain(name: str, change: ChangeVerdict, scale: Scale, unit: str | None = None) -> str:
    """A verdict in sentences that need no knowledge of statistics."""
    second_sentences = describe_second_answer(change, scale)
    phrased = _PHRASED_NOTES | {VerdictNote.THESE_ITEMS} if second_sentences else _PHRASED_NOTES
    notes = [note.sentence for note in change.notes if note not in phrased]
    text = describe_change(change, scale, unit)
    if text is None:
        return " ".join([f"{name} was not compared.", *notes])
    if VerdictNote.TYPICAL in change.notes:
        # The values are means, and may have moved the other way.
        values = f"{name} was {text.before} and is {text.after}, of a typical trace {text.change}."
    else:
        values = describe_values(name, change.effect, text)
    sentences = [values, _meaning(change, scale), *notes]
    sentences += [
        _remedy(change),
        describe_tasks(change),
        describe_judge(change, scale),
        *second_sentences,
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def describe_values(name: str, effect: float | None, text: ChangeText) -> str:
    """The sentence about the values of both runs and the change between them."""
    if not effect:
        evidence = f" ({text.interval})" if text.interval else ""
        return f"{name} is unchanged at {text.after}{evidence}."
    direction = "fell" if effect < 0 else "rose"
    return f"{name} {direction} from {text.before} to {text.after}: {text.change}."


def _meaning(change: ChangeVerdict, scale: Scale) -> str:
    match change.verdict:
        case Verdict.REGRESSED | Verdict.IMPROVED | Verdict.CHANGED:
            question = f" {change.about.phrase}" if second_answer(change) else ""
            return f"This is {_EFFECTS[change.verdict]}{question}, and chance alone does not explain the change."
        case Verdict.NO_EVIDENCE if VerdictNote.DETECTABLE_BUT_SMALL not in change.notes:
            # The note says why: nothing is ruled out for other items.
            if VerdictNote.IDENTICAL in change.notes:
                return ""
            return f"A change of more than {format_limit(change.margin, scale)} is ruled out."
        case Verdict.INCONCLUSIVE:
            return _inconclusive(change, scale)
        case _:
            return ""


def _inconclusive(change: ChangeVerdict, scale: Scale) -> str:
    """Return the reason why there is no verdict; the detectable effect only when the change is
    smaller than it.
    """
    if change.effect is None or {*FEW, VerdictNote.TOO_LARGE} & {*change.notes}:
        return "This is inconclusive."
    if change.p_adjusted is not None and change.p_adjusted < change.alpha:
        # The change is certain, but its size is not: it may be too small to matter.
        smallest = format_limit(change.min_effect, scale)
        return f"This is inconclusive: the value changed, but possibly by less than {smallest}."
    if change.mde and abs(change.effect) < change.mde:
        return (
            "This is inconclusive: chance alone could explain the change. With these items only"
            f" {describe_detectable(change.mde, change.broken_items, scale)} or more is detected reliably."
        )
    if change.items_needed:
        return (
            "This is inconclusive: chance alone could explain the change. These items cannot "
            f"reliably detect any change: at least {change.items_needed} items are required."
        )
    return "This is inconclusive: chance alone could explain the change."


def _remedy(change: ChangeVerdict) -> str:
    """The trials that would probably give a conclusive verdict."""
    if not change.more_trials:
        return ""
    trials = count_noun(change.more_trials, "more trial")
    if VerdictNote.AT_BEST in change.notes:
        return f"At least {trials} per item would be needed: the noise between trials is unknown."
    return f"{capitalized(trials)} per item would probably give a conclusive verdict."
