"""Evidence over several runs: whether the level of a series has changed, since when, and how surely; pure.

Each window of the last w runs is compared with the runs before it, the reference. The window that differs
most, in standard errors of the variance model of `run_variance`, is the evidence; it dates the start of the change.
Because windows and runs are looked at again and again, the limit is not that of one test: it is chosen for a number of
false alarms in 30 runs.

Source: Siegmund and Venkatraman 1995, "Using the generalized likelihood ratio statistic for
sequential detection of a change-point" (window-limited scan).
"""

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from mosaico.statistics.run_variance import (
    RunVariance,
    estimate_run_variance,
    from_normal,
    prior_sd,
    to_normal,
)
from mosaico.statistics.verdict_rules import Scale

# A reference has at most this number of runs.
MAX_REFERENCE: Final = 60
WINDOWS: Final = (1, 2, 3, 4, 5, 8, 13, 21, 30)
# A window needs a reference of its own length, up to this number of runs. A reference of half of it shows how
# neighboring runs are correlated.
LONG_REFERENCE: Final = 8
DEFAULT_FALSE_PAGES: Final = 0.25
MAX_FALSE_PAGES: Final = 2.0
# The limit that keeps this number (see `docs/research/detection.md`), and how its square grows as pages become rarer.
DEFAULT_LIMIT: Final = 3.2
LIMIT_SLOPE: Final = 2.15
# Larger ratios are not told apart, so that every score can be stored as JSON.
MAX_T: Final = 1e6
_MIN_ERROR: Final = 1e-300


class RunLevel(NamedTuple):
    """The level of a series in one run, on the scale of the decision (see `run_levels`).

    `run` is the sequence number of the run. `noise` is the variance of the level by its items alone,
    estimated from the changes of the items since the run before; None in the first run. `traces` is
    the number of traces behind the level: the noise of a run falls with it. `is_zero`: the value is 0,
    which has no logarithm, and the level stands for it. `grain` is how far one of the items that changed moves the
    level: one item of n by 1/n where answers pass or fail. `is_typical`: the level follows a typical item, and not the
    mean of all. `assumed_sd` is the assumed standard deviation of whole runs; None where the scale tells it.
    """

    run: int
    level: float
    noise: float | None = None
    traces: float = 1.0
    is_zero: bool = False
    grain: float = 0.0
    is_typical: bool = False
    assumed_sd: float | None = None


class WindowScore(NamedTuple):
    """The last `width` runs against the `reference` runs before them.

    `effect` is the mean of the window minus the mean of the reference; `z` is the effect in standard
    errors, mapped to a normal distribution, positive for a fall and negative for a rise. So much of the effect is
    `ignored` by it as one item's.
    """

    width: int
    reference: int
    effect: float
    standard_error: float
    degrees: float
    z: float
    ignored: float = 0.0

    def half_width(self, limit: float) -> float:
        """Half of the range that excludes 0 exactly when z is beyond the limit.

        A window is chosen because it differs, among many and after every run, so that an interval of one test would
        leave the true change out too often (95 % become 48 to 100 %). The limit takes the choice into account.
        """
        return from_normal(limit, self.degrees) * self.standard_error + self.ignored


class Scan(NamedTuple):
    """The strongest evidence for a fall and for a rise; None before there is a reference."""

    fall: WindowScore | None = None
    rise: WindowScore | None = None


def limit_of(false_pages_per_month: float) -> float:
    """The limit of z for a number of false alarms in 30 runs of one series."""
    rarer = math.log(DEFAULT_FALSE_PAGES / min(false_pages_per_month, MAX_FALSE_PAGES))
    return math.sqrt(DEFAULT_LIMIT**2 + LIMIT_SLOPE * rarer)


def scan_levels(
    levels: Sequence[RunLevel],
    *,
    prior_sd: float,
    returned: AbstractSet[int] = frozenset(),
    others: Sequence[RunLevel] = (),
) -> Scan:
    """Compare each window of the last runs with the runs before it; oldest first.

    `prior_sd` is the assumed standard deviation of whole runs. `returned` are runs of incidents that were none: they
    are in no window, and are not neighbors of others. `others` are earlier runs on another level, which only tell how
    runs vary.
    """
    if not levels:
        return Scan()
    sums, first = _Sums([*others, *levels], returned), len(others)
    longest = next(
        (n for n, run in enumerate(reversed(levels)) if run.run in returned), len(levels)
    )
    scores = []
    for width in WINDOWS:
        reference = len(levels) - width
        needed = min(width, LONG_REFERENCE)
        if width <= longest and reference >= needed:
            split, end = first + reference, first + len(levels)
            groups = (
                [(0, first), (first, split), (split, end)] if others else [(0, split), (split, end)]
            )
            scores.append(_score(sums, first, width, _estimate(sums, groups, split, prior_sd)))
    if not scores:
        return Scan()
    return Scan(
        fall=max(scores, key=lambda score: score.z), rise=min(scores, key=lambda score: score.z)
    )


def score_means(
    reference: Sequence[RunLevel], latest: Sequence[RunLevel], variance: RunVariance
) -> WindowScore:
    """The mean of some runs against the mean of earlier ones."""
    effect = mean_level(latest) - mean_level(reference)
    # Independent means: their variances add up.
    squared_error = variance_of_mean(latest, variance) + variance_of_mean(reference, variance)
    return _score_effect(len(latest), len(reference), effect, squared_error, variance.degrees)


def assumed_sd(levels: Sequence[RunLevel], scale: Scale) -> float:
    """The assumed standard deviation of whole runs of a series, as the mean over some of its runs."""
    by_run = [level.assumed_sd for level in levels if level.assumed_sd is not None]
    if by_run:
        return math.fsum(by_run) / len(by_run)
    size = math.fsum(abs(level.level) for level in levels) / max(1, len(levels))
    return prior_sd(scale, size)


def mean_level(levels: Sequence[RunLevel]) -> float:
    return math.fsum(level.level for level in levels) / len(levels)


def variance_of_mean(levels: Sequence[RunLevel], variance: RunVariance) -> float:
    # Runs of different size: the noise of each is inversely proportional to its number of traces.
    return variance.of_mean(len(levels), math.fsum(1 / level.traces for level in levels))


def estimate_variance(
    reference: Sequence[RunLevel],
    *,
    prior_sd: float,
    recent: Sequence[RunLevel] = (),
    returned: AbstractSet[int] = frozenset(),
) -> RunVariance:
    """The variance of unchanged runs, from reference runs (at least one).

    `recent` are later runs: only their noise is read, and only when the reference has none. `returned` as in
    `scan_levels`.
    """
    sums = _Sums([*reference, *recent], returned)
    return _estimate(sums, [(0, len(reference))], len(reference), prior_sd)


class _Sums:
    """Sums over the first n runs of a series, for every n, so that each window takes constant time.

    `deviations` are the levels minus that of the first run: numbers near zero, because differences
    of large squares would lose their digits. `pairs` are neighbors: their number, their sums and their products.
    Runs that returned from an incident have none: a dip of two runs is not a correlation of all neighbors.
    """

    def __init__(self, levels: Sequence[RunLevel], returned: AbstractSet[int]) -> None:
        self.deviations = [run.level - levels[0].level for run in levels]
        self.total = [0.0, *accumulate(self.deviations)]
        self.squares = [0.0, *accumulate(deviation**2 for deviation in self.deviations)]
        is_alone = [run.run in returned for run in levels]
        pairs = [
            (0.0, 0.0, 0.0) if alone or next_alone else (1.0, first + second, first * second)
            for (first, second), (alone, next_alone) in zip(
                pairwise(self.deviations), pairwise(is_alone), strict=True
            )
        ]
        self.pairs: list[list[float]] = [
            [0.0, 0.0, *accumulate(column)] for column in zip(*pairs, strict=True)
        ]
        noises = (0.0 if run.noise is None else run.noise * run.traces for run in levels)
        self.per_trace = [0.0, *accumulate(noises)]
        self.noises = [0, *accumulate(run.noise is not None for run in levels)]
        self.inverse_traces = [0.0, *accumulate(1 / run.traces for run in levels)]
        self.grain = _grain_of(levels)

    def squares_about_mean(self, first: int, end: int) -> float:
        """The sum of the squares of the runs from the first up to, but not including, the end."""
        total = self.total[end] - self.total[first]
        return max(0.0, self.squares[end] - self.squares[first] - total**2 / (end - first))

    def products_about_mean(self, first: int, end: int) -> float:
        """The sum of the products of neighbors among the same runs, about their mean."""
        if end - first == 1:
            return 0.0
        mean = (self.total[end] - self.total[first]) / (end - first)
        number, total, products = (column[end] - column[first + 1] for column in self.pairs)
        return products - mean * total + number * mean**2


def _score(sums: _Sums, first: int, width: int, variance: RunVariance) -> WindowScore:
    """The score of the last `width` runs against those from the first one on."""
    end, inverse, total = len(sums.deviations), sums.inverse_traces, sums.total
    split = end - width
    reference = split - first
    effect = (total[end] - total[split]) / width - (total[split] - total[first]) / reference
    squared_error = variance.of_mean(width, inverse[end] - inverse[split])
    squared_error += variance.of_mean(reference, inverse[split] - inverse[first])
    ignored = _part_of_one_item(sums, width, variance)
    return _score_effect(width, reference, effect, squared_error, variance.degrees, ignored)


def _part_of_one_item(sums: _Sums, width: int, variance: RunVariance) -> float:
    """How much one item that changes in one run moves the mean of a window, where that is rare.

    Where nearly all answers pass, one failure is far beyond the normal distribution, and would page whenever it
    happens. With several changes in each run the distribution is normal, and nothing is taken off.
    """
    end = len(sums.deviations)
    inverse_traces = sums.inverse_traces[end] - sums.inverse_traces[end - width]
    changes_of_run = (
        variance.per_trace * inverse_traces / width / sums.grain**2 if sums.grain else 1.0
    )
    return sums.grain / width / max(1.0, changes_of_run)


def _score_effect(
    width: int,
    reference: int,
    effect: float,
    squared_error: float,
    degrees: float,
    ignored: float = 0.0,
) -> WindowScore:
    error = math.sqrt(squared_error)
    evidence = math.copysign(max(0.0, abs(effect) - ignored), effect)
    # Series without any variation: one that moves at all has moved for certain.
    t = (0.0 - evidence) / max(error, abs(evidence) / MAX_T, _MIN_ERROR)
    return WindowScore(width, reference, effect, error, degrees, to_normal(t, degrees), ignored)


def _estimate(
    sums: _Sums, groups: Sequence[tuple[int, int]], reference: int, prior_sd: float
) -> RunVariance:
    """The variance of unchanged runs, from groups of runs about their own means: whether they fell or not, they vary
    as unchanged runs do. The item noise is that of the first `reference` runs: a window of bad runs has another.
    """
    squares = math.fsum(sums.squares_about_mean(*group) for group in groups)
    products = math.fsum(sums.products_about_mean(*group) for group in groups)
    # The mean is estimated from the same runs: that alone makes neighbors look opposed, by 1/runs.
    products += squares / reference
    return estimate_run_variance(
        _noise_per_trace(sums, reference),
        squares,
        sum(end - first - 1 for first, end in groups),
        prior_sd=prior_sd,
        inverse_traces=sums.inverse_traces[reference] / reference,
        neighbor_products=products if reference >= LONG_REFERENCE / 2 else 0.0,
    )


def _noise_per_trace(sums: _Sums, reference: int) -> float | None:
    """The mean item noise of the reference; with one reference run, the only change of items is a later one.

    At least one item is taken to change in the reference: that none did so far does not mean that none ever will.
    """
    runs = reference if sums.noises[reference] else len(sums.deviations)
    if not sums.noises[runs]:
        return None
    one_item = sums.grain**2 / sums.inverse_traces[reference]
    return max(one_item, sums.per_trace[runs] / sums.noises[runs])


def _grain_of(levels: Sequence[RunLevel]) -> float:
    """How far one of the items that change moves the level; 0 when items are not known or never change."""
    known = [(run.noise, run.grain) for run in levels if run.noise]
    total = math.fsum(noise for noise, _ in known)
    return (
        math.sqrt(math.fsum(noise * grain**2 for noise, grain in known) / total) if total else 0.0
    )
