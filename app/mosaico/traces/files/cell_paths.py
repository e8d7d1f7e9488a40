"""The cells of a row by the name of their column, or by a path to what is inside of one; pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mosaico.traces.files.cell_values import parse_structure

MAX_LISTED: Final = 12


def list_columns(names: Sequence[str]) -> str:
    """The first names, and how many more there are: a table can have a thousand columns."""
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def nested_columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns of rows; a column that holds objects by its members, as `--map` names them."""
    names = (
        f"{column}.{member}" if member else column
        for row in rows
        for column, cell in row.items()
        for member in (cell if isinstance(cell, Mapping) and cell else ("",))
    )
    return list(dict.fromkeys(names))


def has_cell(row: Mapping[str, Any], column: str) -> bool:
    """Return whether a row has a column. A path also names what is inside of a cell that is an object, a list or
    their JSON text: `a.b`, `response.choices[0].message.content`, any JMESPath expression after the column.
    """
    return column in row or _search(row, column) is not None


def cell_of(row: Mapping[str, Any], column: str) -> Any:
    """The cell of a column as in `has_cell`; None when the row has none."""
    return row[column] if column in row else _search(row, column)


def _search(row: Mapping[str, Any], path: str) -> Any:
    """What a path selects: the longest column that begins it, then an expression in its cell."""
    for end in reversed([match.start() for match in re.finditer(r"[.\[]", path)]):
        head, tail = path[:end], path[end:].removeprefix(".")
        if head not in row:
            continue
        cell = parse_structure(row[head])
        if not isinstance(cell, Mapping | list):
            return None
        if isinstance(cell, Mapping) and tail in cell:
            return cell[tail]
        # Only here: most tables name no path.
        import jmespath
        from jmespath.exceptions import JMESPathError

        try:
            return jmespath.search(tail, cell)
        except (JMESPathError, ArithmeticError):
            return None
    return None
