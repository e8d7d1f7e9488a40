"""The normal distribution and Student's t: probabilities and quantiles of single numbers, in plain Python.

A probability is that of a number up to the given one. NaN comes of NaN, of fewer degrees of freedom than 0.5 and of a
probability outside 0 to 1; infinite degrees are the normal distribution.

Within 1e-12 of scipy, relatively, also far in the tails; near the median, where scipy's quantile loses digits, of closed
forms (`tests/unit/statistics/test_distributions.py`).
"""

import math
from statistics import NormalDist
from typing import Final

_STANDARD: Final = NormalDist()
# A spread has at least one; of far fewer, the series of the middle has no end.
_FEWEST_DEGREES: Final = 0.5
# Farther from 0 the fraction of the tail converges fast; nearer the series of the middle does, and enough is left of 0.5.
_TAIL_START: Final = 3.0
# Of the quantiles: less lies in the tail than a number near 0.5 tells exactly.
_LARGEST_TAIL: Final = 0.25
_ROUNDING: Final = 1e-15
# Newton's method squares an error: after so small a step the next one is below the rounding of a float.
_LAST_STEP: Final = 1e-8
_MOST_STEPS: Final = 100
_LARGEST_EXPONENT: Final = 700.0


def normal_cdf(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2


def normal_quantile(p: float) -> float:
    if p in {0, 1}:
        return math.copysign(math.inf, p - 0.5)
    return _STANDARD.inv_cdf(p) if 0 < p < 1 else math.nan


def t_cdf(t: float, degrees: float) -> float:
    if degrees == math.inf:
        return normal_cdf(t)
    if math.isnan(t) or not degrees >= _FEWEST_DEGREES:
        return math.nan
    beyond = _beyond(abs(t), degrees)
    return beyond if t < 0 else 1 - beyond


def t_quantile(p: float, degrees: float) -> float:
    """The quantile by Newton's method, between the logarithms of t and of the probability in its tail, or near 0 in its
    middle. Both curves are concave: from any start the second step and all later ones come nearer, from one side.
    """
    if p > 0.5:  # noqa: PLR2004 - the median
        return -t_quantile(1 - p, degrees)
    if not degrees >= _FEWEST_DEGREES:
        return math.nan
    t = -normal_quantile(p)
    if degrees == math.inf or not 0 < t < math.inf:
        return -t
    is_tail = p < _LARGEST_TAIL
    target = math.log(p if is_tail else 0.5 - p)
    for _ in range(_MOST_STEPS):
        edge = _log_edge(t, degrees)
        ratio = _tail_ratio(t, degrees, edge) if is_tail else _middle_ratio(t, degrees)
        step = (edge + math.log(ratio) - target) * (ratio if is_tail else -ratio)
        t *= math.exp(min(step, _LARGEST_EXPONENT))
        if abs(step) < _LAST_STEP or t == math.inf:
            break
    return -t


def _beyond(t: float, degrees: float) -> float:
    """The probability of a number beyond `t`, which is not negative."""
    if t < _ROUNDING or t == math.inf:
        return 0.0 if t > 1 else 0.5
    edge = _log_edge(t, degrees)
    return math.exp(edge) * _tail_ratio(t, degrees, edge)


def _log_edge(t: float, degrees: float) -> float:
    """The logarithm of `t` times the density at `t`."""
    x = t / math.sqrt(degrees)
    log_square = math.log1p(t * t / degrees) if x < 1 else 2 * math.log(x) + math.log1p(x**-2)
    return _log_scale(degrees / 2) + math.log(x) - (degrees + 1) / 2 * log_square


def _log_scale(half: float) -> float:
    """The logarithm of Γ(half + 1/2) / (Γ(half) √π). Source: Abramowitz and Stegun 1964, 6.1.47, for large numbers."""
    inverse = 1 / half
    if half < 100:  # noqa: PLR2004 - the next term of the series is below the rounding of a float
        return math.log(math.gamma(half + 0.5) / math.gamma(half) / math.sqrt(math.pi))
    series = -inverse / 8 + inverse**3 / 192 - inverse**5 / 640
    return math.log(half / math.pi) / 2 + series


def _middle_ratio(t: float, degrees: float) -> float:
    """The probability between 0 and `t` as a multiple of the edge: a series with positive terms only.

    Source: Abramowitz and Stegun 1964, 26.5.4, for the incomplete beta function of Student's t.
    """
    share = t * t / (degrees + t * t)
    term = total = 1.0
    odd = 1
    while term > total * _ROUNDING:
        term *= share * (degrees + odd) / (2 + odd)
        total += term
        odd += 2
    return total


def _tail_ratio(t: float, degrees: float, log_edge: float) -> float:
    """The probability beyond `t` as a multiple of the edge."""
    if t < _TAIL_START:
        return math.exp(-log_edge) / 2 - _middle_ratio(t, degrees)
    return _tail_fraction(t, degrees)


def _tail_fraction(t: float, degrees: float) -> float:
    """The same far from 0: a continued fraction with positive terms only.

    For infinite degrees it is Laplace's fraction of the normal tail. Source: Gauss 1812, the fraction of 2F1(1/2, 1;
    degrees/2 + 1; -degrees/t²), evaluated as by Lentz 1976.
    """
    inverse = (1 / t) ** 2
    value = above = 1.0
    below, factor, index = 0.0, math.inf, 0
    while abs(factor - 1) > _ROUNDING:
        index += 1
        of_degrees = degrees / (degrees + 2 * index) * (degrees + index - 1)
        term = inverse * index * of_degrees / (degrees + 2 * index - 2)
        below = 1 / (1 + term * below)
        above = 1 + term / above
        factor = above * below
        value *= factor
    return (inverse + 1 / degrees) / value
