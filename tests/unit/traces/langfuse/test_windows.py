"""Stretches of time, read several at once and handed on in one order."""

from collections.abc import Sequence
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.traces.sources.langfuse.errors import LangfuseUnavailable, PageTooLarge
from app.traces.sources.langfuse.time_windows import (
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
    """Rows that started at some times, served in pages as Langfuse does."""

    def __init__(self, times: Sequence[int], *, at_most: int | None = None) -> None:
        self.rows: list[JSON] = [{"id": str(n), "at": at} for n, at in enumerate(times)]
        self.rows.sort(key=lambda row: (row["at"], row["id"]), reverse=True)
        self.at_most = at_most
        self.asked: list[TimeWindow] = []

    def fetch(self, part: TimeWindow) -> WindowRows:
        return fetch_with_splitting(part, self._ask)

    def _ask(self, part: TimeWindow) -> WindowRows:
        self.asked.append(part)
        if self.at_most is not None and part.limit > self.at_most:
            raise PageTooLarge(LangfuseUnavailable())
        skipped = int(part.cursor or 0)
        inside = [row for row in self.rows if part.start <= row["at"] < part.end]
        left = inside[skipped:] if part.cursor else inside
        rest = len(left) > part.limit
        cursor = str(skipped + part.limit)
        return WindowRows(
            rows=left[: part.limit], remaining=[replace(part, cursor=cursor)] if rest else []
        )


def read(rows: Rows, parts: Sequence[TimeWindow], width: int | None = None) -> list[RowPage]:
    return list(
        iter_newest_first(parts, rows.fetch, sizer=WindowSizer(width_ms=width), concurrency=4)
    )


def ids(pages: Sequence[RowPage]) -> list[str]:
    return [str(row["id"]) for page in pages for row in page.rows]


times = st.lists(st.integers(0, 999), max_size=40)
widths = st.none() | st.integers(1, 1_200)


@settings(deadline=None)  # threads, on a busy machine
@given(times, widths, st.integers(1, 20))
def test_every_row_comes_once_newest_first_however_time_is_cut(
    at: list[int], width: int | None, limit: int
) -> None:
    rows = Rows(at)
    pages = read(rows, [TimeWindow(start=0, end=1_000, limit=limit)], width)
    assert ids(pages) == [str(row["id"]) for row in rows.rows]
    assert pages[-1].remaining == ()


@settings(deadline=None)  # threads, on a busy machine
@given(times, widths, st.integers(1, 20), st.data())
def test_what_is_left_after_any_page_is_exactly_what_did_not_come_yet(
    at: list[int], width: int | None, limit: int, data: st.DataObject
) -> None:
    rows = Rows(at)
    pages = read(rows, [TimeWindow(start=0, end=1_000, limit=limit)], width)
    place = data.draw(st.integers(0, len(pages) - 1))
    documents = [part.to_json() for part in pages[place].remaining]
    again = read(rows, [TimeWindow.from_json(document) for document in documents], width)
    assert ids(pages[: place + 1]) + ids(again) == ids(pages)


def test_a_run_in_one_piece_is_a_chain_of_pages() -> None:
    rows = Rows(range(250))
    pages = read(rows, [TimeWindow(start=0, end=1_000, limit=100)])
    assert [len(page.rows) for page in pages] == [100, 100, 50]
    assert len(rows.asked) == 3


def test_stretches_of_time_grow_where_rows_are_rare_and_shrink_where_they_are_dense() -> None:
    dense, rare = [900 + number // 10 for number in range(1_000)], [5, 300]
    rows = Rows([*rare, *dense])
    pages = read(rows, [TimeWindow(start=0, end=1_000, limit=100)], width=100)
    assert len(ids(pages)) == 1_002
    # Ten full pages cannot be avoided; nine hundred empty milliseconds must not cost hundreds.
    assert len(rows.asked) < 40


@pytest.mark.parametrize("at_most", [50, 13, 1])
def test_a_server_that_cannot_answer_so_much_is_asked_for_less(at_most: int) -> None:
    rows = Rows(range(120), at_most=at_most)
    pages = read(rows, [TimeWindow(start=0, end=1_000, limit=100)])
    assert len(ids(pages)) == 120
    assert ids(pages) == [str(row["id"]) for row in rows.rows]


def test_a_server_that_cannot_answer_at_all_is_given_up_with_its_error() -> None:
    rows = Rows(range(120), at_most=0)
    with pytest.raises(LangfuseUnavailable):
        read(rows, [TimeWindow(start=0, end=1_000, limit=100)])


def test_requests_shrink_by_rows_first_then_by_time_then_to_one_row() -> None:
    # 100, 50, 25, 12 and 6 rows; 3, 2 and 1.5 s of time; then 3 rows and 1.
    part, seen = TimeWindow(start=0, end=3_000, limit=100), []
    while smaller := part.split():
        part = smaller[0]
        seen.append((part.limit, part.end - part.start))
    assert seen == [
        *((limit, 3_000) for limit in (50, 25, 12, 6)),
        (6, 1_500),
        (3, 1_500),
        (1, 1_500),
    ]


def test_two_halves_of_a_time_are_the_whole_of_it() -> None:
    newer, older = TimeWindow(start=10, end=9_010, limit=10, cursor="c").split()
    assert (newer, older) == (
        TimeWindow(start=4_510, end=9_010, limit=10, cursor="c"),
        TimeWindow(start=10, end=4_510, limit=10),
    )


class Repeating:
    """A server whose pages never end."""

    def __init__(self, *, cursors: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.cursors, self.rows, self.asked = cursors, rows, 0

    def fetch(self, part: TimeWindow) -> WindowRows:
        number, self.asked = self.asked, self.asked + 1
        rows = [{"id": row_id} for row_id in self.rows[number % len(self.rows)]]
        cursor = self.cursors[number % len(self.cursors)]
        return WindowRows(rows=rows, remaining=[replace(part, cursor=cursor)])


@pytest.mark.parametrize(
    ("cursors", "rows"),
    [
        (["a"], [["1"], ["2"], ["3"]]),  # the cursor that was sent comes back
        (["a", "b", "c"], [["1"], ["2"], ["3"], ["4"], ["5"]]),  # one of some pages ago does
        ([str(number) for number in range(99)], [["1"], ["2", "3"], ["2", "3"]]),  # the last page
    ],
)
def test_a_server_that_goes_in_a_circle_is_left(
    cursors: list[str], rows: list[list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    server = Repeating(cursors=cursors, rows=rows)
    pages = list(
        iter_newest_first([DAY], server.fetch, sizer=WindowSizer(width_ms=None), concurrency=4)
    )
    assert [page.loop_detected for page in pages] == [False] * (len(pages) - 1) + [True]
    assert len(pages) <= 5
    assert "the same page twice" in caplog.text


def test_large_pages_are_not_read_far_ahead() -> None:
    asked: list[TimeWindow] = []

    def fetch(part: TimeWindow) -> WindowRows:
        asked.append(part)
        return WindowRows(rows=[{"id": str(part.start)}], remaining=[], size_bytes=32 * 1024 * 1024)

    found = iter_newest_first(
        [TimeWindow(start=0, end=100, limit=1)], fetch, sizer=WindowSizer(width_ms=1), concurrency=4
    )
    for number in range(1, 11):
        next(found)
        assert len(asked) == number


def test_small_pages_are_read_ahead_once_the_first_of_them_is_there() -> None:
    asked: list[TimeWindow] = []
    four = Barrier(4, timeout=60)

    def fetch(part: TimeWindow) -> WindowRows:
        asked.append(part)
        if len(asked) > 1:
            four.wait()  # fails unless so many are asked for at once
        return WindowRows(rows=[{"id": str(part.start)}], remaining=[], size_bytes=1024)

    found = iter_newest_first(
        [TimeWindow(start=0, end=100, limit=1)], fetch, sizer=WindowSizer(width_ms=1), concurrency=4
    )
    next(found)
    assert len(asked) == 1
    next(found)
    assert len(asked) == 5
