"""Pages of the most frequent lists: their SQL is compiled once, and the ORM is not used."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Integer, Select, bindparam, tuple_
from sqlalchemy.sql.elements import KeyedColumnElement

from mosaico.core.db import Database, compile_sql
from mosaico.core.keyset import PageQuery, PageRows, cut_page, read_cursor

_CURSOR_PREFIX, _LIMIT_PARAMETER = "after_", "page_limit"


def build_page_sql(
    statement: Select[Any],
    *,
    keys: Sequence[KeyedColumnElement[Any]],
    after_cursor: bool,
    prefix: Sequence[KeyedColumnElement[Any]] = (),
) -> str:
    """The SQL of one page of a `select` of columns that include `keys`, for `query_page`.

    `after_cursor` is set for pages after the first. The columns of `prefix` equal the parameters of their names;
    see `PagePlan.select_range`. Cache the text: compiling it takes longer than the query.
    """
    columns = [*prefix, *keys]
    parameters = [bindparam(column.key, type_=column.type) for column in prefix]
    if after_cursor:
        after = (bindparam(f"{_CURSOR_PREFIX}{key.key}", type_=key.type) for key in keys)
        statement = statement.where(tuple_(*columns) < tuple_(*parameters, *after))
    elif prefix:
        statement = statement.where(tuple_(*prefix) <= tuple_(*parameters))
    if prefix:
        statement = statement.where(tuple_(*prefix) >= tuple_(*parameters))
    limit = bindparam(_LIMIT_PARAMETER, type_=Integer)
    return compile_sql(statement.order_by(*(column.desc() for column in columns)).limit(limit))


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
    cursor_values = read_cursor(keys, query.cursor) if query.cursor is not None else []
    cursor_parameters = {
        f"{_CURSOR_PREFIX}{key.key}": value for key, value in zip(keys, cursor_values, strict=False)
    }
    # One row more than the page shows whether there is a next page, without counting.
    rows = db.fetch_rows(
        sql, {**parameters, **cursor_parameters, _LIMIT_PARAMETER: query.limit + 1}
    )
    return cut_page(rows, query, lambda row: [row[key.key] for key in keys])
