"""A file whose parts are checked against the limits of its options, before they fill the memory."""

from collections.abc import Iterator
from typing import IO, Final, NoReturn

from mosaico.core.errors import Invalid
from mosaico.traces.files.json_objects import count_json_values
from mosaico.traces.files.read_options import MIB, ReadOptions

# The settings of the limits.
PART: Final = "MOSAICO_IMPORT_PART_MB"
UNPACKED: Final = "MOSAICO_IMPORT_UNPACKED_MB"
VALUES: Final = "MOSAICO_IMPORT_VALUES"
COLUMNS: Final = "MOSAICO_IMPORT_COLUMNS"


class InvalidImport(Invalid):
    """The file cannot be imported; correct it at the line in the message."""


class UnknownColumns(InvalidImport):
    """The file cannot be imported; correct it at the line in the message."""

    # The same problem to a client; `mosaico init` asks for the columns.
    code = InvalidImport.code


class LimitedFile:
    """A file that can be read several times; `name` is its name in messages."""

    def __init__(self, name: str, file: IO[bytes], options: ReadOptions | None = None) -> None:
        self.name = name
        self.options = options or ReadOptions()
        self._file = file

    def open(self) -> IO[bytes]:
        """The content from its beginning; only one reader at a time."""
        self._file.seek(0)
        return self._file

    def lines(self) -> Iterator[bytes]:
        """The lines, one in memory at a time. Raises: `InvalidImport` for a long one."""
        longest = self.options.limits.part_bytes
        file, number = self.open(), 0
        while line := file.readline(longest + 1):
            number += 1
            self.require_unpacked(len(line), f"line {number}")
            yield line

    def require_few_values(self, raw: bytes, part: str) -> None:
        """Raise `InvalidImport` before a JSON text is parsed that would take very much memory."""
        limit = self.options.limits.values
        if count_json_values(raw) > limit:
            self._reject_larger(part, f"{limit:,} JSON values", VALUES)

    def require_unpacked(self, size: int, part: str) -> None:
        """Raise `InvalidImport` if a part of the file, which is in memory at once, exceeds its limit."""
        limit = self.options.limits.part_bytes
        if size > limit:
            self._reject_larger(part, f"{limit // MIB} MiB", PART)

    def require_all_unpacked(self, size: int) -> None:
        """Raise `InvalidImport` if all that is unpacked, or that a directory names, exceeds its limit."""
        limit = self.options.limits.unpacked_bytes
        if size > limit:
            self._reject_larger("the unpacked file", f"{limit // MIB} MiB", UNPACKED)

    def require_columns(self, count: int) -> None:
        """Raise `InvalidImport` if a table has more columns than its limit."""
        limit = self.options.limits.columns
        if count > limit:
            self._reject_larger("the table", f"{limit:,} columns", COLUMNS)

    def reject(self, detail: str) -> NoReturn:
        """Raise an error that names the file."""
        raise InvalidImport(f"{self.name}: {detail}")

    def _reject_larger(self, part: str, limit: str, setting: str) -> NoReturn:
        self.reject(f"{part} has more than {limit}; split the file, or set {setting} higher")
