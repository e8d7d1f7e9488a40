"""The expected end of a run in progress, with numbers computed by hand."""

from datetime import UTC, datetime, timedelta

import pytest

from mosaico.run_store.expected_end import estimate_end

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("minutes", "scored", "usual", "expected"),
    [
        # A quarter in 4 minutes: three quarters take 12.
        (4, 25, None, 12 * MINUTE),
        (4, 25, 60 * MINUTE, 12 * MINUTE),
        (4, 100, None, timedelta()),
        # Too early to tell from the progress.
        (4, 9, 10 * MINUTE, 6 * MINUTE),
        (4, 0, 10 * MINUTE, 6 * MINUTE),
        (4, 0, None, None),
        # It takes longer than usual: nobody knows how long.
        (11, 0, 10 * MINUTE, None),
    ],
)
def test_estimate_end__continues_the_progress_or_takes_as_long_as_usual(
    minutes: int, scored: int, usual: timedelta | None, expected: timedelta | None
) -> None:
    end = estimate_end(NOW - minutes * MINUTE, NOW, scored=scored, total=100, usual=usual)
    assert end == (NOW + expected if expected is not None else None)


def test_estimate_end__before_the_traces_are_counted_takes_as_long_as_usual() -> None:
    end = estimate_end(NOW - MINUTE, NOW, scored=0, total=None, usual=3 * MINUTE)
    assert end == NOW + 2 * MINUTE
    assert estimate_end(None, NOW, scored=0, total=None, usual=3 * MINUTE) is None
