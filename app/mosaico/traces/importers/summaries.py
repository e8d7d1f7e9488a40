"""Files of tools that have no results of items: aggregates, links, or failures alone. Their error says which file has them."""

from collections.abc import Mapping
from typing import Final, NoReturn

from mosaico.traces.files.import_file import Container, ImportFile
from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.importer_registry import IMPORTERS, Importer
from mosaico.traces.files.row_lists import ROW_MEMBERS

# By keys that only such a file has, of its document or its first row: what it holds, and what to do.
SUMMARIES: Final[Mapping[frozenset[str], str]] = {
    frozenset({"results", "versions", "config"}): (
        "results of whole tasks of lm-evaluation-harness; run it with --log_samples, and use samples_….jsonl"
    ),
    frozenset({"accuracy", "correct_count", "total_count"}): (
        "scores of BFCL, which list failures only; use …_result.json of both models"
    ),
    frozenset({"score", "metrics", "htmls", "convos"}): (
        "results of simple-evals, whose scores by question are only in its pages; write them to a table"
    ),
    frozenset({"datasetName", "datasetRunItems"}): (
        "links of a dataset run of Langfuse to its traces; export the traces, or connect Langfuse as a trace source"
    ),
    frozenset({"eval_case_results", "evaluation_dataset"}): (
        "a result of Vertex AI whose texts are apart from its scores; write its metrics_table with to_csv()"
    ),
}


def find_summary(file: ImportFile) -> str | None:
    """What a file holds in place of results; None for another file."""
    keys: set[str] = set()
    if file.container is Container.JSON:
        document = object_of(file.document)
        if any(isinstance(document.get(name), list) for name in ROW_MEMBERS):
            return None
        keys = {*map(str, document)}
    elif file.container is Container.JSON_LINES:
        keys = {*file.first_row}
    return next((text for marks, text in SUMMARIES.items() if marks <= keys), None)


def reject_summary(file: ImportFile, _: Mapping[str, str]) -> NoReturn:
    """Raises: `InvalidImport`, which says which file to use."""
    file.reject(f"no results of items in this file, only {find_summary(file) or 'a summary'}")


IMPORTERS.register(
    "summaries",
    Importer(
        summary="file without results",
        recognizes=lambda file: find_summary(file) is not None,
        read=reject_summary,
    ),
)
