"""Minimum detectable effect, and the trials or items that a smaller one needs; pure.

The variance of an item's change is σ²_items + σ²_trial/k: the variance between items, which no
number of trials reduces, and the noise of one trial of both runs divided by the trials k.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from app.statistics.intervals import Interval
from app.statistics.verdict_rules import MDE_FACTOR, Remedy

# No benchmark runs an item more often: more items are needed instead.
MAX_TRIALS = 1_000


class ChangeVariance(NamedTuple):
    """The variance of an item's change between two runs.

    `trial` is None when the noise between trials is unknown; `items` is then the whole variance,
    measured with `measured_trials` trials per item.
    """

    items: float
    trial: float | None
    measured_trials: float = 1.0

    def with_trials(self, trials: float) -> float:
        """The variance with so many trials per item.

        Without a known noise more trials are assumed not to help, and fewer trials to increase the
        whole variance in proportion: the estimate errs on the side of too little power.
        """
        if self.trial is None:
            return self.items * max(1.0, self.measured_trials / trials)
        return self.items + self.trial / trials


def clustered_variance(values: Sequence[float], clusters: Sequence[str]) -> float | None:
    """The variance per item of a mean over clusters, n·SE²; None for a single cluster.

    With one item per cluster it is s². Source: Liang and Zeger 1986.
    """
    mean = math.fsum(values) / len(values)
    sums: dict[str, float] = defaultdict(float)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] += value - mean
    count = len(sums)
    if count == 1:
        return None
    return count / (count - 1) * math.fsum(total**2 for total in sums.values()) / len(values)


def detectable_effect(error: float) -> float:
    """The minimum detectable effect of a standard error: 80 % power, two-sided alpha of 5 %.

    Source: Bloom 1995, "Minimum detectable effects".
    """
    return MDE_FACTOR * error


def benchmark_detectable_effect(variance: ChangeVariance, *, items: int, trials: int) -> float:
    """The minimum detectable effect of a benchmark. Raises: ValueError without items or trials."""
    if items < 1 or trials < 1:
        raise ValueError("a benchmark without items or trials detects nothing")
    return detectable_effect(math.sqrt(variance.with_trials(trials) / items))


def trials_needed(variance: ChangeVariance, *, items: int, change: float) -> Remedy | None:
    """The trials per item that make a change detectable; None when one trial is enough.

    `more_trials` of the result is None when a thousand trials are not enough. When the noise between
    trials is unknown, the result assumes that it is the whole variance, which is the best case.
    """
    # The variance per item at which the change is just detectable.
    allowed = items * (change / MDE_FACTOR) ** 2
    is_unknown = variance.trial is None
    noise = variance.items * variance.measured_trials if variance.trial is None else variance.trial
    # The part that trials do not reduce.
    between_items = 0.0 if is_unknown else variance.items
    if between_items + noise <= allowed:
        return None
    return Remedy(_trials(noise, allowed - between_items), at_best=is_unknown)


def items_needed(variance: ChangeVariance, *, trials: int, change: float) -> int:
    """The items that make a change detectable. Raises: ValueError unless the change is positive."""
    if change <= 0:
        raise ValueError("no number of items makes a change of 0 detectable; use a larger change")
    return max(1, _ceiling(variance.with_trials(trials) * (MDE_FACTOR / change) ** 2))


class NonInferiority(NamedTuple):
    """Whether the harm is proven to be below a margin: True, False, or None when unknown.

    `largest_harm` is the upper bound of the harm.
    """

    is_proven: bool | None
    largest_harm: float


def check_non_inferiority(harm: Interval, margin: float) -> NonInferiority:
    """Whether the interval of the harm lies below the margin, above it, or includes it.

    `harm` is larger for the worse: (−high, −low) of an effect where higher is better.
    Source: ICH E9 §3.3.2 (non-inferiority by a confidence interval).
    """
    is_proven = True if harm.high < margin else False if harm.low > margin else None
    return NonInferiority(is_proven, harm.high)


def _trials(noise: float, allowed: float) -> int | None:
    # Compared before the division, because `allowed` can be 0 or negative.
    return _ceiling(noise / allowed) if noise < MAX_TRIALS * allowed else None


def _ceiling(value: float) -> int:
    """Rounded up, but for a rounding error: 3.0000000000000004 trials are three."""
    return math.ceil(value * (1 - 1e-12))
