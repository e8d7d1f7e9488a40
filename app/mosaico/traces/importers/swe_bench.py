"""Reports of SWE-bench: the report of a run, with lists of instances, and `report.json` of each instance.

An instance passes if it is resolved; an empty patch and a patch with an error fail. What the infrastructure failed or what is
incomplete is missing. Predictions (`preds.json`, `all_preds.jsonl`) are tables with a patch as the answer. Source: the harness of
SWE-bench 4.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mosaico.traces.files.ignored_fields import IgnoredFields, describe_ignored
from mosaico.traces.files.import_file import Container, ImportFile, TableRow
from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.tool_tables import Cells, ToolTable, read_tool_table
from mosaico.traces.types import TraceOutcome

RESOLVED: Final = "resolved_ids"
# Later lists decide: what the infrastructure failed is also in the lists of failures.
LISTS: Final = ("unresolved_ids", "empty_patch_ids", "error_ids", RESOLVED)
MISSING: Final = ("infra_failure_ids", "incomplete_ids")

# Counts, lists that other lists imply, and reasons in words.
OTHERS: Final = (
    "total_instances", "submitted_instances", "completed_instances", "resolved_instances", "unresolved_instances",
    "empty_patch_instances", "error_instances", "infra_failure_instances", "ambiguous_failure_instances",
    "incomplete_instances", "submitted_ids", "completed_ids", "ambiguous_failure_ids", "failure_reasons",
    "unstopped_containers", "unstopped_instances", "unremoved_images", "schema_version",
)  # fmt: skip


def recognizes_swe_bench(file: ImportFile) -> bool:
    """Return whether a document is a report of a run or of instances."""
    if file.container is not Container.JSON:
        return False
    document = object_of(file.document)
    is_run = isinstance(document.get(RESOLVED), list) and any(
        name in document for name in (*LISTS[:-1], *MISSING, "total_instances")
    )
    return is_run or _is_of_instances(document)


def _is_of_instances(document: Mapping[str, Any]) -> bool:
    reports = [*document.values()]
    marks = {"resolved", "patch_successfully_applied"}
    return bool(reports) and all(object_of(report).keys() >= marks for report in reports)


def read_swe_bench(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of a report, one for each instance. Raises: `InvalidImport` for a report without instances."""
    document = object_of(file.document)
    rows = _instances(document) if _is_of_instances(document) else _listed(document)
    table = ToolTable(compute=read_instance, used=("id", "resolved", "patch_*", "tests_status"))
    imported = read_tool_table(file, mapping, table, rows)
    if not _is_of_instances(document):
        ignored = IgnoredFields((*LISTS, *MISSING, *OTHERS))
        ignored.check(document)
        imported.notes.extend(describe_ignored("fields of the report", ignored))
    return imported


def _instances(document: Mapping[str, Any]) -> Iterator[TableRow]:
    for instance, report in document.items():
        yield TableRow(instance, {**report, "id": instance})


def _listed(document: Mapping[str, Any]) -> Iterator[TableRow]:
    resolved: dict[str, bool | None] = {}
    for name in (*LISTS, *MISSING):
        instances = document.get(name)
        for instance in instances if isinstance(instances, list) else ():
            resolved[str(instance)] = None if name in MISSING else name == RESOLVED
    for instance, is_resolved in resolved.items():
        yield TableRow(instance, {"id": instance, "resolved": is_resolved})


def read_instance(row: Cells) -> Mapping[str, Any]:
    """The fields of an instance."""
    is_missing = row["resolved"] is None
    return {
        "item": row["id"],
        "passed": None if is_missing else float(bool(row["resolved"])),
        "error": "the report has no result of this instance" if is_missing else None,
        "outcome": TraceOutcome.INFRA_ERROR if is_missing else None,
    }


IMPORTERS.register(
    "swe-bench",
    Importer(summary="report of SWE-bench", recognizes=recognizes_swe_bench, read=read_swe_bench),
)
