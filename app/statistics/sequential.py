"""Evidence over several runs: whether the level of a series has changed, since when, and how surely.

A run is more than its items: the provider, the time of day and the sampled answers move all of them
together. So the levels of runs are compared as wholes. For each window of the last w runs, the mean
of the window is compared with the mean of the runs before it (the reference); the largest
standardized difference is the evidence, and its window dates the start of the change. Because the
windows and the runs are looked at again and again, the limit is not that of one test: it is chosen
for a promised number of false pages in 30 runs.

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
# The limit that keeps this promise in the worst simulated series (see `docs/alerts.md`), and how its
# square grows as pages become rarer.
DEFAULT_LIMIT = 2.9
LIMIT_SLOPE = 2.15

# The variance between runs is shrunk to this prior: it counts as so many runs, in which the level
# moved by `prior_sd` beyond the noise of the items.
PRIOR_RUNS = 4
MAX_DEGREES = 300.0
# Of the correlation of neighboring runs, so many standard errors are taken for chance.
LAG_CHANCE = 0.2
# How fast the correlation of run effects decays with the distance between two runs.
LAG_DECAY = 0.7
MAX_CORRELATION = 0.8
MIN_PAIRS = 3
# Correlated runs wander off and come back, which is more than the variance of a mean: standard errors
# are wider by this share of the correlation. The value keeps the promise at a correlation of 0.6.
CORRELATION_WIDENING = 1.5
# Larger ratios are not told apart, so that every score can be stored as JSON.
MAX_T = 1e6
MIN_ERROR = 1e-300


class RunLevel(NamedTuple):
    """The level of a series in one run, on the scale of the decision (see `run_levels`).

    `run` is the sequence number of the run. `noise` is the variance of the level by its items alone,
    estimated from the changes of the items since the run before; None in the first run. `traces` is
    the number of traces behind the level: the noise of a run falls with it.
    """

    run: int
    level: float
    noise: float | None = None
    traces: float = 1.0


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
    """How levels of unchanged runs vary.

    `variance` is that of one ordinary run and `per_trace` the item noise of a run times its traces;
    `between` is the variance between runs beyond the items. `lag` is the covariance of neighbors,
    `widening` the factor by which their correlation widens standard errors.
    """

    variance: float
    between: float
    per_trace: float
    lag: float
    widening: float
    degrees: float

    def variance_of_mean(self, runs: int, inverse_traces: float) -> float:
        """The variance of the mean of consecutive runs; `inverse_traces` is the sum of 1/traces."""
        independent = (runs * self.between + self.per_trace * inverse_traces) / runs**2
        correlated = independent + self.lag * _LAG_SUMS[min(runs, MAX_REFERENCE)]
        return self.widening**2 * correlated


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The strongest evidence for a fall and for a rise; None before there is a reference."""

    fall: WindowScore | None = None
    rise: WindowScore | None = None


def _lag_sum(runs: int) -> float:
    """2 Σ (runs − k) decay^(k−1) / runs²: the share of correlation in the variance of a mean."""
    terms = ((runs - k) * LAG_DECAY ** (k - 1) for k in range(1, runs))
    return 2 * math.fsum(terms) / runs**2


_LAG_SUMS = (0.0, *(_lag_sum(runs) for runs in range(1, MAX_REFERENCE + 1)))


def limit_of(false_pages_per_month: float) -> float:
    """The limit of z for a promised number of false pages in 30 runs of one series."""
    rarer = math.log(DEFAULT_FALSE_PAGES / min(false_pages_per_month, MAX_FALSE_PAGES))
    return math.sqrt(DEFAULT_LIMIT**2 + LIMIT_SLOPE * rarer)


class _Sums:
    """Prefix sums of levels, so that each window takes constant time."""

    def __init__(self, levels: Sequence[RunLevel]) -> None:
        # Numbers near zero: differences of large squares would lose their digits.
        self.offset = levels[0].level
        x = [run.level - self.offset for run in levels]
        self.x = x
        self.total = [0.0, *accumulate(x)]
        self.squares = [0.0, *accumulate(v * v for v in x)]
        self.products = [0.0, 0.0, *accumulate(a * b for a, b in pairwise(x))]
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

    `earlier` are series of runs on other levels, which only tell how runs vary. `prior_sd` is a
    change between runs that is ordinary before anything is known. A given `spread` is used in place
    of the one that is estimated from the reference.
    """
    fall = rise = None
    if not levels:
        return Scan()
    sums = _Sums(levels)
    pooled = _pool(earlier)
    for width in windows:
        m = len(levels) - width
        if m < min_reference or (width > 1 and m < min(width, REFERENCE_FOR_LONG_WINDOWS)):
            continue
        score = _score(sums, m, width, spread or _estimate(sums, m, pooled, prior_sd))
        if fall is None or score.z > fall.z:
            fall = score
        if rise is None or score.z < rise.z:
            rise = score
    return Scan(fall=fall, rise=rise)


def _score(sums: _Sums, m: int, width: int, spread: Spread) -> WindowScore:
    total, inverse = sums.total, sums.inverse_traces
    effect = (total[m + width] - total[m]) / width - total[m] / m
    variance = spread.variance_of_mean(width, inverse[m + width] - inverse[m])
    variance += spread.variance_of_mean(m, inverse[m])
    return score_effect(width, m, effect, variance, spread.degrees)


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
    """Sums over series on other levels: squares about their means, degrees, lag products, noise."""

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
            sums, m = _Sums(levels), len(levels)
            squares, products = _squares(sums, m), _products(sums, m)
            pooled = _Pooled(
                pooled.squares + squares,
                pooled.degrees + m - 1,
                pooled.products + products,
                pooled.pairs + m - 1,
                pooled.per_trace + sums.per_trace[m],
                pooled.noises + sums.noises[m],
            )
    return pooled


def _squares(sums: _Sums, m: int) -> float:
    return max(0.0, sums.squares[m] - sums.total[m] ** 2 / m)


def _products(sums: _Sums, m: int) -> float:
    """Σ (x_t − mean)(x_{t+1} − mean) over the first m runs."""
    mean, total = sums.total[m] / m, sums.total[m]
    inner = 2 * total - sums.x[0] - sums.x[m - 1]
    return sums.products[m] - mean * inner + (m - 1) * mean * mean


def _estimate(sums: _Sums, m: int, pooled: _Pooled, prior_sd: float) -> Spread:
    noises = sums.noises[m] + pooled.noises
    if noises:
        per_trace = (sums.per_trace[m] + pooled.per_trace) / noises
    else:
        # With one reference run, the only change of items is that of the window.
        seen_count = max(1, sums.noises[-1])
        per_trace = sums.per_trace[-1] / seen_count
    item_variance = per_trace * sums.inverse_traces[m] / m
    squares = _squares(sums, m) + pooled.squares
    degrees = m - 1 + pooled.degrees
    counted = PRIOR_RUNS + degrees
    variance = (PRIOR_RUNS * (item_variance + prior_sd**2) + squares) / counted
    correlation = _estimate_lag(sums, m, pooled, squares) / variance if variance else 0.0
    correlation = min(MAX_CORRELATION, max(0.0, correlation))
    # Correlated runs deviate less from their own mean than from the true level.
    variance *= 1 + correlation * _LAG_SUMS[min(m, MAX_REFERENCE)]
    variance = max(item_variance, variance)
    between = variance - item_variance
    share = 2.0 if between <= variance / 2 else variance / between
    return Spread(
        variance=variance,
        between=between,
        per_trace=per_trace,
        lag=correlation * variance,
        widening=1 + CORRELATION_WIDENING * correlation,
        degrees=min(MAX_DEGREES, max(1.0, counted * share**2)),
    )


def _estimate_lag(sums: _Sums, m: int, pooled: _Pooled, squares: float) -> float:
    """The covariance of neighboring runs beyond chance."""
    pairs = m - 1 + pooled.pairs
    if pairs < MIN_PAIRS:
        return 0.0
    # The mean is estimated from the same runs: that alone makes neighbors look opposed, by 1/m.
    products = _products(sums, m) + pooled.products + squares / m
    return products / pairs - LAG_CHANCE * squares / (pairs * math.sqrt(pairs))


def estimate_spread(
    levels: Sequence[RunLevel],
    *,
    prior_sd: float,
    earlier: Sequence[Sequence[RunLevel]] = (),
    recent: Sequence[RunLevel] = (),
) -> Spread:
    """How unchanged runs vary, from reference runs (at least one) alone.

    `recent` are later runs: only their noise is read, and only when the reference has none.
    """
    sums = _Sums([*levels, *recent])
    return _estimate(sums, len(levels), _pool(earlier), prior_sd)
