"""Metrics with values of too few of the compared items."""

from collections.abc import Sequence

import pytest

from mosaico.comparison.value_coverage import LostValues, find_lost_values
from mosaico.items.matrix import ItemPairing, pair_items
from tests.support.compared_runs import run


def pairing_of(baseline: Sequence[float | None], candidate: Sequence[float | None]) -> ItemPairing:
    return pair_items(run(baseline), run(candidate))


@pytest.mark.parametrize(
    ("baseline", "candidate", "lost"),
    [
        ([1.0] * 10, [1.0] * 8 + [None] * 2, LostValues(8, 10, only_baseline=2, only_candidate=0)),
        ([None] * 2 + [1.0] * 8, [1.0] * 10, LostValues(8, 10, only_baseline=0, only_candidate=2)),
        # Each run has 9 of 10, both have 8.
        ([None] + [1.0] * 9, [1.0] * 9 + [None], LostValues(8, 10, only_baseline=1, only_candidate=1)),
        # Nine tenths are enough.
        ([1.0] * 10, [1.0] * 9 + [None], None),
        # The same third of the items has a score in both runs, as it is meant to have.
        ([1.0] * 4 + [None] * 8, [0.0] * 4 + [None] * 8, None),
        # Nothing in common: a metric without any compared value has a reason of its own.
        ([1.0] * 5 + [None] * 5, [None] * 5 + [1.0] * 5, None),
    ],
)  # fmt: skip
def test_lost_values__are_those_of_one_run_only(
    baseline: list[float | None], candidate: list[float | None], lost: LostValues | None
) -> None:
    found = find_lost_values(pairing_of(baseline, candidate), ["A"], 0.9)
    assert found == ({} if lost is None else {"A": lost})
    assert find_lost_values(pairing_of(baseline, candidate), ["A"], 0.0) == {}


def test_lost_values__trials_of_an_item_count_once() -> None:
    matrices = run([1.0] * 10, trials=3), run([1.0] * 8 + [None] * 2, trials=3)
    assert find_lost_values(pair_items(*matrices), ["A"], 0.9)["A"].compared == 8


@pytest.mark.parametrize(("scored", "is_lost"), [(30, True), (36, False)])
def test_lost_values__of_two_samples_are_compared_as_shares(scored: int, *, is_lost: bool) -> None:
    before, after = run([1.0] * 20), run([1.0] * scored + [None] * (40 - scored))
    samples = ItemPairing(
        baseline=before, candidate=after, is_paired=False,
        only_baseline=0, only_candidate=0, revised=0,
    )  # fmt: skip
    lost = LostValues(scored, 40, only_baseline=40 - scored, only_candidate=0)
    assert find_lost_values(samples, ["A"], 0.9) == ({"A": lost} if is_lost else {})


def test_lost_values__names_the_run_that_lacks_them() -> None:
    text = LostValues(20, 60, only_baseline=40, only_candidate=0).describe('SCORE["tone"]')
    assert text.startswith("scores for 20 of 60 items: 40 have none in the candidate run")
    assert "baseline" not in text
    assert (
        LostValues(1, 2, only_baseline=0, only_candidate=1)
        .describe("COST_USD")
        .startswith("values for 1 of 2 items: 1 has none in the baseline run")
    )
