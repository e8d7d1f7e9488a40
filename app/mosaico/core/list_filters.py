"""Filters of lists: their conditions, and the one that an index serves."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Select, or_
from sqlalchemy.orm import InstrumentedAttribute

S = TypeVar("S", bound=Select[Any])

Column: TypeAlias = ColumnElement[Any] | InstrumentedAttribute[Any]
ValueFilter: TypeAlias = tuple[Column, Sequence[Any]]
"""A column and the values of which rows have one; no values are any."""


class Period(NamedTuple):
    """A time at or after `since` and before `until`; None means no limit."""

    since: datetime | None = None
    until: datetime | None = None


NO_PERIOD: Final = Period()


class SplitFilters(NamedTuple):
    """The filters of a list: the values of `prefix` are those of an index, `conditions` are tested on its rows."""

    prefix: Sequence[tuple[Column, Any]]
    conditions: list[ColumnElement[bool]]


def split_filters(
    filters: Sequence[ValueFilter], indexes: Sequence[Sequence[Column]] | None = None
) -> SplitFilters:
    """Let the first of `indexes` whose columns have one value each select the rows; the other filters are conditions.

    `indexes` are the first columns of each index; by default, each column of a filter has an index of its own.
    """
    single = [(column, values[0]) for column, values in filters if len(values) == 1]
    for columns in indexes if indexes is not None else [[column] for column, _ in single]:
        prefix = [
            (column, value) for index in columns for column, value in single if column is index
        ]
        if len(prefix) == len(columns):
            indexed_columns = [column for column, _ in prefix]
            tested_filters = [
                item for item in filters if not any(item[0] is column for column in indexed_columns)
            ]
            return SplitFilters(prefix, match_any(*tested_filters))
    return SplitFilters([], match_any(*filters))


def match_any(*filters: ValueFilter) -> list[ColumnElement[bool]]:
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


def match_period(time: Column, period: Period) -> list[ColumnElement[bool]]:
    """The conditions that a time is in a period."""
    return [
        *([] if period.since is None else [time >= period.since]),
        *([] if period.until is None else [time < period.until]),
    ]


def filter_enabled(
    statement: S, enabled_column: Column, *, enabled: bool | None
) -> tuple[S, list[ColumnElement[bool]]]:
    """The rows that are enabled or disabled: a partial index has the disabled ones, the others are tested."""
    if enabled is None:
        return statement, []
    # The partial index on `IS false` serves this condition, and not `= false`.
    condition = enabled_column.is_(enabled)
    return (statement, [condition]) if enabled else (statement.where(condition), [])


def one_value(value: str | None) -> Sequence[str]:
    """The values of a filter by one value; None is any."""
    return [] if value is None else [value]
