"""What a benchmark can see, and what it costs to see more.

The variance of an item's change is σ²_items + σ²_trial/k: what the items differ by whatever the
number of trials, and the noise of one trial (of both runs together) over their number k. Needs no
numpy.
"""

import math
from typing import NamedTuple

from app.statistics.intervals import Interval
from app.statistics.verdict import MDE_FACTOR, Remedy

# Nobody runs an item more often than this: it takes more items.
MOST_TRIALS = 1_000


class ChangeVariance(NamedTuple):
    """The variance of an item's change; `trial` is None where every item had one trial only, and
    `items` holds all of it then.
    """

    items: float
    trial: float | None

    def of(self, trials: float) -> float:
        """With so many trials an item."""
        return self.items + (self.trial or 0.0) / trials


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

    With one trial an item in the past the noise within items is unknown: at best it is all there is.
    """
    bearable = items * (change / MDE_FACTOR) ** 2
    if variance.of(1) <= bearable:
        return None
    if variance.trial is None:
        return Remedy(_at_most(variance.items, bearable), at_best=True)
    return Remedy(_at_most(variance.trial, bearable - variance.items))


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
