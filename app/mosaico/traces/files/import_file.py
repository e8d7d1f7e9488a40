"""A file of results to import: its content, and the rows of a table in it."""

import csv
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, NoReturn, TypeAlias

from mosaico.core.console.files import CHUNK_BYTES, open_input
from mosaico.core.errors import Invalid
from mosaico.core.parameter_names import parameter_name

STDIN: Final = Path("-")
MEMORY_BYTES: Final = 1024**2
MAX_DOCUMENT_BYTES: Final = 512 * 1024**2
# One cell or line is in memory at a time, several times during its conversion.
MAX_CELL_CHARS: Final = 16 * 1024**2
MAX_LINE_BYTES: Final = 64 * 1024**2
DELIMITERS: Final = (",", ";", "\t", "|")
GZIP_MARK: Final = b"\x1f\x8b"
# The first of them begins with a mark of UTF-16.
UTF32_MARKS: Final = (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")
UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
LINE_SUFFIXES: Final = frozenset({".jsonl", ".ndjson"})
# A cell of a table may begin with a bracket, so the suffix precedes the content.
TABLE_SUFFIXES: Final = frozenset({".csv", ".tsv"})
# A document that is an object holds its rows as one of its members.
ROW_MEMBERS: Final = ("rows", "items", "data", "results", "traces", "examples", "samples")


class InvalidImport(Invalid):
    """The file cannot be imported; correct it at the line in the message."""


class Container(StrEnum):
    """The outer form of a file."""

    CSV = "CSV"
    JSON_LINES = "JSON Lines"
    JSON = "JSON"
    ZIP = "ZIP"
    PARQUET = "Parquet"


MAGIC_BYTES: Final = {b"PK\x03\x04": Container.ZIP, b"PAR1": Container.PARQUET}
SPREADSHEETS: Final = frozenset({".xlsx", ".xls", ".ods"})
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


class ImportFile:
    """A file that can be read several times, and what its content shows about its form.

    `name` is the name in messages. JSON documents are in memory as a whole, CSV and JSON Lines are
    read row by row.
    """

    def __init__(self, name: str, file: IO[bytes]) -> None:
        self.name = name
        self._file = file

    def open(self) -> IO[bytes]:
        """The content from its beginning; only one reader at a time."""
        self._file.seek(0)
        return self._file

    @cached_property
    def container(self) -> Container:
        """The outer form by content; the suffix decides for content without a clear form."""
        start = self.open().read(CHUNK_BYTES)
        suffix = Path(self.name).suffix.lower()
        if suffix in SPREADSHEETS:
            self.reject("a spreadsheet; save the sheet as CSV")
        for magic, container in MAGIC_BYTES.items():
            if start.startswith(magic):
                return container
        if start.startswith(GZIP_MARK):
            self.reject("the file is compressed; unpack it with gunzip")
        if start.startswith(UTF32_MARKS):
            self.reject("line 1: the file is UTF-32 text; save it as UTF-8")
        if start.startswith(UTF16_MARKS):
            self.reject("line 1: the file is UTF-16 text; save it as UTF-8")
        text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
        if suffix not in TABLE_SUFFIXES and text.startswith(b"{"):
            return Container.JSON_LINES if self._has_lines() else Container.JSON
        if suffix not in TABLE_SUFFIXES and text.startswith(b"["):
            return Container.JSON
        if not text:
            return Container.JSON_LINES
        return SUFFIXES.get(suffix, Container.CSV)

    @cached_property
    def document(self) -> Any:
        """The value of a JSON document. Raises: `InvalidImport` with line and column."""
        raw = self.open().read(MAX_DOCUMENT_BYTES + 1)
        if len(raw) > MAX_DOCUMENT_BYTES:
            self.reject(f"the document is larger than {MAX_DOCUMENT_BYTES} bytes; use JSON Lines")
        return self.parse(raw)

    @cached_property
    def first_row(self) -> Mapping[str, Any]:
        """The first row of a table; empty for another file, and for a table without rows."""
        if self.container in (Container.ZIP, Container.PARQUET):
            return {}
        return next((row.cells for row in self.rows()), {})

    def rows(self) -> Iterator[TableRow]:
        """The rows of a CSV file, of JSON Lines or of a JSON document with a list of objects.

        Raises: `InvalidImport` with the line of the row that cannot be read.
        """
        match self.container:
            case Container.CSV:
                yield from self._csv_rows()
            case Container.JSON_LINES:
                yield from self._json_lines()
            case Container.JSON:
                yield from self._json_rows()
            case _:
                name = parameter_name("--input-format")
                self.reject(f"a {self.container} file has no rows of text; name its {name}")

    def parse(self, raw: bytes, line: int = 0) -> Any:
        """The value of a JSON text; `line` is its line in the file, 0 for the whole file.

        Raises: `InvalidImport` with line and column.
        """
        try:
            return json.loads(raw.removeprefix(b"\xef\xbb\xbf"))
        except json.JSONDecodeError as error:
            position = f"line {line or error.lineno}, column {error.colno}"
            self.reject(f"{position}: not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}")
        except UnicodeDecodeError as error:
            number = line or raw.count(b"\n", 0, error.start) + 1
            self.reject(f"line {number}: not UTF-8 text; save the file as UTF-8")
        except RecursionError:
            self.reject(f"line {line or 1}: the JSON is nested too deep; write it flatter")

    def reject(self, detail: str) -> NoReturn:
        """Raise an error that names the file."""
        raise InvalidImport(f"{self.name}: {detail}")

    def _has_lines(self) -> bool:
        """Return whether the first line is a JSON value and another line follows it."""
        file = self.open()
        line = _first_visible_line(file)
        if not any(not following.isspace() for following in file):
            return False
        try:
            json.loads(line)
        except (ValueError, RecursionError):
            # A broken first line of a file of lines; of a document it is an opening brace.
            return Path(self.name).suffix.lower() in LINE_SUFFIXES
        return True

    def _csv_rows(self) -> Iterator[TableRow]:
        csv.field_size_limit(MAX_CELL_CHARS)
        lines = self._text_lines()
        first = next(lines, "")
        delimiter = max(DELIMITERS, key=first.count)
        reader = csv.reader(chain((first,), lines), delimiter=delimiter, strict=True)
        header: list[str] = []
        first_line = 1
        try:
            for cells in reader:
                if cells and not header:
                    header = self._read_header(cells)
                elif cells:
                    self._require_width(cells, header, first_line)
                    yield TableRow(f"line {first_line}", dict(zip(header, cells, strict=True)))
                first_line = reader.line_num + 1
        except csv.Error as error:
            self.reject(f"line {first_line}: {_explain_csv_error(error)}")

    def _text_lines(self) -> Iterator[str]:
        for number, line in enumerate(self.open(), start=1):
            try:
                # Every line is decoded alone, so that an error names the line.
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                self.reject(f"line {number}: not UTF-8 text; save the file as UTF-8")

    def _read_header(self, cells: list[str]) -> list[str]:
        header = [cell.strip() for cell in cells]
        repeated = next((name for name in header if name and header.count(name) > 1), None)
        if repeated is not None:
            self.reject(
                f"line 1: the column {repeated!r} occurs {header.count(repeated)} times; the first"
                " line names the columns, each by a name of its own"
            )
        # Spreadsheets write empty columns, which have no name.
        return [name or f"column {index}" for index, name in enumerate(header, start=1)]

    def _require_width(self, cells: list[str], header: list[str], line: int) -> None:
        if len(cells) != len(header):
            self.reject(
                f"line {line}: {len(cells)} cells, but the header has {len(header)} columns; put"
                " cells that contain the delimiter into quotes"
            )

    def _json_lines(self) -> Iterator[TableRow]:
        for number, line in enumerate(_iter_lines(self.open()), start=1):
            if len(line) > MAX_LINE_BYTES:
                self.reject(f"line {number}: longer than {MAX_LINE_BYTES} bytes")
            if not line.isspace():
                yield self._object_row(f"line {number}", self.parse(line, number))

    def _json_rows(self) -> Iterator[TableRow]:
        for number, row in enumerate(self._list_of_rows(), start=1):
            yield self._object_row(f"row {number}", row)

    def _list_of_rows(self) -> Iterable[Any]:
        document = self.document
        if isinstance(document, list):
            return document
        if not isinstance(document, dict):
            self.reject("line 1: expected a list of objects, or an object with such a list")
        for name in ROW_MEMBERS:
            member = document.get(name)
            if isinstance(member, list) and all(isinstance(row, dict) for row in member):
                return member
        return [document]

    def _object_row(self, position: str, row: Any) -> TableRow:
        if not isinstance(row, dict):
            self.reject(f"{position}: expected a JSON object with one result, not {row!r:.40}")
        return TableRow(position, row)


@dataclass(frozen=True, slots=True)
class ResultRows:
    """Results in memory, which are read like a JSON list of the same rows; `name` is their name in
    messages.
    """

    name: str
    rows: Sequence[Mapping[str, Any]]

    def __str__(self) -> str:
        return self.name


ResultSource: TypeAlias = Path | ResultRows


class RowsFile(ImportFile):
    """Rows in memory as a JSON document."""

    def __init__(self, results: ResultRows) -> None:
        super().__init__(results.name, BytesIO())
        self._results = results.rows

    @cached_property
    def container(self) -> Container:
        return Container.JSON

    @cached_property
    def document(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self._results]


@contextmanager
def open_import(path: ResultSource) -> Iterator[ImportFile]:
    """The file for reading; `-` is standard input, which is copied to a temporary file.

    Raises: `UnreadableInput`.
    """
    if isinstance(path, ResultRows):
        yield RowsFile(path)
        return
    with open_input(path) as file:
        if path != STDIN:
            yield ImportFile(str(path), file)
            return
        with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES) as copy:
            while chunk := file.read(CHUNK_BYTES):
                copy.write(chunk)
            yield ImportFile("standard input", copy)


def _first_visible_line(file: IO[bytes]) -> bytes:
    return next((line for line in file if not line.isspace()), b"")


def _iter_lines(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE_BYTES + 1):
        yield line


def _explain_csv_error(error: csv.Error) -> str:
    match str(error):
        case "unexpected end of data":
            return "a quoted cell begins here and does not end; close its quote"
        case message if "field larger than field limit" in message:
            return (
                f"a cell has more than {MAX_CELL_CHARS} characters; close its quote or shorten it"
            )
        case message if "expected after" in message:
            return "text follows a closing quote; write a quote inside a cell twice"
        case message:
            return f"not valid CSV: {message}"
