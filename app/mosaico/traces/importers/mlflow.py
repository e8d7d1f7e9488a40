"""Traces and evaluations of MLflow: `search_traces()` and the results of `genai.evaluate()` as CSV, JSON and JSON Lines.

Feedback that failed has no score. The request names the item: its IDs are those of a run. The duration of a trace is in
milliseconds. Source: mlflow 3.17.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import is_blank
from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.files.tool_cells import (
    EvaluatorFailure,
    choose_member,
    members_of,
    named_scores,
    usage_of,
)
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.value_text import parse_encoded


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
    expected = _named(assessments, "expectation") or members_of(row, "expectations")
    request = parse_encoded(row.get("request", row.get("inputs")))
    tokens = object_of(parse_encoded(row.get("trace_metadata"))).get("mlflow.trace.tokenUsage")
    return {
        "traceId": row.get("trace_id"),
        "input": choose_member(request, "input")
        if isinstance(request, Mapping) and request
        else request,
        "output": parse_encoded(row.get("response", row.get("outputs"))),
        "expected": _expected(expected),
        "error": _error(row),
        "latencyMs": row.get(
            "execution_duration", row.get("execution_duration_ms", row.get("execution_time_ms"))
        ),
        **usage_of(parse_encoded(tokens)),
        "scores": {**dict(_columns(row, expected)), **_named(assessments, "feedback")},
    }


def _expected(expectations: Mapping[str, Any]) -> Any:
    texts = {n: v for n, v in expectations.items() if isinstance(v, str | int | float)}
    return texts.get("expected_response") or choose_member(texts, "expected", "expectations.")


def _named(assessments: list[Mapping[str, Any]], kind: str) -> dict[str, Any]:
    """The values of feedback or of expectations by name; a feedback that another one replaced is not valid."""
    values = [
        {"name": entry.get("assessment_name", entry.get("name")), **object_of(entry[kind])}
        for entry in assessments
        if entry.get(kind) and entry.get("valid") is not False
    ]
    return named_scores(values, values=("value",))


def _columns(row: Cells, expected: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for column, cell in row.items():
        name, slash, kind = column.rpartition("/")
        if slash and kind == "value" and name not in expected:
            error = row.get(f"{name}/error_message")
            yield name, cell if is_blank(error) else EvaluatorFailure(str(error))


def _error(row: Cells) -> str | None:
    """The error of a trace that failed: the exception of its spans, whose class says whose it is. A trace that did not fail may
    have spans that did.
    """
    message, state = row.get("error_message"), str(row.get("state") or row.get("status") or "")
    if not state.endswith("ERROR"):
        return message or None
    for span in objects_of(parse_encoded(row.get("spans"))):
        for event in objects_of(span.get("events")):
            attributes = object_of(event.get("attributes"))
            if attributes.get("exception.message") is not None:
                return f"{attributes.get('exception.type')}: {attributes['exception.message']}"
    return message or f"the trace ended with {state}"


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
