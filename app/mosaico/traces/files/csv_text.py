"""The text of a CSV file: its encoding, its lines, and what precedes the header."""

import codecs
import io
import re
from collections.abc import Iterable, Iterator
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
_HIGH: Final = re.compile(rb"[\x80-\xff]")
_LETTER_RUN: Final = re.compile(rb"[\xc0-\xff]{3}")
# Of the bytes of a text in a western language few are no ASCII; in Shift-JIS every second one is none.
_MAX_HIGH_SHARE: Final = 0.25
_WINDOWS_1252: Final = "cp1252"


class CsvHead(NamedTuple):
    """What precedes the rows: the delimiter, the number of lines before the header, and the header."""

    delimiter: str
    skipped_lines: int
    note: str | None


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
    """The delimiter and the lines before the header, from the first lines of a file."""
    separator = _SEPARATOR_LINE.fullmatch(lines[0]) if lines else None
    if separator is not None:
        return CsvHead(separator[1], 1, None)
    comments = 0
    while comments < len(lines) and lines[comments].startswith("#"):
        comments += 1
    following = lines[comments] if comments < len(lines) else ""
    delimiter = _delimiter_of(following)
    # A header may begin with a number sign: "#,question,answer".
    while comments and lines[comments - 1].count(delimiter) == following.count(delimiter) > 0:
        comments -= 1
    note = f"lines before the header that begin with #: {comments}" if comments else None
    return CsvHead(delimiter, comments, note)


def _delimiter_of(line: str) -> str:
    unquoted = re.sub(r'"[^"]*"', "", line)
    return max(DELIMITERS, key=unquoted.count)
