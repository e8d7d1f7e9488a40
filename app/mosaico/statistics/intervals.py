"""Confidence intervals of proportions, in closed form."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


def score_interval(share: float, trials: float, quantile: float) -> Interval:
    """Wilson's interval of a share; `trials` may be an effective number, which need not be an integer.

    Without trials the share may be anything: 0 to 1.
    Source: Wilson 1927; equals scipy's `proportion_ci(method="wilson")` within 1e-12.
    """
    z2 = quantile**2
    center = (share * trials + z2 / 2) / (trials + z2)
    half_width = quantile * math.sqrt(share * (1 - share) * trials + z2 / 4) / (trials + z2)
    # The ends are exact at 0 and 1; the formula would miss them by a rounding error.
    return Interval(
        low=0.0 if share == 0 else max(0.0, center - half_width),
        high=1.0 if share == 1 else min(1.0, center + half_width),
    )


def unseen_share(items: int, *, confidence: float = 0.95) -> float:
    """The largest proportion of all items that may have a property that none of `items` has.

    1 without items. Source: Clopper and Pearson 1934, for 0 of n, where the beta quantile has a
    closed form; equals scipy's `proportion_ci(method="exact")`.
    """
    return 1 - ((1 - confidence) / 2) ** (1 / items) if items else 1.0
