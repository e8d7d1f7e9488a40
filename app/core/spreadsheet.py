"""CSV text whose cells a spreadsheet never runs as a formula."""

import csv
import io
from collections.abc import Iterable

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A header and rows; None is an empty cell."""
    return csv_lines([columns, *rows])


def csv_lines(rows: Iterable[Iterable[object]]) -> str:
    """Rows without a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([escape_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def escape_cell(cell: object) -> object:
    """The cell; an apostrophe precedes text that a spreadsheet would run as a formula."""
    is_formula = isinstance(cell, str) and cell.lstrip(" ").startswith(_FORMULA_STARTS)
    return f"'{cell}" if is_formula and cell != "-" else cell
