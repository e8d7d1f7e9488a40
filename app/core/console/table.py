"""Answers as tables: framed for a person, tab-separated and whole for a pipe."""

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from app.core.console.terminal import (
    OutputFormat,
    is_interactive,
    print_json,
    print_result,
    print_status,
    printable,
)

JSON = dict[str, Any]


class Column(NamedTuple):
    """A column of a table: its title and how it is read from an item."""

    title: str
    read: Callable[[JSON], object]


class Table(NamedTuple):
    """Cells as text, row by row."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]


def field(name: str, title: str | None = None) -> Column:
    """The column of one field as it is."""
    return Column(title or name, lambda item: item[name])


def time_field(name: str, title: str) -> Column:
    """The column of an instant: `3 h ago` on a terminal, ISO 8601 in a pipe."""
    return Column(title, lambda item: format_time(item[name]))


def tabulate(items: Sequence[JSON], columns: Sequence[Column]) -> Table:
    titles = [column.title for column in columns]
    return Table(titles, [[format_cell(column.read(item)) for column in columns] for item in items])


def print_page(page: JSON, columns: Sequence[Column], output: OutputFormat) -> None:
    """Print a list as the API answers it: `{items, nextCursor}`."""
    if output is OutputFormat.JSON:
        print_json(page)
        return
    print_table(tabulate(page["items"], columns))
    if page.get("nextCursor"):
        print_status(f"the first {len(page['items'])} are shown; --limit shows more")


def print_details(details: Mapping[str, object]) -> None:
    """Print one thing, a line for each of its fields."""
    lines = [[name, format_cell(value)] for name, value in details.items()]
    if not is_interactive(sys.stdout):
        _print_separated(lines)
        return
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        print_result(f"{name:<{width}}  {value}")


def print_table(table: Table) -> None:
    if is_interactive(sys.stdout):
        _print_framed(table)
    else:
        _print_separated([table.titles, *table.rows])


def format_cell(value: object) -> str:
    """A value as people write it; what is missing is an empty cell, never a zero."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(format_cell, value))
    return printable(str(value))


def format_time(instant: str | None) -> str:
    """An instant of the API for whoever reads the answer."""
    if instant is None:
        return ""
    if not is_interactive(sys.stdout):
        return instant
    return format_age(datetime.now(UTC) - datetime.fromisoformat(instant))


def format_age(age: timedelta) -> str:
    """An age in its largest unit; the future of a clock that is ahead is `now`."""
    seconds = age.total_seconds()
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return "now"


def bytes_text(count: int) -> str:
    """A size with its unit: `1.5 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:  # noqa: PLR2004 - the step between units
            return f"{size:.3g} {unit}" if unit != "B" else f"{count} B"
        size /= 1024
    return f"{size:.3g} GiB"


def _print_separated(lines: Sequence[Sequence[str]]) -> None:
    for line in lines:
        print_result("\t".join(line))


def _print_framed(table: Table) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as Frame
    from rich.text import Text

    frame = Frame(box=box.SIMPLE_HEAD, header_style="", pad_edge=False)
    for title in table.titles:
        frame.add_column(Text(title), overflow="fold")
    for row in table.rows:
        frame.add_row(*map(Text, row))
    Console(color_system=None, highlight=False).print(frame)
