"""Reads results that a client uploads."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from mosaico.core.console.files import CHUNK_BYTES
from mosaico.sdk.inputs import Results, open_reader, source_of
from mosaico.traces.files.ignored_fields import NOT_USED
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.reader_versions import TraceReaderVersion
from mosaico.traces.uploads.schemas import LocalDatasetView


@dataclass(frozen=True, slots=True)
class Upload:
    """Results in the upload format of the service, read while the chunks are used."""

    chunks: Iterator[bytes]
    remarks: list[str]
    reader: TraceReaderVersion | None

    def remarks_on(self, dataset: LocalDatasetView) -> list[str]:
        """The remarks of the reader, and the keys that the service does not use."""
        keys = ", ".join(dataset.ignored_keys)
        return [*self.remarks, *([f"keys {NOT_USED}: {keys}"] if keys else [])]


@contextmanager
def open_upload(
    results: Results,
    columns: Mapping[str, str] | None,
    input_format: str | None,
    read_options: ReadOptions | None = None,
) -> Iterator[Upload]:
    """Results, opened for an upload; the parameters are those of `Client.upload`.

    Raises: the errors of `open_reader` and of its files.
    """
    remarks: list[str] = []
    reader = open_reader(remarks, columns, input_format, read_options)
    with reader.upload_lines(source_of(results, "results")) as lines:
        yield Upload(_join_lines(lines), remarks, reader.reader)


def _join_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Chunks of at least `CHUNK_BYTES`, because each may be read in a thread."""
    chunk = bytearray()
    for line in lines:
        chunk += line
        if len(chunk) >= CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)
