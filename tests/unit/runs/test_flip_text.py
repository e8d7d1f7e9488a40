"""What the page of a run says about items that flipped."""

from collections.abc import Sequence

import pytest

from mosaico.runs.pages.flips import SharedError, find_shared_error


@pytest.mark.parametrize(
    ("errors", "shared"),
    [
        ([], None),
        ([["a"]], None),
        ([["a"], ["a"]], SharedError("a", 2, 2)),
        # An item counts once, and half of the items are enough.
        ([["a", "a", "b"], ["b"], [], []], SharedError("b", 2, 4)),
        ([["a"], ["a"], [], [], []], None),
        # Of two that are as frequent, the first by name.
        ([["b", "a"], ["a", "b"]], SharedError("a", 2, 2)),
    ],
)
def test_find_shared_error__is_what_failed_in_at_least_half(
    errors: Sequence[Sequence[str]], shared: SharedError | None
) -> None:
    assert find_shared_error(errors) == shared
