"""Files of tools that have no results of items: aggregates, links, or failures alone. Their error says which file has them."""

from collections.abc import Mapping
from typing import Final, NamedTuple, NoReturn

from mosaico.traces.files.import_file import Container, ImportFile
from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.importer_registry import IMPORTERS, Importer
from mosaico.traces.files.row_lists import ROW_MEMBERS


class Summary(NamedTuple):
    """A file without results: the keys that it has in its document or its first row, those that it would have with results,
    what it holds, and what to do.
    """

    keys: frozenset[str]
    text: str
    lacks: frozenset[str] = frozenset()


SUMMARIES: Final = (
    Summary(
        frozenset({"results", "versions", "config"}),
        "results of whole tasks of lm-evaluation-harness; run it with --log_samples, and use samples_….jsonl",
        frozenset({"samples"}),
    ),
    Summary(
        frozenset({"accuracy", "correct_count", "total_count"}),
        "scores of BFCL, which list failures only; use …_result.json of both models",
    ),
    Summary(
        frozenset({"question_id", "answer_id", "choices"}),
        "answers of MT-bench without a judgment; use model_judgment/…_single.jsonl",
    ),
    Summary(
        frozenset({"score", "metrics", "htmls", "convos"}),
        "results of simple-evals, whose scores by question are only in its pages; write them to a table",
    ),
    Summary(
        frozenset({"datasetName", "datasetRunItems"}),
        "links of a dataset run of Langfuse to its traces; export the traces, or connect Langfuse as a trace source",
    ),
    Summary(
        frozenset({"eval_case_results"}),
        "scores of Vertex AI without their evaluation_dataset; save both, or write its metrics_table with to_csv()",
        frozenset({"evaluation_dataset"}),
    ),
    Summary(
        frozenset({"summary_metrics"}),
        "means of Vertex AI; save eval_case_results and evaluation_dataset, or write its metrics_table with to_csv()",
        frozenset({"eval_case_results"}),
    ),
    Summary(
        frozenset({"no_generation", "resolved"}),
        "lists of a report of SWE-bench before 2024 that do not name the unresolved instances; use report.json of each"
        " instance",
        frozenset({"generated", "with_logs", "applied"}),
    ),
)


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
    summaries = (s for s in SUMMARIES if s.keys <= keys and s.lacks.isdisjoint(keys))
    return next((summary.text for summary in summaries), None)


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
