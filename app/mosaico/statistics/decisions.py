"""The rules that turn the numbers of a change into a verdict; pure."""

import math
from dataclasses import replace
from typing import NamedTuple

from mosaico.statistics.margins import reaches
from mosaico.statistics.verdict_rules import (
    FEW,
    Answer,
    ChangeVerdict,
    Side,
    Verdict,
    VerdictNote,
    without_change,
)


def drop_non_finite(change: ChangeVerdict) -> ChangeVerdict:
    """The change without its overflowed numbers; inconclusive when the values themselves overflow.

    The result can be stored as JSON, which has no infinity.
    """
    if change.effect is None:
        return change
    if not _are_finite(change.effect, change.baseline_value, change.value):
        return without_change(Verdict.INCONCLUSIVE, VerdictNote.TOO_LARGE, n_items=change.n_items)
    has_interval = _are_finite(change.low, change.high, change.low_adjusted, change.high_adjusted)
    return replace(
        change,
        notes=change.notes if has_interval else (*change.notes, VerdictNote.TOO_LARGE),
        answers=tuple(map(_finite_answer, change.answers)),
        low=change.low if has_interval else None,
        high=change.high if has_interval else None,
        low_adjusted=change.low_adjusted if has_interval else None,
        high_adjusted=change.high_adjusted if has_interval else None,
        p=change.p if _are_finite(change.p) else None,
        p_adjusted=change.p_adjusted if _are_finite(change.p_adjusted) else None,
        mde=change.mde if _are_finite(change.mde) else None,
    )


def _finite_answer(answer: Answer) -> Answer:
    has_interval = _are_finite(answer.low, answer.high)
    return replace(
        answer,
        low=answer.low if has_interval else None,
        high=answer.high if has_interval else None,
        p=answer.p if _are_finite(answer.p) else None,
        mde=answer.mde if _are_finite(answer.mde) else None,
    )


def _are_finite(*values: float | None) -> bool:
    return all(value is None or math.isfinite(value) for value in values)


class _Decision(NamedTuple):
    verdict: Verdict
    note: VerdictNote | None = None


# The notes that a decision adds: the next decision, after an adjustment, replaces them.
_DECISION_NOTES = {
    VerdictNote.DETECTABLE_BUT_SMALL,
    VerdictNote.NO_DIRECTION,
    VerdictNote.ADD_ITEMS,
    VerdictNote.AT_BEST,
    VerdictNote.RUNS_VARY,
}


def decide_verdict(change: ChangeVerdict) -> ChangeVerdict:
    """The change with the verdict that its numbers give.

    The rules in order: too few items are inconclusive; runs without any change are not evidence; a
    significant change that is large enough is a verdict; an interval within the margin is no
    evidence; everything else is inconclusive. The function may be applied again after an
    adjustment: notes of an earlier decision are replaced.
    """
    if change.effect is None or change.verdict is Verdict.INVALID:
        return change
    decision = _decide(change, change.effect)
    notes = tuple(note for note in change.notes if note not in _DECISION_NOTES)
    if decision.note is not None:
        notes = (*notes, decision.note)
    return replace(change, verdict=decision.verdict, notes=notes)


def _decide(change: ChangeVerdict, effect: float) -> _Decision:
    # Before the p-value: so few items cannot represent all others, whatever the numbers say.
    if FEW & {*change.notes}:
        return _Decision(Verdict.INCONCLUSIVE)
    if VerdictNote.IDENTICAL in change.notes:
        return _Decision(Verdict.NO_EVIDENCE)
    is_significant = change.p_adjusted is not None and change.p_adjusted < change.alpha
    if is_significant and reaches(abs(effect), change.min_effect):
        if change.side is Side.BOTH:
            return _Decision(Verdict.CHANGED, VerdictNote.NO_DIRECTION)
        is_harmful = (effect < 0) is (change.side is Side.LOW)
        return _Decision(Verdict.REGRESSED if is_harmful else Verdict.IMPROVED)
    if _is_within_margin(change):
        # With many items, changes that matter to nobody are significant.
        return _Decision(
            Verdict.NO_EVIDENCE, VerdictNote.DETECTABLE_BUT_SMALL if is_significant else None
        )
    return _decide_inconclusive(change)


def _is_within_margin(change: ChangeVerdict) -> bool:
    low, high = change.low_adjusted, change.high_adjusted
    if low is None or high is None:
        return False
    return -change.margin <= low and high <= change.margin


def _decide_inconclusive(change: ChangeVerdict) -> _Decision:
    if change.remedy is None:
        return _Decision(Verdict.INCONCLUSIVE)
    if change.remedy.is_of_runs:
        return _Decision(Verdict.INCONCLUSIVE, VerdictNote.RUNS_VARY)
    if change.remedy.more_trials is None:
        return _Decision(Verdict.INCONCLUSIVE, VerdictNote.ADD_ITEMS)
    return _Decision(Verdict.INCONCLUSIVE, VerdictNote.AT_BEST if change.remedy.at_best else None)
