"""Confidence intervals of shares and of their differences."""

import math
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A range that holds the true value with the stated confidence."""

    low: float
    high: float


def wilson_interval(successes: int, trials: int, *, confidence: float = 0.95) -> Interval:
    """The score interval of a share. Without trials nothing is known: [0, 1].

    Source: Wilson 1927; equals scipy's `proportion_ci(method="wilson")` within 1e-12.
    """
    if trials == 0:
        return Interval(low=0.0, high=1.0)
    z2 = _quantile(confidence) ** 2
    share = successes / trials
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = math.sqrt(share * (1 - share) / trials * z2 + (z2 / (2 * trials)) ** 2) / (
        1 + z2 / trials
    )
    return Interval(
        low=0.0 if successes == 0 else middle - half,
        high=1.0 if successes == trials else middle + half,
    )


def unseen_share(items: int, *, confidence: float = 0.95) -> float:
    """The largest share of all items that may do what none of `items` did; without items all.

    Source: Clopper and Pearson 1934, of 0 among n; equals scipy's `proportion_ci(method="exact")`.
    """
    return 1 - ((1 - confidence) / 2) ** (1 / items) if items else 1.0


def difference_interval(
    first: int, of_first: int, second: int, of_second: int, *, confidence: float = 0.95
) -> Interval:
    """The interval of (share of the second) - (share of the first) of different items.

    Source: Newcombe 1998 (independent), method 10; equals statsmodels'
    `confint_proportions_2indep(method="newcomb")` within 1e-12.
    """
    low_range = wilson_interval(first, of_first, confidence=confidence)
    high_range = wilson_interval(second, of_second, confidence=confidence)
    a = first / of_first if of_first else 0.5
    b = second / of_second if of_second else 0.5
    return Interval(
        low=b - a - math.hypot(b - high_range.low, low_range.high - a),
        high=b - a + math.hypot(high_range.high - b, a - low_range.low),
    )


def paired_difference_interval(
    *, both: int, only_first: int, only_second: int, neither: int, confidence: float = 0.95
) -> Interval:
    """The interval of (share of the second) − (share of the first) over the same items.

    The score intervals of the two shares, joined with the correlation of the pairs. Without items:
    [-1, 1]. Source: Newcombe 1998 (paired), method 10.
    """
    n = both + only_first + only_second + neither
    if n == 0:
        return Interval(low=-1.0, high=1.0)
    first, second = (both + only_first) / n, (both + only_second) / n
    first_range = wilson_interval(both + only_first, n, confidence=confidence)
    second_range = wilson_interval(both + only_second, n, confidence=confidence)
    phi = _corrected_phi(both, only_first, only_second, neither)

    def reach(a: float, b: float) -> float:
        return math.sqrt(max(0.0, a * a - 2 * phi * a * b + b * b))

    difference = second - first
    low = difference - reach(second - second_range.low, first_range.high - first)
    high = difference + reach(second_range.high - second, first - first_range.low)
    return Interval(low=max(-1.0, low), high=min(1.0, high))


def _corrected_phi(both: int, only_first: int, only_second: int, neither: int) -> float:
    """How the pairs hang together, from -1 to 1, small positive correlations made smaller."""
    margins = (
        (both + only_first)
        * (only_second + neither)
        * (both + only_second)
        * (only_first + neither)
    )
    if margins == 0:
        return 0.0
    product = both * neither - only_first * only_second
    n = both + only_first + only_second + neither
    corrected = max(product - n / 2, 0.0) if product > 0 else float(product)
    return corrected / math.sqrt(margins)


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
