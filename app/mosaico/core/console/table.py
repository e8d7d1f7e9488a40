"""Results as tables: framed on a terminal, tab-separated and never truncated in a pipe."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mosaico.core.console.short_ids import shorten_ids
from mosaico.core.console.terminal import (
    OutputFormat,
    WrongUsage,
    escape_line,
    is_interactive,
    print_json,
    print_result,
    print_status,
)
from mosaico.core.text import format_duration, use_hyphens

JSON = dict[str, Any]

BYTES_PER_UNIT = 1024
# Between two columns of a framed table.
COLUMN_GAP = 3


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


def print_page(
    page: JSON, columns: Sequence[Column], output: OutputFormat, fields: str | None = None
) -> None:
    """Print a list response of the API: `{items, nextCursor}`; only its `fields` where they are given.

    Raises: `WrongUsage` for a field that the items do not have.
    """
    if fields is not None:
        names = [name.strip() for name in fields.split(",") if name.strip()]
        items = [{name: _read_field(item, name) for name in names} for item in page["items"]]
        page, columns = page | {"items": items}, [field(name) for name in names]
    if output is OutputFormat.JSON:
        print_json(page)
        return
    print_table(tabulate(page["items"], columns))
    if page.get("nextCursor"):
        print_status(f"only the first {len(page['items'])} are shown; raise --limit to see more")


def _read_field(item: JSON, name: str) -> object:
    """The value of a field by its name, such as `verdict.verdict`; None below a missing value."""
    value: Any = item
    for part in name.split("."):
        if value is None:
            return None
        if not isinstance(value, dict) or part not in value:
            field_names = ", ".join(value) if isinstance(value, dict) else "none"
            raise WrongUsage(
                f"--fields {name}: there is no field {part}", hint=f"fields: {field_names}"
            )
        value = value[part]
    return value


def print_details(details: Mapping[str, object]) -> None:
    """Print one resource, one line per field; on a terminal without the empty ones.

    A field of an object has a name such as `verdict.verdict`, and each object of a list a line of its own.
    """
    lines = [line for name, value in details.items() for line in _lines_of(name, value)]
    if not is_interactive(sys.stdout):
        _print_tab_separated(lines)
        return
    lines = [[name, cell] for name, cell in lines if cell]
    if not lines:
        return
    width = max(len(name) for name, _ in lines)
    for name, cell in lines:
        print_result(f"{name:<{width}}  {cell}")


def _lines_of(name: str, value: object) -> Iterator[list[str]]:
    """The names and cells of a field."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _lines_of(f"{name}.{format_cell(key)}", item)
    elif isinstance(value, list | tuple) and any(isinstance(item, dict) for item in value):
        for number, item in enumerate(value, 1):
            yield [f"{name}.{number}", _describe_object(item)]
    else:
        yield [name, format_cell(value)]


def _describe_object(item: object) -> str:
    """An object of a list in one line, without its empty fields."""
    if not isinstance(item, dict):
        return format_cell(item)
    cells = {format_cell(key): format_cell(value) for key, value in item.items()}
    return ", ".join(f"{key} {cell}" for key, cell in cells.items() if cell)


def print_link(address: str, output: OutputFormat = OutputFormat.TABLE) -> None:
    """Print the address of a page, as a status line; a program that reads JSON gets none."""
    if output is not OutputFormat.JSON:
        print_status(f"page: {address}")


def print_change(
    resource: JSON, output: OutputFormat, lines: Sequence[str], result: object = None
) -> None:
    """Print a changed resource as JSON, or its result; then the status lines."""
    if output is OutputFormat.JSON:
        print_json(resource)
    elif result is not None:
        print_result(format_cell(result))
    for line in lines:
        print_status(line)


def print_resource(resource: JSON) -> None:
    """Print the fields of a resource; fields named `…At` are times."""
    print_details(
        {
            name: format_time(value) if name.endswith("At") else value
            for name, value in resource.items()
        }
    )


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
        # Six digits: enough to distinguish runs; --json has all of them.
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
    distance = format_duration(abs(age), has_tenths=False)
    if age < timedelta(minutes=-1):
        return f"in {distance}"
    return f"{distance} ago" if age >= timedelta(seconds=1) else "now"


def format_bytes(count: int) -> str:
    """A size with its unit: `1.5 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < BYTES_PER_UNIT:
            return f"{size:.3g} {unit}" if unit != "B" else f"{count} B"
        size /= BYTES_PER_UNIT
    return f"{size:.3g} GiB"


def _print_tab_separated(lines: Sequence[Sequence[str]]) -> None:
    for line in lines:
        print_result(use_hyphens("\t".join(line)))


def fit_columns(table: Table, width: int) -> Table:
    """The table with as many columns as fit without breaking a word; the first one always stays.

    Columns without a value go first, then the last ones.
    """
    columns = [
        (title, shorten_ids([row[index] for row in table.rows]))
        for index, title in enumerate(table.titles)
    ]
    while len(columns) > 1 and sum(_word_width(*column) for column in columns) > width - (
        COLUMN_GAP * len(columns)
    ):
        empty = [column for column in columns[1:] if not any(column[1])]
        columns.remove(empty[-1] if empty else columns[-1])
    rows = [[cells[index] for _, cells in columns] for index in range(len(table.rows))]
    return Table([title for title, _ in columns], rows)


def _word_width(title: str, cells: Sequence[str]) -> int:
    """The width of a column that breaks no word."""
    return max(len(word) for text in (title, *cells) for word in text.split() or [""])


def _print_framed(table: Table) -> None:
    # rich takes 30 ms to import; output for programs needs none.
    from rich import box
    from rich.console import Console
    from rich.table import Table as Frame
    from rich.text import Text

    # Without colors, so that copied text stays plain; cells are `Text`, which rich does not read as
    # markup.
    console = Console(color_system=None, highlight=False)
    fitting = fit_columns(table, console.width)
    frame = Frame(box=box.SIMPLE_HEAD, header_style="", pad_edge=False)
    for index, title in enumerate(fitting.titles):
        min_width = _word_width(title, [row[index] for row in fitting.rows])
        frame.add_column(Text(title), overflow="fold", min_width=min_width)
    for row in fitting.rows:
        frame.add_row(*map(Text, row))
    console.print(frame)
    hidden = [title for title in table.titles if title not in fitting.titles]
    if hidden:
        print_status(f"not shown: {', '.join(hidden)}; --json and a wider terminal show them")
