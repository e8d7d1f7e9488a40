"""Reading rows that come newest first, several stretches of time at once, in one fixed order."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from app.traces.sources.langfuse.background import launch
from app.traces.sources.langfuse.errors import AskForLess

log = logging.getLogger(__name__)

# Where fewer rows at once help nothing any more, a shorter time may.
FEW_ROWS: Final = 10
SHORTEST_MS: Final = 2_000
BUFFER_BYTES: Final = 16 * 1024 * 1024
_EVER: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows that started from `start` to before `end` (milliseconds) and come after `cursor`, at
    most `limit` at once.
    """

    start: int
    end: int
    limit: int
    cursor: str | None = None

    def smaller(self) -> "list[Part]":
        """The same rows in smaller requests, newest first; none when they cannot be smaller."""
        if self.limit > FEW_ROWS:
            return [replace(self, limit=self.limit // 2)]
        if self.end - self.start > SHORTEST_MS:
            middle = (self.start + self.end) // 2
            return [replace(self, start=middle), replace(self, end=middle, cursor=None)]
        return [replace(self, limit=self.limit // 2)] if self.limit > 1 else []

    def newest(self, width: int) -> "list[Part]":
        """The newest `width` milliseconds, and the rest."""
        if self.cursor is not None or self.end - self.start <= width:
            return [self]
        cut = self.end - width
        return [replace(self, start=cut), replace(self, end=cut)]

    def document(self) -> list[Any]:
        return [self.start, self.end, self.limit, self.cursor]

    @classmethod
    def read(cls, document: Sequence[Any]) -> "Part":
        start, end, limit, cursor = document
        return cls(start=int(start), end=int(end), limit=int(limit), cursor=cursor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The rows of one request, and what is left to read of its part, newest first."""

    rows: Sequence[Mapping[str, Any]]
    rest: Sequence[Part]
    late_scores: Sequence[Mapping[str, Any]] = ()
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPage:
    """Rows in the order of the whole, and all parts that are not read yet.

    `circled`: the server sent the same rows or cursor again, and its part was left there.
    """

    rows: Sequence[Mapping[str, Any]]
    late_scores: Sequence[Mapping[str, Any]]
    rest: tuple[Part, ...]
    circled: bool


@dataclass(slots=True, kw_only=True)
class Pace:
    """How many milliseconds one request asks for; None asks for all at once.

    It follows the density of the rows, so that most stretches are one request.
    """

    width: int | None

    def learn(self, fetched: Fetched, limit: int) -> None:
        if self.width is None:
            return
        if fetched.rest:
            self.width = max(self.width // 2, 1)
        elif len(fetched.rows) < limit // 2:
            self.width += self.width // 2 + 1


@dataclass(frozen=True, slots=True)
class _Flight:
    part: Part
    answer: "Future[Fetched]"


@dataclass(slots=True)
class _Circle:
    """Notices a server that gives again what it gave."""

    cursors: set[str] = field(default_factory=set)
    ids: frozenset[str] = frozenset()

    def closes(self, part: Part, fetched: Fetched) -> bool:
        if part.cursor is None:  # another chain of pages begins
            self.cursors.clear()
        ids = frozenset(str(row.get("id")) for row in fetched.rows)
        # Rows that were ingested twice may fill a last page, too; nothing is lost there.
        goes_on = any(rest.cursor is not None for rest in fetched.rest)
        again = bool(ids) and ids <= self.ids and part.cursor is not None and goes_on
        self.ids = ids
        for rest in fetched.rest:
            if rest.cursor is not None and rest.cursor != part.cursor:
                again |= rest.cursor in self.cursors
                self.cursors.add(rest.cursor)
            elif rest.cursor is not None and rest.limit == part.limit and fetched.rows:
                again = True
        return again


def newest_first(
    parts: Sequence[Part], fetch: Callable[[Part], Fetched], *, pace: Pace, ahead: int
) -> Iterator[RowPage]:
    """The rows of `parts` in their order, read by up to `ahead` requests at once.

    `fetch` runs in other threads. The order depends on the rows alone, not on their speed. The
    first request is made alone; how large its page is tells how many are made ahead, and so on.
    """
    waiting, flights, circle = deque(parts), deque[_Flight](), _Circle()
    allowed = 1
    while waiting or flights:
        while waiting and len(flights) < allowed:
            first, *older = waiting.popleft().newest(pace.width or _EVER)
            waiting.extendleft(older)
            flights.append(_Flight(first, launch(partial(fetch, first))))
        flight = flights.popleft()
        fetched = flight.answer.result()
        pace.learn(fetched, flight.part.limit)
        allowed = max(1, min(ahead, BUFFER_BYTES // (fetched.size_bytes or 1)))
        circled = circle.closes(flight.part, fetched)
        rest = () if circled else fetched.rest
        if circled:
            log.warning("Langfuse gave the same page twice; the rest of it is not asked for")
        for part in reversed(rest):
            flights.appendleft(_Flight(part, launch(partial(fetch, part))))
        yield RowPage(
            rows=fetched.rows,
            late_scores=fetched.late_scores,
            rest=(*(flight.part for flight in flights), *waiting),
            circled=circled,
        )


def in_smaller_parts(part: Part, ask: Callable[[Part], Fetched]) -> Fetched:
    """What `ask` brings for a part, or for the newest of smaller ones that the server takes.

    Raises: what the server's last refusal means, when even one row is too much.
    """
    older: list[Part] = []
    while True:
        try:
            fetched = ask(part)
        except AskForLess as refusal:
            smaller = part.smaller()
            if not smaller:
                raise refusal.instead from None
            part, *later = smaller
            older = [*later, *older]
        else:
            return replace(fetched, rest=(*fetched.rest, *older))
