"""Verdicts on changes between two runs: types, and the rules that turn numbers into a verdict."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

ALPHA = 0.05
CONFIDENCE = 0.95
# The smallest change that counts, and the largest that does not: of a rate, or as a fraction of any other value.
MIN_EFFECT = 0.02
MARGIN = 0.05
# The power of a stated minimum detectable effect.
POWER = 0.8
# With fewer items, or clusters of equal size, even a change of all of them can be chance.
MIN_UNITS = 4
# Numbers that differ by less than this fraction are equal.
_TOLERANCE = 1e-9


class Verdict(StrEnum):
    """The verdict on a change, as alerts, CI and reports use it.

    CHANGED: a significant change of a value of which nobody said which way is better. NOT_MEASURED is the verdict of a
    run in which nothing measures quality.
    """

    REGRESSED = "REGRESSED"
    IMPROVED = "IMPROVED"
    CHANGED = "CHANGED"
    NO_EVIDENCE = "NO_EVIDENCE"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"
    NOT_MEASURED = "NOT_MEASURED"


class Side(StrEnum):
    """The direction in which a change does harm."""

    LOW = "LOW"
    HIGH = "HIGH"
    BOTH = "BOTH"


class Scale(StrEnum):
    """The unit of a change.

    RATE is a difference of values in [0, 1]. NUMBER is a difference whose limits are fractions of
    the baseline. RATIO is a fraction of the baseline (latency, cost, tokens).
    """

    RATE = "RATE"
    NUMBER = "NUMBER"
    RATIO = "RATIO"


class About(StrEnum):
    """The question that a verdict answers.

    TASKS: did exactly these items change? Only their trials vary by chance. POPULATION: would other items of this kind
    change, too? The items are a sample of all that could have been chosen.
    """

    TASKS = "TASKS"
    POPULATION = "POPULATION"

    @property
    def phrase(self) -> str:
        """The question as a short phrase."""
        return "on these tasks" if self is About.TASKS else "beyond these tasks"


class RunsBasis(StrEnum):
    """Where the variation of whole runs is known from: it is assumed, stated by the user, or measured from earlier runs."""

    ASSUMED = "ASSUMED"
    GIVEN = "GIVEN"
    MEASURED = "MEASURED"


class RunVariation(NamedTuple):
    """The standard deviation of whole runs beyond their items, and where it is known from: `runs` earlier ones.

    ASSUMED with `runs`: these are too few to show that runs vary less.
    """

    sd: float
    basis: RunsBasis
    runs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChanges:
    """The items, of `items`, that changed by themselves: passed always before and never after (`fell`), the reverse
    (`rose`), and those of which their own trials prove a change (`beyond_chance`).

    `p_fall` and `p_rise` are the p-values of "no item fell" and "no item rose", as the verdict compares them with alpha.
    """

    items: int
    fell: tuple[str, ...] = ()
    rose: tuple[str, ...] = ()
    beyond_chance: tuple[str, ...] = ()
    p_fall: float = 1.0
    p_rise: float = 1.0


class Judgement(StrEnum):
    """Who gave a score. JUDGE: a model that MOSAICO asks, which reads nothing but the answer. SOURCE: the source of the
    traces; a judge, or a check of something else than the answer.
    """

    JUDGE = "JUDGE"
    SOURCE = "SOURCE"


class JudgeDrift(NamedTuple):
    """Of how many answers that are equal in both runs the scores changed, and by how much on average. `counts`: this
    shift is a part of the error of the change.
    """

    answers: int
    changed: int
    shift: float
    counts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one question about a change, not adjusted for others; `effect` is that of the verdict.

    `mde` is the minimum detectable effect, and `broken_items` the number of items that have to break to be found, None
    where it is unknown.
    """

    about: About
    low: float | None
    high: float | None
    p: float | None
    mde: float | None
    broken_items: int | None = None


class Note(StrEnum):
    """A remark that a reader of a verdict needs."""

    NO_ITEMS = "NO_ITEMS"
    FEW_ITEMS = "FEW_ITEMS"
    IDENTICAL = "IDENTICAL"
    THESE_ITEMS = "THESE_ITEMS"
    DETECTABLE_BUT_SMALL = "DETECTABLE_BUT_SMALL"
    NO_DIRECTION = "NO_DIRECTION"
    TOO_LARGE = "TOO_LARGE"
    ADD_ITEMS = "ADD_ITEMS"
    AT_BEST = "AT_BEST"
    RUNS_VARY = "RUNS_VARY"
    FEW_CLUSTERS = "FEW_CLUSTERS"
    TIE = "TIE"
    CLIFF = "CLIFF"
    UNDEFINED = "UNDEFINED"
    UNPAIRED = "UNPAIRED"
    TYPICAL = "TYPICAL"
    EXTREME = "EXTREME"
    ALL_ALIKE = "ALL_ALIKE"
    JUMP = "JUMP"
    TASKS_UNKNOWN = "TASKS_UNKNOWN"

    @property
    def sentence(self) -> str:
        """The remark in plain words."""
        return _SENTENCES[self]


_SENTENCES = {
    Note.NO_ITEMS: "No item has a value in both runs.",
    Note.FEW_ITEMS: (
        f"Fewer than {MIN_UNITS} items are too few for a verdict: even a change of all of them "
        f"could be chance. At least {MIN_UNITS} items are required."
    ),
    Note.FEW_CLUSTERS: (
        "These clusters are too few, or too unequal, for a verdict: even a change of all of "
        f"them could be chance. At least {MIN_UNITS} clusters of similar size are required."
    ),
    Note.THESE_ITEMS: "The trials show that these items changed; other items may behave differently.",
    Note.IDENTICAL: "No item changed between the two runs.",
    Note.DETECTABLE_BUT_SMALL: "The change is detectable, but smaller than the minimum effect.",
    Note.NO_DIRECTION: "Whether this is better or worse is not known.",
    Note.TOO_LARGE: "The numbers are too large to compute with.",
    Note.ADD_ITEMS: "More trials cannot help because the items differ too much: add items.",
    Note.RUNS_VARY: (
        "More trials and items cannot help: as much as whole runs vary, two of them prove no change this small."
    ),
    Note.AT_BEST: "The noise between trials is unknown, so this number is a lower bound.",
    Note.TIE: "The metrics in a MIN or MAX are nearly tied, so its value is biased.",
    Note.CLIFF: "The value is close to a threshold of its formula and may jump by chance.",
    Note.UNDEFINED: (
        "One of the runs has no value to compare: it is undefined, or its numbers are too large to compute with."
    ),
    Note.JUMP: "The value jumps with single items: runs of different items cannot be compared.",
    Note.TASKS_UNKNOWN: (
        "Whether exactly these tasks changed cannot be computed here: it needs the same items in both runs, no clusters,"
        " and means of them (for costs and times with as many trials of an item in both runs). The answer is about other"
        " tasks of this kind."
    ),
    Note.EXTREME: "A minimum or maximum depends on one trace, so chance cannot be estimated.",
    Note.ALL_ALIKE: "All items have the same value, so the effect of other items is unknown.",
    Note.UNPAIRED: "The runs have different items and are compared as two samples.",
    Note.TYPICAL: (
        "The change is that of a typical trace (the mean of the logarithms): the values themselves are means, which a"
        " few expensive traces may move farther, or the other way."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRule:
    """The changes of one KPI or metric that count.

    `min_effect` is the smallest change that counts and `margin` the largest that does not: both are
    differences on the scale RATE, and fractions of the baseline on the other scales. `side` is the
    direction of harm; with BOTH a significant change is CHANGED, neither REGRESSED nor IMPROVED.
    """

    side: Side
    scale: Scale = Scale.RATE
    alpha: float = ALPHA
    min_effect: float = MIN_EFFECT
    margin: float = MARGIN


class Harm(NamedTuple):
    """The harm of a change and its interval: positive is worse, negative is better.

    The limits are None when the interval is unknown.
    """

    low: float | None
    estimate: float
    high: float | None


class ChangeMethod(StrEnum):
    """The method of the p-value and the interval of a change; NONE: there are none."""

    PAIRED_T = "paired t"
    CLUSTERED_T = "clustered t"
    TWO_SAMPLE_T = "t of two samples"
    STRATIFIED = "stratified score test of fixed items"
    RUN_EXCHANGE = "exchange of the runs"
    NONE = "none"


class MarginOutcome(StrEnum):
    """The comparison of a harm with a margin."""

    PASS = "PASS"  # noqa: S105 - no password, an outcome
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


def harm_of(effect: float, low: float | None, high: float | None, side: Side) -> Harm:
    """The harm of a change with its interval; on the side BOTH a change in any direction is harm."""
    if side is Side.HIGH:
        return Harm(low, effect, high)
    if side is Side.LOW:
        return Harm(None if high is None else -high, -effect, None if low is None else -low)
    if low is None or high is None:
        return Harm(None, abs(effect), None)
    return Harm(
        0.0 if low <= 0 <= high else min(abs(low), abs(high)), abs(effect), max(abs(low), abs(high))
    )


def assess_drop(harm: Harm, margin: float) -> MarginOutcome:
    """Return whether a harm of at least `margin` is observed and proved to be more than chance.

    FAIL when the interval excludes zero harm and the estimate reaches the margin; PASS when the
    whole interval is within the margin; otherwise INCONCLUSIVE. Neither a larger harm nor a smaller
    margin gives a milder outcome.
    """
    if harm.low is not None and harm.low > 0 and reaches(harm.estimate, margin):
        return MarginOutcome.FAIL
    return _pass_if(harm.high is not None and harm.high <= margin)


def assess_non_inferiority(harm: Harm, margin: float) -> MarginOutcome:
    """Return whether the harm is proved to be below `margin`: PASS below, FAIL above, else
    INCONCLUSIVE.

    Source: ICH E9 §3.3.2 (non-inferiority by a confidence interval).
    """
    if harm.low is not None and harm.low > margin:
        return MarginOutcome.FAIL
    return _pass_if(harm.high is not None and harm.high < margin)


def _pass_if(is_proved: bool) -> MarginOutcome:  # noqa: FBT001 - the only argument
    return MarginOutcome.PASS if is_proved else MarginOutcome.INCONCLUSIVE


class Remedy(NamedTuple):
    """The trials or items that would decide an inconclusive verdict, if the value is unchanged.

    `more_trials` is the number of trials per item to add in both runs; None means that only more
    items help, or neither: with `is_of_runs` whole runs alone vary too much. `at_best` marks a lower bound, because the
    noise between trials is unknown.
    """

    more_trials: int | None
    at_best: bool = False
    is_of_runs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeVerdict:
    """The change of one KPI or metric from the baseline to the candidate.

    `effect` is candidate − baseline over the `n_items` of both runs (on the scale RATIO the relative
    change), with its 95 % interval `low` to `high`. `p_adjusted`, `low_adjusted` and `high_adjusted`
    are adjusted for the changes that are judged together; the verdict follows from these. `mde` is
    the minimum detectable effect at 80 % power; None when it is unknown, or when no change is detected
    as often: then `items_needed` is the number of items with which one is, if known. `min_effect` and `margin` are those of the rule in
    the unit of the effect. `trials` is the mean number of trials per item. `remedy` is None when the
    interval of an unchanged value lies within the margin or its width is unknown. `about` is the question that all
    these numbers answer; `answers` are those to every question that the data allow. `tasks` are the items that changed
    by themselves. `whole_runs` is how much whole runs vary, in the unit of the effect. `judge` is what the scores of
    equal answers did, in the unit of the effect; None without any.
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
    method: ChangeMethod
    low_adjusted: float | None = None
    high_adjusted: float | None = None
    baseline_value: float | None = None
    value: float | None = None
    min_effect: float = 0.0
    margin: float = 0.0
    side: Side = Side.LOW
    alpha: float = ALPHA
    clusters: int | None = None
    items_needed: int | None = None
    remedy: Remedy | None = None
    notes: tuple[Note, ...] = ()
    about: About = About.POPULATION
    answers: tuple[Answer, ...] = ()
    tasks: TaskChanges | None = None
    whole_runs: RunVariation | None = None
    judge: JudgeDrift | None = None

    @property
    def broken_items(self) -> int | None:
        """The number of items that have to break to be found, by the question that decides."""
        numbers = (answer.broken_items for answer in self.answers if answer.about is self.about)
        return next(numbers, None)

    @property
    def more_trials(self) -> int | None:
        """The trials per item to add in both runs for a conclusive verdict."""
        if self.verdict is not Verdict.INCONCLUSIVE or self.remedy is None:
            return None
        return self.remedy.more_trials


def without_change(verdict: Verdict, *notes: Note, n_items: int = 0) -> ChangeVerdict:
    """A verdict without numbers, for an invalid run or without items to compare."""
    return ChangeVerdict(
        verdict=verdict,
        effect=None,
        low=None,
        high=None,
        p=None,
        p_adjusted=None,
        mde=None,
        n_items=n_items,
        trials=0.0,
        method=ChangeMethod.NONE,
        notes=notes,
    )


def drop_non_finite(change: ChangeVerdict) -> ChangeVerdict:
    """The change without its overflowed numbers; inconclusive when the values themselves overflow.

    The result can be stored as JSON, which has no infinity.
    """
    if change.effect is None:
        return change
    if not _are_finite(change.effect, change.baseline_value, change.value):
        return without_change(Verdict.INCONCLUSIVE, Note.TOO_LARGE, n_items=change.n_items)
    has_interval = _are_finite(change.low, change.high, change.low_adjusted, change.high_adjusted)
    return replace(
        change,
        notes=change.notes if has_interval else (*change.notes, Note.TOO_LARGE),
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
    note: Note | None = None


# The notes of units that are too few for any verdict.
FEW = frozenset({Note.FEW_ITEMS, Note.FEW_CLUSTERS})
# The notes that a decision adds: the next decision, after an adjustment, replaces them.
_DECISION_NOTES = {
    Note.DETECTABLE_BUT_SMALL,
    Note.NO_DIRECTION,
    Note.ADD_ITEMS,
    Note.AT_BEST,
    Note.RUNS_VARY,
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
    if Note.IDENTICAL in change.notes:
        return _Decision(Verdict.NO_EVIDENCE)
    is_significant = change.p_adjusted is not None and change.p_adjusted < change.alpha
    if is_significant and reaches(abs(effect), change.min_effect):
        if change.side is Side.BOTH:
            return _Decision(Verdict.CHANGED, Note.NO_DIRECTION)
        is_harmful = (effect < 0) is (change.side is Side.LOW)
        return _Decision(Verdict.REGRESSED if is_harmful else Verdict.IMPROVED)
    if _is_within_margin(change):
        # With many items, changes that matter to nobody are significant.
        return _Decision(Verdict.NO_EVIDENCE, Note.DETECTABLE_BUT_SMALL if is_significant else None)
    return _decide_inconclusive(change)


def reaches(size: float, limit: float) -> bool:
    """Return whether a size is at least a limit, but for rounding: 8 of 40 items are a drop
    of 0.2.
    """
    return size >= limit * (1 - _TOLERANCE)


def _is_within_margin(change: ChangeVerdict) -> bool:
    low, high = change.low_adjusted, change.high_adjusted
    if low is None or high is None:
        return False
    return -change.margin <= low and high <= change.margin


def _decide_inconclusive(change: ChangeVerdict) -> _Decision:
    if change.remedy is None:
        return _Decision(Verdict.INCONCLUSIVE)
    if change.remedy.is_of_runs:
        return _Decision(Verdict.INCONCLUSIVE, Note.RUNS_VARY)
    if change.remedy.more_trials is None:
        return _Decision(Verdict.INCONCLUSIVE, Note.ADD_ITEMS)
    return _Decision(Verdict.INCONCLUSIVE, Note.AT_BEST if change.remedy.at_best else None)
