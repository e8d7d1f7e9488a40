"""The text of a CSV file: its encoding, its lines, and what precedes the header."""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, Final, NamedTuple

DELIMITERS: Final = (",", ";", "\t", "|")
SAMPLE_BYTES: Final = 256 * 1024
# The marks of UTF-32 begin with those of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATOR_LINE: Final = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_GUARD: Final = re.compile(r'="([^"]*)"')
_RULE: Final = re.compile(r"\s*:?-{2,}:?\s*")
_HIGH: Final = re.compile(rb"[\x80-\xff]")
_LETTER_RUN: Final = re.compile(rb"[\xc0-\xff]{3}")
# Of the bytes of a text in a western language few are no ASCII; in Shift-JIS every second one is none.
_MAX_HIGH_SHARE: Final = 0.25
_WINDOWS_1252: Final = "cp1252"


class CsvHead(NamedTuple):
    """How a table is written: the delimiter, the number of lines before the header, whether blanks surround the cells,
    and whether each line begins and ends with the delimiter, as in Markdown.
    """

    delimiter: str
    skipped_lines: int
    note: str | None
    is_padded: bool = False
    is_framed: bool = False

    def clean(self, cells: list[str]) -> list[str]:
        """The cells of a line without what only sets them apart; empty for the rule below a header of Markdown."""
        if self.is_framed and len(cells) > 1:
            cells = cells[1:-1]
        if self.is_padded or self.is_framed:
            cells = [cell.strip() for cell in cells]
        is_rule = self.is_framed and all(map(_RULE.fullmatch, cells))
        return [] if is_rule else [*map(_without_guard, cells)]


def _without_guard(cell: str) -> str:
    """The text of a cell that is written as a formula, so that a spreadsheet keeps its zeros: `="007"`."""
    guard = _GUARD.fullmatch(cell) if cell.startswith('="') else None
    return cell if guard is None else guard[1]


def encoding_of_mark(start: bytes) -> str | None:
    """The encoding that the byte order mark of a file names; None without one."""
    return next((encoding for mark, encoding in _MARKS if start.startswith(mark)), None)


def guess_encoding(lines: Iterable[bytes]) -> str | None:
    """The encoding of a text that is not UTF-8, where its bytes leave no doubt: Windows-1252 of a text that is mostly
    ASCII. None where several encodings are possible.
    """
    total = high = 0
    for line in lines:
        total += len(line)
        high += len(_HIGH.findall(line))
        # A word of Cyrillic or Chinese has more letters in a row than "ßä".
        if _LETTER_RUN.search(line):
            return None
        try:
            line.decode(_WINDOWS_1252)
        except UnicodeDecodeError:
            return None
    return _WINDOWS_1252 if high <= _MAX_HIGH_SHARE * total else None


def name_encodings(sample: bytes) -> str:
    """The encodings that a text may have, for a message: "cp1251, gb18030"."""
    # It takes long to import, and few files need it.
    from charset_normalizer import from_bytes

    names = [match.encoding for match in from_bytes(sample[:SAMPLE_BYTES])]
    return ", ".join(dict.fromkeys(names[:3])) or "cp1252, cp1251, shift_jis or gb18030"


class _KeptOpen(io.RawIOBase):
    """Reads a file that others read later: closing this does not close the file."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


def iter_lines(file: IO[bytes], encoding: str) -> Iterator[str]:
    """The lines of a text with their ends: LF, CR LF, or CR alone. Raises: `UnicodeDecodeError`."""
    # Ends as they are: a cell may contain another one than the table.
    yield from io.TextIOWrapper(io.BufferedReader(_KeptOpen(file)), encoding=encoding, newline="")


def find_bad_line(file: IO[bytes], encoding: str) -> int:
    """The first line that is not text of an encoding, from 1."""
    for number, line in enumerate(file, start=1):
        try:
            line.decode(encoding)
        except UnicodeDecodeError:
            return number
    return 1


def read_head(lines: list[str]) -> CsvHead:
    """How a table is written, from the first lines of its file."""
    separator = _SEPARATOR_LINE.fullmatch(lines[0]) if lines else None
    first = 0 if separator is None else 1
    start = first
    while start < len(lines) and lines[start].startswith("#"):
        start += 1
    delimiter = separator[1] if separator else _delimiter_of(lines[start:])
    following = lines[start] if start < len(lines) else ""
    # A header may begin with a number sign: "#,question,answer".
    while start > first and lines[start - 1].count(delimiter) == following.count(delimiter) > 0:
        start -= 1
    comments = start - first
    note = f"lines before the header that begin with #: {comments}" if comments else None
    if separator is not None:
        return CsvHead(delimiter, start, note)
    header = (lines[start] if start < len(lines) else "").strip()
    is_framed = delimiter == "|" and len(header) > 1 and header[0] == header[-1] == "|"
    return CsvHead(delimiter, start, note, _is_padded(header, delimiter), is_framed)


def _delimiter_of(lines: Sequence[str]) -> str:
    """The delimiter with which the most lines have as many cells as the header; of several the one with most cells."""
    return max(DELIMITERS, key=lambda delimiter: _fit_of(lines, delimiter))


def _fit_of(lines: Sequence[str], delimiter: str) -> tuple[bool, float, int]:
    try:
        rows = [cells for cells in csv.reader(lines, delimiter=delimiter) if cells]
    except csv.Error:
        return False, 0.0, 0
    if not rows:
        return False, 0.0, 0
    width = len(rows[0])
    # The last of several lines may end within a cell.
    others = rows[1:-1] or rows[1:]
    share = sum(len(cells) == width for cells in others) / len(others) if others else 1.0
    return width > 1, share, width


def _is_padded(header: str, delimiter: str) -> bool:
    """Return whether a blank follows each delimiter of a header."""
    cells = header.split(delimiter)[1:]
    return bool(cells) and all(cell.startswith(" ") for cell in cells)


def explain_csv_error(error: csv.Error, limit: int) -> str:
    """What is wrong with a text that is not CSV, in words for people."""
    match str(error):
        case "unexpected end of data":
            return "a quoted cell begins here and does not end; close its quote"
        case message if "field larger than field limit" in message:
            return f"a cell has more than {limit} characters; close its quote or shorten it"
        case message if "expected after" in message:
            return "text follows a closing quote; write a quote inside a cell twice"
        case message:
            return f"not valid CSV: {message}"


def is_utf8(file: IO[bytes]) -> bool:
    """Return whether a file is UTF-8 as a whole."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while chunk := file.read(SAMPLE_BYTES):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
