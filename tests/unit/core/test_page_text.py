"""Texts of pages: durations."""

from datetime import timedelta

import pytest

from app.core.web.page_text import format_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.44, "0.4 s"),
        (41, "41 s"),
        (60, "1 min"),
        # Never "60 min" or "24 h": a unit that is full is the next one.
        (3599, "59 min"),
        (3600, "1 h"),
        (86_399, "23 h"),
        (2 * 86_400, "2 d"),
    ],
)
def test_format_duration__largest_unit_that_is_full(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text
