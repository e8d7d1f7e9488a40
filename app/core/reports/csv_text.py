"""CSV text whose cells a spreadsheet never runs as a formula."""

import csv
import io
from collections.abc import Iterable
from typing import IO

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A header and rows; None is an empty cell."""
    return csv_lines([columns, *rows])


def csv_lines(rows: Iterable[Iterable[object]]) -> str:
    """Rows without a header."""
    text = io.StringIO()
    write_csv(text, rows)
    return text.getvalue()


def write_csv(file: IO[str], rows: Iterable[Iterable[object]]) -> None:
    """Write rows as they come."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows(map(escape_cell, row) for row in rows)


def escape_cell(cell: object) -> object:
    """The cell; an apostrophe precedes text that a spreadsheet would run as a formula."""
    is_formula = isinstance(cell, str) and cell.lstrip(" ").startswith(_FORMULA_STARTS)
    return f"'{cell}" if is_formula and cell != "-" else cell
