"""Traces and evaluations of MLflow: `search_traces()` and the results of `genai.evaluate()` as CSV, JSON and JSON Lines, and
`eval_results_table.json` of its older evaluation.

Feedback that failed has no score. The request names the item: its IDs are those of a run. The duration of a trace is in
milliseconds, the latency of the older evaluation in seconds. Source: mlflow 3.17.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import is_blank
from mosaico.traces.files.import_file import ImportFile
from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.table_traces import read_table
from mosaico.traces.files.tool_cells import EvaluatorFailure, choose_member, members_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.value_text import parse_encoded

OLD_METRIC: Final = re.compile(r"(.+)/v\d+(?:/score)?")
NO_QUALITY: Final = frozenset(
    {"flesch_kincaid_grade_level", "ari_grade_level", "token_count", "latency"}
)
LOWER: Final = frozenset({"toxicity", "perplexity"})


def recognizes_traces(row: Cells) -> bool:
    """Return whether a row is a trace, or the evaluation of one."""
    is_trace = {"trace_id", "state", "request", "response"} <= row.keys()
    return is_trace or (
        any(name.endswith("/value") for name in row)
        and not {"inputs", "request", "trace"}.isdisjoint(row)
    )


def read_trace(row: Cells) -> Mapping[str, Any]:
    """The fields of a trace. Its assessments are in a list, and those of an evaluation in columns, too."""
    assessments = objects_of(parse_encoded(row.get("assessments")))
    expected = dict(_expectations(assessments)) or members_of(row, "expectations")
    request = parse_encoded(row.get("request", row.get("inputs")))
    tokens = object_of(parse_encoded(row.get("trace_metadata"))).get("mlflow.trace.tokenUsage")
    usage = object_of(parse_encoded(tokens))
    return {
        "traceId": row.get("trace_id"),
        "input": choose_member(request, "input")
        if isinstance(request, Mapping) and request
        else request,
        "output": row.get("response", row.get("outputs")),
        "expected": _expected(expected),
        "error": _error(row),
        "latencyMs": row.get(
            "execution_duration", row.get("execution_duration_ms", row.get("execution_time_ms"))
        ),
        "inputTokens": usage.get("input_tokens"),
        "outputTokens": usage.get("output_tokens"),
        "scores": {**dict(_columns(row, expected)), **dict(_feedback(assessments))},
    }


def _expected(expectations: Mapping[str, Any]) -> Any:
    texts = {n: v for n, v in expectations.items() if isinstance(v, str | int | float)}
    return texts.get("expected_response") or choose_member(texts, "expected", "expectations.")


def _expectations(assessments: list[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    for assessment in assessments:
        if assessment.get("expectation"):
            yield (
                str(assessment.get("assessment_name")),
                object_of(assessment["expectation"]).get("value"),
            )


def _feedback(assessments: list[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    for assessment in assessments:
        feedback = object_of(assessment.get("feedback"))
        if feedback and assessment.get("valid") is not False:
            name = str(assessment.get("assessment_name", assessment.get("name")))
            error = feedback.get("error")
            yield name, EvaluatorFailure(str(error)) if error else feedback.get("value")


def _columns(row: Cells, expected: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for column, cell in row.items():
        name, slash, kind = column.rpartition("/")
        if slash and kind == "value" and name not in expected:
            error = row.get(f"{name}/error_message")
            yield name, cell if is_blank(error) else EvaluatorFailure(str(error))


def _error(row: Cells) -> str | None:
    """The error of a trace: the exception of its spans, whose class says whose it is."""
    for span in objects_of(parse_encoded(row.get("spans"))):
        for event in objects_of(span.get("events")):
            attributes = object_of(event.get("attributes"))
            if attributes.get("exception.message") is not None:
                return f"{attributes.get('exception.type')}: {attributes['exception.message']}"
    state = str(row.get("state") or row.get("status") or "")
    message = row.get("error_message")
    return message or (f"the trace ended with {state}" if state.endswith("ERROR") else None)


def recognizes_old_table(row: Cells) -> bool:
    """Return whether a row has metrics with a version in their names."""
    return any(OLD_METRIC.fullmatch(name) for name in row)


def read_old_table(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of the older evaluation: a table whose metrics have a version in their names."""
    metrics = {m[1]: name for name in file.first_row if (m := OLD_METRIC.fullmatch(name))}
    named = {f"scores[{name}]": c for name, c in metrics.items() if name not in NO_QUALITY}
    named |= {"latencySeconds": "latency"} if "latency" in file.first_row else {}
    named |= {"output": "outputs"} if "outputs" in file.first_row else {}
    imported = read_table(file, {**named, **mapping})
    imported.directions.update({name: "low" for name in metrics if name in LOWER})
    return imported


USED: Final = (
    "trace_id", "request_id", "trace", "client_request_id", "state", "status", "request_time", "execution_*",
    "request", "response", "request_preview", "response_preview", "inputs", "outputs", "expectations",
    "trace_metadata", "tags", "spans", "assessments", "timestamp_ms", "error_message", "trace_location",
    "*/value", "*/rationale", "*/error_message", "*/error_code",
)  # fmt: skip

register_tool(
    "mlflow",
    "traces of MLflow",
    recognizes_traces,
    ToolTable(compute=read_trace, used=USED),
)
IMPORTERS.register(
    "mlflow-evaluate",
    Importer(
        summary="evaluation table of MLflow",
        recognizes=lambda file: recognizes_old_table(file.first_row),
        read=read_old_table,
    ),
)
