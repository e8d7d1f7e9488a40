"""Trial numbers of a collection."""

from collections.abc import Sequence
from contextlib import closing

import pytest

from mosaico.traces.trial_numbers import TrialCounts
from mosaico.traces.types import MAX_TRIAL

# Items are 64-bit hashes, with a sign, as SQLite stores them.
A, B, C = -(2**63), 2**63 - 1, 0


@pytest.fixture(params=[1, 2, 5, 100_000])
def window(request: pytest.FixtureRequest) -> int:
    """The number of traces that are read at a time."""
    assert isinstance(request.param, int)
    return request.param


def number(items: Sequence[int], trials: Sequence[int], window: int) -> list[int]:
    windows = [slice(first, first + window) for first in range(0, len(items), window)]
    with closing(TrialCounts()) as counts:
        for part in windows:
            counts.add(items[part], trials[part])
        numbers = [
            number for part in windows for number in counts.number(items[part], trials[part])
        ]
        assert counts.has_repeats is (len(set(zip(items, trials, strict=True))) < len(items))
    return numbers


def test_trial_counts__without_trials_counts_the_traces_of_each_item(window: int) -> None:
    assert number([A, B, A, A, B], [0, 0, 0, 0, 0], window) == [0, 0, 1, 2, 1]


def test_trial_counts__numbers_that_do_not_repeat_stay(window: int) -> None:
    assert number([A, B, A, B], [7, 0, 8, 3], window) == [7, 0, 8, 3]


def test_trial_counts__an_item_with_a_repeated_number_is_numbered_in_the_order_of_its_numbers(
    window: int,
) -> None:
    """The item A has the numbers 5, 2, 5: the second trace comes first. C does not repeat."""
    assert number([A, A, C, A], [5, 2, 9, 5], window) == [1, 0, 9, 2]


def test_trial_counts__hashes_beside_each_other_are_different_items(window: int) -> None:
    trials = [0, MAX_TRIAL, MAX_TRIAL, 1]
    assert number([-1, 0, 1, -1], trials, window) == trials
