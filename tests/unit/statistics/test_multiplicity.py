"""Adjusted p-values, enriched features and Fisher's test: by hand, against scipy, in simulated families."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mosaico.statistics.change import ChangeTest, paired_change_test
from mosaico.statistics.multiplicity import (
    ContingencyTable,
    benjamini_hochberg,
    enriched_features,
    fisher_greater_p,
    holm,
    max_t,
)
from mosaico.statistics.trials import FloatArray
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
stats = Reference("scipy.stats")
multitest = Reference("statsmodels.stats.multitest")
P_VALUES = st.lists(st.floats(min_value=0.0, max_value=1.0), min_size=1, max_size=20)
FEW = st.integers(0, 15)


def test_of(changes: FloatArray) -> ChangeTest:
    shares = changes / len(changes)
    return paired_change_test(
        float(shares.sum()), shares, shares - shares.mean(), np.arange(len(shares)), width=1.0
    )


test_of.__test__ = False  # type: ignore[attr-defined]  # a helper, not a test


def test_benjamini_hochberg__by_hand() -> None:
    # From the largest: .04·4/4 = .04; .03·4/3 = .04; .005·4/2 = .01; .004·4/1 = .016, cut to .01.
    assert benjamini_hochberg([0.04, 0.005, 0.03, 0.004]) == pytest.approx([0.04, 0.01, 0.04, 0.01])
    assert benjamini_hochberg([0.3]) == [0.3]
    assert benjamini_hochberg([]) == []


@given(P_VALUES)
def test_benjamini_hochberg__equals_scipy(p_values: list[float]) -> None:
    """To the last bit: the recorded verdicts were computed with it."""
    assert benjamini_hochberg(p_values) == stats.false_discovery_control(p_values).tolist()


@pytest.mark.parametrize("p_values", [[0.02, 0.01, 0.03], [0.5, 0.5, 0.001, 0.9], []])
def test_holm__equals_statsmodels(p_values: list[float]) -> None:
    expected = multitest.multipletests(p_values, method="holm")[1].tolist() if p_values else []
    assert holm(p_values) == pytest.approx(expected, abs=1e-12)


def test_max_t__of_one_test_is_its_p() -> None:
    test = test_of(np.array([-1.0] * 6 + [0.0] * 31))
    assert max_t([test]) == [test.p]
    assert max_t([]) == []


def test_max_t__copies_of_one_signal_cost_nothing() -> None:
    changes = np.array([-1.0] * 10 + [1.0] * 2 + [0.0] * 28)
    copies = max_t([test_of(changes)] * 15)
    # The share of 1,999 random flips has a standard error below 0.005 here.
    assert copies == pytest.approx([test_of(changes).p] * 15, abs=0.02)


def test_max_t__never_exceeds_bonferroni() -> None:
    # All of 37 items fall: p is far below what 1,999 flips can show.
    certain = test_of(np.full(37, -1.0))
    other = test_of(np.array([-1.0, 1.0] * 5 + [0.0] * 27))
    assert max_t([certain, other])[0] <= 2 * certain.p


def test_max_t__independent_signals_cost_more_than_copies() -> None:
    random = np.random.default_rng(7)
    strong = np.array([-1.0] * 8 + [0.0] * 32)
    other_changes = [random.choice([-1.0, 0.0, 0.0, 1.0], 40) for _ in range(10)]
    adjusted = max_t([test_of(strong), *(test_of(changes) for changes in other_changes)])
    assert adjusted[0] > 2 * test_of(strong).p
    assert all(
        p >= test_of(changes).p for p, changes in zip(adjusted[1:], other_changes, strict=True)
    )


def test_max_t__tests_without_contributions_are_divided_by_their_number() -> None:
    jump = ChangeTest(
        effect=-1.0, p=0.01, error=0.1, degrees=36.0, units=37, unit_changes=np.zeros(0)
    )
    assert max_t([jump, jump]) == pytest.approx([0.02, 0.02])


def test_max_t__false_calls_among_unchanged_signals_are_rare() -> None:
    random = np.random.default_rng(11)
    families = [
        min(max_t([test_of(random.choice([-1.0, 0.0, 0.0, 1.0], 37)) for _ in range(5)]))
        for _ in range(60)
    ]
    # 5 % of 60 are 3, with a standard error of 1.7.
    assert sum(p < 0.05 for p in families) <= 3 + 4 * 1.7


def test_fisher__all_selected_items_with_a_feature_by_hand() -> None:
    # 3 of 3 flipped items have the tag and 0 of 4 others: one of C(7, 3) = 35 ways.
    counts = ContingencyTable(selected_with=3, selected=3, unselected_with=0, unselected=4)
    assert fisher_greater_p([counts])[0] == pytest.approx(1 / 35)


@given(FEW, FEW, FEW, FEW)
def test_fisher__equals_scipy(a: int, b: int, c: int, d: int) -> None:
    assume(a + b and c + d)
    counts = ContingencyTable(selected_with=a, selected=a + b, unselected_with=c, unselected=c + d)
    table = [[a, b], [c, d]]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert fisher_greater_p([counts])[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("selected_with", "selected", "unselected_with", "unselected"),
    [
        (0, 40, 0, 60),
        (40, 40, 60, 60),
        (0, 0, 3, 5),
        (300, 900, 150, 1_100),
        (900, 900, 0, 1_100),
        (12, 900, 400, 1_100),
    ],
)
def test_fisher__is_exact_for_many_items(
    selected_with: int, selected: int, unselected_with: int, unselected: int
) -> None:
    counts = ContingencyTable(selected_with, selected, unselected_with, unselected)
    property_count = selected_with + unselected_with
    as_uneven = sum(
        math.comb(selected, count) * math.comb(unselected, property_count - count)
        for count in range(selected_with, min(selected, property_count) + 1)
    )
    exact = as_uneven / math.comb(selected + unselected, property_count)
    p = fisher_greater_p([counts])[0]
    assert p == pytest.approx(exact, rel=1e-12)
    of_scipy = stats.hypergeom.sf(
        selected_with - 1, selected + unselected, property_count, selected
    )
    assert p == pytest.approx(of_scipy, abs=1e-12)


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
