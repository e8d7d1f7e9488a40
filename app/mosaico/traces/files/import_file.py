"""A file of results to import: its content, and the rows of a table in it."""

import codecs
import csv
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from mosaico.core.console.files import CHUNK_BYTES
from mosaico.core.parameter_names import parameter_name
from mosaico.traces.error_groups import ErrorTally
from mosaico.traces.files.csv_text import (
    SAMPLE_BYTES,
    CsvHead,
    encoding_of_mark,
    explain_csv_error,
    find_bad_line,
    guess_encoding,
    is_utf8,
    iter_lines,
    name_encodings,
    read_head,
)
from mosaico.traces.files.json_objects import explain_json_error, parse_objects
from mosaico.traces.files.json_rows import rows_of_document
from mosaico.traces.files.limited_file import LimitedFile
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.files.read_report import ReadCounts
from mosaico.traces.files.table_head import filled_rows

GZIP_MARK: Final = b"\x1f\x8b"
LINE_SUFFIXES: Final = frozenset({".jsonl", ".ndjson"})
# A cell of a table may begin with a bracket, so the suffix precedes the content.
TABLE_SUFFIXES: Final = frozenset({".csv", ".tsv"})
HEAD_LINES: Final = 20
FIRST_ROWS: Final = 5
# Of a text in UTF-16 every second byte.
NUL_SHARE: Final = 0.3


class Container(StrEnum):
    """The outer form of a file."""

    CSV = "CSV"
    JSON_LINES = "JSON Lines"
    JSON = "JSON"
    ZIP = "ZIP"
    PARQUET = "Parquet"
    SPREADSHEET = "spreadsheet"


MAGIC_BYTES: Final = {b"PK\x03\x04": Container.ZIP, b"PAR1": Container.PARQUET}
SPREADSHEETS: Final = frozenset({".xlsx", ".xlsm"})
OLD_SPREADSHEETS: Final = frozenset({".xls", ".ods"})
SUFFIXES: Final = {
    ".json": Container.JSON,
    ".parquet": Container.PARQUET,
    **dict.fromkeys(LINE_SUFFIXES, Container.JSON_LINES),
}


class TableRow(NamedTuple):
    """A row of a table: where it begins, such as `line 3`, and its cells by column."""

    position: str
    cells: Mapping[str, Any]


def is_blank_row(row: TableRow) -> bool:
    """Return whether no cell holds a text; spreadsheets write such rows at the end of a table."""
    return all(isinstance(cell, str) and not cell.strip() for cell in row.cells.values())


class ImportFile(LimitedFile):
    """A file that can be read several times, and what its content shows about its form.

    A file without a result is an error, rows in memory without one are none (`may_be_empty`).
    `name` is the name in messages. JSON documents are in memory as a whole, CSV and JSON Lines are
    read row by row.
    """

    may_be_empty = False

    def __init__(self, name: str, file: IO[bytes], options: ReadOptions | None = None) -> None:
        super().__init__(name, file, options)
        self.counts = ReadCounts(errors=ErrorTally(self.options.infra_errors))
        # How the rows were found, for the user.
        self.notes: list[str] = []
        self.repeated_columns: set[str] = set()

    @cached_property
    def container(self) -> Container:
        """The outer form by content; the suffix decides for content without a clear form."""
        start = self.open().read(CHUNK_BYTES)
        suffix = Path(self.name).suffix.lower()
        if suffix in OLD_SPREADSHEETS:
            self.reject("a spreadsheet; save the sheet as .xlsx or CSV")
        if start.startswith(b"PK") and (suffix in SPREADSHEETS or _has_sheets(self.open())):
            return Container.SPREADSHEET
        for magic, container in MAGIC_BYTES.items():
            if start.startswith(magic):
                return container
        if start.startswith(GZIP_MARK):
            self.reject("the file is compressed; unpack it with gunzip")
        encoding = encoding_of_mark(start)
        if encoding is not None and encoding != "utf-8-sig":
            if suffix in TABLE_SUFFIXES or suffix not in SUFFIXES:
                return Container.CSV
            self.reject(f"line 1: the file is {encoding.upper()} text; save it as UTF-8")
        return self._container_of_text(start.removeprefix(codecs.BOM_UTF8).lstrip(), suffix)

    def _container_of_text(self, text: bytes, suffix: str) -> Container:
        if not text:
            return Container.JSON_LINES
        if suffix in TABLE_SUFFIXES and text.startswith(b'{"') and self._has_lines():
            return Container.JSON_LINES
        if suffix not in TABLE_SUFFIXES and text.startswith(b"{"):
            return Container.JSON_LINES if self._has_lines() else Container.JSON
        if suffix not in TABLE_SUFFIXES and text.startswith(b"["):
            return Container.JSON
        return SUFFIXES.get(suffix, Container.CSV)

    @cached_property
    def document(self) -> Any:
        """The value of a JSON document. Raises: `InvalidImport` with line and column."""
        raw = self.open().read(self.options.limits.part_bytes + 1)
        self.require_unpacked(len(raw), "the document")
        self.require_few_values(raw, "the document")
        try:
            return json.loads(raw.removeprefix(codecs.BOM_UTF8))
        except json.JSONDecodeError as error:
            objects = parse_objects(error.doc) if error.msg == "Extra data" else None
        except (ValueError, RecursionError):
            objects = None
        # Once more for the message.
        return self.parse(raw) if objects is None else objects

    @property
    def first_row(self) -> Mapping[str, Any]:
        """The first row of a table; empty for another file, and for a table without rows."""
        return next(iter(self.first_rows), {})

    @cached_property
    def first_rows(self) -> Sequence[Mapping[str, Any]]:
        """The first rows of a table, by which its tool is recognized: a single one may be that of a failure."""
        if self.container is Container.ZIP:
            return ()
        if self.container is Container.JSON and isinstance(rows_of_document(self.document), str):
            return ()
        return [row.cells for row in islice(self.rows(), FIRST_ROWS)]

    def rows(self) -> Iterator[TableRow]:
        """The rows of a table in any form: CSV, JSON Lines, a JSON document with a list of objects, a form of `ROW_READERS`.

        Raises: `InvalidImport` with the line of the row that cannot be read.
        """
        match self.container:
            case Container.CSV:
                yield from self._csv_rows()
            case Container.JSON_LINES:
                yield from self._json_lines()
            case Container.JSON:
                yield from self._json_rows()
            case container if container in ROW_READERS:
                yield from ROW_READERS[container](self)
            case container:
                name = parameter_name("--input-format")
                self.reject(f"a {container} file has no rows; name its {name}")

    def parse(self, raw: bytes, line: int = 0) -> Any:
        """The value of a JSON text; `line` is its line in the file, 0 for the whole file.

        Raises: `InvalidImport` with line and column.
        """
        self.require_few_values(raw, f"line {line}" if line else "the document")
        try:
            return json.loads(raw.removeprefix(b"\xef\xbb\xbf"))
        except json.JSONDecodeError as error:
            position = f"line {line or error.lineno}, column {error.colno}"
            message = f"{error.msg[:1].lower()}{error.msg[1:]}"
            self.reject(f"{position}: not valid JSON: {message}{explain_json_error(error)}")
        except UnicodeDecodeError as error:
            number = line or raw.count(b"\n", 0, error.start) + 1
            self.reject(f"line {number}: not UTF-8 text; save the file as UTF-8")
        except ValueError:
            # The one thing that is JSON and that Python refuses, because it takes long.
            self.reject(f"line {line or 1}: a number has thousands of digits; write it as a text")
        except RecursionError:
            self.reject(f"line {line or 1}: the JSON is nested too deep; write it flatter")

    def _has_lines(self) -> bool:
        """Return whether the first line is a JSON value and another line follows it."""
        file = self.open()
        line = _first_visible_line(file, self.options.limits.part_bytes)
        if line is None:
            # Longer than what is parsed; whoever reads it refuses it.
            return Path(self.name).suffix.lower() in LINE_SUFFIXES
        self.require_few_values(line, "the first line")
        if not any(not following.isspace() for following in file):
            return False
        try:
            json.loads(line)
        except json.JSONDecodeError as error:
            # A line that is not complete is the beginning of a document, whatever the suffix.
            is_complete = error.pos < len(error.doc.rstrip())
            return is_complete and Path(self.name).suffix.lower() in LINE_SUFFIXES
        except (ValueError, RecursionError):
            # A broken first line of a file of lines; of a document it is an opening brace.
            return Path(self.name).suffix.lower() in LINE_SUFFIXES
        return True

    def _csv_rows(self) -> Iterator[TableRow]:
        csv.field_size_limit(self.options.limits.cell_chars)
        lines = self._text_lines()
        start = list(islice(lines, HEAD_LINES))
        head = read_head(start)
        self.add_note(head.note)
        text = chain(start[head.skipped_lines :], lines)
        header: list[str] = []
        for line, cells in filled_rows(self._numbered_rows(text, head), self.add_note):
            if header:
                # A comma at the end of each row but the header, as some exports write.
                while len(cells) > len(header) and not cells[-1].strip():
                    cells.pop()
                self._require_width(cells, header, line)
                self._refuse_nul(cells, line)
                yield TableRow(f"line {line}", dict(zip(header, cells, strict=True)))
            else:
                self._refuse_nul(cells, line)
                header = self.name_columns(cells)

    def _numbered_rows(self, text: Iterable[str], head: CsvHead) -> Iterator[tuple[int, list[str]]]:
        """The rows of a CSV text with the lines on which they begin."""
        reader = csv.reader(
            text, delimiter=head.delimiter, strict=True, skipinitialspace=head.is_padded
        )
        line = 1 + head.skipped_lines
        try:
            for cells in map(head.clean, reader):
                if cells:
                    yield line, cells
                line = reader.line_num + 1 + head.skipped_lines
        except csv.Error as error:
            self.reject(f"line {line}: {explain_csv_error(error, self.options.limits.cell_chars)}")

    def _text_lines(self) -> Iterator[str]:
        encoding = self._encoding
        try:
            yield from iter_lines(self.open(), encoding)
        except (UnicodeDecodeError, UnicodeError):
            line = find_bad_line(self.open(), encoding)
            name = parameter_name("--encoding")
            guesses = name_encodings(self.open().read(SAMPLE_BYTES))
            said = "UTF-8" if encoding.startswith("utf-8") else encoding.upper()
            self.reject(
                f"line {line}: not {said} text; save the file as UTF-8, or name its encoding with"
                f" {name}, perhaps {guesses}"
            )

    @cached_property
    def _encoding(self) -> str:
        """The encoding of a text: named by the user, by its mark, UTF-8, or Windows-1252 without doubt."""
        named = self.options.encoding
        if named is not None:
            try:
                return codecs.lookup(named).name
            except LookupError:
                self.reject(f"{named!r} is not an encoding; name one such as cp1252 or utf-16")
        start = self.open().read(SAMPLE_BYTES)
        marked = encoding_of_mark(start)
        if marked is not None:
            return marked
        if is_utf8(self.open()):
            return "utf-8"
        guess = guess_encoding(self.open())
        if guess is None:
            return "utf-8"
        self.add_note(
            f"the file is not UTF-8 and is read as Windows-1252; {parameter_name('--encoding')} names another one"
        )
        return guess

    def add_note(self, note: str | None) -> None:
        """Add a sentence for the user on how the rows were found, once however often they are read."""
        if note is not None and note not in self.notes:
            self.notes.append(note)

    def name_columns(self, cells: Sequence[str]) -> list[str]:
        """The names of the columns in a header; the second column of a name gets a number.

        Raises: `InvalidImport` for too many columns.
        """
        self.require_columns(len(cells))
        header: list[str] = []
        counts: Counter[str] = Counter()
        for index, cell in enumerate(cells, start=1):
            # Spreadsheets write empty columns, which have no name.
            name = cell.strip() or f"column {index}"
            counts[name] += 1
            header.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
        repeated = {name for name, count in counts.items() if count > 1}
        self.repeated_columns = repeated | {
            f"{name} ({number})" for name in repeated for number in range(2, counts[name] + 1)
        }
        return header

    def _refuse_nul(self, cells: list[str], line: int) -> None:
        if any("\0" in cell for cell in cells):
            start = self.open().read(SAMPLE_BYTES)
            if start.count(b"\0") > len(start) * NUL_SHARE:
                name = parameter_name("--encoding")
                # Most characters are ASCII, whose first byte is NUL where the larger byte is first.
                is_big_endian = start[::2].count(0) > start[1::2].count(0)
                encoding = "utf-16-be" if is_big_endian else "utf-16-le"
                self.reject(
                    f"line 1: the file looks like UTF-16; save it as UTF-8, or name it: {name} {encoding}"
                )
            self.reject(f"line {line}: a cell contains a NUL byte; remove it")

    def _require_width(self, cells: list[str], header: list[str], line: int) -> None:
        if len(cells) != len(header):
            self.reject(
                f"line {line}: {len(cells)} cells, but the header has {len(header)} columns; put"
                " cells that contain the delimiter into quotes"
            )

    def _json_lines(self) -> Iterator[TableRow]:
        for number, line in enumerate(self.lines(), start=1):
            if not line.removeprefix(codecs.BOM_UTF8).isspace() and line != codecs.BOM_UTF8:
                yield self._object_row(f"line {number}", self.parse(line, number))

    def _json_rows(self) -> Iterator[TableRow]:
        found = rows_of_document(self.document)
        if isinstance(found, str):
            self.reject(
                f"line 1: the document {found}; write a list of objects, one for each result"
            )
        is_line = Path(self.name).suffix.lower() in LINE_SUFFIXES and found.rows == [self.document]
        self.add_note(None if is_line else found.note)
        for number, row in enumerate(found.rows, start=1):
            yield self._object_row(f"row {number}", row)

    def _object_row(self, position: str, row: Any) -> TableRow:
        if not isinstance(row, dict):
            self.reject(f"{position}: expected a JSON object with one result, not {row!r:.40}")
        self.require_columns(len(row))
        return TableRow(position, row)


# The readers of containers that need a library; importers add them.
ROW_READERS: Final[dict[Container, Callable[[ImportFile], Iterator[TableRow]]]] = {}


def _first_visible_line(file: IO[bytes], limit: int) -> bytes | None:
    """The first line that is not blank; None if it is longer than the limit."""
    line = next((line for line in _iter_lines(file, limit) if not line.isspace()), b"")
    return None if len(line) > limit else line


def _iter_lines(file: IO[bytes], limit: int) -> Iterator[bytes]:
    while line := file.readline(limit + 1):
        yield line


def _has_sheets(file: IO[bytes]) -> bool:
    """Return whether a ZIP archive is a spreadsheet."""
    try:
        return "xl/workbook.xml" in zipfile.ZipFile(file).namelist()
    except (zipfile.BadZipFile, OSError):
        return False
