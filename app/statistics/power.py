"""What a benchmark can see, and what it costs to see more.

The variance of an item's change is σ²_items + σ²_trial/k: what the items differ by whatever the
number of trials, and the noise of one trial (of both runs together) over their number k. Needs no
numpy.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from app.statistics.intervals import Interval
from app.statistics.verdict import MDE_FACTOR, Remedy

# Nobody runs an item more often than this: it takes more items.
MOST_TRIALS = 1_000


class ChangeVariance(NamedTuple):
    """The variance of an item's change; `trial` is None where the noise within items is not known,
    and `items` holds all of it then, as it was with `seen` trials an item.
    """

    items: float
    trial: float | None
    seen: float = 1.0

    def of(self, trials: float) -> float:
        """With so many trials an item; where their noise is not known, more trials are no help and
        fewer at worst make all of it larger.
        """
        if self.trial is None:
            return self.items * max(1.0, self.seen / trials)
        return self.items + self.trial / trials


def clustered_variance(values: Sequence[float], clusters: Sequence[str]) -> float | None:
    """The variance of an item, as the mean of items that come in clusters sees it: n·SE²; None of one
    cluster. With singletons it is s².

    Source: Liang and Zeger 1986.
    """
    mean = math.fsum(values) / len(values)
    sums: dict[str, float] = defaultdict(float)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] += value - mean
    count = len(sums)
    if count == 1:
        return None
    return count / (count - 1) * math.fsum(each**2 for each in sums.values()) / len(values)


def smallest_visible(error: float) -> float:
    """The change that is seen in four runs of five, at α = .05 on both sides: 2.80 standard errors.

    Source: Bloom 1995 (minimum detectable effect).
    """
    return MDE_FACTOR * error


def visible_change(variance: ChangeVariance, *, items: int, trials: int) -> float:
    """The smallest change that so many items and trials make visible. Raises: ValueError for none."""
    if items < 1 or trials < 1:
        raise ValueError("a benchmark without items or trials sees nothing")
    return smallest_visible(math.sqrt(variance.of(trials) / items))


def trials_needed(variance: ChangeVariance, *, items: int, change: float) -> Remedy | None:
    """How many trials an item make a change visible, as `more_trials` of none; None when one does,
    and a remedy without trials when not even a thousand do.

    Where the noise within items is unknown, at best it is all there is.
    """
    bearable = items * (change / MDE_FACTOR) ** 2
    unknown = variance.trial is None
    noise = variance.items * variance.seen if variance.trial is None else variance.trial
    rest = 0.0 if unknown else variance.items
    if rest + noise <= bearable:
        return None
    return Remedy(_at_most(noise, bearable - rest), at_best=unknown)


def items_needed(variance: ChangeVariance, *, trials: int, change: float) -> int:
    """How many items make a change visible. Raises: ValueError unless the change is positive."""
    if change <= 0:
        raise ValueError("no number of items makes a change of 0 visible; name a larger one")
    return max(1, _ceiling(variance.of(trials) * (MDE_FACTOR / change) ** 2))


class Inferiority(NamedTuple):
    """Whether a candidate is proven no worse than by the margin: True, False, or not known."""

    proven: bool | None
    worst: float


def no_worse_than(harm: Interval, margin: float) -> Inferiority:
    """Whether harm is certainly below the margin, certainly above it, or neither.

    `harm` is the interval of the harm, larger being worse: (-high, -low) of an effect where higher
    is better. Source: ICH E9 (non-inferiority by a confidence interval).
    """
    proven = True if harm.high < margin else False if harm.low > margin else None
    return Inferiority(proven, harm.high)


def _at_most(noise: float, spare: float) -> int | None:
    return _ceiling(noise / spare) if noise < MOST_TRIALS * spare else None


def _ceiling(value: float) -> int:
    # 3.0000000000000004 trials are three.
    return math.ceil(value * (1 - 1e-12))
