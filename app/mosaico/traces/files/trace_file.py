"""Reads files of results for the command line: the format by content, the columns by name or guess."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, Final, NamedTuple

from mosaico.core.console.files import iter_chunks
from mosaico.core.registry import LoadedPlugin
from mosaico.traces.files.import_file import (
    Container,
    ImportFile,
    InvalidImport,
    ResultSource,
    is_blank_row,
    open_import,
)
from mosaico.traces.files.importer_registry import (
    ImportedTraces,
    Importer,
    find_importer,
    in_column,
    load_importers,
)
from mosaico.traces.files.ndjson import format_trace_line
from mosaico.traces.files.table_columns import list_columns
from mosaico.traces.reader_versions import TraceReaderVersion, reader_of
from mosaico.traces.types import Trace

TRACES: Final = "traces"
FILE_SUFFIXES: Final = frozenset(
    {".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".eval"}
)
SAMPLED_TRACES: Final = 200


class TraceReader:
    """Reads the traces of files with the same options.

    `mapping` names columns by field, `format_name` an importer. `announce` gets one line about each
    file whose format or columns were recognized, and its notes; a file of traces is not announced.
    `report_progress` gets the name of a file and its traces so far, after each trace. `columns` are those of the fields
    of the last file, and `reader` is what read it.
    """

    def __init__(
        self,
        announce: Callable[[str], None],
        warn: Callable[[LoadedPlugin], None],
        *,
        mapping: Mapping[str, str],
        format_name: str | None = None,
        report_progress: Callable[[str, int], None] = lambda _name, _count: None,
    ) -> None:
        load_importers(warn)
        self._announce = announce
        self._report_progress = report_progress
        self._mapping = mapping
        self._format_name = format_name
        self._announced: set[str] = set()
        self.columns: Mapping[str, str] = {}
        self.reader: TraceReaderVersion | None = None
        self._imported: list[ImportedTraces] = []

    @contextmanager
    def open(self, path: ResultSource) -> Iterator[Iterator[Trace]]:
        """The traces of a file, read while they are used; `-` is standard input.

        Raises: `UnreadableInput`, `InvalidImport` with file and line, `InvalidMapping`, and
                `NotFound` for an unknown format.
        """
        with open_import(path) as file:
            name, importer = find_importer(file, self._format_name)
            _require_rows(file)
            imported = importer.read(file, self._mapping)
            self._announce_once(file, name, importer.summary, imported)
            self._imported.append(imported)
            yield self._read(file, imported)

    @contextmanager
    def open_items(self, path: ResultSource) -> Iterator[Iterator[Trace]]:
        """The items of a file as traces; a table needs no column of answers.

        Raises: the errors of `open`.
        """
        with open_import(path) as file:
            name, importer = find_importer(file, self._format_name)
            _require_rows(file)
            imported = _import_items(file, importer, self._mapping)
            self._announce_once(file, name, importer.summary, imported)
            yield self._read(file, imported)

    @contextmanager
    def upload_lines(self, path: ResultSource) -> Iterator[Iterator[bytes]]:
        """The file in the upload format of the service; a file of traces as it is."""
        # It brings the database along, which no other command on files needs.
        from mosaico.traces.storable_traces import make_storable

        with open_import(path) as file:
            name, importer = find_importer(file, self._format_name)
            self.reader = reader_of(name)
            _require_rows(file)
            if name == TRACES and file.container is Container.JSON_LINES:
                yield iter_chunks(file.open())
                return
            imported = importer.read(file, self._mapping)
            self._announce_once(file, name, importer.summary, imported)
            yield (format_trace_line(make_storable(trace)) for trace in self._read(file, imported))

    def score_names(self, path: ResultSource) -> list[str]:
        """The names of the scores in the first traces of a file."""
        with self.open(path) as traces:
            sample = islice(traces, SAMPLED_TRACES)
            return list(dict.fromkeys(name for trace in sample for name in trace.scores))

    @property
    def directions(self) -> dict[str, str]:
        """Which values of a score are better, as the files that were read state it; without those of which they state
        both.
        """
        stated: dict[str, set[str]] = {}
        for imported in self._imported:
            for name, direction in imported.directions.items():
                stated.setdefault(name, set()).add(direction)
        return {name: next(iter(sides)) for name, sides in stated.items() if len(sides) == 1}

    def _shared_column(self, imported: ImportedTraces) -> str | None:
        """The only column of a file, if another file that was read has it among several: their items are the same."""
        others = {column for other in self._imported for column in other.item_columns}
        return next((name for name in imported.column_names if name in others), None)

    def _read(self, file: ImportFile, imported: ImportedTraces) -> Iterator[Trace]:
        announced = len(imported.notes)
        column = self._shared_column(imported)
        for count, trace in enumerate(imported.traces, start=1):
            yield trace if column is None else _in_column(trace, column)
            self._report_progress(file.name, count)
        # What only the end of the file shows.
        for note in imported.notes[announced:]:
            self._announce_line(f"{file.name}: {note}")

    def _announce_once(
        self, file: ImportFile, name: str, summary: str, imported: ImportedTraces
    ) -> None:
        if name == TRACES:
            return
        self.columns = imported.columns
        columns = list_columns([f"{field}={column}" for field, column in imported.columns.items()])
        self._announce_line(f"{file.name}: {summary}{f'; {columns}' if columns else ''}")
        for note in imported.notes:
            self._announce_line(f"{file.name}: {note}")

    def _announce_line(self, line: str) -> None:
        if line not in self._announced:
            self._announced.add(line)
            self._announce(line)


def _in_column(trace: Trace, column: str) -> Trace:
    return replace(
        trace,
        item_id=in_column(trace.item_id, column),
        trace_id=in_column(trace.trace_id, column),
    )


class UploadLines(NamedTuple):
    """The numbered lines of a file in the upload format, and what reads it."""

    lines: Iterable[tuple[int, bytes]]
    reader: TraceReaderVersion


def read_upload_lines(name: str, file: IO[bytes], mapping: Mapping[str, str]) -> UploadLines:
    """A file in the upload format with its lines numbered: traces as they are, another format by its
    importer. `name` is the file in messages.

    Raises: `InvalidImport` with the line, `InvalidMapping`, `TooLarge` for a line above 16 MiB.
    """
    from mosaico.core.web.uploads import iter_lines
    from mosaico.traces.storable_traces import make_storable

    load_importers(lambda _: None)
    import_file = ImportFile(name, file)
    format_name, importer = find_importer(import_file)
    _require_rows(import_file)
    if format_name == TRACES and import_file.container is Container.JSON_LINES and not mapping:
        return UploadLines(iter_lines(import_file.open()), reader_of(TRACES))
    traces = importer.read(import_file, mapping).traces
    lines = (format_trace_line(make_storable(trace)) for trace in traces)
    return UploadLines(enumerate(lines, start=1), reader_of(format_name))


def read_items(name: str, file: IO[bytes]) -> Iterator[Trace]:
    """The items of a file as traces, its format by content; `name` is the file in messages.

    Raises: `InvalidImport` with the line.
    """
    load_importers(lambda _: None)
    import_file = ImportFile(name, file)
    _require_rows(import_file)
    return _import_items(import_file, find_importer(import_file)[1], {}).traces


def _require_rows(file: ImportFile) -> None:
    """Raise `InvalidImport` for an empty file, and for the header of a table without a row."""
    if file.container not in (Container.CSV, Container.JSON_LINES):
        return
    if any(not is_blank_row(row) for row in file.rows()):
        return
    if file.container is Container.CSV:
        raise InvalidImport(
            f"{file.name}: line 1 is the header, and no row follows it; expected a row for each answer"
        )
    raise InvalidImport(
        f"{file.name}: the file is empty; expected results as CSV with a header, JSON Lines, JSON or"
        " Parquet"
    )


def _import_items(
    file: ImportFile, importer: Importer, mapping: Mapping[str, str]
) -> ImportedTraces:
    # A column of a table that is named like an answer holds the expected one.
    return importer.read(file, {"output": "", **mapping} if importer.is_table else mapping)


def is_file_name(name: str) -> bool:
    """Return whether an argument names a file and not a run."""
    try:
        return Path(name).suffix.lower() in FILE_SUFFIXES or Path(name).is_file()
    except OSError:  # longer than a name of a file may be
        return False
