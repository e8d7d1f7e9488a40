"""Time windows: read concurrently, yielded in one order."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaico.traces.sources.langfuse.failures import LangfuseUnavailable, PageTooLarge
from mosaico.traces.sources.langfuse.v4_paging import (
    RowPage,
    TimeWindow,
    WindowRows,
    WindowSizer,
    fetch_with_splitting,
    iter_newest_first,
)

JSON = dict[str, Any]
DAY = TimeWindow(start=0, end=86_400_000, limit=100)


class Rows:
    """Rows with given start times, served in pages like Langfuse does."""

    def __init__(self, times: Sequence[int], *, at_most: int | None = None) -> None:
        self.rows: list[JSON] = [{"id": str(n), "at": at} for n, at in enumerate(times)]
        self.rows.sort(key=lambda row: (row["at"], row["id"]), reverse=True)
        self.at_most = at_most
        self.requested: list[TimeWindow] = []

    def fetch(self, part: TimeWindow) -> WindowRows:
        return fetch_with_splitting(part, self._ask)

    def _ask(self, part: TimeWindow) -> WindowRows:
        self.requested.append(part)
        if self.at_most is not None and part.limit > self.at_most:
            raise PageTooLarge(LangfuseUnavailable())
        skipped = int(part.cursor or 0)
        inside = [row for row in self.rows if part.start <= row["at"] < part.end]
        unread = inside[skipped:] if part.cursor else inside
        has_next = len(unread) > part.limit
        cursor = str(skipped + part.limit)
        return WindowRows(
            rows=unread[: part.limit], remaining=[replace(part, cursor=cursor)] if has_next else []
        )


def read(rows: Rows, parts: Sequence[TimeWindow], width: int | None = None) -> list[RowPage]:
    return list(
        iter_newest_first(parts, rows.fetch, sizer=WindowSizer(width_ms=width), concurrency=4)
    )


def ids(pages: Sequence[RowPage]) -> list[str]:
    return [str(row["id"]) for page in pages for row in page.rows]


times = st.lists(st.integers(0, 999), max_size=40)
# Wider than the whole time, too, which is 1,000 ms.
widths = st.none() | st.integers(1, 1_200)


@settings(deadline=None)  # threads, on a busy machine
@given(times, widths, st.integers(1, 20))
def test_iter_newest_first__every_row_once_for_any_window_width(
    at: list[int], width: int | None, limit: int
) -> None:
    rows = Rows(at)
    pages = read(rows, [TimeWindow(start=0, end=1_000, limit=limit)], width)
    assert ids(pages) == [str(row["id"]) for row in rows.rows]
    assert pages[-1].remaining == ()


@settings(deadline=None)  # threads, on a busy machine
@given(times, widths, st.integers(1, 20), st.data())
def test_iter_newest_first__remaining_windows_contain_exactly_the_unread_rows(
    at: list[int], width: int | None, limit: int, data: st.DataObject
) -> None:
    rows = Rows(at)
    pages = read(rows, [TimeWindow(start=0, end=1_000, limit=limit)], width)
    index = data.draw(st.integers(0, len(pages) - 1))
    documents = [part.to_json() for part in pages[index].remaining]
    again = read(rows, [TimeWindow.from_json(document) for document in documents], width)
    assert ids(pages[: index + 1]) + ids(again) == ids(pages)


@pytest.mark.parametrize("at_most", [50, 13, 1])
def test_fetch_with_splitting__too_large_pages_are_split(at_most: int) -> None:
    rows = Rows(range(120), at_most=at_most)
    pages = read(rows, [TimeWindow(start=0, end=1_000, limit=100)])
    assert len(ids(pages)) == 120
    assert ids(pages) == [str(row["id"]) for row in rows.rows]


def test_fetch_with_splitting__raises_the_final_error_when_one_row_is_too_large() -> None:
    rows = Rows(range(120), at_most=0)
    with pytest.raises(LangfuseUnavailable):
        read(rows, [TimeWindow(start=0, end=1_000, limit=100)])


def test_split__two_halves_cover_the_window() -> None:
    newer, older = TimeWindow(start=10, end=9_010, limit=10, cursor="c").split()
    assert (newer, older) == (
        TimeWindow(start=4_510, end=9_010, limit=10, cursor="c"),
        TimeWindow(start=10, end=4_510, limit=10),
    )


class Repeating:
    """A server whose pages never end."""

    def __init__(self, *, cursors: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.cursors, self.rows, self.requested = cursors, rows, 0

    def fetch(self, part: TimeWindow) -> WindowRows:
        number, self.requested = self.requested, self.requested + 1
        rows = [{"id": row_id} for row_id in self.rows[number % len(self.rows)]]
        cursor = self.cursors[number % len(self.cursors)]
        return WindowRows(rows=rows, remaining=[replace(part, cursor=cursor)])


@pytest.mark.parametrize(
    ("cursors", "rows"),
    [
        (["a"], [["1"], ["2"], ["3"]]),  # the sent cursor is returned
        (
            ["a", "b", "c"],
            [["1"], ["2"], ["3"], ["4"], ["5"]],
        ),  # a cursor of an earlier page is returned
        (
            [str(number) for number in range(99)],
            [["1"], ["2", "3"], ["2", "3"]],
        ),  # the rows of the previous page are returned
    ],
)
def test_loop_detector__repeated_rows_or_cursors_end_the_reading(
    cursors: list[str], rows: list[list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    server = Repeating(cursors=cursors, rows=rows)
    pages = list(
        iter_newest_first([DAY], server.fetch, sizer=WindowSizer(width_ms=None), concurrency=4)
    )
    assert [page.loop_detected for page in pages] == [False] * (len(pages) - 1) + [True]
    assert len(pages) <= 5
    assert "the same page twice" in caplog.text
