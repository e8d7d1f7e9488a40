"""Markdown; foreign text is escaped."""

import re
from collections.abc import Iterable, Sequence

from app.core.text import show_direction_controls

_MARKUP = re.compile(r"[\\`*_\[\]<>|#~@&]")


def markdown_text(text: str) -> str:
    """A text as one line without markup, safe anywhere in Markdown, also in a table cell."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(show_direction_controls(text).split()))


def markdown_table(titles: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """The lines of a table whose cells are Markdown already."""
    return [_row(titles), f"|{'---|' * len(titles)}", *map(_row, rows)]


def folded_lines(summary: str, lines: Sequence[str]) -> list[str]:
    """Lines that a reader unfolds; nothing without any."""
    if not lines:
        return []
    return ["", f"<details><summary>{summary}</summary>", "", *lines, "", "</details>"]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
