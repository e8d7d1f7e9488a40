"""Traces as JSON Lines or as a JSON list: the upload format of the service, checked strictly."""

import json
from collections.abc import Iterable, Iterator, Mapping

from mosaico.core.errors import Invalid
from mosaico.traces.files.import_file import Container, ImportFile
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.ndjson import IgnoredKeys, iter_traces
from mosaico.traces.types import Trace


def read_traces(file: ImportFile, _: Mapping[str, str]) -> ImportedTraces:
    """The traces of the file. Raises: `Invalid` with file and line."""
    notes: list[str] = []
    return ImportedTraces(traces=_iter_traces(file, notes), notes=notes)


def _iter_traces(file: ImportFile, notes: list[str]) -> Iterator[Trace]:
    lines: Iterable[bytes | str] = _short_lines(file)
    if file.container is Container.JSON:
        lines = (json.dumps(row.cells) for row in file.rows())
    ignored_keys = IgnoredKeys()
    try:
        yield from iter_traces(lines, ignored_keys)
    except Invalid as error:
        raise Invalid(
            f"{file.name}: {error.detail}", code=error.error_code, errors=error.errors
        ) from None
    notes += ignored_keys.notes()


def _short_lines(file: ImportFile) -> Iterator[bytes]:
    for number, line in enumerate(file.lines(), start=1):
        # Only a long line has many values.
        if len(line) > file.options.limits.values:
            file.require_few_values(line, f"line {number}")
        yield line


def _recognizes(file: ImportFile) -> bool:
    if file.container not in (Container.JSON_LINES, Container.JSON):
        return False
    return "traceId" in file.first_row


IMPORTERS.register(
    "traces",
    Importer(summary="traces of MOSAICO", recognizes=_recognizes, read=read_traces),
)
