"""Verdicts on changes between two runs: types, and the rules that turn numbers into a verdict."""

from dataclasses import dataclass
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


class VerdictNote(StrEnum):
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
    VerdictNote.NO_ITEMS: "No item has a value in both runs.",
    VerdictNote.FEW_ITEMS: (
        f"Fewer than {MIN_UNITS} items are too few for a verdict: even a change of all of them "
        f"could be chance. At least {MIN_UNITS} items are required."
    ),
    VerdictNote.FEW_CLUSTERS: (
        "These clusters are too few, or too unequal, for a verdict: even a change of all of "
        f"them could be chance. At least {MIN_UNITS} clusters of similar size are required."
    ),
    VerdictNote.THESE_ITEMS: "The trials show that these items changed; other items may behave differently.",
    VerdictNote.IDENTICAL: "No item changed between the two runs.",
    VerdictNote.DETECTABLE_BUT_SMALL: "The change is detectable, but smaller than the minimum effect.",
    VerdictNote.NO_DIRECTION: "Whether this is better or worse is not known.",
    VerdictNote.TOO_LARGE: "The numbers are too large to compute with.",
    VerdictNote.ADD_ITEMS: "More trials cannot help because the items differ too much: add items.",
    VerdictNote.RUNS_VARY: (
        "However many trials and items there are, two runs cannot prove that nothing changed: whole runs vary too much for it."
    ),
    VerdictNote.AT_BEST: "The noise between trials is unknown, so this number is a lower bound.",
    VerdictNote.TIE: "The metrics in a MIN or MAX are nearly tied, so its value is biased.",
    VerdictNote.CLIFF: "The value is close to a threshold of its formula and may jump by chance.",
    VerdictNote.UNDEFINED: (
        "One of the runs has no value to compare: it is undefined, or its numbers are too large to compute with."
    ),
    VerdictNote.JUMP: "The value jumps with single items: runs of different items cannot be compared.",
    VerdictNote.TASKS_UNKNOWN: (
        "Whether exactly these tasks changed cannot be computed here: it needs the same items in both runs, no clusters,"
        " and means of them (for costs and times with as many trials of an item in both runs). The answer is about other"
        " tasks of this kind."
    ),
    VerdictNote.EXTREME: "A minimum or maximum depends on one trace, so chance cannot be estimated.",
    VerdictNote.ALL_ALIKE: "All items have the same value, so the effect of other items is unknown.",
    VerdictNote.UNPAIRED: "The runs have different items and are compared as two samples.",
    VerdictNote.TYPICAL: (
        "The change is that of a typical trace (the mean of the logarithms): the values themselves are means, which a"
        " few expensive traces may move farther, or the other way."
    ),
}


# The notes of units that are too few for any verdict.
FEW = frozenset({VerdictNote.FEW_ITEMS, VerdictNote.FEW_CLUSTERS})


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


class ChangeMethod(StrEnum):
    """The method of the p-value and the interval of a change; NONE: there are none."""

    PAIRED_T = "paired t"
    CLUSTERED_T = "clustered t"
    TWO_SAMPLE_T = "t of two samples"
    STRATIFIED = "stratified score test of fixed items"
    RUN_EXCHANGE = "exchange of the runs"
    NONE = "none"


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
    notes: tuple[VerdictNote, ...] = ()
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


def without_change(verdict: Verdict, *notes: VerdictNote, n_items: int = 0) -> ChangeVerdict:
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
