"""Reads files of results for the command line: the format by content, the columns by name or guess."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, Final

from mosaico.core.console.files import iter_chunks
from mosaico.core.errors import AppError
from mosaico.core.parameter_names import parameter_name
from mosaico.core.registry import LoadedPlugin
from mosaico.traces.answer_markup import has_thinking, strip_fences, strip_thinking
from mosaico.traces.error_rules import excuse_error
from mosaico.traces.files.ignored_fields import NOT_USED
from mosaico.traces.files.import_file import Container, ImportFile, is_blank_row
from mosaico.traces.files.importer_registry import (
    IMPORTERS,
    ImportedTraces,
    find_importer,
    in_column,
    load_importers,
)
from mosaico.traces.files.limited_file import InvalidImport
from mosaico.traces.files.ndjson import format_trace_line
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.files.read_report import ReadCounts, ReadReport
from mosaico.traces.files.result_sources import ResultSource, open_import
from mosaico.traces.reader_versions import TraceReaderVersion, reader_of_file
from mosaico.traces.types import MAX_TRIAL, Trace

TRACES: Final = "traces"
FILE_SUFFIXES: Final = frozenset(
    {".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".eval", ".xlsx"}
)
SAMPLED_TRACES: Final = 200
REPEATED: Final = "several results of the same trial, which count as further trials"
# What unpacks to more than its bytes.
PACKED: Final = frozenset({Container.ZIP, Container.PARQUET, Container.SPREADSHEET})


class Reading:
    """The traces of one file, and what was read so far. `report` is complete when all traces are read."""

    def __init__(self, file: ImportFile, importer_name: str, imported: ImportedTraces) -> None:
        self._file = file
        self.imported = imported
        self.importer_name = importer_name
        self._trials: set[int] = set()
        self.report = ReadReport(
            name=file.name,
            summary=IMPORTERS.get(importer_name).summary,
            columns=imported.columns,
            counts=file.counts,
            notes=imported.notes,
        )

    @property
    def traces(self) -> Iterator[Trace]:
        """The traces, read while they are used. Raises: `InvalidImport` with the line, and at the end for what was left
        out where nothing may be.
        """
        options, counts = self._file.options, self._file.counts
        is_packed, text_chars = self._file.container in PACKED, 0
        for trace in self.imported.traces:
            self.report.results += 1
            if is_packed:
                # A value that many rows share is stored once, and unpacks with each of them.
                text_chars += _text_chars(trace)
                self._file.require_all_unpacked(text_chars)
            read = excuse_error(_strip_answer(trace, options, counts), options.infra_errors)
            counts.errors.add(read.trace_id, read.outcome, read.error)
            if self.importer_name != TRACES:
                self._count_repeated(read)
            yield read
        if not self.report.results and not self._file.may_be_empty:
            reasons = "; ".join(counts.lost_rows.describe())
            self._file.reject(f"no results in this file: {reasons or 'it has no rows'}")
        if options.strict and (left_out := self.report.describe_left_out()):
            raise InvalidImport(
                f"{self._file.name}: not everything is used: {'; '.join(left_out)}; remove it, or read the file without"
                f" {parameter_name('--strict')}"
            )

    def _count_repeated(self, trace: Trace) -> None:
        """Count results that have the number of another trial of their item: the file may hold one run twice."""
        # A number for each result, because a file may be larger than the memory.
        key = hash((trace.item_id, trace.trial))
        if key in self._trials and trace.trial < MAX_TRIAL:
            place = f"item {trace.item_id!r:.60}, trial {trace.trial}"
            self._file.counts.mixed.add(REPEATED, place)
        self._trials.add(key)


def read_file(file: ImportFile, *, are_items: bool = False) -> Reading:
    """The one reading of a file of results, for every interface: its importer by content or by the options of the
    file, its traces, and what was read. Of items a table needs no answers.

    Raises: `InvalidImport` with file and line, `InvalidMapping`, and `NotFound` for an unknown
            format.
    """
    options = file.options
    name, importer = find_importer(file, options.format_name)
    _require_rows(file)
    mapping = options.mapping
    if are_items and importer.is_table:
        # A column of a table that is named like an answer holds the expected one.
        mapping = {"output": "", **mapping}
    imported = importer.read(file, mapping)
    if options.mapping and not imported.columns:
        imported.notes.append(
            f"columns {NOT_USED}: those of {parameter_name('--map')} or of the benchmark, because the fields of this"
            " format are fixed"
        )
    return Reading(file, name, imported)


class TraceReader:
    """Reads the traces of files with the same options.

    `announce` gets at most four lines about each file when all of it is read, or when its reading ends with an
    error; a file of traces without a remark is not announced. `report_progress` gets the name of a file and its
    traces so far, after each trace. `columns` are those of the fields of the last file, and `reader` is what read
    it.
    """

    def __init__(
        self,
        announce: Callable[[str], None],
        warn: Callable[[LoadedPlugin], None],
        options: ReadOptions | None = None,
        *,
        report_progress: Callable[[str, int], None] = lambda _name, _count: None,
    ) -> None:
        load_importers(warn)
        self._announce = announce
        self._report_progress = report_progress
        self._options = options or ReadOptions()
        self._announced: set[str] = set()
        self.columns: Mapping[str, str] = {}
        self.reader: TraceReaderVersion | None = None
        self._imported: list[ImportedTraces] = []

    @contextmanager
    def open(self, path: ResultSource) -> Iterator[Iterator[Trace]]:
        """The traces of a file, read while they are used; `-` is standard input.

        Raises: `UnreadableInput`, and the errors of `read_file`.
        """
        with open_import(path, self._options) as file:
            yield self._read(read_file(file))

    @contextmanager
    def open_items(self, path: ResultSource) -> Iterator[Iterator[Trace]]:
        """The items of a file as traces; a table needs no column of answers.

        Raises: the errors of `open`.
        """
        with open_import(path, self._options) as file:
            yield self._read(read_file(file, are_items=True))

    @contextmanager
    def upload_lines(self, path: ResultSource) -> Iterator[Iterator[bytes]]:
        """The file in the upload format of the service; a file of traces as it is."""
        # It brings the database along, which no other command on files needs.
        from mosaico.traces.storable_traces import make_storable

        with open_import(path, self._options) as file:
            reading = read_file(file)
            self.reader = reader_of_file(reading.importer_name)
            if _is_upload_format(file, reading):
                yield iter_chunks(file.open())
                return
            yield (format_trace_line(make_storable(trace)) for trace in self._read(reading))

    def sample(self, path: ResultSource) -> list[Trace]:
        """The first traces of a file."""
        with open_import(path, self._options) as file:
            reading = read_file(file)
            self._imported.append(reading.imported)
            return list(islice(self._until_error(reading), SAMPLED_TRACES))

    def score_names(self, path: ResultSource) -> list[str]:
        """The names of the scores in the first traces of a file."""
        return score_names_of(self.sample(path))

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

    def preview(self, path: ResultSource, count: int) -> list[Trace]:
        """The first traces of a file, which is announced."""
        with open_import(path, self._options) as file:
            reading = read_file(file)
            traces = list(islice(reading.traces, count))
            self._report(reading)
            return traces

    def _read(self, reading: Reading) -> Iterator[Trace]:
        self.columns = reading.report.columns
        self._imported.append(reading.imported)
        column = self._shared_column(reading.imported)
        for count, trace in enumerate(self._until_error(reading), start=1):
            yield trace if column is None else _in_column(trace, column)
            self._report_progress(reading.report.name, count)
        self._report(reading)

    def _shared_column(self, imported: ImportedTraces) -> str | None:
        """The only column of a file, if another file that was read has it among several: their items are the same."""
        others = {column for other in self._imported for column in other.item_columns}
        return next((name for name in imported.column_names if name in others), None)

    def _until_error(self, reading: Reading) -> Iterator[Trace]:
        try:
            yield from reading.traces
        except AppError:
            # How far the file was understood; what was counted so far says nothing.
            if reading.importer_name != TRACES:
                self._announce_line(f"{reading.report.name}: {reading.report.head}")
            raise

    def _report(self, reading: Reading) -> None:
        lines = [*reading.report.lines()]
        for line in lines[1:] if reading.importer_name == TRACES else lines:
            self._announce_line(line)

    def _announce_line(self, line: str) -> None:
        if line not in self._announced:
            self._announced.add(line)
            self._announce(line)


def score_names_of(traces: Iterable[Trace]) -> list[str]:
    """The names of the scores of traces."""
    return list(dict.fromkeys(name for trace in traces for name in trace.scores))


def _in_column(trace: Trace, column: str) -> Trace:
    return replace(
        trace,
        item_id=in_column(trace.item_id, column),
        trace_id=in_column(trace.trace_id, column),
    )


def read_items(name: str, file: IO[bytes], options: ReadOptions | None = None) -> Iterator[Trace]:
    """The items of a file as traces, its format by content; `name` is the file in messages.

    Raises: `InvalidImport` with the line.
    """
    load_importers(lambda _: None)
    return read_file(ImportFile(name, file, options), are_items=True).traces


def _is_upload_format(file: ImportFile, reading: Reading) -> bool:
    """Return whether the lines of a file can be uploaded as they are."""
    is_of_traces = reading.importer_name == TRACES and file.container is Container.JSON_LINES
    return is_of_traces and not is_changed(file.options)


def is_changed(options: ReadOptions) -> bool:
    """Return whether options change what a file of traces says, or cannot apply to it."""
    return bool(
        options.strip_thinking
        or options.strip_fences
        or options.strict
        or options.infra_errors
        or options.mapping
    )


def _text_chars(trace: Trace) -> int:
    texts = (trace.input, trace.output, trace.expected_output, trace.error)
    return sum(len(text) for text in texts if text)


def _strip_answer(trace: Trace, options: ReadOptions, counts: ReadCounts) -> Trace:
    """The trace without what models add to their answers, as far as the options say so."""
    if not trace.output:
        return trace
    text = trace.output
    if options.strip_thinking:
        text = strip_thinking(text)
    else:
        counts.thinking += has_thinking(text)
    if options.strip_fences:
        text = strip_fences(text)
    return trace if text is trace.output else replace(trace, output=text)


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


def is_file_name(name: str) -> bool:
    """Return whether an argument names a file and not a run."""
    try:
        return Path(name).suffix.lower() in FILE_SUFFIXES or Path(name).is_file()
    except OSError:  # longer than a name of a file may be
        return False
