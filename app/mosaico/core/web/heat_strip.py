"""Heat strips: a cell for each of the last nights of an agent on a benchmark; pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from mosaico.core.symbols import symbol_of
from mosaico.core.web.svg import escape

# Widths of a cell with the gap after it, and heights: of a table with one row for each pair, and of a grid.
WIDE: Final = (15, 13, 22)
NARROW: Final = (9, 8, 16)


class StripCell(NamedTuple):
    """A night: the class of its color, and a mark."""

    kind: str
    mark: str = ""


def heat_strip(cells: Sequence[StripCell], label: str, *, is_wide: bool) -> str:
    """A strip of nights, the newest on the right. Quiet cells are one rectangle each, without a mark."""
    step, width, height = WIDE if is_wide else NARROW
    parts = []
    for index, cell in enumerate(cells):
        x = index * step
        # A frame is drawn inside of its cell.
        inset = 0.5 if cell.kind in {"none", "same", "invalid"} else 0
        parts.append(
            f'<rect class="n-{cell.kind}" x="{x + inset:g}" y="{inset:g}" width="{width - 2 * inset:g}"'
            f' height="{height - 2 * inset:g}" rx="2"/>'
        )
        if cell.mark and is_wide:
            mark = escape(symbol_of(cell.mark))
            parts.append(
                f'<text class="n-mark" x="{x + width / 2:g}" y="{height / 2 + 4:g}">{mark}</text>'
            )
    total = len(cells) * step - (step - width)
    return (
        f'<svg class="heat" width="{total}" height="{height}" viewBox="0 0 {total} {height}" role="img">'
        f"<title>{escape(label)}</title>{''.join(parts)}</svg>"
    )
