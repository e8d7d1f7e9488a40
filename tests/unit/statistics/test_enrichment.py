"""Features of the items that flipped: by hand, then as scipy has it."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.statistics.enrichment import enriched_features
from app.statistics.hypothesis_tests import ContingencyTable, fisher_greater_p, fisher_p
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
stats = Reference("scipy.stats")

FEW = st.integers(0, 15)


def test_all_flipped_items_of_one_tag_are_one_way_of_many() -> None:
    # 3 of 3 flipped items have the tag and 0 of 4 others: one of C(7, 3) = 35 ways.
    counts = ContingencyTable(selected_with=3, selected=3, others_with=0, others=4)
    assert fisher_greater_p([counts])[0] == pytest.approx(1 / 35)
    # In the other direction no table is as unlikely: 3 of 3 without the tag is C(4, 3) = 4 ways.
    assert fisher_p(counts) == pytest.approx(1 / 35)


@given(FEW, FEW, FEW, FEW)
@settings(max_examples=50)
def test_both_equal_scipy(a: int, b: int, c: int, d: int) -> None:
    assume(a + b and c + d)
    counts = ContingencyTable(selected_with=a, selected=a + b, others_with=c, others=c + d)
    table = [[a, b], [c, d]]
    assert fisher_p(counts) == pytest.approx(stats.fisher_exact(table).pvalue, abs=1e-12)
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert fisher_greater_p([counts])[0] == pytest.approx(expected, abs=1e-12)


def test_only_what_the_flipped_items_share_is_named() -> None:
    items = {f"item-{n}" for n in range(40)}
    flipped = {f"item-{n}" for n in range(8)}
    tags = {
        "json": flipped | {"item-30"},
        "all": items,
        "even": {f"item-{n}" for n in range(0, 40, 2)},
        "elsewhere": {"unknown"},
    }
    (found,) = enriched_features(tags, flipped, items)
    assert found.feature == "json"
    assert found.table == ContingencyTable(selected_with=8, selected=8, others_with=1, others=32)
    # Four features, the smallest p of them: four times as large.
    assert found.p_adjusted == pytest.approx(4 * found.p)


def test_of_no_flipped_items_nothing_is_said() -> None:
    assert enriched_features({"json": {"a"}}, set(), {"a", "b"}) == []
    assert enriched_features({}, {"a"}, {"a", "b"}) == []
