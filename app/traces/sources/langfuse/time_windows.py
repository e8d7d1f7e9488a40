"""Reading rows that come newest first, several stretches of time at once, in one fixed order."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from app.traces.sources.langfuse.background import run_in_thread
from app.traces.sources.langfuse.errors import PageTooLarge

log = logging.getLogger(__name__)

# Where fewer rows at once help nothing any more, a shorter time may.
MIN_SPLIT_ROWS: Final = 10
MIN_SPLIT_MS: Final = 2_000
MAX_BUFFERED_BYTES: Final = 16 * 1024 * 1024
_EVER: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """Rows that started from `start` to before `end` (milliseconds) and come after `cursor`, at
    most `limit` at once.
    """

    start: int
    end: int
    limit: int
    cursor: str | None = None

    def split(self) -> "list[TimeWindow]":
        """The same rows in smaller requests, newest first; none when they cannot be smaller."""
        if self.limit > MIN_SPLIT_ROWS:
            return [replace(self, limit=self.limit // 2)]
        if self.end - self.start > MIN_SPLIT_MS:
            middle = (self.start + self.end) // 2
            return [replace(self, start=middle), replace(self, end=middle, cursor=None)]
        return [replace(self, limit=self.limit // 2)] if self.limit > 1 else []

    def cut_newest(self, width: int) -> "list[TimeWindow]":
        """The newest `width` milliseconds, and the rest."""
        if self.cursor is not None or self.end - self.start <= width:
            return [self]
        cut = self.end - width
        return [replace(self, start=cut), replace(self, end=cut)]

    def to_json(self) -> list[Any]:
        return [self.start, self.end, self.limit, self.cursor]

    @classmethod
    def from_json(cls, document: Sequence[Any]) -> "TimeWindow":
        start, end, limit, cursor = document
        return cls(start=int(start), end=int(end), limit=int(limit), cursor=cursor)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRows:
    """The rows of one request, and what is left to read of its part, newest first."""

    rows: Sequence[Mapping[str, Any]]
    remaining: Sequence[TimeWindow]
    late_scores: Sequence[Mapping[str, Any]] = ()
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPage:
    """Rows in the order of the whole, and all parts that are not read yet.

    `circled`: the server sent the same rows or cursor again, and its part was left there.
    """

    rows: Sequence[Mapping[str, Any]]
    late_scores: Sequence[Mapping[str, Any]]
    remaining: tuple[TimeWindow, ...]
    loop_detected: bool


@dataclass(slots=True, kw_only=True)
class WindowSizer:
    """How many milliseconds one request asks for; None asks for all at once.

    It follows the density of the rows, so that most stretches are one request.
    """

    width_ms: int | None

    def update(self, window_rows: WindowRows, limit: int) -> None:
        if self.width_ms is None:
            return
        if window_rows.remaining:
            self.width_ms = max(self.width_ms // 2, 1)
        elif len(window_rows.rows) < limit // 2:
            self.width_ms += self.width_ms // 2 + 1


@dataclass(frozen=True, slots=True)
class _InFlight:
    window: TimeWindow
    response: "Future[WindowRows]"


@dataclass(slots=True)
class _LoopDetector:
    """Notices a server that gives again what it gave."""

    cursors: set[str] = field(default_factory=set)
    ids: frozenset[str] = frozenset()

    def is_loop(self, part: TimeWindow, fetched: WindowRows) -> bool:
        if part.cursor is None:  # another chain of pages begins
            self.cursors.clear()
        ids = frozenset(str(row.get("id")) for row in fetched.rows)
        # Rows that were ingested twice may fill a last page, too; nothing is lost there.
        goes_on = any(rest.cursor is not None for rest in fetched.remaining)
        again = bool(ids) and ids <= self.ids and part.cursor is not None and goes_on
        self.ids = ids
        for rest in fetched.remaining:
            if rest.cursor is not None and rest.cursor != part.cursor:
                again |= rest.cursor in self.cursors
                self.cursors.add(rest.cursor)
            elif rest.cursor is not None and rest.limit == part.limit and fetched.rows:
                again = True
        return again


def iter_newest_first(
    windows: Sequence[TimeWindow],
    fetch: Callable[[TimeWindow], WindowRows],
    *,
    sizer: WindowSizer,
    concurrency: int,
) -> Iterator[RowPage]:
    """The rows of `parts` in their order, read by up to `ahead` requests at once.

    `fetch` runs in other threads. The order depends on the rows alone, not on their speed. The
    first request is made alone; how large its page is tells how many are made ahead, and so on.
    """
    waiting, flights, circle = deque(windows), deque[_InFlight](), _LoopDetector()
    allowed = 1
    while waiting or flights:
        while waiting and len(flights) < allowed:
            first, *older = waiting.popleft().cut_newest(sizer.width_ms or _EVER)
            waiting.extendleft(older)
            flights.append(_InFlight(first, run_in_thread(partial(fetch, first))))
        flight = flights.popleft()
        fetched = flight.response.result()
        sizer.update(fetched, flight.window.limit)
        allowed = max(1, min(concurrency, MAX_BUFFERED_BYTES // (fetched.size_bytes or 1)))
        circled = circle.is_loop(flight.window, fetched)
        rest = () if circled else fetched.remaining
        if circled:
            log.warning("Langfuse gave the same page twice; the rest of it is not asked for")
        for part in reversed(rest):
            flights.appendleft(_InFlight(part, run_in_thread(partial(fetch, part))))
        yield RowPage(
            rows=fetched.rows,
            late_scores=fetched.late_scores,
            remaining=(*(flight.window for flight in flights), *waiting),
            loop_detected=circled,
        )


def fetch_with_splitting(
    window: TimeWindow, fetch: Callable[[TimeWindow], WindowRows]
) -> WindowRows:
    """What `ask` brings for a part, or for the newest of smaller ones that the server takes.

    Raises: what the server's last refusal means, when even one row is too much.
    """
    older: list[TimeWindow] = []
    while True:
        try:
            fetched = fetch(window)
        except PageTooLarge as refusal:
            smaller = window.split()
            if not smaller:
                raise refusal.final_error from None
            window, *later = smaller
            older = [*later, *older]
        else:
            return replace(fetched, remaining=(*fetched.remaining, *older))
