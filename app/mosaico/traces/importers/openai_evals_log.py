"""Logs of the package openai/evals (`oaieval --record_path`): JSON Lines of events by sample.

The first answer of a sample is that of the model; a graded evaluation also records those of its judge. The ID of a sample ends
with its position in the data: samples with a prompt are paired by it. Source: evals/record.py of openai/evals 3.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import is_blank
from mosaico.traces.files.import_file import Container, ImportFile, TableRow
from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.tool_tables import Cells, ToolTable, read_tool_table

USED: Final = ("sample_id", "model", "sampling", "match", "metrics", "error")
EVENT: Final = frozenset({"sample_id", "type", "data", "event_id"})


def recognizes_log(file: ImportFile) -> bool:
    """Return whether the first line is the specification of an evaluation, or an event."""
    if file.container is not Container.JSON_LINES:
        return False
    row = file.first_row
    return "completion_fns" in object_of(row.get("spec")) or row.keys() >= EVENT


def read_log(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of a log, one for each sample."""
    return read_tool_table(file, mapping, ToolTable(compute=read_sample, used=USED), _samples(file))


def _samples(file: ImportFile) -> Iterator[TableRow]:
    """The events of each sample in one row: the first of each type, and the position of the first one."""
    samples: dict[str, dict[str, Any]] = {}
    places: dict[str, str] = {}
    model: Any = None
    for position, cells in file.rows():
        names = object_of(cells.get("spec")).get("completion_fns")
        model = names[0] if isinstance(names, list) and names else model
        if cells.keys() >= EVENT:
            sample = str(cells["sample_id"])
            places.setdefault(sample, position)
            events = samples.setdefault(sample, {"sample_id": sample})
            events.setdefault(str(cells["type"]), object_of(cells["data"]))
    for sample, events in samples.items():
        yield TableRow(places[sample], {**events, "model": model})


def read_sample(row: Cells) -> Mapping[str, Any]:
    """The fields of the events of a sample."""
    sampling, match = object_of(row.get("sampling")), object_of(row.get("match"))
    prompt = sampling.get("prompt", match.get("prompt"))
    sampled = sampling.get("sampled", match.get("sampled", match.get("picked")))
    if isinstance(sampled, list):
        sampled = {"samples": sampled} if len(sampled) > 1 else next(iter(sampled), None)
    expected = match.get("expected")
    usage, metrics = object_of(sampling.get("usage")), object_of(row.get("metrics"))
    return {
        "item": None if prompt else row["sample_id"],
        "input": prompt,
        "output": sampled,
        # Each of several expected answers is accepted.
        "expected": {"answers": expected} if isinstance(expected, list) else expected,
        "error": object_of(row.get("error")).get("message") or row.get("error"),
        "passed": match.get("correct"),
        "inputTokens": usage.get("prompt_tokens"),
        "outputTokens": usage.get("completion_tokens"),
        "model": row["model"],
        "scores": {
            n: v for n, v in metrics.items() if not isinstance(v, str | list | dict) or is_blank(v)
        },
    }


IMPORTERS.register(
    "openai-evals-log",
    Importer(summary="log of openai/evals", recognizes=recognizes_log, read=read_log),
)
