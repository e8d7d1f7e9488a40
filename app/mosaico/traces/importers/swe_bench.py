"""Reports of SWE-bench: the report of a run, with lists of instances, and `report.json` of each instance.

An instance passes if it is resolved; an empty patch and a patch with an error fail. What the infrastructure failed or what is
incomplete is missing. Predictions (`preds.json`, `all_preds.jsonl`) are tables with a patch as the answer. Source: the harness of
SWE-bench 4, and its reports before 2024.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_document
from mosaico.traces.types import TraceOutcome

# Later lists decide: what the infrastructure failed is also in the lists of failures.
FAILED: Final = ("unresolved_ids", "empty_patch_ids", "error_ids")
MISSING: Final = ("infra_failure_ids", "incomplete_ids")
OLD_FAILED: Final = (
    "generated", "with_logs", "applied", "no_generation", "no_apply", "no_logs", "test_errored", "test_timeout",
)  # fmt: skip
OLD_MISSING: Final = ("install_fail", "reset_failed")
# Before 2024 only these lists name the instances that are not resolved.
OLD_MARKS: Final = frozenset({"generated", "with_logs", "applied"})


def find_instances(document: Mapping[str, Any]) -> Iterable[Cells] | None:
    """The instances of a report, each with `resolved`, which is None where nobody measured it."""
    reports = [*document.values()]
    marks = {"resolved", "patch_successfully_applied"}
    if reports and all(object_of(report).keys() >= marks for report in reports):
        return [{**report, "id": instance} for instance, report in document.items()]
    names = {*FAILED, *MISSING, "total_instances"}
    if isinstance(document.get("resolved_ids"), list) and not names.isdisjoint(document):
        return _listed(document, FAILED, "resolved_ids", MISSING)
    if isinstance(document.get("resolved"), list) and not OLD_MARKS.isdisjoint(document):
        resolved = {**document, "missing": _unresolved(document)}
        return _listed(resolved, OLD_FAILED, "resolved", ("missing",))
    return None


def _unresolved(document: Mapping[str, Any]) -> list[Any]:
    """The instances whose environment failed, unless they are resolved all the same."""
    missing = [instance for name in OLD_MISSING for instance in document.get(name) or ()]
    return [instance for instance in missing if instance not in document["resolved"]]


def _listed(
    document: Mapping[str, Any], failed: Iterable[str], resolved: str, missing: Iterable[str]
) -> list[Cells]:
    # An instance that is only in another list, such as that of the submitted ones, has no result.
    others = [name for name in document if name.endswith("_ids")]
    values = [(others, None), (failed, False), ((resolved,), True), (missing, None)]
    instances = {
        str(instance): is_resolved
        for names, is_resolved in values
        for name in names
        if isinstance(document.get(name), list)
        for instance in document[name]
    }
    return [{"id": instance, "resolved": value} for instance, value in instances.items()]


def read_instance(row: Cells) -> Mapping[str, Any]:
    """The fields of an instance."""
    is_missing = row["resolved"] is None
    return {
        "item": row["id"],
        "passed": None if is_missing else float(bool(row["resolved"])),
        "error": "the report has no result of this instance" if is_missing else None,
        "outcome": TraceOutcome.INFRA_ERROR if is_missing else None,
    }


register_document(
    "swe-bench",
    "report of SWE-bench",
    find_instances,
    ToolTable(compute=read_instance, used=("id", "resolved", "patch_*", "tests_status")),
    members=(
        "*_ids", "*_instances", *OLD_FAILED, *OLD_MISSING, "resolved", "failure_reasons", "unstopped_containers",
        "unremoved_images", "schema_version",
    ),
)  # fmt: skip
