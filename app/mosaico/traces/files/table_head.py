"""The rows of a table that people wrote in a spreadsheet: without titles above the header, and without blank rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

Cell = TypeVar("Cell")
# More rows with only their first cell filled are a column, and no titles.
_MAX_TITLES: Final = 10


def filled_rows(
    rows: Iterable[tuple[int, list[Cell]]], note: Callable[[str], None]
) -> Iterator[tuple[int, list[Cell]]]:
    """The rows of a table with their numbers, the header first. `note` is told how many titles stand above it.

    A blank row of several columns holds nothing that could be lost; in a table with one column it is an empty cell.
    """
    above: list[tuple[int, list[Cell]]] = []
    is_table = False
    for number, cells in rows:
        if len(cells) > 1 and not any(map(_is_filled, cells)):
            continue
        if not is_table and _is_title(cells) and len(above) < _MAX_TITLES:
            above.append((number, cells))
            continue
        if not is_table:
            if above and not _is_title(cells):
                note(f"titles above the header: {len(above)}")
            else:
                yield from above
            above, is_table = [], True
        yield number, cells
    yield from above


def _is_title(cells: Sequence[object]) -> bool:
    """Return whether only the first of several cells is filled."""
    return len(cells) > 1 and _is_filled(cells[0]) and not any(map(_is_filled, cells[1:]))


def _is_filled(cell: object) -> bool:
    return not isinstance(cell, str) or bool(cell.strip())
