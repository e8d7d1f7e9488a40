"""Enriched features and Fisher's test: by hand, then against scipy."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.statistics.enrichment import ContingencyTable, enriched_features, fisher_greater_p
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
stats = Reference("scipy.stats")

FEW = st.integers(0, 15)


def test_fisher__all_selected_items_with_a_feature_by_hand() -> None:
    # 3 of 3 flipped items have the tag and 0 of 4 others: one of C(7, 3) = 35 ways.
    counts = ContingencyTable(selected_with=3, selected=3, unselected_with=0, unselected=4)
    assert fisher_greater_p([counts])[0] == pytest.approx(1 / 35)


@given(FEW, FEW, FEW, FEW)
@settings(max_examples=50)
def test_fisher__equals_scipy(a: int, b: int, c: int, d: int) -> None:
    assume(a + b and c + d)
    counts = ContingencyTable(selected_with=a, selected=a + b, unselected_with=c, unselected=c + d)
    table = [[a, b], [c, d]]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert fisher_greater_p([counts])[0] == pytest.approx(expected, abs=1e-12)


def test_enriched_features__names_features_of_selected_items() -> None:
    items = {f"item-{n}" for n in range(40)}
    flipped = {f"item-{n}" for n in range(8)}
    tags = {
        "json": flipped | {"item-30"},
        "all": items,
        "even": {f"item-{n}" for n in range(0, 40, 2)},
        "elsewhere": {"unknown"},
    }
    (enrichment,) = enriched_features(tags, flipped, items)
    assert enrichment.feature == "json"
    assert enrichment.table == ContingencyTable(
        selected_with=8, selected=8, unselected_with=1, unselected=32
    )
    # Four features, the smallest p of them: four times as large.
    assert enrichment.p_adjusted == pytest.approx(4 * enrichment.p)


def test_enriched_features__empty_without_selected_items() -> None:
    assert enriched_features({"json": {"a"}}, set(), {"a", "b"}) == []
    assert enriched_features({}, {"a"}, {"a", "b"}) == []
