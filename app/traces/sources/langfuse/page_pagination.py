"""Lists in numbered pages, of which the rows tell where the end is."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

from app.traces.sources.langfuse.background import run_in_order
from app.traces.sources.langfuse.client import LangfuseClient, Parameters, get_meta, get_rows
from app.traces.sources.langfuse.errors import BadResponse, PageTooLarge
from app.traces.sources.langfuse.payload import JSON, parse_number


class NumberedPage(NamedTuple):
    """Some rows, and how many pages there are by the word of the server."""

    rows: list[JSON]
    total_pages: int

    def is_last(self, number: int, limit: int) -> bool:
        """Whether no page follows this one, the `number`th, of at most `limit` rows.

        A server may count too few pages, too many or none: a full page is never the last.
        """
        return not self.rows or (len(self.rows) < limit and number >= self.total_pages)


def iter_pages(
    fetch: Callable[[int], NumberedPage], *, limit: int, concurrency: int = 1, rows_name: str
) -> Iterator[NumberedPage]:
    """The pages in their order, up to `ahead` of those that the first one counts at once.

    Raises: `BadResponse` when a page comes again, since nobody knows what would have followed.
    """
    page = fetch(1)
    counted = run_in_order(
        (partial(fetch, at) for at in range(2, page.total_pages + 1)), concurrency=concurrency
    )
    for number in count(1):
        yield page
        if page.is_last(number, limit):
            return
        before, page = page, next(counted, None) or fetch(number + 1)
        if page.rows and page.rows == before.rows:
            raise BadResponse(
                f"Langfuse gave the same page of {rows_name} twice; report it to the operator of the"
                " server, then retry"
            )


def fetch_page(
    client: LangfuseClient,
    path: str,
    parameters: Parameters,
    number: int,
    fields: Sequence[str] = (),
) -> NumberedPage:
    """A page; of its rows, which may be very many, only the `fields` that are needed."""
    document = client.get(path, {**parameters, "page": number})
    total = parse_number(get_meta(document).get("totalPages"))
    rows = get_rows(document, f"GET {path}")
    if fields:
        rows = [{field: row.get(field) for field in fields} for row in rows]
    return NumberedPage(rows, int(total or 1))


def fetch_page_in_parts(
    client: LangfuseClient,
    path: str,
    parameters: Parameters,
    number: int,
    fields: Sequence[str] = (),
) -> NumberedPage:
    """A page put together of smaller ones, as far as the server cannot give it at once."""
    try:
        return fetch_page(client, path, parameters, number, fields)
    except PageTooLarge:
        limit = int(parameters["limit"] or 1)
        parts = next((parts for parts in (2, 5) if limit % parts == 0), None)
        if parts is None:
            raise
    smaller, last = {**parameters, "limit": limit // parts}, number * parts
    rows = list[JSON]()
    for each in range(last - parts + 1, last + 1):
        part = fetch_page_in_parts(client, path, smaller, each, fields)
        rows += part.rows
        if part.is_last(each, limit // parts):
            break
    return NumberedPage(rows, math.ceil(part.total_pages / parts))
