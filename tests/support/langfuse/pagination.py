"""Pages of records, newest first, from sequences that are generated lazily."""

import base64
import binascii
import heapq
import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from tests.support.langfuse.errors import invalid_request
from tests.support.langfuse.records import JSON, Key


class Keyed(Protocol):
    @property
    def key(self) -> Key: ...


T = TypeVar("T", bound=Keyed)
Anything = TypeVar("Anything")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestFirst(Generic[T]):
    """Lazily generated records; `record` returns None for a missing one."""

    length: int
    key: Callable[[int], Key]
    record: Callable[[int], T | None]

    @classmethod
    def of(cls, records: Iterable[T]) -> "NewestFirst[T]":
        ordered = sorted(records, key=lambda record: record.key, reverse=True)
        return cls(length=len(ordered), key=lambda at: ordered[at].key, record=ordered.__getitem__)

    def first_before(self, bound: Key) -> int:
        # Binary search on the keys alone: an experiment of a million
        # items generates only the page read.
        return bisect_left(range(self.length), True, key=lambda at: self.key(at) < bound)

    def count(self, since: datetime | None, until: datetime | None) -> int:
        first = 0 if until is None else self.first_before(Key(until, ""))
        end = self.length if since is None else self.first_before(Key(since, ""))
        return max(end - first, 0)

    @staticmethod
    def bound(until: datetime | None) -> Key | None:
        return None if until is None else Key(until, "")

    def within(self, since: datetime | None, bound: Key | None) -> Iterator[T]:
        """The records before `bound` that start at `since` or later."""
        first = 0 if bound is None else self.first_before(bound)
        end = self.length if since is None else self.first_before(Key(since, ""))
        for at in range(first, end):
            record = self.record(at)
            if record is not None:
                yield record


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Anything]):
    rows: Sequence[Anything]
    has_more: bool


def newest_first(
    sequences: Iterable[NewestFirst[T]],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    after: Key | None = None,
) -> Iterator[T]:
    """All records from `since` to before `until` after the key `after`."""
    bounds = [bound for bound in (after, Key(until, "") if until else None) if bound is not None]
    bound = min(bounds) if bounds else None
    walks = [sequence.within(since, bound) for sequence in sequences]
    return heapq.merge(*walks, key=lambda record: record.key, reverse=True)


def take_page(records: Iterator[Anything], limit: int) -> Page[Anything]:
    # One more than the page tells whether a cursor is due, without counting the rest.
    rows = list(islice(records, limit + 1))
    return Page(rows=rows[:limit], has_more=len(rows) > limit)


def numbered_page(records: Sequence[Anything], page: int, limit: int) -> Sequence[Anything]:
    return records[(page - 1) * limit : page * limit]


def page_meta(page: int, limit: int, total: int) -> JSON:
    return {"page": page, "limit": limit, "totalItems": total, "totalPages": -(-total // limit)}


def encode_cursor(content: JSON) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def decode_cursor(text: str) -> JSON:
    """Raises `ErrorResponse` for a foreign cursor."""
    try:
        # Cursors travel without padding, as those of the server; `b64decode` needs it.
        padded = text + "=" * (-len(text) % 4)
        content: Any = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        content = None
    if not isinstance(content, dict):
        raise invalid_request("Invalid cursor format")
    return content
