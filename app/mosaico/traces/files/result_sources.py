"""Where results come from: a file, standard input, or rows in memory."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeAlias

from mosaico.core.console.files import CHUNK_BYTES, open_input
from mosaico.traces.files.import_file import Container, ImportFile
from mosaico.traces.files.read_options import ReadOptions

STDIN: Final = Path("-")
MEMORY_BYTES: Final = 1024**2


@dataclass(frozen=True, slots=True)
class ResultRows:
    """Results in memory, which are read like a JSON list of the same rows; `name` is their name in
    messages.
    """

    name: str
    rows: Sequence[Mapping[str, Any]]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class MappedSource:
    """Results whose columns differ from those of the other results: `mapping` names them by field."""

    source: Path | ResultRows
    mapping: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.source.name

    def __str__(self) -> str:
        return str(self.source)


ResultSource: TypeAlias = Path | ResultRows | MappedSource


class RowsFile(ImportFile):
    """Rows in memory as a JSON document."""

    may_be_empty = True

    def __init__(self, results: ResultRows, options: ReadOptions | None = None) -> None:
        super().__init__(results.name, BytesIO(), options)
        self._results = results.rows

    @cached_property
    def container(self) -> Container:
        return Container.JSON

    @cached_property
    def document(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self._results]


@contextmanager
def open_import(path: ResultSource, options: ReadOptions | None = None) -> Iterator[ImportFile]:
    """The file for reading; `-` is standard input, which is copied to a temporary file.

    Raises: `UnreadableInput`.
    """
    if isinstance(path, MappedSource):
        options = options or ReadOptions()
        mapping = {**options.mapping, **path.mapping}
        with open_import(path.source, replace(options, mapping=mapping)) as file:
            yield file
        return
    if isinstance(path, ResultRows):
        yield RowsFile(path, options)
        return
    with open_input(path) as file:
        if path != STDIN:
            yield ImportFile(str(path), file, options)
            return
        with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES) as copy:
            while chunk := file.read(CHUNK_BYTES):
                copy.write(chunk)
            yield ImportFile("standard input", copy, options)
