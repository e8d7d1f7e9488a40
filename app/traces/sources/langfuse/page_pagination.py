"""Lists in numbered pages, of which the rows tell where the end is."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

from app.traces.sources.langfuse.background import in_order
from app.traces.sources.langfuse.client import Client, Parameters, meta_of, rows_of
from app.traces.sources.langfuse.errors import AskForLess, BadResponse
from app.traces.sources.langfuse.payload import JSON, number_of


class Page(NamedTuple):
    """Some rows, and how many pages there are by the word of the server."""

    rows: list[JSON]
    total_pages: int

    def is_last(self, number: int, limit: int) -> bool:
        """Whether no page follows this one, the `number`th, of at most `limit` rows.

        A server may count too few pages, too many or none: a full page is never the last.
        """
        return not self.rows or (len(self.rows) < limit and number >= self.total_pages)


def each_page(
    read: Callable[[int], Page], *, limit: int, ahead: int = 1, what: str
) -> Iterator[Page]:
    """The pages in their order, up to `ahead` of those that the first one counts at once.

    Raises: `BadResponse` when a page comes again, since nobody knows what would have followed.
    """
    page = read(1)
    counted = in_order((partial(read, at) for at in range(2, page.total_pages + 1)), ahead=ahead)
    for number in count(1):
        yield page
        if page.is_last(number, limit):
            return
        before, page = page, next(counted, None) or read(number + 1)
        if page.rows and page.rows == before.rows:
            raise BadResponse(
                f"Langfuse gave the same page of {what} twice; report it to the operator of the"
                " server, then retry"
            )


def read_page(
    client: Client, path: str, asked: Parameters, number: int, fields: Sequence[str] = ()
) -> Page:
    """A page; of its rows, which may be very many, only the `fields` that are needed."""
    document = client.get(path, {**asked, "page": number})
    total = number_of(meta_of(document).get("totalPages"))
    rows = rows_of(document, f"GET {path}")
    if fields:
        rows = [{field: row.get(field) for field in fields} for row in rows]
    return Page(rows, int(total or 1))


def read_page_in_parts(
    client: Client, path: str, asked: Parameters, number: int, fields: Sequence[str] = ()
) -> Page:
    """A page put together of smaller ones, as far as the server cannot give it at once."""
    try:
        return read_page(client, path, asked, number, fields)
    except AskForLess:
        limit = int(asked["limit"] or 1)
        parts = next((parts for parts in (2, 5) if limit % parts == 0), None)
        if parts is None:
            raise
    smaller, last = {**asked, "limit": limit // parts}, number * parts
    rows = list[JSON]()
    for each in range(last - parts + 1, last + 1):
        part = read_page_in_parts(client, path, smaller, each, fields)
        rows += part.rows
        if part.is_last(each, limit // parts):
            break
    return Page(rows, math.ceil(part.total_pages / parts))
