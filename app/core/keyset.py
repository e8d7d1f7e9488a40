"""Keyset pagination: pages stay stable while rows are inserted and deleted.

Source: Markus Winand, "We need tool support for keyset pagination"; Postgres row comparison.
"""

import base64
import binascii
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import BigInteger, ColumnElement, Integer, Select, bindparam, literal, or_, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.sql.elements import KeyedColumnElement
from sqlalchemy.types import TypeEngine

from app.core.db import Database, compile_sql
from app.core.errors import ErrorItem, Invalid
from app.core.schemas import Page
from app.core.strict_json import MAX_INTEGER, MIN_INTEGER
from app.core.text import unstorable_reason

T = TypeVar("T")
V = TypeVar("V")
S = TypeVar("S", bound=Select[Any])

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MAX_CURSOR = 1024
# The end of a page that has found too little: its cursor goes on from there.
SEARCH_TIME_S = 2.0
# A batch that took longer is followed by one of half the rows, a shorter one by one of twice the rows: on
# a quiet machine no statement takes 50 ms, whatever the width of the rows and the price of the conditions.
_SLOW_BATCH_S, _FAST_BATCH_S = 0.025, 0.010

_CURSOR_PREFIX, _LIMIT_PARAMETER = "after_", "page_limit"

Key: TypeAlias = InstrumentedAttribute[Any] | KeyedColumnElement[Any]
CursorValue: TypeAlias = str | int | datetime


class BadCursor(Invalid):
    """The cursor does not belong to this list; start again without a cursor."""

    code = "bad-cursor"


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


def select_page(
    session: Session,
    statement: Select[T],
    *,
    keys: Sequence[Key],
    query: PageQuery,
    descending: bool = True,
    searched: Sequence[ColumnElement[bool]] = (),
    batch_sizes: BatchSizes | None = None,
    search_time_s: float | None = None,
) -> PageRows[T]:
    """Return one page of a `select(Entity)`, ordered by `keys`.

    `searched` are conditions that no index serves. They are tested on a batch of rows at a time (default:
    `SEARCHED_ROWS`); a page that has found too few rows after `search_time_s` (default: `SEARCH_TIME_S`) is
    shorter, and its cursor goes on from there.

    Reads:  keys that are never null and together unique; they should be indexed.
    Raises: `BadCursor` when the cursor does not fit the keys.
    """

    def read(part: Select[T], part_query: PageQuery) -> list[T]:
        return list(
            session.scalars(_order_and_limit(part, keys, part_query, descending=descending))
        )

    def find_last(cursor: str | None, row_count: int) -> Sequence[CursorValue] | None:
        batch = PageQuery(limit=0, cursor=cursor)
        bounds = _order_and_limit(
            statement.with_only_columns(*keys), keys, batch, descending=descending
        )
        return session.execute(bounds.offset(row_count - 1)).one_or_none()

    def key_values(row: T) -> list[CursorValue]:
        return [getattr(row, key.key) for key in keys]

    if not searched:
        return cut_page(read(statement, query), query, key_values)
    matching = statement.where(*searched)

    def read_until(last: Sequence[CursorValue] | None, part_query: PageQuery) -> list[T]:
        return read(matching.where(*match_until(keys, last, descending=descending)), part_query)

    return search_page(
        iter_batches(find_last, query.cursor, batch_sizes or SEARCHED_ROWS),
        read_until,
        key_values,
        query,
        search_time_s,
    )


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
    searched: Sequence[ColumnElement[bool]] = (),
) -> PageRows[T]:
    """One page in the order `sort`: a name of `sort_keys`, with "-" for the descending order.

    Reads:  sort keys and `searched` as the arguments of `select_page`.
    Raises: `BadCursor` when the cursor does not fit the keys.
    """
    keys = sort_keys[sort.removeprefix("-")]
    return select_page(
        session,
        statement,
        keys=keys,
        query=query,
        descending=sort.startswith("-"),
        searched=searched,
    )


def match_any(
    *filters: tuple[ColumnElement[Any] | Key, Sequence[str]],
) -> list[ColumnElement[bool]]:
    """The conditions of a list's filters: each column has one of its values; no values are any."""
    return [column.in_(values) for column, values in filters if values]


def match_period(
    column: Key, since: datetime | None, until: datetime | None
) -> list[ColumnElement[bool]]:
    """The conditions of a time at or after `since` and before `until`; None is no limit."""
    conditions = []
    if since is not None:
        conditions.append(column >= since)
    if until is not None:
        conditions.append(column < until)
    return conditions


def match_until(
    keys: Sequence[Key] | Sequence[ColumnElement[Any]],
    last: Sequence[CursorValue] | None,
    *,
    descending: bool,
) -> list[ColumnElement[bool]]:
    """The condition for the rows up to one with these values; None is no limit."""
    if last is None:
        return []
    row, last_row = tuple_(*keys), tuple_(*map(literal, last, (key.type for key in keys)))
    return [row >= last_row if descending else row <= last_row]


def match_text(
    text: str | None, *columns: ColumnElement[Any] | InstrumentedAttribute[Any]
) -> list[ColumnElement[bool]]:
    """The condition that a column contains a text, in any case; no text is any value."""
    if not text:
        return []
    return [or_(*(column.icontains(text, autoescape=True) for column in columns))]


def match_columns(*filters: tuple[Key, object]) -> list[ColumnElement[bool]]:
    """The conditions of a list's filters: each column equals its value; None is any value."""
    return [
        # A partial index on `IS false` serves this condition, and not `= false`.
        column.is_(value) if isinstance(value, bool) else column == value
        for column, value in filters
        if value is not None
    ]


def build_page_sql(
    statement: Select[Any], *, keys: Sequence[KeyedColumnElement[Any]], after_cursor: bool
) -> str:
    """The SQL of one page of a `select` of columns that include `keys`, for `query_page`.

    `after_cursor` is set for pages after the first. Cache the text: compiling it takes longer than
    the query.
    """
    if after_cursor:
        cursor_parameters = (
            bindparam(f"{_CURSOR_PREFIX}{key.key}", type_=key.type) for key in keys
        )
        statement = statement.where(tuple_(*keys) < tuple_(*cursor_parameters))
    limit = bindparam(_LIMIT_PARAMETER, type_=Integer)
    return compile_sql(statement.order_by(*(key.desc() for key in keys)).limit(limit))


def query_page(
    db: Database,
    sql: str,
    parameters: Mapping[str, object],
    *,
    keys: Sequence[KeyedColumnElement[Any]],
    query: PageQuery,
) -> PageRows[dict[str, Any]]:
    """Return one page of a list without the ORM; for the most frequent lists.

    Reads:  `sql` of `build_page_sql` with the same keys, after a cursor if the query has one.
    Raises: `BadCursor` when the cursor does not fit the keys.
    Cost:   half of the same query through a session.
    """
    cursor_values = _cursor_values(keys, query.cursor) if query.cursor is not None else []
    cursor_parameters = {
        f"{_CURSOR_PREFIX}{key.key}": value for key, value in zip(keys, cursor_values, strict=False)
    }
    # One row more than the page shows whether there is a next page, without counting.
    rows = db.fetch_rows(
        sql, {**parameters, **cursor_parameters, _LIMIT_PARAMETER: query.limit + 1}
    )
    return cut_page(rows, query, lambda row: [row[key.key] for key in keys])


def encode_cursor(values: Sequence[CursorValue]) -> str:
    """Encode the key values of a row as an opaque cursor, which points after that row."""
    document = json.dumps([_encode_value(value) for value in values], separators=(",", ":"))
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


def _order_and_limit(statement: S, keys: Sequence[Key], query: PageQuery, *, descending: bool) -> S:
    if query.cursor is not None:
        statement = statement.where(_after_cursor(keys, query.cursor, descending=descending))
    order = [key.desc() if descending else key.asc() for key in keys]
    return statement.order_by(*order).limit(query.limit + 1)


def cut_page(
    rows: list[T], query: PageQuery, values_of: Callable[[T], Sequence[CursorValue]]
) -> PageRows[T]:
    """The rows of a page, of which one more was read than it has if there is a next page."""
    if len(rows) <= query.limit:
        return PageRows(rows, None)
    page_rows = rows[: query.limit]
    return PageRows(page_rows, encode_cursor(values_of(page_rows[-1])))


def _after_cursor(keys: Sequence[Key], cursor: str, *, descending: bool) -> Any:
    values = _cursor_values(keys, cursor)
    row = tuple_(*keys)
    cursor_row = tuple_(
        *(literal(value, key.type) for key, value in zip(keys, values, strict=True))
    )
    # A row comparison, which one index serves; the same with OR would not use it.
    return row < cursor_row if descending else row > cursor_row


def _cursor_values(keys: Sequence[Key], cursor: str) -> list[CursorValue]:
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
