"""The traces of an upload, from lines in the upload format or from a file of any format."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, NamedTuple

from mosaico.core.web.uploads import iter_lines
from mosaico.harness.result_file import InvalidResultFile
from mosaico.traces.files.import_file import Container, ImportFile
from mosaico.traces.files.importer_registry import load_importers
from mosaico.traces.files.json_objects import count_json_values
from mosaico.traces.files.limited_file import VALUES
from mosaico.traces.files.ndjson import TRACE_KEYS, IgnoredKeys, parse_trace_line
from mosaico.traces.files.read_options import ReadLimits, ReadOptions
from mosaico.traces.files.trace_file import TRACES, is_changed, read_file
from mosaico.traces.producers.harness_results import read_results
from mosaico.traces.reader_versions import TraceReaderVersion, parse_reader, reader_of_file
from mosaico.traces.storable_traces import MAX_TEXT_CHARS, find_long_text, make_storable
from mosaico.traces.types import Trace
from mosaico.traces.upload_errors import InvalidTrace


class UploadedTraces(NamedTuple):
    """The traces of an upload, what reads them if that is known, what of them is not used (known when all of them are
    read), the name of the run that the upload states, and the columns of a table by the field that each is read as.
    """

    traces: Iterator[Trace]
    reader: TraceReaderVersion | None
    list_unused: Callable[[], Sequence[str]] = tuple
    run_name: str = ""
    columns: Mapping[str, str] = MappingProxyType({})


def uploaded_lines(
    numbered_lines: Iterable[tuple[int, bytes]],
    reader: TraceReaderVersion | None,
    run_name: str = "",
    max_values: int = ReadLimits().values,
) -> UploadedTraces:
    """The traces of lines in the upload format, whole: nothing of an item may be cut silently.

    Raises: `InvalidTrace` with the number of a line that is not a trace, while they are read.
    """
    ignored = IgnoredKeys()

    def read() -> Iterator[Trace]:
        for number, line in numbered_lines:
            # Only a long line has many values.
            if len(line) > max_values and count_json_values(line) > max_values:
                raise InvalidTrace(
                    f"line {number} has more than {max_values:,} JSON values; shorten it, or set {VALUES} of the"
                    " service higher"
                )
            trace = parse_trace_line(line, number, ignored)
            # Only a long line has a long text.
            name = find_long_text(trace) if len(line) > MAX_TEXT_CHARS else None
            if name is not None:
                raise InvalidTrace(
                    f"line {number}: {TRACE_KEYS[name]} has a text of more than {MAX_TEXT_CHARS:,}"
                    " characters; shorten it"
                )
            yield make_storable(trace)

    return UploadedTraces(read(), reader, lambda: ignored.names, run_name)


def read_lines(file: IO[bytes], reader: str, max_values: int) -> UploadedTraces:
    """The traces of a body in the upload format, of a client that read a file with `reader`."""
    return uploaded_lines(iter_lines(file), parse_reader(reader), max_values=max_values)


def read_harness_results(file: IO[bytes], max_values: int) -> UploadedTraces:
    """The traces of a result file of a harness. Raises: `InvalidResultFile`."""
    recording = read_results(file.read(), max_values)
    lines = enumerate(recording.lines, start=1)
    return uploaded_lines(lines, reader_of_file("harness"), recording.run_name)


def read_any_file(file: IO[bytes], name: str, options: ReadOptions) -> UploadedTraces:
    """The traces of a file of any format, also of a harness. Raises: the errors of `uploaded_file`."""
    if name.lower().endswith(".json"):
        # A result of a harness names its run; any other document is read by an importer, which refuses a large one.
        limits = options.limits
        is_small = len(file.read(limits.part_bytes + 1)) <= limits.part_bytes
        file.seek(0)
        with suppress(InvalidResultFile):
            if is_small:
                return read_harness_results(file, limits.values)
    uploaded = uploaded_file(name, file, options)
    return uploaded._replace(run_name=Path(name).stem or name)


def uploaded_file(name: str, file: IO[bytes], options: ReadOptions | None = None) -> UploadedTraces:
    """The traces of a file by the one reader of files; `name` is the file in messages.

    Raises: `InvalidImport` with the line, `InvalidMapping`, `TooLarge` for a line of traces above 16 MiB.
    """
    load_importers(lambda _: None)
    import_file = ImportFile(name, file, options)
    reading = read_file(import_file)
    is_of_traces = reading.importer_name == TRACES and import_file.container is Container.JSON_LINES
    if is_of_traces and not is_changed(import_file.options):
        lines = iter_lines(import_file.open())
        max_values = import_file.options.limits.values
        return uploaded_lines(lines, reader_of_file(TRACES), max_values=max_values)
    return UploadedTraces(
        map(make_storable, reading.traces),
        reader_of_file(reading.importer_name),
        reading.report.describe_left_out,
        columns=reading.report.columns,
    )
