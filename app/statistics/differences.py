"""Differences of the same items in two runs: whether they are chance. Needs numpy.

Every function takes one difference an item; zeros are items that did not change.
"""

import math

import numpy as np

from app.statistics.means import clustered_error, standard_error
from app.statistics.repeats import FloatArray, IntArray
from app.statistics.resampling import SEED
from app.statistics.student_t import two_sided_p

# All ways to flip so many signs are counted, 2^14; of more items a sample of the ways.
EXACT_ITEMS = 14
FLIPS = 9_999
# Beyond, all ways to flip signs are as good as normal, and Student's t gives the same.
FLIPPED_ITEMS = 10_000
# Sums that differ by less than this share are the same but for rounding.
_SAME = 1e-12
_BITS = 8


def sign_flip_p(differences: FloatArray, *, seed: int = SEED) -> float:
    """How often a mean as far from 0 appears when each item could as well have changed the other way.

    Exact up to 14 items that changed, else from 9,999 draws (the observed one counts as one more), of
    which those that are just as far count by half (mid-p, as in McNemar's test): a few trials an item
    give few different means, and ties in full would make a test at 5 % one at 3 %.
    Source: Fisher 1935; Phipson and Smyth 2010 for the count; Lancaster 1961 for mid-p.
    """
    changed = differences[differences != 0]
    if not len(changed):
        return 1.0
    seen, same = abs(float(changed.sum())), _SAME * float(np.abs(changed).sum())
    if len(changed) <= EXACT_ITEMS:
        return float((np.abs(_signed_sums(changed)) >= seen - same).mean())
    drawn = np.abs(_drawn_sums(changed, seed))
    farther, at_least = int((drawn > seen + same).sum()), int((drawn >= seen - same).sum())
    return (farther + (at_least - farther + 1) / 2) / (FLIPS + 1)


def cluster_flip_p(differences: FloatArray, places: IntArray, *, seed: int = SEED) -> float:
    """The same where whole clusters turn together: their sums are flipped."""
    sums = np.bincount(places, weights=differences).astype(np.float64)
    return sign_flip_p(sums, seed=seed)


def paired_t_p(differences: FloatArray) -> float:
    """Student's paired test of at least two items; equals scipy's `ttest_rel` within 1e-12."""
    return _t_p(float(differences.mean()), standard_error(differences), len(differences) - 1)


def cluster_t_p(differences: FloatArray, places: IntArray) -> float:
    """The same with the standard error of at least two clusters, and as many degrees less one."""
    error = clustered_error(differences, places)
    return _t_p(float(differences.mean()), error, int(places.max()))


def wilcoxon_p(differences: FloatArray) -> float:
    """Whether the items that rose outrank those that fell; zeros are ranked and then left out.

    Source: Wilcoxon 1945, Pratt 1959; equals scipy's `wilcoxon(zero_method="pratt",
    method="approx")` within 1e-9.
    """
    sizes = np.abs(differences)
    changed = sizes > 0
    if not changed.any():
        return 1.0
    ranks = _mid_ranks(sizes)
    rose = float(ranks[differences > 0].sum())
    n, zeros = len(differences), len(differences) - int(changed.sum())
    expected = (n * (n + 1) - zeros * (zeros + 1)) / 4
    ties = np.unique(sizes[changed], return_counts=True)[1].astype(np.float64)
    variance = (
        n * (n + 1) * (2 * n + 1)
        - zeros * (zeros + 1) * (2 * zeros + 1)
        - float((ties**3 - ties).sum()) / 2
    ) / 24
    return math.erfc(abs(rose - expected) / math.sqrt(2 * variance))


def _t_p(mean: float, error: float, degrees: int) -> float:
    if error == 0:
        return float(mean == 0)
    return two_sided_p(mean / error, degrees)


def _signed_sums(values: FloatArray) -> FloatArray:
    """The sums under all ways to choose the signs, in no particular order."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _drawn_sums(values: FloatArray, seed: int) -> FloatArray:
    """Sums under random signs: eight values at a time, whose 256 sums are looked up by a byte."""
    padded = np.concatenate([values, np.zeros(-len(values) % _BITS)]).reshape(-1, _BITS)
    random = np.random.default_rng(seed)
    sums = np.zeros(FLIPS)
    for eight in padded:
        sums += _signed_sums(eight)[random.integers(0, 1 << _BITS, FLIPS, dtype=np.uint8)]
    return sums


def _mid_ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1; equal values share the mean of theirs."""
    places, counts = np.unique(values, return_inverse=True, return_counts=True)[1:]
    last = np.cumsum(counts)
    shared: FloatArray = ((last - counts + 1 + last) / 2)[places]
    return shared
