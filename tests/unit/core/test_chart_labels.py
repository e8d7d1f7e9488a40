"""The labels of the points of a chart."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from mosaico.core.web.page_text import label_times

FIRST = datetime(2026, 11, 26, 22, 30, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def test_label_times__days_are_those_of_the_reader() -> None:
    nights = [FIRST, FIRST + timedelta(days=1)]
    assert label_times(nights, BERLIN) == ["26 Nov", "27 Nov"]
    # An hour later it is the next day in Berlin.
    assert label_times([FIRST, FIRST + timedelta(hours=1)], BERLIN) == ["26 Nov", "27 Nov"]


def test_label_times__points_of_one_day_differ_by_their_times() -> None:
    minutes = [FIRST, FIRST + timedelta(minutes=5)]
    assert label_times(minutes, BERLIN) == ["26 Nov 23:30", "26 Nov 23:35"]


def test_label_times__one_point_has_its_day_and_none_has_no_label() -> None:
    assert label_times([FIRST], BERLIN) == ["26 Nov"]
    assert label_times([], BERLIN) == []
