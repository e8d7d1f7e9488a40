"""What may be said of a KPI or metric of a run beside its baseline.

Types and the order of the decision; nothing here needs numpy, so every process may import it. What
computes a `Judgement` from the values of two runs stands in `app.statistics.hypothesis_tests`, and belongs
into the process that computes.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, Protocol

from app.statistics.anomaly import Side
from app.statistics.intervals import Interval

ALPHA = 0.05
CONFIDENCE = 0.95
# Below this many items nothing is concluded, whatever the numbers say.
MIN_ITEMS = 5
# Student's t of fewer clusters is too sure of itself; whole clusters are flipped instead.
FEW_CLUSTERS = 10
# One fixed benchmark is shown as a second estimand from this many trials an item.
TRIALS_FOR_FIXED = 3
# (1.96 + 0.84): the two-sided 5 % quantile and the 80 % quantile of the normal distribution.
MDE_FACTOR = 2.80


class Verdict(StrEnum):
    """What alerts, CI and colours read."""

    REGRESSED = "REGRESSED"
    IMPROVED = "IMPROVED"
    NO_EVIDENCE = "NO_EVIDENCE"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"


class Scale(StrEnum):
    """In which terms a change is told: `RATE` as a difference of values in [0, 1], `NUMBER` as a
    difference whose limits are shares of the baseline, `RATIO` as a share of the baseline's geometric
    mean (latency, cost, tokens).
    """

    RATE = "RATE"
    NUMBER = "NUMBER"
    RATIO = "RATIO"


class Note(StrEnum):
    """Something that a reader of a judgement has to know."""

    NO_ITEMS = "NO_ITEMS"
    FEW_ITEMS = "FEW_ITEMS"
    DEGENERATE = "DEGENERATE"
    DETECTABLE_BUT_SMALL = "DETECTABLE_BUT_SMALL"
    NO_DIRECTION = "NO_DIRECTION"
    ADD_ITEMS = "ADD_ITEMS"
    AT_BEST = "AT_BEST"
    FEW_CLUSTERS = "FEW_CLUSTERS"
    TIE = "TIE"
    CLIFF = "CLIFF"
    UNDEFINED = "UNDEFINED"
    UNDEFINED_SOMETIMES = "UNDEFINED_SOMETIMES"
    UNPAIRED = "UNPAIRED"
    EXTREME = "EXTREME"
    ALL_ALIKE = "ALL_ALIKE"

    @property
    def words(self) -> str:
        """The note as a sentence."""
        return _WORDS[self]


_WORDS = {
    Note.NO_ITEMS: "No item has a value in both runs.",
    Note.FEW_ITEMS: f"Fewer than {MIN_ITEMS} items: too few to conclude anything.",
    Note.DEGENERATE: "Every item changed by the same amount: the interval is a point.",
    Note.DETECTABLE_BUT_SMALL: "The change is detectable, but smaller than what counts.",
    Note.NO_DIRECTION: "The value changed; no direction says whether for the better.",
    Note.ADD_ITEMS: "More trials cannot settle it, the items differ too much: add items.",
    Note.AT_BEST: "How much of it is noise of the trials is not known: more may be needed.",
    Note.FEW_CLUSTERS: "Fewer than ten clusters: the interval is wide, and still uncertain.",
    Note.TIE: "The metrics in a MIN or MAX are nearly tied: its value is biased.",
    Note.CLIFF: "The value stands near a threshold of its formula: it may jump by chance.",
    Note.UNDEFINED: "One of the runs has no value to compare.",
    Note.UNDEFINED_SOMETIMES: "In some resamples the formula has no value; they are left out.",
    Note.EXTREME: "A largest or smallest value hangs on one trace: resamples cannot judge it.",
    Note.ALL_ALIKE: "All items say the same: how far others would move the value is not known.",
    Note.UNPAIRED: "The runs have different items and are compared as two samples.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRule:
    """What counts as a change of one KPI or metric.

    `min_effect` is the smallest change that matters and `margin` the largest that does not; both
    are differences on the scale RATE, and shares of the baseline on the others. `side` is where
    harm lies; on BOTH nothing is better, and no verdict is REGRESSED or IMPROVED.
    """

    side: Side
    scale: Scale = Scale.RATE
    alpha: float = ALPHA
    min_effect: float = 0.02
    margin: float = 0.05


class Remedy(NamedTuple):
    """What would bring the smallest visible change under the margin: so many more trials of both
    runs, at best where the noise within items is not known; None: only more items would.
    """

    more_trials: int | None
    at_best: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One KPI or metric of a run beside its baseline.

    `effect` is candidate − baseline over the `n_items` that both have (on the scale RATIO the share
    by which the geometric mean changed), with its 95 % interval; `base` and `value` are the two
    sides of it. `p_adjusted` is p until several are judged together. `mde` is the smallest change
    that is seen in four runs of five; `min_effect` and `margin` are those of the rule in the units
    of the effect. `trials` is the mean number of trials an item. `remedy` is None where the mde is
    under the margin, or not known. `fixed` is the interval for these very items, from three trials
    on.
    """

    verdict: Verdict
    effect: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    mde: float | None
    n_items: int
    trials: float
    method: str
    base: float | None = None
    value: float | None = None
    min_effect: float = 0.0
    margin: float = 0.0
    side: Side = Side.LOW
    alpha: float = ALPHA
    fixed: Interval | None = None
    clusters: int | None = None
    remedy: Remedy | None = None
    notes: tuple[Note, ...] = ()

    @property
    def more_trials(self) -> int | None:
        """How many more trials of both runs would settle what is inconclusive."""
        if self.verdict is not Verdict.INCONCLUSIVE or self.remedy is None:
            return None
        return self.remedy.more_trials


class Adjust(Protocol):
    """Adjusted p-values in the order given, such as `benjamini_hochberg` and `holm`."""

    def __call__(self, p_values: Iterable[float], /) -> list[float]: ...


def no_judgement(verdict: Verdict, *notes: Note, n_items: int = 0) -> Judgement:
    """A verdict without numbers: an invalid run, or no items to compare."""
    return Judgement(
        verdict=verdict,
        effect=None,
        low=None,
        high=None,
        p=None,
        p_adjusted=None,
        mde=None,
        n_items=n_items,
        trials=0.0,
        method="none",
        notes=notes,
    )


def within_numbers(found: Judgement) -> Judgement:
    """The same without what is larger than a number can be; nothing is concluded where the values or
    their change are.
    """
    if found.effect is None:
        return found
    if not _are_finite(found.effect, found.base, found.value):
        return no_judgement(Verdict.INCONCLUSIVE, Note.UNDEFINED, n_items=found.n_items)
    known = _are_finite(found.low, found.high)
    return replace(
        found,
        low=found.low if known else None,
        high=found.high if known else None,
        p=found.p if _are_finite(found.p) else None,
        p_adjusted=found.p_adjusted if _are_finite(found.p_adjusted) else None,
        mde=found.mde if _are_finite(found.mde) else None,
        fixed=found.fixed
        if found.fixed and _are_finite(found.fixed.low, found.fixed.high)
        else None,
    )


def _are_finite(*values: float | None) -> bool:
    return all(value is None or math.isfinite(value) for value in values)


class _Decision(NamedTuple):
    verdict: Verdict
    note: Note | None = None


def settled(found: Judgement) -> Judgement:
    """The same with the verdict that its numbers give, in this order: too few items, a change that
    is certain and large enough, no change or a small one, and else inconclusive.
    """
    if found.effect is None or found.verdict is Verdict.INVALID:
        return found
    decision = _decide(found, found.effect)
    kept = tuple(note for note in found.notes if note not in _OF_DECISION)
    notes = kept if decision.note is None else (*kept, decision.note)
    return replace(found, verdict=decision.verdict, notes=notes)


def _open(found: Judgement) -> _Decision:
    """Inconclusive, and what would help."""
    if found.remedy is None:
        return _Decision(Verdict.INCONCLUSIVE)
    if found.remedy.more_trials is None:
        return _Decision(Verdict.INCONCLUSIVE, Note.ADD_ITEMS)
    return _Decision(Verdict.INCONCLUSIVE, Note.AT_BEST if found.remedy.at_best else None)


_OF_DECISION = {
    Note.FEW_ITEMS,
    Note.DETECTABLE_BUT_SMALL,
    Note.NO_DIRECTION,
    Note.ADD_ITEMS,
    Note.AT_BEST,
}


def _decide(found: Judgement, effect: float) -> _Decision:
    if found.n_items < MIN_ITEMS:
        return _Decision(Verdict.INCONCLUSIVE, Note.FEW_ITEMS)
    if found.p_adjusted is not None and found.p_adjusted < found.alpha:
        return _of_certain(found, effect)
    inside = (
        found.low is not None
        and found.high is not None
        and -found.margin <= found.low
        and found.high <= found.margin
    )
    return _Decision(Verdict.NO_EVIDENCE) if inside else _open(found)


def _of_certain(found: Judgement, effect: float) -> _Decision:
    if abs(effect) < found.min_effect:
        return _Decision(Verdict.NO_EVIDENCE, Note.DETECTABLE_BUT_SMALL)
    if found.side is Side.BOTH:
        return _Decision(Verdict.NO_EVIDENCE, Note.NO_DIRECTION)
    harmful = (effect < 0) is (found.side is Side.LOW)
    return _Decision(Verdict.REGRESSED if harmful else Verdict.IMPROVED)


def judged_together(found: Iterable[Judgement], adjust: Adjust) -> list[Judgement]:
    """The same judgements with p-values adjusted for how many there are, settled anew, in their
    order. Those without a p-value stay as they are and do not count.
    """
    judgements = list(found)
    adjusted = iter(adjust(each.p for each in judgements if each.p is not None))
    return [
        each if each.p is None else settled(replace(each, p_adjusted=next(adjusted)))
        for each in judgements
    ]
