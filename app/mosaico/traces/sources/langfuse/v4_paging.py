"""Pages of rows of API v4, read in windows of time, several at once.

API v4 pages by a cursor, one page after the other. Windows of time allow concurrent requests: each
window is a chain of pages of its own. The order of the rows depends only on the windows and never
on the speed of the responses, so that a collection can resume from a stored list of windows.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from mosaico.core.http.threads import run_in_thread
from mosaico.traces.sources.langfuse.client import Parameters, get_meta, get_rows
from mosaico.traces.sources.langfuse.failures import PageTooLarge
from mosaico.traces.sources.langfuse.json_fields import JSON, format_time, get_text

log = logging.getLogger(__name__)

# At or below this page size a shorter window reduces the server's work more than fewer rows do.
MIN_SPLIT_ROWS: Final = 10
# At or below this width only the page size is reduced further.
MIN_SPLIT_MS: Final = 2_000
# Responses that wait for their turn; the texts of one page can have megabytes.
MAX_BUFFERED_BYTES: Final = 16 * 1024 * 1024
_UNLIMITED_MS: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """Rows with a start time from `start` to before `end`, in milliseconds since 1970.

    `cursor` is the position after the rows already read; `limit` is the page size.
    """

    start: int
    end: int
    limit: int
    cursor: str | None = None

    def split(self) -> "list[TimeWindow]":
        """The same rows as smaller requests, newest first; empty when no smaller request exists.

        First the page size is halved, then the width, and then the page size down to one row.
        """
        if self.limit > MIN_SPLIT_ROWS:
            return [replace(self, limit=self.limit // 2)]
        if self.end - self.start > MIN_SPLIT_MS:
            middle = (self.start + self.end) // 2
            # Rows come newest first, so the cursor lies in the newer half; the older half is
            # untouched and starts without a cursor.
            return [replace(self, start=middle), replace(self, end=middle, cursor=None)]
        return [replace(self, limit=self.limit // 2)] if self.limit > 1 else []

    def cut_newest(self, width_ms: int) -> "list[TimeWindow]":
        """The newest `width_ms` milliseconds and the rest; uncut when it has a cursor."""
        if self.cursor is not None or self.end - self.start <= width_ms:
            return [self]
        cut = self.end - width_ms
        return [replace(self, start=cut), replace(self, end=cut)]

    def after(self, cursor: str) -> "TimeWindow":
        """The rows behind a cursor."""
        return replace(self, cursor=cursor)

    def parameters(self) -> Parameters:
        """The parameters of the request for its next rows."""
        return {
            "fromStartTime": format_time(self.start),
            "toStartTime": format_time(self.end),
            "limit": self.limit,
            "cursor": self.cursor,
        }

    def to_json(self) -> list[Any]:
        return [self.start, self.end, self.limit, self.cursor]

    @classmethod
    def from_json(cls, document: Sequence[Any]) -> "TimeWindow":
        start, end, limit, cursor = document
        return cls(start=int(start), end=int(end), limit=int(limit), cursor=cursor)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRows:
    """The rows of one request, and the unread windows of its window, newest first."""

    rows: Sequence[Mapping[str, Any]]
    remaining: Sequence[TimeWindow]
    late_scores: Sequence[Mapping[str, Any]] = ()
    size_bytes: int = 0


def to_window_rows(document: JSON, window: TimeWindow, request_name: str) -> WindowRows:
    # The pages before this one came from Langfuse: its only row may be malformed.
    rows = get_rows(document, request_name, any_rows=window.cursor is not None)
    cursor = get_text(get_meta(document), "cursor")
    remaining = [window.after(cursor)] if cursor is not None else []
    # The texts dominate the size; the estimate only limits how much is read ahead.
    size_bytes = sum(
        len(text)
        for row in rows
        for text in (row.get("input"), row.get("output"), row.get("expectedOutput"))
        if isinstance(text, str)
    )
    return WindowRows(rows=rows, remaining=remaining, size_bytes=size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPage:
    """Rows in the overall order, and all windows that are unread after them.

    `loop_detected`: the server repeated rows or a cursor, and the rest of the window was skipped.
    """

    rows: Sequence[Mapping[str, Any]]
    late_scores: Sequence[Mapping[str, Any]]
    remaining: tuple[TimeWindow, ...]
    loop_detected: bool


@dataclass(slots=True, kw_only=True)
class WindowSizer:
    """Adapts the width of a window to the density of the rows; None reads all in one window.

    The aim is one full page per window: a wider window needs a chain of pages, which cannot be
    read concurrently, and a narrower one wastes requests.
    """

    width_ms: int | None

    def update(self, window_rows: WindowRows, limit: int) -> None:
        """Halve the width after an overfull window; widen it by half after a half-empty one."""
        if self.width_ms is None:
            return
        if window_rows.remaining:
            # Shrinks faster than it grows: an overfull window costs a chain of pages, a half-empty
            # one a single request.
            self.width_ms = max(self.width_ms // 2, 1)
        elif len(window_rows.rows) < limit // 2:
            self.width_ms += self.width_ms // 2 + 1


@dataclass(frozen=True, slots=True)
class _InFlight:
    """A window with the request that reads it."""

    window: TimeWindow
    response: "Future[WindowRows]"


@dataclass(slots=True)
class _LoopDetector:
    """Detects a server that returns rows or cursors again, so that paging would never end."""

    cursors: set[str] = field(default_factory=set)
    row_ids: frozenset[str] = frozenset()

    def is_loop(self, window: TimeWindow, window_rows: WindowRows) -> bool:
        """Return whether the response to a window repeats earlier rows or an earlier cursor."""
        if window.cursor is None:  # a new chain of pages starts
            self.cursors.clear()
        row_ids = frozenset(str(row.get("id")) for row in window_rows.rows)
        has_next = any(next_window.cursor is not None for next_window in window_rows.remaining)
        # A last page may legitimately repeat rows that were ingested twice: nothing is lost there,
        # so only a repeated page with a successor is a loop.
        repeats_rows = bool(row_ids) and row_ids <= self.row_ids
        loop = repeats_rows and window.cursor is not None and has_next
        self.row_ids = row_ids
        for next_window in window_rows.remaining:
            if next_window.cursor is not None and next_window.cursor != window.cursor:
                loop |= next_window.cursor in self.cursors
                self.cursors.add(next_window.cursor)
            elif (
                next_window.cursor is not None
                and next_window.limit == window.limit
                and window_rows.rows
            ):
                # The cursor that was sent came back with rows: the same request would be sent again.
                loop = True
        return loop


def iter_newest_first(
    windows: Sequence[TimeWindow],
    fetch: Callable[[TimeWindow], WindowRows],
    *,
    sizer: WindowSizer,
    concurrency: int,
) -> Iterator[RowPage]:
    """Yield the rows of `windows` in order, read by up to `concurrency` requests at once.

    `fetch` runs in other threads. The first request runs alone, because the size of its response
    decides how many responses fit into `MAX_BUFFERED_BYTES`.
    """
    waiting, in_flight, loop_detector = deque(windows), deque[_InFlight](), _LoopDetector()
    allowed = 1
    while waiting or in_flight:
        while waiting and len(in_flight) < allowed:
            newest, *older = waiting.popleft().cut_newest(sizer.width_ms or _UNLIMITED_MS)
            # To the front, because it is older than what was cut off and newer than what waits.
            waiting.extendleft(older)
            in_flight.append(_InFlight(newest, run_in_thread(partial(fetch, newest))))
        # The oldest request first, whether or not it is the first to be answered: this fixes the
        # order.
        request = in_flight.popleft()
        window_rows = request.response.result()
        sizer.update(window_rows, request.window.limit)
        # From the latest response: sizes change along a run.
        allowed = max(1, min(concurrency, MAX_BUFFERED_BYTES // (window_rows.size_bytes or 1)))
        loop_detected = loop_detector.is_loop(request.window, window_rows)
        remaining = () if loop_detected else window_rows.remaining
        if loop_detected:
            log.warning("Langfuse returned the same page twice; the rest of the page is skipped")
        # The next page of this window precedes everything in flight: it goes to the front, which
        # may exceed `allowed` by one and keeps the order.
        for window in reversed(remaining):
            in_flight.appendleft(_InFlight(window, run_in_thread(partial(fetch, window))))
        yield RowPage(
            rows=window_rows.rows,
            late_scores=window_rows.late_scores,
            # Windows in flight count as unread: their rows were not handed over yet.
            remaining=(*(request.window for request in in_flight), *waiting),
            loop_detected=loop_detected,
        )


def fetch_with_splitting(
    window: TimeWindow, fetch: Callable[[TimeWindow], WindowRows]
) -> WindowRows:
    """Fetch a window, or the newest of the smaller windows that the server can answer.

    Raises: the final error of the last rejection, when even one row is too much.
    """
    older: list[TimeWindow] = []
    while True:
        try:
            window_rows = fetch(window)
        except PageTooLarge as error:
            smaller = window.split()
            if not smaller:
                raise error.final_error from None
            window, *later = smaller
            older = [*later, *older]
        else:
            return replace(window_rows, remaining=(*window_rows.remaining, *older))
