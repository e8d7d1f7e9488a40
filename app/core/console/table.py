"""Results as tables: framed on a terminal, tab-separated and never truncated in a pipe."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from app.core.console.terminal import (
    OutputFormat,
    escape_line,
    is_interactive,
    print_json,
    print_result,
    print_status,
)

JSON = dict[str, Any]

TIME_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
BYTES_PER_UNIT = 1024


class Column(NamedTuple):
    """A column of a table: its title, and how to read its value from an item."""

    title: str
    read: Callable[[JSON], object]


class Table(NamedTuple):
    """Titles and rows of formatted cells."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]


def field(name: str, title: str | None = None) -> Column:
    """The column of one field of the items."""
    return Column(title or name, lambda item: item[name])


def time_field(name: str, title: str) -> Column:
    """The column of a time: `3 h ago` on a terminal, ISO 8601 in a pipe."""
    return Column(title, lambda item: format_time(item[name]))


def tabulate(items: Sequence[JSON], columns: Sequence[Column]) -> Table:
    """The items as a table, one row per item."""
    titles = [column.title for column in columns]
    return Table(titles, [[format_cell(column.read(item)) for column in columns] for item in items])


def print_page(page: JSON, columns: Sequence[Column], output: OutputFormat) -> None:
    """Print a list response of the API: `{items, nextCursor}`."""
    if output is OutputFormat.JSON:
        print_json(page)
        return
    print_table(tabulate(page["items"], columns))
    if page.get("nextCursor"):
        print_status(f"only the first {len(page['items'])} are shown; raise --limit to see more")


def print_details(details: Mapping[str, object]) -> None:
    """Print one resource, one line per field."""
    lines = [[name, format_cell(value)] for name, value in details.items()]
    if not is_interactive(sys.stdout):
        _print_tab_separated(lines)
        return
    width = max(len(name) for name, _ in lines)
    for name, cell in lines:
        print_result(f"{name:<{width}}  {cell}")


def print_table(table: Table) -> None:
    """Print a table in the form that suits standard output."""
    if is_interactive(sys.stdout):
        _print_framed(table)
    else:
        _print_tab_separated([table.titles, *table.rows])


def format_cell(value: object) -> str:
    """A value for people; a missing value is an empty cell, never a zero."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        # Six digits: enough to tell runs apart; --json has all of them.
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(format_cell, value))
    if isinstance(value, dict):
        return escape_line(json.dumps(value, ensure_ascii=False))
    return escape_line(str(value))


def format_time(instant: str | None) -> str:
    """A time of the API: its distance from now on a terminal, unchanged in a pipe."""
    if instant is None:
        return ""
    if not is_interactive(sys.stdout):
        return instant
    return format_age(datetime.now(UTC) - datetime.fromisoformat(instant))


def format_age(age: timedelta) -> str:
    """An age in its largest unit, such as `3 h ago`; a time in the future is `in 3 h`.

    Times up to a minute ahead are `now`: the clocks of two machines may differ that much.
    """
    seconds = age.total_seconds()
    if seconds < -60:  # noqa: PLR2004 - a minute
        return f"in {_format_duration(-seconds)}"
    return f"{_format_duration(seconds)} ago" if seconds >= 1 else "now"


def format_bytes(count: int) -> str:
    """A size with its unit: `1.5 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < BYTES_PER_UNIT:
            return f"{size:.3g} {unit}" if unit != "B" else f"{count} B"
        size /= BYTES_PER_UNIT
    return f"{size:.3g} GiB"


def _format_duration(seconds: float) -> str:
    unit, length = next(entry for entry in TIME_UNITS if seconds >= entry[1])
    return f"{int(seconds // length)} {unit}"


def _print_tab_separated(lines: Sequence[Sequence[str]]) -> None:
    for line in lines:
        print_result("\t".join(line))


def _print_framed(table: Table) -> None:
    # rich takes 30 ms to import; output for programs needs none.
    from rich import box
    from rich.console import Console
    from rich.table import Table as Frame
    from rich.text import Text

    frame = Frame(box=box.SIMPLE_HEAD, header_style="", pad_edge=False)
    for title in table.titles:
        frame.add_column(Text(title), overflow="fold")
    for row in table.rows:
        frame.add_row(*map(Text, row))
    # Without colors, so that copied text stays plain; cells are `Text`, which rich does not read as
    # markup.
    Console(color_system=None, highlight=False).print(frame)
