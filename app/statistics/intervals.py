"""Confidence intervals of proportions and of their differences, in closed form.

They need only the normal quantile, so that this module works without scipy: the processes that
answer requests and the command line import it.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


def wilson_interval(successes: int, trials: int, *, confidence: float = 0.95) -> Interval:
    """The score interval of a proportion; [0, 1] without trials.

    Source: Wilson 1927; equals scipy's `proportion_ci(method="wilson")` within 1e-12.
    """
    if trials == 0:
        return Interval(low=0.0, high=1.0)
    z2 = NormalDist().inv_cdf((1 + confidence) / 2) ** 2
    share = successes / trials
    center = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half_width = math.sqrt(share * (1 - share) / trials * z2 + (z2 / (2 * trials)) ** 2) / (
        1 + z2 / trials
    )
    # The ends are exact at 0 and n successes; the formula would miss them by a rounding error.
    return Interval(
        low=0.0 if successes == 0 else center - half_width,
        high=1.0 if successes == trials else center + half_width,
    )


def unseen_share(items: int, *, confidence: float = 0.95) -> float:
    """The largest proportion of all items that may have a property that none of `items` has.

    1 without items. Source: Clopper and Pearson 1934, for 0 of n, where the beta quantile has a
    closed form; equals scipy's `proportion_ci(method="exact")`.
    """
    return 1 - ((1 - confidence) / 2) ** (1 / items) if items else 1.0


def difference_interval(
    first: int, of_first: int, second: int, of_second: int, *, confidence: float = 0.95
) -> Interval:
    """The interval of (second proportion) − (first proportion) of two independent samples.

    Source: Newcombe 1998 (independent proportions), method 10; equals statsmodels'
    `confint_proportions_2indep(method="newcomb")` within 1e-12.
    """
    first_interval = wilson_interval(first, of_first, confidence=confidence)
    second_interval = wilson_interval(second, of_second, confidence=confidence)
    # The middle of [0, 1], which is the interval of a proportion without trials.
    a = first / of_first if of_first else 0.5
    b = second / of_second if of_second else 0.5
    return Interval(
        low=b - a - math.hypot(b - second_interval.low, first_interval.high - a),
        high=b - a + math.hypot(second_interval.high - b, a - first_interval.low),
    )


def paired_difference_interval(
    *, both: int, only_first: int, only_second: int, neither: int, confidence: float = 0.95
) -> Interval:
    """The interval of (second proportion) − (first proportion) over the same items.

    Combines the two score intervals with the correlation of the pairs. [-1, 1] without items.
    Source: Newcombe 1998 (paired proportions), method 10.
    """
    n = both + only_first + only_second + neither
    if n == 0:
        return Interval(low=-1.0, high=1.0)
    first, second = (both + only_first) / n, (both + only_second) / n
    first_interval = wilson_interval(both + only_first, n, confidence=confidence)
    second_interval = wilson_interval(both + only_second, n, confidence=confidence)
    phi = _corrected_phi(both, only_first, only_second, neither)

    def combine(a: float, b: float) -> float:
        # Rounding can make the sum slightly negative when both widths are equal and phi is near 1.
        return math.sqrt(max(0.0, a * a - 2 * phi * a * b + b * b))

    difference = second - first
    low = difference - combine(second - second_interval.low, first_interval.high - first)
    high = difference + combine(second_interval.high - second, first - first_interval.low)
    return Interval(low=max(-1.0, low), high=min(1.0, high))


def _corrected_phi(both: int, only_first: int, only_second: int, neither: int) -> float:
    """The correlation of the pairs from -1 to 1, with Newcombe's continuity correction."""
    margins = (
        (both + only_first)
        * (only_second + neither)
        * (both + only_second)
        * (only_first + neither)
    )
    # All items passed, or failed, in one of the runs: there is no correlation to estimate.
    if margins == 0:
        return 0.0
    product = both * neither - only_first * only_second
    n = both + only_first + only_second + neither
    corrected = max(product - n / 2, 0.0) if product > 0 else float(product)
    return corrected / math.sqrt(margins)
