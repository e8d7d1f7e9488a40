"""The options of commands that read files of results."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from mosaico.core.console.terminal import print_status, warn_failed_plugin
from mosaico.traces.files.read_options import ReadOptions, parse_infra_errors, parse_labels
from mosaico.traces.references import ListRule

if TYPE_CHECKING:
    from mosaico.traces.files.result_sources import ResultSource
    from mosaico.traces.files.trace_file import TraceReader

FIRST_LINE_S = 5.0
LINE_INTERVAL_S = 10.0
COUNTS_PER_CHECK = 100
# What two files contain and what decides.
READING_LINES = 4
NO_COLUMNS: Mapping[str, str] = MappingProxyType({})


BaseMap = Annotated[
    list[str] | None,
    typer.Option(
        "--base-map",
        metavar="FIELD=COLUMN",
        help="Columns of the earlier results only, as --map has them. Repeatable.",
    ),
]
RunMap = Annotated[
    list[str] | None,
    typer.Option(
        "--run-map",
        metavar="FIELD=COLUMN",
        help="Columns of the later results only, as --map has them: a file with the answers of two agents can be"
        " both. Repeatable.",
    ),
]


class InputOptions(NamedTuple):
    """The options about the form of a file of results."""

    map_columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN",
            help="Columns of a table, such as output=answer,expected=gold,item=id, or what is inside of a"
            " column, such as output=response.choices[0].message.content. Repeatable; an empty column ignores a"
            " guess.",
        ),
    ] = None
    input_format: Annotated[
        str | None,
        typer.Option(
            "--input-format",
            metavar="FORMAT",
            help="Format of the file, such as csv, jsonl, inspect, promptfoo or langsmith; docs/import.md lists all"
            " (default: recognized by content).",
        ),
    ] = None
    expected: Annotated[
        ListRule | None,
        typer.Option(
            "--expected",
            help="What a list of expected answers means: any of them is right, or an answer must fit all of them.",
            show_default=False,
        ),
    ] = None
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--labels",
            metavar="COLUMN=LABEL:NUMBER",
            help="The numbers of the labels in a column, such as grade=A:1,B:0,C:0. Repeatable.",
        ),
    ] = None
    strip_thinking: Annotated[
        bool,
        typer.Option(
            "--strip-thinking",
            help="Leave the thoughts of a model out of its answers: <think>…</think>.",
        ),
    ] = False
    strip_fences: Annotated[
        bool,
        typer.Option(
            "--strip-fences",
            help="Read an answer that is one ``` block as the content of the block.",
        ),
    ] = False
    infra_error: Annotated[
        list[str] | None,
        typer.Option(
            "--infra-error",
            metavar="REGEX",
            help="Errors whose message fits are no fault of the agent, whatever class they have. RE2. Repeatable.",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            "--encoding",
            metavar="NAME",
            help="Encoding of a CSV file (default: UTF-8 or by its content).",
        ),
    ] = None
    sheet: Annotated[
        str | None,
        typer.Option(
            "--sheet", metavar="NAME", help="Sheet of a spreadsheet (default: the first)."
        ),
    ] = None
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail when a column, a row or a cell of a file is not used."),
    ] = False


@contextmanager
def reading_lines() -> Iterator[list[str]]:
    """A list for the lines about two files, which are printed when the block ends, also by an error: at most
    `READING_LINES`. More of them are one line for each file, and the last line.
    """
    lines: list[str] = []
    try:
        yield lines
    finally:
        for line in join_reading_lines(lines):
            print_status(line)


def join_reading_lines(lines: Sequence[str]) -> list[str]:
    """At most `READING_LINES` lines with everything that the given ones say."""
    if len(lines) <= READING_LINES:
        return [*lines]
    by_file: dict[str, list[str]] = {}
    for line in lines[:-1]:
        name, _, text = line.partition(": ")
        by_file.setdefault(name, []).append(text)
    return [*(f"{name}: {'; '.join(texts)}" for name, texts in by_file.items()), lines[-1]]


def open_reader(
    options: InputOptions,
    remember: Callable[[str], None] = lambda _: None,
    print_line: Callable[[str], None] = print_status,
    *,
    infra_errors: Sequence[str] = (),
    columns: Mapping[str, str] = NO_COLUMNS,
) -> "TraceReader":
    """A reader with these options, which passes what it recognized to `print_line`, what holds for several files once,
    and all of it to `remember`. `infra_errors` and `columns` are those of a benchmark: its errors count beside those of
    the options, its columns where the options name none.

    Imports the importers, so only commands call it. Raises: `InvalidMapping`.
    """
    from mosaico.core.console.table import format_cell
    from mosaico.traces.files.configured_limits import within_configured_limits
    from mosaico.traces.files.trace_file import TraceReader

    announced = set[str]()

    def announce(line: str) -> None:
        # What holds for two files alike is printed once.
        text = line.partition(": ")[2]
        if text not in announced:
            announced.add(text)
            print_line(format_cell(line))
        remember(line)

    return TraceReader(
        announce,
        warn_failed_plugin,
        within_configured_limits(read_options(options, infra_errors, columns)),
        report_progress=ReadingProgress(print_status, time.monotonic),
    )


def read_options(
    options: InputOptions,
    infra_errors: Sequence[str] = (),
    columns: Mapping[str, str] = NO_COLUMNS,
) -> ReadOptions:
    """The options of a reading. Raises: `InvalidMapping`, `InvalidLabels`, `InvalidInfraError`."""
    # Only commands on files need it.
    from mosaico.traces.files.column_mapping import parse_mapping

    return ReadOptions(
        mapping={**columns, **parse_mapping(options.map_columns or ())},
        format_name=options.input_format,
        encoding=options.encoding,
        sheet=options.sheet,
        expected=options.expected,
        labels=parse_labels(options.labels or ()),
        strip_thinking=options.strip_thinking,
        strip_fences=options.strip_fences,
        infra_errors=parse_infra_errors([*(options.infra_error or ()), *infra_errors]),
        strict=options.strict,
    )


def map_source(path: Path, columns: list[str] | None) -> "ResultSource":
    """A file whose columns are named for itself; the file itself without names. Raises: `InvalidMapping`."""
    # Only commands on files need them.
    from mosaico.traces.files.column_mapping import parse_mapping
    from mosaico.traces.files.result_sources import MappedSource

    return MappedSource(path, parse_mapping(columns)) if columns else path


class ReadingProgress:
    """Prints how far a large file is read: nothing in the first 5 s, then a line every 10 s."""

    def __init__(self, print_line: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._print_line = print_line
        self._clock = clock
        self._due_s = clock() + FIRST_LINE_S

    def __call__(self, name: str, count: int) -> None:
        # Asking for the time after each trace would cost more than counting it.
        if count % COUNTS_PER_CHECK or self._clock() < self._due_s:
            return
        self._due_s = self._clock() + LINE_INTERVAL_S
        self._print_line(f"{name}: {count:,} results read")
