"""The cache of DeepEval (`.deepeval/.deepeval-cache.json`): metrics by test case, whose texts are in the key.

A test case has no name and no place: it is paired by its input. Entries of several runs may be in one cache. Source: deepeval 4.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mosaico.traces.files.import_file import Container, ImportFile, TableRow
from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.tool_cells import EvaluatorFailure
from mosaico.traces.files.tool_tables import Cells, ToolTable, read_tool_table
from mosaico.traces.value_text import parse_encoded

ENTRIES: Final = "test_cases_lookup_map"
USED: Final = (
    "input", "actual_output", "expected_output", "context", "retrieval_context", "hyperparameters", "metrics",
)  # fmt: skip
NOTE: Final = "a cache also keeps test cases of older runs; .deepeval/.latest_test_run.json has the latest run alone"
# All other metrics of DeepEval succeed at or above their threshold.
LOWER: Final = frozenset({"bias", "toxicity", "hallucination", "misuse"})


def recognizes_cache(file: ImportFile) -> bool:
    """Return whether a document is a cache."""
    return file.container is Container.JSON and ENTRIES in object_of(file.document)


def read_cache(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of a cache, one for each entry."""
    table = ToolTable(compute=read_entry, used=USED, direction=direction_of)
    imported = read_tool_table(file, mapping, table, _entries(file))
    imported.notes.append(NOTE)
    return imported


def _entries(file: ImportFile) -> Iterator[TableRow]:
    entries = object_of(object_of(file.document).get(ENTRIES))
    for number, (key, entry) in enumerate(entries.items(), start=1):
        case = object_of(parse_encoded(key))
        if not case:
            file.reject(f"entry {number} of {ENTRIES}: its key is not the JSON text of a test case")
        metrics = objects_of(object_of(entry).get("cached_metrics_data"))
        if metrics or "actual_output" in case:
            yield TableRow(f"entry {number}", {**case, "metrics": metrics})
        else:
            file.counts.lost_rows.add(
                "entries without an answer and without a metric", f"entry {number}"
            )


def read_entry(row: Cells) -> Mapping[str, Any]:
    """The fields of an entry. It passes if all metrics that could decide succeed."""
    metrics = [object_of(m.get("metric_data") or m.get("metric_metadata")) for m in row["metrics"]]
    decided = [m for m in metrics if not m.get("error") and m.get("success") is not None]
    return {
        "input": row.get("input"),
        "output": row.get("actual_output"),
        "expected": row.get("expected_output"),
        "model": object_of(parse_encoded(row.get("hyperparameters"))).get("model"),
        "passed": all(m["success"] for m in decided) if decided == metrics and metrics else None,
        "scores": {
            str(m.get("name") or m.get("metric")): EvaluatorFailure(str(m["error"]))
            if m.get("error")
            else m.get("score")
            for m in metrics
        },
    }


def direction_of(name: str) -> str:
    """The side of the threshold on which a metric succeeds."""
    return "lower" if name.casefold() in LOWER else "higher"


IMPORTERS.register(
    "deepeval-cache",
    Importer(summary="cache of DeepEval", recognizes=recognizes_cache, read=read_cache),
)
