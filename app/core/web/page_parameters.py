"""The parameters of a list: `?limit=50&cursor=…` in the API, `?cursor=…` on a page."""

from typing import Annotated

from fastapi import Depends, Query

from app.core.keyset import DEFAULT_LIMIT, MAX_CURSOR, MAX_LIMIT, PageQuery


async def _page_query(
    limit: Annotated[
        int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of items.")
    ] = DEFAULT_LIMIT,
    cursor: Annotated[
        str | None,
        Query(max_length=MAX_CURSOR, description="`nextCursor` of the previous page."),
    ] = None,
) -> PageQuery:
    return PageQuery(limit, cursor)


PageParams = Annotated[PageQuery, Depends(_page_query)]


async def _list_query(cursor: Annotated[str, Query(max_length=MAX_CURSOR)] = "") -> PageQuery:
    return PageQuery(DEFAULT_LIMIT, cursor or None)


ListQuery = Annotated[PageQuery, Depends(_list_query)]
