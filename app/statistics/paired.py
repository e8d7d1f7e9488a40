"""Two runs over the same items, and whether one passes more of them than the other."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.statistics.intervals import Interval, paired_difference_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class McNemar:
    """How likely a difference as large is when neither run is better.

    `exact` is conservative; `mid_p` keeps its level on average and sees more.
    """

    exact: float
    mid_p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedComparison:
    """Two runs, item by item: the share of the second minus that of the first."""

    items: int
    only_first: int
    only_second: int
    difference: float
    interval: Interval
    test: McNemar


def mcnemar(only_first: int, only_second: int) -> McNemar:
    """McNemar's test on the items that only one of two runs passed; 1 when there is none.

    Source: McNemar 1947; mid-p: Fagerland, Lydersen, Laake 2013. `exact` equals scipy's
    `binomtest(only_first, only_first + only_second)` within 1e-12.
    """
    n, least = only_first + only_second, min(only_first, only_second)
    if n == 0:
        return McNemar(exact=1.0, mid_p=1.0)
    # Whole numbers until the last step: 2**n has no place in a double for long.
    below, at = 0, 1
    for k in range(least):
        below, at = below + at, at * (n - k) // (k + 1)
    return McNemar(exact=min(1.0, 2 * (below + at) / 2**n), mid_p=min(1.0, (2 * below + at) / 2**n))


def compare_passes(first: Sequence[bool], second: Sequence[bool]) -> PairedComparison:
    """Two runs compared over the same items, in the same order.

    Raises: ValueError when the sequences are not of one length. No items: no difference.
    """
    pairs = list(zip(first, second, strict=True))
    only_first = sum(a and not b for a, b in pairs)
    only_second = sum(b and not a for a, b in pairs)
    both = sum(a and b for a, b in pairs)
    n = len(pairs)
    return PairedComparison(
        items=n,
        only_first=only_first,
        only_second=only_second,
        difference=(only_second - only_first) / n if n else 0.0,
        interval=paired_difference_interval(
            both=both,
            only_first=only_first,
            only_second=only_second,
            neither=n - both - only_first - only_second,
        ),
        test=mcnemar(only_first, only_second),
    )
