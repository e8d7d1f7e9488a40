"""Texts that libraries write to log records belong to the spans of their IDs."""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from mosaico.traces.otel.assembly import assemble_trace
from mosaico.traces.otel.export_body import JSON_TYPE, PROTOBUF_TYPE, Signal, decode_body
from mosaico.traces.otel.spans import Span, UndecodableBody
from tests.support.otel_frameworks.form import ANSWER, ASKED, CALL_TEXT, QUESTION
from tests.support.otlp import START_NS, any_value, export, key_values, span

TRACE: Final = "1".zfill(32)
CALL, ROOT = "2", "1"
SPANS: Final = (
    span("agent", span_id=ROOT),
    span(
        "chat",
        span_id=CALL,
        parent=ROOT,
        gen_ai__operation__name="chat",
        gen_ai__request__model="small",
    ),
)
CALLS: Final = [
    {"id": "c", "type": "function", "function": {"name": "look_up", "arguments": CALL_TEXT}}
]
# Each by its name, its body and its attributes.
Records: TypeAlias = tuple[tuple[str | None, Any, Mapping[str, Any]], ...]
TRACELOOP: Final[Records] = (
    ("gen_ai.user.message", {"content": QUESTION}, {"gen_ai.system": "openai"}),
    ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": ANSWER, "tool_calls": CALLS}}, {}),
)  # fmt: skip
OPENAI_V2: Final[Records] = (
    ("gen_ai.client.inference.operation.details", None, {"gen_ai.input.messages": json.loads(ASKED), "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}, {"type": "tool_call", "id": "c", "name": "look_up", "arguments": {"city": "Rome"}}]}]}),
)  # fmt: skip
# It names the event in an attribute, and writes other records.
SEMANTIC_KERNEL: Final[Records] = (
    (None, json.dumps({"role": "system", "content": "Be brief."}), {"event.name": "gen_ai.system.message"}),
    (None, json.dumps({"role": "user", "content": QUESTION}), {"event.name": "gen_ai.user.message"}),
    (None, "processing 1 tool calls in parallel", {"code.line.number": 149}),
    (None, json.dumps({"message": {"role": "assistant", "content": ANSWER, "tool_calls": CALLS}}), {"event.name": "gen_ai.choice"}),
)  # fmt: skip


def logs(records: Records, span_id: str = CALL) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for number, (name, body, attributes) in enumerate(records):
        record = scope.log_records.add(
            time_unix_nano=START_NS + number,
            trace_id=bytes.fromhex(TRACE),
            span_id=bytes.fromhex(span_id.zfill(16)),
            event_name=name or "",
            attributes=key_values(attributes),
        )
        if body is not None:
            record.body.CopyFrom(any_value(body))
    return request


def encode(request: ExportLogsServiceRequest, content_type: str) -> bytes:
    if content_type == PROTOBUF_TYPE:
        return bytes(request.SerializeToString())
    document = MessageToDict(request)
    for record in document["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
        record["traceId"], record["spanId"] = TRACE, CALL.zfill(16)
    return json.dumps(document).encode()


def read(body: bytes, content_type: str, signal: Signal) -> list[Span]:
    return [s for s in decode_body(body, content_type, signal) if isinstance(s, Span)]


def read_logs(request: ExportLogsServiceRequest) -> list[Span]:
    return read(encode(request, PROTOBUF_TYPE), PROTOBUF_TYPE, Signal.LOGS)


@pytest.mark.parametrize("content_type", [PROTOBUF_TYPE, JSON_TYPE])
@pytest.mark.parametrize("records", [TRACELOOP, OPENAI_V2, SEMANTIC_KERNEL])
def test_logs__with_texts_complete_their_span(records: Any, content_type: str) -> None:
    events = read(encode(logs(records), content_type), content_type, Signal.LOGS)
    spans = read(export(SPANS), PROTOBUF_TYPE, Signal.SPANS)
    for order in ((*spans, *events), (*events, *spans)):
        trace = assemble_trace(order)
        assert (trace.input, trace.output, trace.turns, trace.tags) == (QUESTION, ANSWER, 1, ())
        [call] = trace.tool_calls or ()
        assert (call.name, call.arguments) == ("look_up", {"city": "Rome"})


def test_logs__of_a_repeated_export_have_the_same_ids() -> None:
    first, second = (read_logs(logs(TRACELOOP)) for _ in range(2))
    assert first == second
    assert len({event.span_id for event in first}) == 2


def test_logs__without_events_of_a_span_are_ignored() -> None:
    request = logs((("gen_ai.user.message", {"content": QUESTION}, {}),))
    record = request.resource_logs[0].scope_logs[0].log_records[0]
    record.span_id = b""
    assert read_logs(request) == []
    record.span_id, record.event_name = b"\1" * 8, "app.started"
    assert read_logs(request) == []


def test_logs__of_an_unknown_span_are_no_spans_of_the_trace() -> None:
    events = read_logs(logs(TRACELOOP, span_id="9"))
    trace = assemble_trace([*events, *read(export(SPANS), PROTOBUF_TYPE, Signal.SPANS)])
    assert (trace.input, trace.output, trace.tags) == (None, None, ("content-not-recorded",))


def test_logs__without_any_span_are_one_trace_with_both_texts() -> None:
    trace = assemble_trace(read_logs(logs(TRACELOOP)))
    assert (trace.input, trace.output, trace.input_tokens) == (QUESTION, ANSWER, None)


def test_logs__answer_of_a_stream_that_carries_the_id_of_the_parent() -> None:
    """traceloop writes the choice of a stream below the agent, here below a server."""
    spans = (
        span("POST /ask", span_id="7"),
        span("agent", span_id=ROOT, parent="7"),
        SPANS[1],
    )
    asked, answered = TRACELOOP
    events = (*read_logs(logs((asked,))), *read_logs(logs((answered,), span_id=ROOT)))
    trace = assemble_trace([*read(export(spans), PROTOBUF_TYPE, Signal.SPANS), *events])
    assert (trace.input, trace.output) == (QUESTION, ANSWER)


def test_logs__that_are_no_export_are_refused() -> None:
    for body, content_type in ((b"[]", JSON_TYPE), (b"\xff", PROTOBUF_TYPE)):
        with pytest.raises(UndecodableBody):
            read(body, content_type, Signal.LOGS)
