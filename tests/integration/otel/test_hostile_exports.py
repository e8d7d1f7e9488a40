"""Malformed exports, generated: a client gets 200, 400 or 413, and what is stored can be read as traces."""

import gzip
import json
import random
from itertools import groupby
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mosaico.traces.otel.assembly import assemble_items, assemble_trace
from mosaico.traces.otel.conventions import KINDS, PLACES
from mosaico.traces.otel.export_body import JSON_TYPE, PROTOBUF_TYPE, Signal, decode_body
from mosaico.traces.otel.facts import FactReader
from mosaico.traces.otel.spans import Span, UndecodableBody
from tests.support.otlp import START_NS, any_value, encode_spans, export, span
from tests.support.service import Service

# What the decoders, the facts of a trace and the table of conventions look for.
NAMES: Final = (
    *sorted(
        {
            *(
                f"{place.name}0.role" if place.name.endswith(".") else place.name
                for places in PLACES.values()
                for place in places
                if not place.is_event
            ),
            *(place.name for place, _ in KINDS if place.name),
        }
    ),
    "gen_ai.prompt.0.content", "gen_ai.prompt.99999999999.role", "llm.input_messages.0.message.role",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments", "tag.tags", "metadata",
    "langfuse.trace.tags", "langfuse.trace.metadata.key", "langfuse.experiment.item.id",
    "langfuse.experiment.item.root_observation_id", "mosaico.dataset", "mosaico.run", "mosaico.item_id",
    "mosaico.trial", "mosaico.expected_output", "error.type", "content", "message", "gen_ai.event.content", "bot.answer",
)  # fmt: skip
EVENTS: Final = (
    "gen_ai.evaluation.result", "gen_ai.user.message", "gen_ai.choice", "gen_ai.content.prompt", "gen_ai.other",
    "gen_ai.client.inference.operation.details", "exception", "gen_ai.tool.message",
)  # fmt: skip
ODD_TEXTS: Final = (
    "", "\0", "\ud800", '{"args": [], "kwargs": {"a": 1}}', '{"intValue": "5"}', '{"messages": [["user", "x"]]}',
    '{"contents": [{"parts": [{"functionCall": {"args": 1}}]}]}', '[{"toolUse": {"name": 1}}]', '{"usage": []}',
    '[{"event.name": "gen_ai.choice", "message": "x"}]', '{"anthropic": {"cacheReadInputTokens": 1e400}}', "1e999", "NaN", "chat", "tool", "LLM", "null", "{", "[[[[", '{"role": 7}',
    '[{"role": "assistant", "parts": [{"type": "tool_call", "name": null, "arguments": "{"}]}]',
    '[{"role": "user", "content": [{"text": 1}, null]}]', '{"input": -1, "total": "x"}', "x" * 300,
)  # fmt: skip
odd_values = st.recursive(
    st.sampled_from(ODD_TEXTS)
    | st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
any_values = st.builds(
    lambda kind, value: {kind: value},
    st.sampled_from(["stringValue", "intValue", "doubleValue", "boolValue", "bytesValue"]),
    odd_values,
) | st.builds(
    lambda members: {"arrayValue": {"values": [{"stringValue": m} for m in members]}},
    st.lists(odd_values, max_size=3),
)
attributes = st.lists(
    st.builds(lambda key, value: {"key": key, "value": value}, st.sampled_from(NAMES), any_values),
    max_size=8,
)
ids = st.sampled_from(["1", "2", "3"])
json_spans = st.builds(
    lambda trace, own, parent, span_attributes, event, more: {
        "traceId": trace.zfill(32),
        "spanId": own.zfill(16),
        "parentSpanId": parent.zfill(16),
        "name": "s",
        "startTimeUnixNano": str(START_NS),
        "endTimeUnixNano": str(START_NS + 5),
        "attributes": span_attributes,
        "events": [{"name": event, "attributes": span_attributes}],
        **more,
    },
    ids,
    ids,
    st.sampled_from(["0", "1", "2", "3"]),
    attributes,
    st.sampled_from(EVENTS),
    st.dictionaries(
        st.sampled_from(
            ["name", "traceId", "startTimeUnixNano", "endTimeUnixNano", "status", "attributes"]
        ),
        odd_values,
        max_size=1,
    ),
)
json_bodies = st.builds(
    lambda spans, wrong: json.dumps(
        {"resourceSpans": [{"resource": wrong, "scopeSpans": [{"scope": wrong, "spans": spans}]}]}
    ).encode(),
    st.lists(json_spans, max_size=4),
    st.one_of(st.just({}), odd_values),
) | odd_values.map(lambda value: json.dumps({"resourceSpans": value}).encode())


def protobuf_body(seed: int) -> bytes:
    """A valid export with odd attributes, of which some bytes are changed, lost or doubled."""
    chance = random.Random(seed)
    spans = [
        span(
            "agent",
            trace=chance.choice("123"),
            span_id=chance.choice("123"),
            parent=chance.choice(["1", None]),
        )
        for _ in range(3)
    ]
    for part in spans:
        for name in chance.sample(NAMES, 5):
            text = chance.choice(ODD_TEXTS).encode("utf-8", "replace").decode()
            part.attributes.add(
                key=name, value=any_value(chance.choice([text, 2**63 - 1, 0.5, True, [text]]))
            )
    body = bytearray(export(spans))
    for _ in range(chance.choice([0, 1, 1, 3])):
        at = chance.randrange(len(body))
        match chance.randrange(4):
            case 0:
                body[at] = chance.randrange(256)
            case 1:
                del body[at:]
                body += b"\n"
            case 2:
                del body[at : at + chance.randrange(9)]
                body += b"\n"
            case _:
                body[at:at] = body[at : at + 40]
    return bytes(body)


def as_logs(body: bytes) -> bytes:
    """A JSON export of spans as one of log records."""
    names = {b"resourceSpans": b"resourceLogs", b"scopeSpans": b"scopeLogs", b'"spans"': b'"logRecords"', b'"name"': b'"eventName"', b'"s"': b'"gen_ai.choice"'}  # fmt: skip
    for span_name, log_name in names.items():
        body = body.replace(span_name, log_name)
    return body


protobuf_bodies = st.integers(0, 2**32).map(protobuf_body) | st.binary(max_size=60)
bodies = st.tuples(protobuf_bodies, st.just(PROTOBUF_TYPE)) | st.tuples(
    json_bodies | json_bodies.map(as_logs), st.just(JSON_TYPE)
)
signals = st.sampled_from(Signal)


def read_as_traces(spans: list[Span]) -> None:
    reader = FactReader()
    unique = {(part.trace_id, part.span_id): part for part in spans}
    for _, group in groupby(
        sorted(unique.values(), key=lambda part: part.trace_id), key=lambda part: part.trace_id
    ):
        parts = list(group)
        assemble_trace(parts)
        items = {item[:2] for part in parts if (item := reader.read(part).item) is not None}
        for dataset, run_name in items:
            assemble_items(parts, dataset, run_name)


@given(body=bodies, signal=signals)
@settings(max_examples=6 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
def test_decoder__any_body_is_spans_or_a_400(body: tuple[bytes, str], signal: Signal) -> None:
    try:
        spans = list(decode_body(*body, signal))
    except UndecodableBody:  # status 400
        return
    encode_spans(spans)
    read_as_traces([part for part in spans if isinstance(part, Span)])


@pytest.mark.usefixtures("plugins")
def test_receiver__any_body_gets_200_400_or_413(service: Service) -> None:
    headers: dict[str, Any] = dict(service.client.headers)

    @given(
        body=bodies,
        packed=st.sampled_from(["", "gzip", "cut"]),
        path=st.sampled_from(["/v1/traces", "/v1/logs"]),
    )
    def send(body: tuple[bytes, str], packed: str, path: str) -> None:
        content, content_type = body
        if packed:
            content = gzip.compress(content)[: -3 if packed == "cut" else None]
        response = service.client.post(
            path,
            content=content,
            headers={
                **headers,
                "Content-Type": content_type,
                **({"Content-Encoding": "gzip"} if packed else {}),
            },
        )
        assert response.status_code in (200, 400, 413), response.text

    send()
