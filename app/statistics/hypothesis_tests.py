"""Tests of whether a difference is chance. Needs numpy and scipy.

The sign-flip, t and Wilcoxon tests take the difference of each item between two runs; 0 is an item
that did not change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from app.statistics.intervals import Interval, paired_difference_interval
from app.statistics.means import clustered_error, standard_error
from app.statistics.resampling import SEED
from app.statistics.trials import FloatArray, IntArray

# All 2^14 sign patterns are enumerated; of more items a sample of the patterns is drawn.
EXACT_ITEMS = 14
FLIPS = 9_999
# Beyond, the distribution under sign flips is normal for practical purposes: Student's t agrees.
FLIPPED_ITEMS = 10_000
# Sums that differ by less than this fraction are equal but for rounding.
_TOLERANCE = 1e-12
_BITS = 8


class ContingencyTable(NamedTuple):
    """How many of the selected items have a property, and how many of the other items."""

    selected_with: int
    selected: int
    unselected_with: int
    unselected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class McNemar:
    """The p-values of McNemar's test; `exact` is conservative, `mid_p` has the nominal level on
    average and more power.
    """

    exact: float
    mid_p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedPasses:
    """Two runs over the same items: the pass rate of the second minus that of the first."""

    items: int
    only_first: int
    only_second: int
    difference: float
    interval: Interval
    test: McNemar


def mcnemar(only_first: int, only_second: int) -> McNemar:
    """McNemar's test of the items that exactly one of two runs passed; 1 when there is none.

    Source: McNemar 1947; mid-p: Fagerland, Lydersen and Laake 2013.
    """
    n, least = only_first + only_second, min(only_first, only_second)
    if n == 0:
        return McNemar(exact=1.0, mid_p=1.0)
    # Under the hypothesis of no change, each of the n items is equally likely to have passed in
    # either run.
    at_most = float(special.bdtr(least, n, 0.5))
    below = float(special.bdtr(least - 1, n, 0.5)) if least else 0.0
    # Twice the tail; mid-p counts the observed outcome by half: 2 * (below + (at_most - below) / 2).
    return McNemar(exact=min(1.0, 2 * at_most), mid_p=min(1.0, below + at_most))


def compare_passes(first: Sequence[bool], second: Sequence[bool]) -> PairedPasses:
    """The pass rates of two runs over the same items in the same order; 0 without items.

    Raises: ValueError for sequences of different lengths.
    """
    pairs = list(zip(first, second, strict=True))
    only_first = sum(a and not b for a, b in pairs)
    only_second = sum(b and not a for a, b in pairs)
    both = sum(a and b for a, b in pairs)
    n = len(pairs)
    return PairedPasses(
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


def fisher_p(table: ContingencyTable) -> float:
    """Fisher's exact test, two-sided: whether the property has to do with the selection."""
    # scipy.stats takes half a second to import, which most processes can do without.
    from scipy.stats import fisher_exact

    selected = [table.selected_with, table.selected - table.selected_with]
    unselected = [table.unselected_with, table.unselected - table.unselected_with]
    return float(fisher_exact([selected, unselected]).pvalue)


def fisher_greater_p(tables: Sequence[ContingencyTable]) -> list[float]:
    """Fisher's exact test of each table: whether the selected items have the property more often."""
    # As in `fisher_p`.
    from scipy.stats import hypergeom

    if not tables:
        return []
    selected_with, selected, unselected_with, unselected = np.array(tables).T
    p_values: list[float] = hypergeom.sf(
        selected_with - 1, selected + unselected, selected_with + unselected_with, selected
    ).tolist()
    return p_values


def sign_flip_p(differences: FloatArray, *, seed: int = SEED) -> float:
    """Permutation test: how often a mean at least as far from 0 occurs under random signs.

    Up to 14 changed items all sign patterns are enumerated. For more items 9,999 patterns are drawn
    and the observed one counts as one more. Ties with the observed mean then count by half (mid-p):
    with few trials per item only few different means are possible, and counting ties in full would
    turn a test with a nominal level of 5 % into one of 3-4 %, which misses real regressions.
    Source: Fisher 1935 §21; Phipson and Smyth 2010 for the count of drawn patterns; Lancaster 1961
    for mid-p.
    """
    # Items that did not change add 0 under either sign.
    changed = differences[differences != 0]
    if not len(changed):
        return 1.0
    # Sums of the same numbers in another order differ in the last bits and must count as ties.
    observed, tolerance = abs(float(changed.sum())), _TOLERANCE * float(np.abs(changed).sum())
    if len(changed) <= EXACT_ITEMS:
        return float((np.abs(_signed_sums(changed)) >= observed - tolerance).mean())
    sums = np.abs(_drawn_sums(changed, seed))
    farther = int((sums > observed + tolerance).sum())
    at_least = int((sums >= observed - tolerance).sum())
    return (farther + (at_least - farther + 1) / 2) / (FLIPS + 1)


def cluster_flip_p(differences: FloatArray, clusters: IntArray, *, seed: int = SEED) -> float:
    """The sign-flip test with whole clusters as units: the items of a cluster change together."""
    sums = np.bincount(clusters, weights=differences).astype(np.float64)
    return sign_flip_p(sums, seed=seed)


def t_p(mean: float, error: float, degrees: float) -> float:
    """The two-sided p-value of Student's t test of a mean; without variance 0, or 1 for a mean of 0."""
    if error == 0:
        return float(mean == 0)
    return 2 * float(special.stdtr(degrees, -abs(mean / error)))


def paired_t_p(differences: FloatArray) -> float:
    """Student's paired test of at least two items; equals scipy's `ttest_rel` within 1e-12."""
    return t_p(float(differences.mean()), standard_error(differences), len(differences) - 1)


def cluster_t_p(differences: FloatArray, clusters: IntArray) -> float:
    """The t test with the standard error of at least two clusters; degrees: clusters less one."""
    error = clustered_error(differences, clusters)
    return t_p(float(differences.mean()), error, int(clusters.max()))


def wilcoxon_p(differences: FloatArray) -> float:
    """Wilcoxon's signed-rank test with a normal approximation; zeros are ranked, then ignored.

    Source: Wilcoxon 1945; Pratt 1959 for the zeros.
    """
    # As in `fisher_p`.
    from scipy.stats import wilcoxon

    if not differences.any():
        return 1.0
    result = wilcoxon(differences, zero_method="pratt", method="asymptotic", correction=False)
    return float(result.pvalue)


def _signed_sums(values: FloatArray) -> FloatArray:
    """The sums under all sign patterns, in no particular order."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _drawn_sums(values: FloatArray, seed: int) -> FloatArray:
    """The sums under random sign patterns.

    Eight values at a time: a random byte selects one of their 256 sums, which takes an eighth of
    the random numbers and no multiplication. `scipy.stats.permutation_test` draws sign by sign.
    """
    padded = np.concatenate([values, np.zeros(-len(values) % _BITS)]).reshape(-1, _BITS)
    random = np.random.default_rng(seed)
    sums = np.zeros(FLIPS)
    for eight_values in padded:
        sums += _signed_sums(eight_values)[random.integers(0, 1 << _BITS, FLIPS, dtype=np.uint8)]
    return sums
