"""Trials reduced by item, and pass@k: by hand, then for any trials."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.statistics.passes import at_least_k, pass_at_k, pass_hat_k
from mosaico.statistics.trials import (
    ItemSums,
    mean_over_items,
    reduce_trials,
)


def test_reduce_trials__sums_by_item() -> None:
    # Item 0 has 1 and 3, item 1 nothing but a missing value, item 2 a single 5.
    sums = reduce_trials(np.array([0, 1, 0, 2]), np.array([1.0, np.nan, 3.0, 5.0]), 3)
    assert sums.n.tolist() == [2.0, 0.0, 1.0]
    np.testing.assert_array_equal(sums.means, [2.0, np.nan, 5.0])
    # (1 - 2)² + (3 - 2)² over 2 - 1
    np.testing.assert_array_equal(sums.trial_variances, [2.0, np.nan, np.nan])


def test_pass_at_k__by_hand() -> None:
    # Two of five passed: of the 10 pairs 3 hold none of them, and 1 holds both.
    assert pass_at_k(5, 2, 2) == pytest.approx(1 - 3 / 10)
    assert pass_hat_k(5, 2, 2) == pytest.approx(1 / 10)
    assert at_least_k(5, 2, 2) == 1.0
    assert at_least_k(5, 2, 3) == 0.0


def test_pass_at_k__none_with_fewer_trials() -> None:
    assert pass_at_k(2, 2, 3) is pass_hat_k(2, 2, 3) is at_least_k(2, 2, 3) is None


@pytest.mark.parametrize(("trials", "passed", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_pass_at_k__refuses_invalid_counts(trials: int, passed: int, k: int) -> None:
    with pytest.raises(ValueError, match="invalid counts"):
        pass_at_k(trials, passed, k)


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_pass_at_k__equals_the_mean_over_all_selections(
    passes: list[bool], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(passes)))
    selections = list(combinations(passes, k))
    n, c = len(passes), sum(passes)
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, selections)) / len(selections))
    assert pass_hat_k(n, c, k) == pytest.approx(sum(map(all, selections)) / len(selections))


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-100, 100)), min_size=1, max_size=30))
def test_item_sums__mean_and_variance(values: list[tuple[int, float]]) -> None:
    items = np.array([item for item, _ in values])
    numbers = np.array([value for _, value in values])
    sums = reduce_trials(items, numbers, 4)
    for item in range(4):
        own = numbers[items == item]
        if len(own):
            assert sums.means[item] == pytest.approx(own.mean(), abs=1e-9)
        if len(own) > 1:
            assert sums.trial_variances[item] == pytest.approx(own.var(ddof=1), abs=1e-7)
        else:
            assert math.isnan(sums.trial_variances[item])


def passes(*items: tuple[int, int]) -> ItemSums:
    """Items by how many trials they have and how many of them passed."""
    n, total = np.array(items, dtype=np.float64).T
    return ItemSums(n=n, total=total, squares=total)


def test_mean_over_items__uses_items_with_enough_trials() -> None:
    sums = passes((3, 3), (3, 2), (3, 0), (1, 1))
    # k = 2 of three trials: 3 passed 1 and 1, 2 passed 1 - 0/3 and 1/3, 0 passed 0 and 0.
    assert mean_over_items(pass_at_k, sums, 2) == pytest.approx(2 / 3)
    assert mean_over_items(pass_hat_k, sums, 2) == pytest.approx((1 + 1 / 3) / 3)
    assert mean_over_items(at_least_k, sums, 2) == pytest.approx(2 / 3)
    # k = 1 takes in the item of a single trial: (1 + 2/3 + 0 + 1) / 4.
    assert mean_over_items(pass_at_k, sums, 1) == pytest.approx(2 / 3)
    assert mean_over_items(pass_at_k, sums, 4) is None


def test_item_sums__grades_are_not_binary() -> None:
    assert passes((3, 2), (2, 0)).are_binary
    assert not reduce_trials(np.array([0, 0]), np.array([0.5, 1.0]), 1).are_binary
