"""Filters of lists: their conditions, and how a list with several of them is read in bounded statements.

Many rows may meet each of two filters, and few of them both. In one statement with both, PostgreSQL reads
all rows of one filter to find these few. So one filter selects the rows that are read, and the others are
tested on them, a batch at a time.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Select, and_, func, literal, or_, select, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session

Column: TypeAlias = ColumnElement[Any] | InstrumentedAttribute[Any]
S = TypeVar("S", bound=Select[Any])

# All rows of a filter that selects fewer are read by one statement.
FEW_ROWS = 1_000


class Period(NamedTuple):
    """A time at or after `since` and before `until`; None means no limit."""

    time: Column
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedFilter:
    """A filter of a list whose rows an index has in the order of `order`.

    The index begins with `columns`, which have one of the `alternatives`: a value for each column, None for
    NULL. A `period` limits the first column of `order`. `partial` is the condition of a partial index.
    """

    order: Sequence[Column]
    columns: Sequence[Column] = ()
    alternatives: Sequence[Sequence[Any]] = ((),)
    period: Period | None = None
    partial: ColumnElement[bool] | None = None

    @property
    def condition(self) -> ColumnElement[bool]:
        """The filter as one condition."""
        if self.partial is not None:
            return self.partial
        if self.period is not None:
            return and_(*_limit_time(self.period))
        return or_(*map(self._match, self.alternatives))

    def _match(self, values: Sequence[Any]) -> ColumnElement[bool]:
        pairs = zip(self.columns, values, strict=True)
        return and_(*(column == value for column, value in pairs))

    def is_sorted_by(self, keys: Sequence[Column]) -> bool:
        """Return whether the index has the rows in the order of `keys`."""
        if len(self.alternatives) > 1:
            return False
        return _is_same([key for key in keys if not _contains(self.columns, key)], self.order)


class PagePlan(NamedTuple):
    """How a page of a list is read.

    `selecting` are conditions for the planner, `tested` those that no index serves. An index has the rows
    that begin with the values of `prefix`, of `period`, in the order of the list; `is_few` rows are sorted instead.
    With `is_exact` every row that is read is on the page.
    """

    selecting: Sequence[ColumnElement[bool]] = ()
    tested: Sequence[ColumnElement[bool]] = ()
    prefix: Sequence[tuple[Column, Any]] = ()
    period: Period | None = None
    is_few: bool = False
    is_exact: bool = False

    def select_range(
        self,
        statement: S,
        keys: Sequence[Column],
        after: Sequence[Any] | None,
        last: Sequence[Any] | None = None,
        *,
        descending: bool,
    ) -> S:
        """The rows of a statement after the keys `after`, up to those of `last`, in the order of `keys`.

        The prefix is part of the order and of both limits. With `column = value` the planner may read another
        index in the order of `keys` instead, past all newer rows of other values.
        """
        columns = [column for column, _ in self.prefix]
        varying = [key for key in keys if not _contains(columns, key)]
        limits = [
            self._limit(keys, after, is_upper=descending, is_included=False),
            self._limit(keys, last, is_upper=not descending, is_included=True),
        ]
        statement = statement.where(*(limit for limit in limits if limit is not None))
        # A partial index of rows that have a value is usable with this condition only.
        has_value = [column.is_not(None) for column, value in self.prefix if value is not None]
        statement = statement.where(*has_value)
        order = [*columns, *varying]
        return statement.order_by(*(key.desc() if descending else key.asc() for key in order))

    def _limit(
        self,
        keys: Sequence[Column],
        key_values: Sequence[Any] | None,
        *,
        is_upper: bool,
        is_included: bool,
    ) -> ColumnElement[bool] | None:
        """One limit of the range: the keys of a row, else a time, else the prefix; None without any."""
        columns, values = [column for column, _ in self.prefix], [value for _, value in self.prefix]
        if key_values is not None:
            varying = [
                (key, value)
                for key, value in zip(keys, key_values, strict=True)
                if not _contains(columns, key)
            ]
            columns += [key for key, _ in varying]
            values += [value for _, value in varying]
        elif self.period and (time := self.period.until if is_upper else self.period.since):
            columns, values = [*columns, self.period.time], [*values, time]
            is_included = not is_upper
        else:
            is_included = True
        if not columns:
            return None
        return _compare(columns, values, is_upper=is_upper, is_included=is_included)


def filter_any(
    column: Column, values: Sequence[str], order: Sequence[Column] = ()
) -> list[IndexedFilter]:
    """The filter of rows with any of some values, for an index on `column` and `order`; no values are any."""
    if not values:
        return []
    return [
        IndexedFilter(columns=[column], alternatives=[(value,) for value in values], order=order)
    ]


def filter_value(
    column: Column, value: str | None, order: Sequence[Column] = ()
) -> list[IndexedFilter]:
    """`filter_any` of one value; None is any."""
    return filter_any(column, [] if value is None else [value], order)


def filter_disabled(
    enabled_column: Column, order: Sequence[Column], *, enabled: bool | None
) -> list[IndexedFilter]:
    """The filter of disabled rows, for a partial index of them in the order of `order`; no filter else."""
    if enabled is not False:
        return []
    # The partial index on `IS false` serves this condition, and not `= false`.
    return [IndexedFilter(partial=enabled_column.is_(False), order=order)]


def filter_period(
    since: datetime | None, until: datetime | None, order: Sequence[Column]
) -> list[IndexedFilter]:
    """The filter of a time at or after `since` and before `until`; None means no limit. The time is the first
    column of `order`.
    """
    if since is None and until is None:
        return []
    return [IndexedFilter(period=Period(order[0], since, until), order=order)]


def intersect_filters(
    filters: Sequence[IndexedFilter], order: Sequence[Column]
) -> list[IndexedFilter]:
    """The filter of the rows of all filters, for an index on their columns in this order and `order`; none
    unless each filter has one value.
    """
    if any(len(intersected.alternatives) != 1 for intersected in filters):
        return []
    columns = [column for intersected in filters for column in intersected.columns]
    values = [value for intersected in filters for value in intersected.alternatives[0]]
    return [IndexedFilter(columns=columns, alternatives=[values], order=order)]


def match_any(
    *filters: tuple[Column, Sequence[str]],
) -> list[ColumnElement[bool]]:
    """The conditions of a list's filters: each column has one of its values; no values are any."""
    return [column.in_(values) for column, values in filters if values]


def match_text(text: str | None, *columns: Column) -> list[ColumnElement[bool]]:
    """The condition that a column contains a text, in any case; no text is any value."""
    if not text:
        return []
    return [or_(*(column.icontains(text, autoescape=True) for column in columns))]


def match_columns(*filters: tuple[Column, str | None]) -> list[ColumnElement[bool]]:
    """The conditions of a list's filters: each column equals its value; None is any value."""
    return [column == value for column, value in filters if value is not None]


def plan_page(
    session: Session,
    keys: Sequence[Column],
    filters: Sequence[IndexedFilter],
    searched: Sequence[ColumnElement[bool]],
) -> PagePlan:
    """Decide which of `filters` selects the rows of a list in the order of `keys`: one with few rows, else the
    first that has this order.

    `searched` are conditions that no index serves.
    Reads:  at most `FEW_ROWS` entries of an index for each value of a filter.
    """
    ordered_filters = _select_in_order(keys, filters)
    rare_filter = _find_few(session, filters) if len(ordered_filters) < len(filters) else None
    if rare_filter is not None:
        tested_conditions = [other.condition for other in filters if other is not rare_filter]
        return PagePlan(
            [rare_filter.condition],
            [*_prevent_index_use(tested_conditions), *searched],
            is_few=True,
        )
    tested_conditions = [
        other.condition
        for other in filters
        if not any(other is ordered for ordered in ordered_filters)
    ]
    return PagePlan(
        selecting=[ordered.partial for ordered in ordered_filters if ordered.partial is not None],
        tested=[*_prevent_index_use(tested_conditions), *searched],
        prefix=[
            pair
            for ordered in ordered_filters
            for pair in zip(ordered.columns, ordered.alternatives[0], strict=True)
        ],
        period=next(
            (ordered.period for ordered in ordered_filters if ordered.period is not None), None
        ),
        is_exact=len(ordered_filters) == len(filters) and not searched,
    )


def _select_in_order(
    keys: Sequence[Column], filters: Sequence[IndexedFilter]
) -> list[IndexedFilter]:
    """The first filter in the order of `keys`, with the period that limits its index."""
    in_order = [ordered for ordered in filters if ordered.is_sorted_by(keys)]
    first = next((ordered for ordered in in_order if ordered.period is None), None)
    if first is None:
        return in_order[:1]
    periods = [ordered for ordered in filters if ordered.period is not None]
    return [first, *(period for period in periods if _is_same(period.order, first.order))]


def _find_few(session: Session, filters: Sequence[IndexedFilter]) -> IndexedFilter | None:
    """The filter that selects the fewest rows, if these are less than `FEW_ROWS`."""
    counts = session.execute(select(*(_count_rows(counted) for counted in filters))).one()
    smallest = min(range(len(filters)), key=lambda position: counts[position])
    return filters[smallest] if counts[smallest] < FEW_ROWS else None


def _count_rows(counted: IndexedFilter) -> ColumnElement[int]:
    """The number of rows of a filter; of an alternative at most `FEW_ROWS` are counted."""
    total: ColumnElement[int] = literal(0)
    for values in counted.alternatives:
        plan = PagePlan(prefix=[*zip(counted.columns, values, strict=True)])
        partial = [] if counted.partial is None else [counted.partial]
        # A column that names its table, which the SQL text of an expression does not.
        rows = select([*counted.order, *counted.columns][0]).where(*partial)
        if counted.period is not None:
            rows = rows.where(counted.condition)
        rows = plan.select_range(rows, counted.order, None, descending=False).limit(FEW_ROWS)
        total += select(func.count()).select_from(rows.subquery()).scalar_subquery()
    return total


def _prevent_index_use(conditions: Sequence[ColumnElement[bool]]) -> list[ColumnElement[bool]]:
    """The same conditions, hidden from the planner, which would else read their index: none serves IS TRUE."""
    return [condition.is_(True) for condition in conditions]


def _limit_time(period: Period) -> list[ColumnElement[bool]]:
    return [
        *([] if period.since is None else [period.time >= period.since]),
        *([] if period.until is None else [period.time < period.until]),
    ]


def _compare(
    columns: Sequence[Column], values: Sequence[Any], *, is_upper: bool, is_included: bool
) -> ColumnElement[bool]:
    """A limit of a row of columns, which one index serves; the same with OR would not use it."""
    if values == [None]:
        return columns[0].is_(None)
    typed = [literal(value, column.type) for column, value in zip(columns, values, strict=True)]
    row: Any = tuple_(*columns) if len(columns) > 1 else columns[0]
    limit: Any = tuple_(*typed) if len(columns) > 1 else typed[0]
    compare = (
        (operator.le if is_included else operator.lt)
        if is_upper
        else (operator.ge if is_included else operator.gt)
    )
    condition: ColumnElement[bool] = compare(row, limit)
    return condition


def _contains(columns: Sequence[Column], column: Column) -> bool:
    return any(column is other for other in columns)


def _is_same(columns: Sequence[Column], other_columns: Sequence[Column]) -> bool:
    return len(columns) == len(other_columns) and all(
        column is other for column, other in zip(columns, other_columns, strict=True)
    )
