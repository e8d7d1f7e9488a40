"""The traces of an upload, from lines in the upload format or from a file of any format."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, NamedTuple

from mosaico.core.web.uploads import iter_lines
from mosaico.traces.files.import_file import Container, ImportFile
from mosaico.traces.files.importer_registry import load_importers
from mosaico.traces.files.ndjson import TRACE_KEYS, IgnoredKeys, parse_trace_line
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.files.trace_file import TRACES, is_changed, read_file
from mosaico.traces.reader_versions import TraceReaderVersion, reader_of
from mosaico.traces.storable_traces import MAX_TEXT_CHARS, find_long_text, make_storable
from mosaico.traces.types import Trace
from mosaico.traces.upload_errors import InvalidTrace


class UploadedTraces(NamedTuple):
    """The traces of an upload, what reads them if that is known, and what of them is not used: known when all of them
    are read.
    """

    traces: Iterator[Trace]
    reader: TraceReaderVersion | None
    list_unused: Callable[[], Sequence[str]] = tuple


def uploaded_lines(
    numbered_lines: Iterable[tuple[int, bytes]], reader: TraceReaderVersion | None
) -> UploadedTraces:
    """The traces of lines in the upload format, whole: nothing of an item may be cut silently.

    Raises: `InvalidTrace` with the number of a line that is not a trace, while they are read.
    """
    ignored = IgnoredKeys()

    def read() -> Iterator[Trace]:
        for number, line in numbered_lines:
            trace = parse_trace_line(line, number, ignored)
            # Only a long line has a long text.
            name = find_long_text(trace) if len(line) > MAX_TEXT_CHARS else None
            if name is not None:
                raise InvalidTrace(
                    f"line {number}: {TRACE_KEYS[name]} has a text of more than {MAX_TEXT_CHARS:,}"
                    " characters; shorten it"
                )
            yield make_storable(trace)

    return UploadedTraces(read(), reader, lambda: ignored.names)


def uploaded_file(name: str, file: IO[bytes], options: ReadOptions | None = None) -> UploadedTraces:
    """The traces of a file by the one reader of files; `name` is the file in messages.

    Raises: `InvalidImport` with the line, `InvalidMapping`, `TooLarge` for a line of traces above 16 MiB.
    """
    load_importers(lambda _: None)
    import_file = ImportFile(name, file, options)
    reading = read_file(import_file)
    is_of_traces = reading.importer_name == TRACES and import_file.container is Container.JSON_LINES
    if is_of_traces and not is_changed(import_file.options):
        return uploaded_lines(iter_lines(import_file.open()), reader_of(TRACES))
    return UploadedTraces(
        map(make_storable, reading.traces),
        reader_of(reading.importer_name),
        reading.report.describe_left_out,
    )
