"""Lists of the API as CSV files: the route of a table is beside that of its list."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from sqlalchemy.orm import Session

from mosaico.core.db import Database
from mosaico.core.keyset import PageQuery, PageRows, iter_pages
from mosaico.core.reports import csv_lines

CSV: Final = "text/csv"
CSV_RESPONSE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {CSV: {"schema": {"type": "string"}}}}
}
MAX_ROWS: Final = 10_000
# Of one statement. More than of a list: without documents a row takes microseconds, and a page milliseconds.
PAGE_ROWS: Final = 1_000

Line = Sequence[object]
V = TypeVar("V", bound=BaseModel)


def csv_file(lines: Iterator[str], name: str) -> StreamingResponse:
    """A table as a file to save."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines, media_type=CSV, headers=headers)


def iter_table(
    db: Database, columns: Sequence[str], read_page: Callable[[Session, PageQuery], PageRows[Line]]
) -> Iterator[str]:
    """The header and the lines of a list, at most `MAX_ROWS`.

    Each page is a separate read, so a slow client holds no transaction open.
    """

    def read(query: PageQuery) -> PageRows[Line]:
        with db.read() as session:
            return read_page(session, query)

    yield csv_lines([columns])
    yield from map(csv_lines, iter_pages(read, MAX_ROWS, PAGE_ROWS))


def iter_views(
    db: Database,
    view: type[V],
    read_page: Callable[[Session, PageQuery], PageRows[V]],
    *,
    without: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """The header and the views of a list, as `iter_table`: the columns are the fields, except `without`."""
    fields = {
        name: field.serialization_alias or name
        for name, field in view.model_fields.items()
        if name not in without
    }

    def read_lines(session: Session, query: PageQuery) -> PageRows[Line]:
        page = read_page(session, query)
        # With the words of enumerations.
        rows = (row.model_dump(mode="json", by_alias=False) for row in page.rows)
        return page.with_rows([[row[name] for name in fields] for row in rows])

    return iter_table(db, list(fields.values()), read_lines)
