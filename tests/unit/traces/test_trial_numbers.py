"""Trial numbers of a collection."""

from app.traces.files.ndjson import MAX_TRIAL
from app.traces.trial_numbers import number_trials

A, B, C = -(2**63), 2**63 - 1, 0


def test_number_trials__without_trials_counts_the_traces_of_each_item() -> None:
    assert list(number_trials([A, B, A, A, B], [0, 0, 0, 0, 0])) == [0, 0, 1, 2, 1]


def test_number_trials__numbers_that_do_not_repeat_stay() -> None:
    assert list(number_trials([A, B, A, B], [7, 0, 8, 3])) == [7, 0, 8, 3]


def test_number_trials__an_item_with_a_repeated_number_is_numbered_in_the_order_of_its_numbers() -> (
    None
):
    """The item A has the numbers 5, 2, 5: the second trace comes first. C does not repeat."""
    assert list(number_trials([A, A, C, A], [5, 2, 9, 5])) == [1, 0, 9, 2]


def test_number_trials__hashes_beside_each_other_are_different_items() -> None:
    assert list(number_trials([-1, 0, 1, -1], [0, MAX_TRIAL, MAX_TRIAL, 1])) == [0, MAX_TRIAL, MAX_TRIAL, 1]  # fmt: skip


def test_number_trials__ends_at_the_largest_number() -> None:
    numbers = number_trials([A] * (MAX_TRIAL + 3), [0] * (MAX_TRIAL + 3))
    assert list(numbers[-4:]) == [MAX_TRIAL - 1, MAX_TRIAL, MAX_TRIAL, MAX_TRIAL]


def test_number_trials__nothing_has_no_numbers() -> None:
    assert list(number_trials([], [])) == []
