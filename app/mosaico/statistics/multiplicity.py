"""Many tests at once: adjusts p-values, so that each may be compared with alpha on its own.

Features that are more frequent among selected items are found by one such family of tests. Needs
numpy.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mosaico.statistics.change import ChangeTest
from mosaico.statistics.distributions import t_quantile
from mosaico.statistics.fixed_items import FixedItemsChange
from mosaico.statistics.trials import FloatArray

FLIPS = 1999
SEED = 37
# p-values that differ by less than this fraction are tied.
_TIE = 1e-9
# A block of sign patterns that fits into the cache.
_BLOCK_CELLS = 1 << 20


def benjamini_hochberg(p_values: Iterable[float], /) -> list[float]:
    """Controls the false discovery rate: the expected fraction of false findings among all findings.

    Source: Benjamini and Hochberg 1995; the same bits as `scipy.stats.false_discovery_control`.
    """
    values = list(p_values)
    adjusted, smallest = [1.0] * len(values), 1.0
    descending = sorted(range(len(values)), key=values.__getitem__, reverse=True)
    for larger, index in enumerate(descending):
        rank = len(values) - larger
        # A smaller p-value never gets a larger adjusted one.
        smallest = min(smallest, values[index] * (len(values) / rank))
        adjusted[index] = smallest
    return adjusted


def holm(p_values: Iterable[float], /) -> list[float]:
    """Controls the probability of any false finding, for tests of different items.

    Source: Holm 1979; equals statsmodels' `multipletests(method="holm")` within 1e-12.
    """
    values = list(p_values)
    adjusted, largest = [1.0] * len(values), 0.0
    ascending = sorted(range(len(values)), key=values.__getitem__)
    for rank, index in enumerate(ascending):
        # A larger p-value never gets a smaller adjusted one.
        largest = max(largest, min(1.0, values[index] * (len(values) - rank)))
        adjusted[index] = largest
    return adjusted


def max_t(tests: Sequence[ChangeTest | FixedItemsChange]) -> list[float]:
    """Controls the probability of any false finding among changes of the same units.

    The changes of all tests get the same random signs per unit, so that copies of one signal count
    once. Never more than p times the number of tests (Bonferroni), which is all that holds for
    tests without contributions of units and for fixed items; a single test keeps its p. A test in which nothing changed
    cannot be a false finding and does not count (Tarone 1990).
    Source: Westfall and Young 1993, chapter 2 (step-down minimum p); ties count by half, as in the
    mid-p value that the test of one change agrees with.
    """
    count = sum(test.p < 1 or test.error > 0 or bool(_changes_of(test).any()) for test in tests)
    bounds = [min(1.0, test.p * max(1, count)) for test in tests]
    by_flips = {
        index: test
        for index, test in enumerate(tests)
        if isinstance(test, ChangeTest) and test.unit_changes.any() and test.error
    }
    if len(by_flips) < 2:  # noqa: PLR2004 - one test has no other to share flips with
        return bounds
    flipped = _flipped_statistics(by_flips)
    order = sorted(by_flips, key=lambda index: tests[index].p)
    adjusted, previous = [*bounds], 0.0
    for rank, index in enumerate(order):
        p = tests[index].p
        family = _share_beyond(p, [(flipped[other], by_flips[other]) for other in order[rank:]])
        # Tests without flips belong to the family, too.
        outside = p * (count - len(by_flips))
        previous = max(previous, p, min(bounds[index], family + outside))
        adjusted[index] = previous
    return adjusted


def _changes_of(test: ChangeTest | FixedItemsChange) -> FloatArray:
    return test.unit_changes if isinstance(test, ChangeTest) else test.changes


def _share_beyond(p: float, tests: Sequence[tuple[FloatArray, ChangeTest]]) -> float:
    """The share of the random signs with which one of the tests has a smaller p-value; ties count by half."""
    count = 0
    for level, reaches in ((p * (1 - _TIE), np.greater), (p * (1 + _TIE), np.greater_equal)):
        # Most tests have the same degrees of freedom, and so the same limit.
        limits = {
            degrees: -t_quantile(min(level, 1.0) / 2, degrees)
            for degrees in {test.degrees for _, test in tests}
        }
        count += np.any(
            [reaches(statistics, limits[test.degrees]) for statistics, test in tests], axis=0
        ).sum()
    return float(count) / 2 / FLIPS


def _flipped_statistics(tests: Mapping[int, ChangeTest]) -> dict[int, FloatArray]:
    """The statistics of each test under shared random signs of the units, without their direction."""
    changes = np.stack([test.unit_changes for test in tests.values()], axis=1)
    # By powers of two, without rounding: the squares of the largest floats would overflow.
    changes = np.ldexp(changes, -np.frexp(np.abs(changes).max(axis=0))[1])
    random = np.random.default_rng(SEED)
    height = max(1, _BLOCK_CELLS // len(changes))
    sums = np.concatenate(
        [
            (2.0 * random.integers(0, 2, (min(height, FLIPS - start), len(changes))) - 1) @ changes
            for start in range(0, FLIPS, height)
        ]
    )
    statistics = {}
    for column, (index, test) in enumerate(tests.items()):
        units = test.units
        share = np.minimum(sums[:, column] ** 2 / (changes[:, column] ** 2).sum(), units)
        with np.errstate(divide="ignore"):
            statistics[index] = np.sqrt(share * (units - 1) / (units - share))
    return statistics


class ContingencyTable(NamedTuple):
    """Counts of a property among the selected items and among the other items."""

    selected_with: int
    selected: int
    unselected_with: int
    unselected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureEnrichment:
    """A feature that the selected items have more often than the others."""

    feature: str
    table: ContingencyTable
    p: float
    p_adjusted: float


FALSE_DISCOVERY_RATE = 0.05


def enriched_features(
    features: Mapping[str, AbstractSet[str]],
    selected: AbstractSet[str],
    items: AbstractSet[str],
) -> list[FeatureEnrichment]:
    """The features that are more frequent among the selected items, smallest p-value first.

    `features` maps each feature to the items that have it. Fisher's exact test per feature,
    adjusted by Benjamini and Hochberg.
    """
    names = sorted(features)
    tables = [_table(features[name] & items, selected & items, items) for name in names]
    p_values = fisher_greater_p(tables)
    enriched = [
        FeatureEnrichment(feature=name, table=table, p=p, p_adjusted=p_adjusted)
        for name, table, p, p_adjusted in zip(
            names, tables, p_values, benjamini_hochberg(p_values), strict=True
        )
        if p_adjusted <= FALSE_DISCOVERY_RATE
    ]
    return sorted(enriched, key=lambda feature: (feature.p, feature.feature))


def _table(
    with_feature: AbstractSet[str], selected: AbstractSet[str], items: AbstractSet[str]
) -> ContingencyTable:
    return ContingencyTable(
        selected_with=len(with_feature & selected),
        selected=len(selected),
        unselected_with=len(with_feature - selected),
        unselected=len(items) - len(selected),
    )


def fisher_greater_p(tables: Sequence[ContingencyTable]) -> list[float]:
    """Fisher's exact test of each table: whether the selected items have the property more often.

    Equals `scipy.stats.hypergeom.sf` within 1e-12.
    """
    return [_fisher_greater_p(table) for table in tables]


def _fisher_greater_p(table: ContingencyTable) -> float:
    """The weight of the tables that are at least as uneven, among all tables with the same sums.

    The weights are relative to that of the most likely table, which neither overflows nor underflows.
    """
    with_property = table.selected_with + table.unselected_with
    lowest = max(0, with_property - table.unselected)
    counts = np.arange(lowest, min(table.selected, with_property), dtype=float)
    # The weight of each table as a multiple of that with one selected item fewer that has the property.
    increases = (with_property - counts) * (table.selected - counts)
    increases /= (counts + 1) * (table.unselected - with_property + counts + 1)
    likeliest = int((increases > 1).sum())
    below = np.cumprod(1 / increases[:likeliest][::-1])[::-1]
    weights = np.concatenate([below, [1.0], np.cumprod(increases[likeliest:])])
    return float(weights[table.selected_with - lowest :].sum() / weights.sum())
