"""Evidence over several runs: whether the level of a series has changed, since when, and how surely.

A run is more than its items: the provider, the time of day and the sampled answers move all of them
together. So the levels of runs are compared as wholes. For each window of the last w runs, the mean
of the window is compared with the mean of the runs before it (the reference); the largest
standardized difference is the evidence, and its window dates the start of the change. Because the
windows and the runs are looked at again and again, the limit is not that of one test: it is chosen
for a number of false alarms in 30 runs.

Pure Python, because alert rules are decided in processes that do not import numpy.

Sources: Siegmund and Venkatraman 1995, "Using the generalized likelihood ratio statistic for
sequential detection of a change-point" (window-limited scan); Satterthwaite 1946 (degrees of
freedom); Wallace 1959, "Bounds on normal approximations to Student's t" (t to normal).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

# A reference has at most this number of runs.
MAX_REFERENCE = 60
WINDOWS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 21, 25, 30)
# A window needs a reference of its own length, up to this number of runs.
REFERENCE_FOR_LONG_WINDOWS = 8
# Runs before a window, at least: from the third valid run on there is evidence over runs.
MIN_REFERENCE = 2
DEFAULT_FALSE_PAGES = 0.25
MAX_FALSE_PAGES = 2.0
# The limit that keeps this number in the worst simulated series (see `docs/alerts.md`), and how its
# square grows as pages become rarer.
DEFAULT_LIMIT = 3.06
LIMIT_SLOPE = 2.15
# A cumulative sum of scores that is as rare as a window with the default limit.
DEFAULT_SUM = 5.9

# The variance between runs is shrunk to this prior: it counts as so many runs, in which the level
# moved by `prior_sd` beyond the noise of the items.
PRIOR_RUNS = 5
MAX_DEGREES = 300.0
# Of the correlation of neighboring runs, this number divided by the number of pairs is taken for chance: few runs
# say little, and a correlation by chance hides a fall.
CHANCE_PAIRS = 2.4
# How fast the correlation of run effects decays with the distance between two runs.
CORRELATION_DECAY = 0.7
MAX_CORRELATION = 0.8
MIN_PAIRS = 3
# Correlated runs wander off and come back, which is more than the variance of a mean: standard errors
# are wider by this share of the correlation. The value keeps the number at a correlation of 0.6.
CORRELATION_WIDENING = 2.2
# Larger ratios are not told apart, so that every score can be stored as JSON.
MAX_T = 1e6
MIN_ERROR = 1e-300


class RunLevel(NamedTuple):
    """The level of a series in one run, on the scale of the decision (see `run_levels`).

    `run` is the sequence number of the run. `noise` is the variance of the level by its items alone,
    estimated from the changes of the items since the run before; None in the first run. `traces` is
    the number of traces behind the level: the noise of a run falls with it. `is_zero`: the value is 0,
    which has no logarithm, and the level stands for it.
    """

    run: int
    level: float
    noise: float | None = None
    traces: float = 1.0
    is_zero: bool = False


class WindowScore(NamedTuple):
    """The last `width` runs against the `reference` runs before them.

    `effect` is the mean of the window minus the mean of the reference; `z` is the effect in standard
    errors, mapped to a normal distribution, positive for a fall and negative for a rise.
    """

    width: int
    reference: int
    effect: float
    standard_error: float
    degrees: float
    z: float


class Spread(NamedTuple):
    """The variation of the levels of unchanged runs.

    `variance` is that of one ordinary run and `per_trace` the item noise of a run times its traces;
    `between` is the variance between runs beyond the items. `neighbor_covariance` is that of
    neighboring runs, `widening` the factor by which their correlation widens standard errors.
    """

    variance: float
    between: float
    per_trace: float
    neighbor_covariance: float
    widening: float
    degrees: float

    @property
    def correlation(self) -> float:
        """The correlation of neighboring runs beyond chance."""
        return self.neighbor_covariance / self.variance if self.variance else 0.0

    def variance_of_mean(self, runs: int, inverse_traces: float) -> float:
        """The variance of the mean of consecutive runs; `inverse_traces` is the sum of 1/traces."""
        independent = (runs * self.between + self.per_trace * inverse_traces) / runs**2
        correlated = (
            independent + self.neighbor_covariance * _NEIGHBOR_SHARES[min(runs, MAX_REFERENCE)]
        )
        return self.widening**2 * correlated


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The strongest evidence for a fall and for a rise; None before there is a reference."""

    fall: WindowScore | None = None
    rise: WindowScore | None = None


def _neighbor_share(runs: int) -> float:
    """Return how much of the covariance of neighbors is in the variance of the mean of so many
    runs.

    2 Σ (runs − distance) decay^(distance−1) / runs², over all distances between two of the runs.
    """
    terms = ((runs - distance) * CORRELATION_DECAY ** (distance - 1) for distance in range(1, runs))
    return 2 * math.fsum(terms) / runs**2


_NEIGHBOR_SHARES = (0.0, *(_neighbor_share(runs) for runs in range(1, MAX_REFERENCE + 1)))


def limit_of(false_pages_per_month: float) -> float:
    """The limit of z for a number of false alarms in 30 runs of one series."""
    rarer = math.log(DEFAULT_FALSE_PAGES / min(false_pages_per_month, MAX_FALSE_PAGES))
    return math.sqrt(DEFAULT_LIMIT**2 + LIMIT_SLOPE * rarer)


def score_of_sum(total: float) -> float:
    """The z of a window that is as rare as a cumulative sum of scores, so that one limit serves both.

    Large sums become rarer exponentially, large z like those of a normal distribution: as their square.
    """
    return DEFAULT_LIMIT * math.sqrt(max(0.0, total) / DEFAULT_SUM)


class _Sums:
    """Sums over the first n runs of a series, for every n, so that each window takes constant time.

    `deviations` are the levels minus that of the first run: numbers near zero, because differences
    of large squares would lose their digits. `products` are those of neighboring deviations.
    """

    def __init__(self, levels: Sequence[RunLevel]) -> None:
        self.deviations = [run.level - levels[0].level for run in levels]
        self.total = [0.0, *accumulate(self.deviations)]
        self.squares = [0.0, *accumulate(deviation**2 for deviation in self.deviations)]
        neighbors = pairwise(self.deviations)
        self.products = [0.0, 0.0, *accumulate(first * second for first, second in neighbors)]
        self.per_trace = [
            0.0,
            *accumulate(0.0 if run.noise is None else run.noise * run.traces for run in levels),
        ]
        self.noises = [0, *accumulate(run.noise is not None for run in levels)]
        self.inverse_traces = [0.0, *accumulate(1 / run.traces for run in levels)]


def scan_levels(
    levels: Sequence[RunLevel],
    *,
    prior_sd: float,
    earlier: Sequence[Sequence[RunLevel]] = (),
    windows: Sequence[int] = WINDOWS,
    min_reference: int = MIN_REFERENCE,
    spread: Spread | None = None,
) -> Scan:
    """Compares each window of the last runs with the runs before it; oldest first.

    `earlier` are series of runs on other levels, which contribute only to the variation between
    runs. So do the runs of a window: whether it fell or not, they vary about their own level.
    `prior_sd` is the ordinary change between runs before any data. A given `spread` is used in place of
    the one that is estimated from these runs.
    """
    fall = rise = None
    if not levels:
        return Scan()
    sums = _Sums(levels)
    pooled = _pool(earlier)
    for width in windows:
        reference = len(levels) - width
        needed = min(width, REFERENCE_FOR_LONG_WINDOWS) if width > 1 else 1
        if reference < max(min_reference, needed):
            continue
        ordinary = spread or _estimate(
            sums, reference, _pool_window(sums, reference, width, pooled), prior_sd
        )
        score = _score(sums, reference, width, ordinary)
        if fall is None or score.z > fall.z:
            fall = score
        if rise is None or score.z < rise.z:
            rise = score
    return Scan(fall=fall, rise=rise)


def score_runs(
    levels: Sequence[RunLevel],
    last: int,
    *,
    prior_sd: float,
    earlier: Sequence[Sequence[RunLevel]] = (),
) -> list[WindowScore]:
    """The score of each of the last runs against all runs before it; oldest first, without those that have
    too few runs before them. `earlier` as in `scan_levels`.
    """
    first = max(MIN_REFERENCE, len(levels) - last)
    if first >= len(levels):
        return []
    sums, pooled = _Sums(levels), _pool(earlier)
    return [
        _score(sums, reference, 1, _estimate(sums, reference, pooled, prior_sd))
        for reference in range(first, len(levels))
    ]


def _score(sums: _Sums, reference: int, width: int, spread: Spread) -> WindowScore:
    """The score of the `width` runs after the first `reference` runs."""
    end, inverse = reference + width, sums.inverse_traces
    window_mean = (sums.total[end] - sums.total[reference]) / width
    effect = window_mean - sums.total[reference] / reference
    variance = spread.variance_of_mean(width, inverse[end] - inverse[reference])
    variance += spread.variance_of_mean(reference, inverse[reference])
    return score_effect(width, reference, effect, variance, spread.degrees)


def score_effect(
    width: int, reference: int, effect: float, variance: float, degrees: float
) -> WindowScore:
    """The score of an effect with its variance."""
    error = math.sqrt(variance)
    # Series without any variation: one that moves at all has moved for certain.
    t = -effect / max(error, abs(effect) / MAX_T, MIN_ERROR)
    return WindowScore(width, reference, effect, error, degrees, to_normal(t, degrees))


def to_normal(t: float, degrees: float) -> float:
    """The normal quantile of the same tail as a Student t (Wallace's approximation)."""
    factor = (8 * degrees + 1) / (8 * degrees + 3)
    return math.copysign(factor * math.sqrt(degrees * math.log1p(t * t / degrees)), t)


class _Pooled(NamedTuple):
    """Sums over series on other levels, each about its own mean: see `_Sums`."""

    squares: float = 0.0
    degrees: int = 0
    products: float = 0.0
    pairs: int = 0
    per_trace: float = 0.0
    noises: int = 0


def _pool(series: Sequence[Sequence[RunLevel]]) -> _Pooled:
    pooled = _Pooled()
    for levels in series:
        if len(levels) > 1:
            sums, runs = _Sums(levels), len(levels)
            pooled = _Pooled(
                squares=pooled.squares + _squares(sums, 0, runs),
                degrees=pooled.degrees + runs - 1,
                products=pooled.products + _products(sums, 0, runs),
                pairs=pooled.pairs + runs - 1,
                per_trace=pooled.per_trace + sums.per_trace[runs],
                noises=pooled.noises + sums.noises[runs],
            )
    return pooled


def _pool_window(sums: _Sums, reference: int, width: int, pooled: _Pooled) -> _Pooled:
    """The sums together with those of the `width` runs after the first `reference` runs. Their item noise stays
    out: it is that of bad runs.
    """
    if width == 1:
        return pooled
    end = reference + width
    return pooled._replace(
        squares=pooled.squares + _squares(sums, reference, end),
        degrees=pooled.degrees + width - 1,
        products=pooled.products + _products(sums, reference, end),
        pairs=pooled.pairs + width - 1,
    )


def _squares(sums: _Sums, first: int, end: int) -> float:
    """The sum of the squares of the runs from the first up to, but not including, the end, about their mean."""
    total = sums.total[end] - sums.total[first]
    return max(0.0, sums.squares[end] - sums.squares[first] - total**2 / (end - first))


def _products(sums: _Sums, first: int, end: int) -> float:
    """The sum of the products of neighbors among the same runs, about their mean."""
    runs, total = end - first, sums.total[end] - sums.total[first]
    mean = total / runs
    # Each run has two neighbors, except for the first and the last one.
    neighbors_total = 2 * total - sums.deviations[first] - sums.deviations[end - 1]
    products = sums.products[end] - sums.products[first + 1]
    return products - mean * neighbors_total + (runs - 1) * mean**2


def _estimate(sums: _Sums, runs: int, pooled: _Pooled, prior_sd: float) -> Spread:
    """The variation of unchanged runs, from the first runs of a series and from series on other levels."""
    noises = sums.noises[runs] + pooled.noises
    if noises:
        per_trace = (sums.per_trace[runs] + pooled.per_trace) / noises
    else:
        # With one reference run, the only change of items is that of the window.
        seen_count = max(1, sums.noises[-1])
        per_trace = sums.per_trace[-1] / seen_count
    item_variance = per_trace * sums.inverse_traces[runs] / runs
    squares = _squares(sums, 0, runs) + pooled.squares
    degrees = runs - 1 + pooled.degrees
    counted = PRIOR_RUNS + degrees
    variance = (PRIOR_RUNS * (item_variance + prior_sd**2) + squares) / counted
    correlation = _neighbor_covariance(sums, runs, pooled, squares) / variance if variance else 0.0
    correlation = min(MAX_CORRELATION, max(0.0, correlation))
    # Correlated runs deviate less from their own mean than from the true level.
    variance *= 1 + correlation * _NEIGHBOR_SHARES[min(runs, MAX_REFERENCE)]
    variance = max(item_variance, variance)
    between = variance - item_variance
    share = 2.0 if between <= variance / 2 else variance / between
    return Spread(
        variance=variance,
        between=between,
        per_trace=per_trace,
        neighbor_covariance=correlation * variance,
        widening=1 + CORRELATION_WIDENING * correlation,
        degrees=min(MAX_DEGREES, max(1.0, counted * share**2)),
    )


def _neighbor_covariance(sums: _Sums, runs: int, pooled: _Pooled, squares: float) -> float:
    """The covariance of neighboring runs beyond chance."""
    pairs = runs - 1 + pooled.pairs
    if pairs < MIN_PAIRS:
        return 0.0
    # The mean is estimated from the same runs: that alone makes neighbors look opposed, by 1/runs.
    products = _products(sums, 0, runs) + pooled.products + squares / runs
    return (products - squares * CHANCE_PAIRS / pairs) / pairs


def estimate_spread(
    levels: Sequence[RunLevel],
    *,
    prior_sd: float,
    earlier: Sequence[Sequence[RunLevel]] = (),
    recent: Sequence[RunLevel] = (),
) -> Spread:
    """The variation of unchanged runs, estimated from reference runs (at least one) only.

    `recent` are later runs: only their noise is read, and only when the reference has none.
    """
    sums = _Sums([*levels, *recent])
    return _estimate(sums, len(levels), _pool(earlier), prior_sd)
