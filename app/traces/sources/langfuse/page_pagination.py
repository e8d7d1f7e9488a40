"""Pagination by page number (API v3 and datasets). The rows decide where a list ends."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

from app.traces.sources.langfuse.client import LangfuseClient, Parameters, get_meta, get_rows
from app.traces.sources.langfuse.errors import BadResponse, PageTooLarge
from app.traces.sources.langfuse.json_fields import JSON, parse_number
from app.traces.sources.langfuse.threads import run_in_order


class NumberedPage(NamedTuple):
    """The rows of one page, and the number of pages that the server reports."""

    rows: list[JSON]
    total_pages: int

    def is_last(self, number: int, limit: int) -> bool:
        """Whether this page, number `number` with at most `limit` rows, is the last one.

        Servers report too few pages, too many or none, so a full page is never the last.
        """
        return not self.rows or (len(self.rows) < limit and number >= self.total_pages)


def iter_pages(
    fetch: Callable[[int], NumberedPage], *, limit: int, concurrency: int = 1, rows_name: str
) -> Iterator[NumberedPage]:
    """Yield the pages in order; up to `concurrency` of the reported pages are fetched at once.

    Raises: `BadResponse` when a page repeats, since the rows after it are unknown.
    """
    page = fetch(1)
    reported_pages = (partial(fetch, number) for number in range(2, page.total_pages + 1))
    prefetched = run_in_order(reported_pages, concurrency=concurrency)
    for number in count(1):
        yield page
        if page.is_last(number, limit):
            return
        # Beyond the reported number of pages the list is read on, one page at a time.
        previous, page = page, next(prefetched, None) or fetch(number + 1)
        if page.rows and page.rows == previous.rows:
            raise BadResponse(
                f"Langfuse returned the same page of {rows_name} twice; report it to the operator"
                " of the server, then retry"
            )


def fetch_page(
    client: LangfuseClient,
    path: str,
    parameters: Parameters,
    number: int,
    fields: Sequence[str] = (),
) -> NumberedPage:
    """Fetch one page; with `fields` only these fields of each row are kept, to save memory."""
    document = client.get(path, {**parameters, "page": number})
    total_pages = parse_number(get_meta(document).get("totalPages"))
    rows = get_rows(document, f"GET {path}")
    if fields:
        rows = [{field: row.get(field) for field in fields} for row in rows]
    return NumberedPage(rows, int(total_pages or 1))


def fetch_page_in_parts(
    client: LangfuseClient,
    path: str,
    parameters: Parameters,
    number: int,
    fields: Sequence[str] = (),
) -> NumberedPage:
    """Fetch one page; when it is too large for the server, as several smaller pages.

    Raises: `PageTooLarge` when a page of one row is too large.
    """
    try:
        return fetch_page(client, path, parameters, number, fields)
    except PageTooLarge:
        limit = int(parameters["limit"] or 1)
        # Only a divisor of the limit works: page N must cover whole smaller pages.
        part_count = next((divisor for divisor in (2, 5) if limit % divisor == 0), None)
        if part_count is None:
            raise
    smaller_pages, last_number = {**parameters, "limit": limit // part_count}, number * part_count
    rows = list[JSON]()
    for part_number in range(last_number - part_count + 1, last_number + 1):
        part = fetch_page_in_parts(client, path, smaller_pages, part_number, fields)
        rows += part.rows
        if part.is_last(part_number, limit // part_count):
            break
    return NumberedPage(rows, math.ceil(part.total_pages / part_count))
