"""Features that are more frequent among selected items than among the others. Needs scipy."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from app.statistics.multiplicity import benjamini_hochberg


class ContingencyTable(NamedTuple):
    """How many of the selected items have a property, and how many of the other items."""

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


def enriched_features(
    features: Mapping[str, AbstractSet[str]],
    selected: AbstractSet[str],
    items: AbstractSet[str],
    *,
    false_discovery_rate: float = 0.05,
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
        if p_adjusted <= false_discovery_rate
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
    """Fisher's exact test of each table: whether the selected items have the property more often."""
    # Half a second to import, which most processes can do without.
    from scipy.stats import hypergeom

    if not tables:
        return []
    selected_with, selected, unselected_with, unselected = np.array(tables).T
    p_values: list[float] = hypergeom.sf(
        selected_with - 1, selected + unselected, selected_with + unselected_with, selected
    ).tolist()
    return p_values
