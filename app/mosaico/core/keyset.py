"""Keyset pagination: pages stay stable while rows are inserted and deleted.

Source: Markus Winand, "We need tool support for keyset pagination"; Postgres row comparison.
"""

import base64
import binascii
import json
import operator
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Label,
    Row,
    Select,
    and_,
    literal,
    select,
    true,
    tuple_,
)
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.types import TypeEngine

from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.list_filters import NO_PERIOD, Period, ValueFilter, match_period, split_filters
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
# A statement of a search reads so many rows, however few of them match.
BATCH_ROWS = 20_000
# The end of a page that has found too little: its cursor goes on from there.
SEARCH_TIME_S = 2.0

Key: TypeAlias = InstrumentedAttribute[Any] | ColumnElement[Any]
CursorValue: TypeAlias = str | int | datetime
Compare: TypeAlias = Callable[[Any, Any], ColumnElement[bool]]


class BadCursor(Invalid):
    """The cursor does not belong to this list; start again without a cursor."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The requested page: at most `limit` items, from `cursor` on; from the first without one."""

    limit: int = DEFAULT_LIMIT
    cursor: str | None = None


class PageRows(NamedTuple, Generic[T]):
    """The rows of one page and the cursor of the next page; None on the last page."""

    rows: list[T]
    next_cursor: str | None

    def with_rows(self, rows: list[V]) -> "PageRows[V]":
        """The same page with other rows in place of these."""
        return PageRows(rows, self.next_cursor)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRows:
    """The rows of a list in the order of `keys`, which are never null; the last one is unique.

    An index should begin with the columns of `prefix`, each with its value, and go on with `keys`. `period` limits
    the first key. `conditions` are tested on batches of `batch_rows` (default: `BATCH_ROWS`).
    """

    statement: Select[Any]
    keys: Sequence[Key]
    descending: bool = True
    prefix: Sequence[tuple[Key, Any]] = ()
    period: Period = NO_PERIOD
    conditions: Sequence[ColumnElement[bool]] = ()
    batch_rows: int | None = None

    def read_page(
        self, session: Session, query: PageQuery, search_time_s: float | None = None
    ) -> PageRows[Row[Any]]:
        """One page of the rows of `statement`; with conditions it may be shorter, see `search`.

        Raises: `BadCursor` when the cursor does not fit the keys.
        """
        if self.conditions:
            page = self.search(session, query, search_time_s)
            unique_keys = [keys[-1] for keys in page.rows]
            matching = self.statement.where(self.keys[-1].in_(unique_keys)).order_by(*self._order())
            return page.with_rows(list(session.execute(matching)) if unique_keys else [])
        keys = self._labeled_keys()
        rows = self._select_after(self.statement.add_columns(*keys), self._decode(query.cursor))
        page_rows = list(session.execute(rows.limit(query.limit + 1)))
        return cut_page(page_rows, query, lambda row: row[-len(keys) :])

    def search(
        self, session: Session, query: PageQuery, search_time_s: float | None = None
    ) -> PageRows[Sequence[CursorValue]]:
        """The keys of the rows of a page that match the conditions, read a batch at a time.

        A page that has found too few rows after `search_time_s` (default: `SEARCH_TIME_S`) is shorter, or empty, and
        its cursor goes on from there.
        """
        matches: list[Sequence[CursorValue]] = []
        after: Sequence[CursorValue] | None = self._decode(query.cursor)
        ends_at = time.monotonic() + (SEARCH_TIME_S if search_time_s is None else search_time_s)
        while True:
            matches += self._find_matches(session, after, query.limit + 1 - len(matches))
            if len(matches) > query.limit:
                break
            after = self._find_batch_end(session, after)
            if after is None:
                break
            if len(matches) == query.limit or time.monotonic() > ends_at:
                return PageRows(matches, encode_cursor(after))
        return cut_page(matches, query, lambda keys: keys)

    @property
    def _batch_size(self) -> int:
        return self.batch_rows or BATCH_ROWS

    def _find_matches(
        self, session: Session, after: Sequence[CursorValue] | None, limit: int
    ) -> Sequence[Row[Any]]:
        """The keys of the first matching rows of the batch after a row."""
        keys = self._labeled_keys()
        is_match = and_(true(), *self.conditions).label("is_match")
        rows = self.statement.with_only_columns(*keys, is_match, maintain_column_froms=True)
        # The conditions are outside of the limit: the planner knows too little of them, and might read the whole
        # table for the few rows that it expects.
        batch = self._select_after(rows, after).limit(self._batch_size).subquery("batch")
        columns = [batch.c[key.name] for key in keys]
        matching = select(*columns).where(batch.c.is_match).limit(limit)
        return session.execute(matching.order_by(*map(self._direct, columns))).all()

    def _find_batch_end(
        self, session: Session, after: Sequence[CursorValue] | None
    ) -> Sequence[CursorValue] | None:
        """The keys of the last row of the batch after a row; None where fewer rows follow."""
        keys = self.statement.with_only_columns(*self._labeled_keys(), maintain_column_froms=True)
        ends = self._select_after(keys, after).offset(self._batch_size - 1).limit(1)
        return session.execute(ends).one_or_none()

    def _select_after(self, statement: S, after: Sequence[CursorValue] | None) -> S:
        """The rows of a statement after the one with the keys `after`, in order.

        The prefix is part of the order and of both limits: with `column = value` the planner may read another
        index in the order of `keys` instead, past all newer rows of other values.
        """
        columns = [*(column for column, _ in self.prefix), *self.keys]
        values = [value for _, value in self.prefix]
        since, until = self.period
        lower = _limit(operator.ge, columns, values if since is None else [*values, since])
        upper = (
            _limit(operator.le, columns, values)
            if until is None
            else _limit(operator.lt, columns, [*values, until])
        )
        if after is not None and self.descending:
            upper = self._limit_after(operator.lt, operator.le, columns, [*values, *after])
        elif after is not None:
            lower = self._limit_after(operator.gt, operator.ge, columns, [*values, *after])
        return statement.where(*lower, *upper).order_by(*self._order())

    def _limit_after(
        self, compare: Compare, compare_some: Compare, columns: Sequence[Key], values: Sequence[Any]
    ) -> list[ColumnElement[bool]]:
        # The second limit says less, but of two joined tables an index serves only the keys of the first one.
        return [
            *_limit(compare, columns, values),
            *_limit(compare_some, columns, values[:-1]),
        ]

    def _order(self) -> list[ColumnElement[Any]]:
        return [
            self._direct(column) for column in (*(column for column, _ in self.prefix), *self.keys)
        ]

    def _direct(self, column: Key) -> ColumnElement[Any]:
        return column.desc() if self.descending else column.asc()

    def _labeled_keys(self) -> list[Label[Any]]:
        return [key.label(f"key_{number}") for number, key in enumerate(self.keys)]

    def _decode(self, cursor: str | None) -> list[CursorValue] | None:
        return None if cursor is None else read_cursor(self.keys, cursor)


def _limit(
    compare: Compare, columns: Sequence[Key], values: Sequence[Any]
) -> list[ColumnElement[bool]]:
    """A limit of the row of the first columns, which one index serves; the same with OR would not use it."""
    limited = columns[: len(values)]
    typed = [literal(value, column.type) for column, value in zip(limited, values, strict=True)]
    if len(typed) <= 1:
        return [compare(*pair) for pair in zip(limited, typed, strict=True)]
    return [compare(tuple_(*limited), tuple_(*typed))]


def select_page(
    session: Session,
    statement: Select[T],
    *,
    keys: Sequence[Key],
    query: PageQuery,
    descending: bool = True,
    filters: Sequence[ValueFilter] = (),
    period: Period = NO_PERIOD,
    conditions: Sequence[ColumnElement[bool]] = (),
) -> PageRows[T]:
    """Return one page of a `select(Entity)`, ordered by `keys`.

    An index begins with the column of each of `filters` and goes on with `keys`; `period` limits the first key.
    `conditions` are tested on the rows, see `ListRows`.
    Raises: `BadCursor` when the cursor does not fit the keys.
    """
    prefix, tested = split_filters(filters)
    rows = ListRows(
        statement=statement,
        keys=keys,
        descending=descending,
        prefix=prefix,
        period=period,
        conditions=[*tested, *conditions],
    )
    return read_entities(session, rows, query)


def read_entities(session: Session, rows: ListRows, query: PageQuery) -> PageRows[Any]:
    """One page of the first column of the rows."""
    page = rows.read_page(session, query)
    return page.with_rows([row[0] for row in page.rows])


def sort_rows(
    statement: Select[Any],
    sort_keys: Mapping[str, Sequence[Key]],
    sort: str,
    filters: Sequence[ValueFilter],
    *,
    indexes: Sequence[Sequence[Key]] | None = None,
    period: Period = NO_PERIOD,
    conditions: Sequence[ColumnElement[bool]] = (),
) -> ListRows:
    """The rows of a list in the order `sort`: a name of `sort_keys`, with "-" for the descending order.

    The first order of `sort_keys` is that of the indexes of `filters` (see `split_filters`), and its first key is
    the time of `period`.
    """
    default = next(iter(sort_keys.values()))
    keys = sort_keys[sort.removeprefix("-")]
    # All rows have the same value: the indexes have their order.
    if any(keys[0] is column for column, values in filters if len(values) == 1):
        keys = default
    is_default = keys is default
    prefix, tested = split_filters(filters, indexes if is_default else ())
    if not is_default:
        tested += match_period(default[0], period)
    return ListRows(
        statement=statement,
        keys=keys,
        descending=sort.startswith("-"),
        prefix=prefix,
        period=period if is_default else NO_PERIOD,
        conditions=[*tested, *conditions],
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


def cut_page(
    rows: list[T], query: PageQuery, values_of: Callable[[T], Sequence[CursorValue]]
) -> PageRows[T]:
    """The rows of a page, of which one more was read than it has if there is a next page."""
    if len(rows) <= query.limit:
        return PageRows(rows, None)
    page_rows = rows[: query.limit]
    return PageRows(page_rows, encode_cursor(values_of(page_rows[-1])))


def read_cursor(keys: Sequence[Key], cursor: str) -> list[CursorValue]:
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
