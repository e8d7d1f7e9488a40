"""Explains the outcome of a check of the gate in one clause; pure."""

import math
from collections.abc import Mapping

from mosaico.comparison.change_text import format_bound, format_limit
from mosaico.comparison.question_text import describe_detectable
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.statistics.intervals import unseen_share
from mosaico.statistics.margins import Harm, MarginOutcome
from mosaico.statistics.verdict_rules import (
    MIN_EFFECT,
    Scale,
    Side,
    VerdictNote,
)

# With these notes no interval describes other items than the compared ones.
_TOO_FEW = (VerdictNote.FEW_ITEMS, VerdictNote.FEW_CLUSTERS, VerdictNote.NO_ITEMS)


def limit_text(verdict: ValueVerdict, limit: float) -> str:
    """The limit; the default one of a number is a share of its baseline, and is rounded."""
    is_default = verdict.scale is Scale.NUMBER and math.isclose(
        limit, MIN_EFFECT * abs(verdict.baseline_value or 0.0)
    )
    if not is_default:
        return format_limit(limit, verdict.scale)
    rounded = format_limit(float(f"{limit:.2g}"), verdict.scale)
    return f"{rounded} ({format_limit(MIN_EFFECT, Scale.RATIO)} of the baseline)"


def describe_drop(verdict: ValueVerdict, harm: Harm, limit: float, outcome: MarginOutcome) -> str:
    """Return the reason why a drop passes a limit, exceeds it, or neither is proved."""
    if has_too_few(verdict):
        return _few_sentence(verdict)
    if VerdictNote.IDENTICAL in verdict.notes:
        return _identical_sentence(verdict)
    allowed = limit_text(verdict, limit)
    size = f" by at least {allowed}" if limit else ""
    if outcome is MarginOutcome.FAIL and verdict.side is Side.BOTH:
        return _changed(verdict, f"it changed{size}")
    if outcome is MarginOutcome.FAIL:
        return f"it is worse{size}, and chance alone does not explain the change"
    if outcome is MarginOutcome.PASS:
        return _within_limit(verdict, harm)
    return _undecided(verdict, harm, allowed)


def _within_limit(verdict: ValueVerdict, harm: Harm) -> str:
    if harm.high is None or harm.high <= 0:
        return "it is not worse, and chance alone does not explain the change"
    return f"it may be worse by at most {format_bound(harm.high, verdict.scale)}, which is allowed"


def _undecided(verdict: ValueVerdict, harm: Harm, allowed: str) -> str:
    if harm.high is None:
        return _no_interval(verdict)
    largest = format_bound(harm.high, verdict.scale)
    if harm.low is not None and harm.low > 0:
        return (
            f"it is worse, by up to {largest}; the items do not show whether it is worse by more "
            f"than {allowed}"
        )
    return (
        f"chance alone could explain the change, and it may be worse by up to {largest}"
        f"{_detectable(verdict)}"
    )


def _detectable(verdict: ValueVerdict) -> str:
    """The smallest drop that these items show; only when the observed change is smaller. Where they
    show none, the number of items that would.
    """
    effect, detectable = verdict.effect, verdict.min_detectable_effect
    if verdict.items_needed:
        return (
            f". {verdict.items} items cannot reliably detect any change: at least "
            f"{verdict.items_needed} items are required"
        )
    if effect is None or not detectable or abs(effect) >= detectable:
        return ""
    smallest = describe_detectable(detectable, verdict.min_detectable_tasks, verdict.scale)
    return f". {verdict.items} items reliably detect {smallest} or more"


def _changed(verdict: ValueVerdict, change: str) -> str:
    """The reason of a change of a value without a direction, with the option that gives it one."""
    remedy = f": {verdict.remedy}" if verdict.remedy else ""
    return f"{change}, and nothing says which way is better{remedy}"


def describe_non_inferiority(
    verdict: ValueVerdict, harm: Harm, allowed: str, outcome: MarginOutcome
) -> str:
    if outcome is MarginOutcome.PASS:
        return f"a change for the worse of {allowed} is ruled out"
    if outcome is MarginOutcome.FAIL and verdict.side is Side.BOTH:
        return _changed(verdict, f"it changed by more than {allowed}")
    if outcome is MarginOutcome.FAIL:
        return f"it is worse by more than {allowed}, and chance alone does not explain the change"
    if has_too_few(verdict):
        return _few_sentence(verdict)
    if harm.high is None:
        return _no_interval(verdict)
    largest = format_bound(harm.high, verdict.scale)
    return (
        f"it may be worse by up to {largest}: {verdict.items} items cannot prove that it is worse by"
        f" less than {allowed}"
    )


def _no_interval(verdict: ValueVerdict) -> str:
    cause = (
        f": {_clause(VerdictNote.TOO_LARGE.sentence)}"
        if VerdictNote.TOO_LARGE in verdict.notes
        else ""
    )
    return f"its change has no interval, so nothing is proved{cause}"


def _identical_sentence(verdict: ValueVerdict) -> str:
    units = "clusters" if verdict.clusters else "items"
    return (
        f"all {verdict.clusters or verdict.items} {units} gave the same value in both runs; up to"
        f" {unseen_harm(verdict) * 100:.1f} % of other {units} may still have changed"
    )


def unseen_harm(verdict: ValueVerdict) -> float:
    return unseen_share(verdict.clusters or verdict.items or 0)


def has_too_few(verdict: ValueVerdict) -> bool:
    return any(note in verdict.notes for note in _TOO_FEW)


def _few_sentence(verdict: ValueVerdict) -> str:
    notes = [note for note in (*_TOO_FEW, VerdictNote.THESE_ITEMS) if note in verdict.notes]
    return _clause(" ".join(note.sentence for note in notes))


def describe_samples(verdicts: Mapping[str, ValueVerdict]) -> list[str]:
    """What a change between runs of different items is a change of, by name: one sentence for each remark."""
    names_by_note = {
        note: [name for name, verdict in verdicts.items() if note in verdict.notes]
        for note in (VerdictNote.UNPAIRED, VerdictNote.TYPICAL)
    }
    return [
        f"{', '.join(names)}: {_clause(note.sentence)}."
        for note, names in names_by_note.items()
        if names
    ]


def describe_missing(verdict: ValueVerdict) -> str:
    """Return the reason why a KPI or metric was not compared."""
    if verdict.notes and not verdict.reason:
        return _clause(verdict.notes[0].sentence)
    return _clause(verdict.reason or verdict.explanation)


def _clause(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:]}".removesuffix(".")
