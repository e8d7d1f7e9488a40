"""Keyset pagination: pages stay stable while rows are inserted and deleted.

Source: Markus Winand, "We need tool support for keyset pagination"; Postgres row comparison.
"""

import base64
import binascii
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import BigInteger, ColumnElement, Integer, Select, func, literal, select, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.sql.elements import KeyedColumnElement
from sqlalchemy.types import TypeEngine

from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.list_filters import IndexedFilter, PagePlan, plan_page
from mosaico.core.row_counts import count_rows
from mosaico.core.schemas import Page
from mosaico.core.strict_json import MAX_INTEGER, MIN_INTEGER
from mosaico.core.text import unstorable_reason

T = TypeVar("T")
V = TypeVar("V")
S = TypeVar("S", bound=Select[Any])

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
# Of a name of 200 characters, each of four bytes, and two IDs.
MAX_CURSOR = 2048
# The end of a page that has found too little: its cursor goes on from there.
SEARCH_TIME_S = 2.0
# A batch that took longer is followed by one of half the rows, a shorter one by one of twice the rows: on
# a quiet machine no statement takes 50 ms, whatever the width of the rows and the price of the conditions.
_SLOW_BATCH_S, _FAST_BATCH_S = 0.025, 0.010

Key: TypeAlias = InstrumentedAttribute[Any] | KeyedColumnElement[Any]
CursorValue: TypeAlias = str | int | datetime


class BadCursor(Invalid):
    """The cursor does not belong to this list; start again without a cursor."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The requested page: at most `limit` items, from `cursor` on; from the first without one."""

    limit: int = DEFAULT_LIMIT
    cursor: str | None = None


class BatchSizes(NamedTuple):
    """The fewest and the most rows that a statement of a search reads, however few of them match."""

    smallest: int
    largest: int

    def following(self, rows: int, seconds: float) -> int:
        """The rows of the batch after one of `rows` that took `seconds`."""
        if seconds > _SLOW_BATCH_S:
            return max(self.smallest, rows // 2)
        return min(self.largest, rows * 2) if seconds < _FAST_BATCH_S else rows


SEARCHED_ROWS = BatchSizes(1_000, 20_000)
# Of the rows of a filter, each of which is looked up by its key.
PREFIX_ROWS = BatchSizes(1_000, 2_000)


class Batch(NamedTuple):
    """The rows after a cursor, up to one with the keys `last`; None for the rest of the list."""

    cursor: str | None
    last: Sequence[CursorValue] | None


FindLast: TypeAlias = Callable[[str | None, int], Sequence[CursorValue] | None]
"""The keys of the n-th row after a cursor; None when fewer rows follow."""


class PageRows(NamedTuple, Generic[T]):
    """The rows of one page and the cursor of the next page; None on the last page."""

    rows: list[T]
    next_cursor: str | None

    def to_page(self, to_view: Callable[[T], V]) -> Page[V]:
        """The page as a response body, each row as a view."""
        return Page(items=[to_view(row) for row in self.rows], next_cursor=self.next_cursor)


class WholeList(NamedTuple):
    """The page of a list that another page shows cut, and the number of its rows as a text."""

    url: str
    total: str


def find_whole_list(
    session: Session, page: PageRows[Any], url: str, column: Key, value: str
) -> WholeList | None:
    """The list at `url`, whose rows have a value in a column; None where `page` has all of them."""
    if page.next_cursor is None:
        return None
    return WholeList(url, count_rows(session, select(column).where(column == value)))


def select_page(
    session: Session,
    statement: Select[T],
    *,
    keys: Sequence[Key],
    query: PageQuery,
    descending: bool = True,
    filters: Sequence[IndexedFilter] = (),
    searched: Sequence[ColumnElement[bool]] = (),
    batch_sizes: BatchSizes | None = None,
    search_time_s: float | None = None,
) -> PageRows[T]:
    """Return one page of a `select(Entity)`, ordered by `keys`.

    `searched` are conditions that no index serves, `filters` those that an index serves alone (see `plan_page`).
    Conditions are tested on a batch of rows at a time (default: `SEARCHED_ROWS`); a page that has found too few
    rows after `search_time_s` (default: `SEARCH_TIME_S`) is shorter, and its cursor goes on from there.

    Reads:  keys that are never null and together unique; they should be indexed.
    Raises: `BadCursor` when the cursor does not fit the keys.
    """
    plan = plan_page(session, keys, filters, searched)
    batches = ListBatches(
        session=session, plan=plan, statement=statement, keys=keys, descending=descending
    )

    def read_until(last: Sequence[CursorValue] | None, part: PageQuery) -> list[T]:
        rows = batches.select_rows(statement, part.cursor, last)
        return list(session.scalars(rows.limit(part.limit + 1)))

    def key_values(row: T) -> list[CursorValue]:
        return [getattr(row, key.key) for key in keys]

    return batches.read_page(read_until, key_values, query, search_time_s, batch_sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBatches:
    """The rows of a list as its plan reads them; `keys` end with a unique one.

    `statement` selects the rows of the list without its filters.
    """

    session: Session
    plan: PagePlan
    statement: Select[Any]
    keys: Sequence[Key] | Sequence[ColumnElement[Any]]
    descending: bool
    # Selects the unique keys of the batch that was found last.
    _ids: list[Select[Any]] = field(default_factory=list)

    @property
    def sizes(self) -> BatchSizes:
        return PREFIX_ROWS if self.plan.prefix else SEARCHED_ROWS

    def read_page(
        self,
        read_until: Callable[[Sequence[CursorValue] | None, PageQuery], list[T]],
        key_values: Callable[[T], Sequence[CursorValue]],
        query: PageQuery,
        search_time_s: float | None = None,
        sizes: BatchSizes | None = None,
    ) -> PageRows[T]:
        """One page, in one statement if few rows are read for it, else by `search_page`."""
        if self.plan.is_few or self.plan.is_exact:
            return cut_page(read_until(None, query), query, key_values)
        batches = iter_batches(self.find_last, query.cursor, sizes or self.sizes)
        return search_page(batches, read_until, key_values, query, search_time_s)

    def find_last(self, cursor: str | None, row_count: int) -> Sequence[CursorValue] | None:
        """The end of a batch, see `FindLast`."""
        row_keys = self.plan.select_range(
            self.statement.where(*self.plan.selecting).with_only_columns(*self.keys),
            self.keys,
            self._decode(cursor),
            descending=self.descending,
        )
        self._ids[:] = [row_keys.with_only_columns(self.keys[-1]).limit(row_count)]
        return self.session.execute(row_keys.offset(row_count - 1).limit(1)).one_or_none()

    def select_rows(self, rows: S, cursor: str | None, last: Sequence[CursorValue] | None) -> S:
        """The matching rows after a cursor, up to the end `last` of the batch, in order."""
        plan, after = self.plan, self._decode(cursor)
        matching = rows.where(*plan.selecting, *plan.tested)
        if plan.is_few:
            return order_few(matching, self.keys, after, descending=self.descending)
        if plan.prefix and not plan.is_exact:
            # By their unique keys, in the snapshot of `find_last`. A range does not do: the planner knows nothing of
            # the values of two columns together, and would read all rows of the prefix instead.
            [ids] = self._ids
            in_batch = self.keys[-1] == func.any(func.array(ids.correlate(None).scalar_subquery()))
            return order_few(
                rows.where(in_batch, *plan.tested), self.keys, None, descending=self.descending
            )
        return plan.select_range(matching, self.keys, after, last, descending=self.descending)

    def _decode(self, cursor: str | None) -> list[CursorValue] | None:
        return None if cursor is None else read_cursor(self.keys, cursor)


def iter_batches(find_last: FindLast, cursor: str | None, sizes: BatchSizes) -> Iterator[Batch]:
    """The batches of a search from a cursor on, in order; their sizes follow the time that the caller takes
    for each of them.
    """
    row_count = sizes.smallest
    while True:
        started = time.perf_counter()
        last = find_last(cursor, row_count)
        yield Batch(cursor, last)
        if last is None:
            return
        row_count = sizes.following(row_count, time.perf_counter() - started)
        cursor = encode_cursor(last)


def search_page(
    batches: Iterable[Batch],
    read_until: Callable[[Sequence[CursorValue] | None, PageQuery], list[T]],
    key_values: Callable[[T], Sequence[CursorValue]],
    query: PageQuery,
    search_time_s: float | None = None,
) -> PageRows[T]:
    """Return one page of a search that reads a bounded number of rows per statement.

    `read_until` gives the matching rows of a page up to the last row of a batch, and one more if there is one.
    """
    rows: list[T] = []
    ends_at = time.monotonic() + (SEARCH_TIME_S if search_time_s is None else search_time_s)
    for batch in batches:
        rows += read_until(batch.last, PageQuery(query.limit - len(rows), batch.cursor))
        if batch.last is None or len(rows) > query.limit:
            break
        if len(rows) == query.limit or time.monotonic() > ends_at:
            return PageRows(rows, encode_cursor(batch.last))
    return cut_page(rows, query, key_values)


def select_sorted_page(
    session: Session,
    statement: Select[T],
    sort_keys: Mapping[str, Sequence[Key]],
    sort: str,
    query: PageQuery,
    filters: Sequence[IndexedFilter] = (),
    searched: Sequence[ColumnElement[bool]] = (),
) -> PageRows[T]:
    """One page in the order `sort`: a name of `sort_keys`, with "-" for the descending order.

    Reads:  sort keys, `filters` and `searched` as the arguments of `select_page`.
    Raises: `BadCursor` when the cursor does not fit the keys.
    """
    keys = sort_keys[sort.removeprefix("-")]
    return select_page(
        session,
        statement,
        keys=keys,
        query=query,
        descending=sort.startswith("-"),
        filters=filters,
        searched=searched,
    )


def iter_pages(
    read_page: Callable[[PageQuery], PageRows[T]], max_rows: int, page_rows: int = MAX_LIMIT
) -> Iterator[Sequence[T]]:
    """The rows of a list, page by page, at most `max_rows` of them."""
    cursor: str | None = None
    # A page may have fewer rows than requested, or none, before the last one.
    while max_rows > 0:
        page = read_page(PageQuery(min(page_rows, max_rows), cursor))
        yield page.rows
        max_rows -= len(page.rows)
        cursor = page.next_cursor
        if cursor is None:
            return


def match_until(
    keys: Sequence[Key] | Sequence[ColumnElement[Any]],
    last: Sequence[CursorValue] | None,
) -> list[ColumnElement[bool]]:
    """The condition for the rows up to one with these values, in ascending order; None means no limit."""
    if last is None:
        return []
    row, last_row = tuple_(*keys), tuple_(*map(literal, last, (key.type for key in keys)))
    return [row <= last_row]


def encode_cursor(values: Sequence[CursorValue]) -> str:
    """Encode the key values of a row as an opaque cursor, which points after that row."""
    document = json.dumps(
        [_encode_value(value) for value in values], separators=(",", ":"), ensure_ascii=False
    )
    return base64.urlsafe_b64encode(document.encode()).rstrip(b"=").decode()


def decode_cursor(text: str) -> list[CursorValue]:
    """The key values of a cursor; raises `BadCursor` for any other text."""
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        document = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        return [_decode_value(*item) for item in document]
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise _bad_cursor() from None


def _encode_value(value: CursorValue) -> list[str | int]:
    if isinstance(value, datetime):
        return ["t", value.isoformat()]
    return ["i", value] if isinstance(value, int) else ["s", value]


def _decode_value(tag: str, value: Any) -> CursorValue:
    if tag == "i" and type(value) is int and MIN_INTEGER <= value <= MAX_INTEGER:
        return value
    if tag == "s" and isinstance(value, str) and unstorable_reason(value) is None:
        return value
    if tag == "t":
        instant = datetime.fromisoformat(value)
        # PostgreSQL would read a time without zone in the zone of the session.
        if instant.tzinfo is not None:
            return instant
    raise ValueError(tag)


def order_few(
    statement: S,
    keys: Sequence[Key] | Sequence[ColumnElement[Any]],
    after: Sequence[CursorValue] | None,
    *,
    descending: bool,
) -> S:
    """The few rows that a statement selects, those after the keys `after`, in the order of `keys`.

    No index has the order of a row value, or serves IS TRUE: the planner sorts the few rows, instead of reading
    the table in the order of the keys until it has found them.
    """
    row = tuple_(*keys)
    if after is not None:
        after_row = tuple_(*map(literal, after, (key.type for key in keys)))
        is_after = row < after_row if descending else row > after_row
        statement = statement.where(is_after.is_(True))
    return statement.order_by(row.desc() if descending else row.asc())


def cut_page(
    rows: list[T], query: PageQuery, values_of: Callable[[T], Sequence[CursorValue]]
) -> PageRows[T]:
    """The rows of a page, of which one more was read than it has if there is a next page."""
    if len(rows) <= query.limit:
        return PageRows(rows, None)
    page_rows = rows[: query.limit]
    return PageRows(page_rows, encode_cursor(values_of(page_rows[-1])))


def read_cursor(
    keys: Sequence[Key] | Sequence[ColumnElement[Any]], cursor: str
) -> list[CursorValue]:
    """The values of `keys` in a cursor; raises `BadCursor` for one of another list."""
    values = decode_cursor(cursor)
    # A cursor is input of a user: one of another list, or an invented one, must not become a
    # database error.
    fits = len(values) == len(keys) and all(
        _fits(value, key.type) for key, value in zip(keys, values, strict=False)
    )
    if not fits:
        raise _bad_cursor()
    return values


def _fits(value: CursorValue, column: TypeEngine[Any]) -> bool:
    if isinstance(value, int) and isinstance(column, Integer):
        # A larger number would be an error of the database, which casts it to the column's type.
        limit = 1 << (63 if isinstance(column, BigInteger) else 31)
        return -limit <= value < limit
    python_type: type = column.python_type
    return isinstance(value, python_type)


def _bad_cursor() -> BadCursor:
    return BadCursor(
        errors=[ErrorItem(pointer="cursor", detail="is not a cursor of this list; omit it")]
    )
