"""The spans of each framework give the trace that was worked out by hand."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from mosaico.traces.messages import parse_value
from mosaico.traces.otel.assembly import assemble_trace
from mosaico.traces.otel.export_body import JSON_TYPE, PROTOBUF_TYPE, decode_body
from mosaico.traces.otel.spans import Span
from mosaico.traces.types import Trace
from tests.support.otel_frameworks.fixtures import FIXTURES
from tests.support.otel_frameworks.form import Fixture, export_of
from tests.support.service import JSON


def as_json(request: ExportTraceServiceRequest) -> bytes:
    """The export in the JSON of OTLP, whose IDs are hex."""
    document = MessageToDict(request)
    proto = [s for r in request.resource_spans for g in r.scope_spans for s in g.spans]
    spans = [s for r in document["resourceSpans"] for g in r["scopeSpans"] for s in g["spans"]]
    for span, source in zip(spans, proto, strict=True):
        span["traceId"], span["spanId"] = source.trace_id.hex(), source.span_id.hex()
        span["parentSpanId"] = source.parent_span_id.hex()
    return json.dumps(document).encode()


def read(body: bytes, content_type: str) -> Trace:
    decoded = list(decode_body(body, content_type))
    spans = [part for part in decoded if isinstance(part, Span)]
    assert len(spans) == len(decoded)
    return assemble_trace(spans)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.id)
def test_framework__gives_the_trace_worked_out_by_hand(fixture: Fixture) -> None:
    trace, expected = (
        read(export_of(fixture).SerializeToString(), PROTOBUF_TYPE),
        fixture.expected,
    )
    seen: dict[str, Any] = {
        "input": trace.input,
        "output": trace.output,
        "tokens": (trace.input_tokens, trace.output_tokens),
        "cost": trace.cost_usd,
        "tools": trace.tool_calls and tuple(call.name for call in trace.tool_calls),
        "session": trace.attributes.get("session"),
        "turns": trace.turns,
        "tags": trace.tags,
    }
    assert seen == {name: getattr(expected, name) for name in seen}
    for call in trace.tool_calls or ():
        assert call.arguments == {"city": "Rome"}


# The spans are the same once they are decoded.
@pytest.mark.parametrize("fixture", FIXTURES[::10], ids=lambda fixture: fixture.id)
def test_framework__gives_the_same_trace_in_json(fixture: Fixture) -> None:
    request = export_of(fixture)
    trace = read(as_json(request), JSON_TYPE)
    assert trace == read(request.SerializeToString(), PROTOBUF_TYPE)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.id)
def test_framework__cached_tokens_are_in_the_input_once(fixture: Fixture) -> None:
    bare = [{**row, "attributes": dict(_without_cache(row["attributes"]))} for row in fixture.spans]
    assert (bare != list(fixture.spans)) is (fixture.expected.cached is not None)
    trace = read(export_of(replace(fixture, spans=bare)).SerializeToString(), PROTOBUF_TYPE)
    tokens = fixture.expected.tokens[0]
    if fixture.expected.cached == "added":
        assert tokens is not None
        assert trace.input_tokens is not None
        assert trace.input_tokens < tokens
    else:
        assert trace.input_tokens == tokens


def _without_cache(attributes: JSON) -> Iterator[tuple[str, Any]]:
    """The attributes, as a writer sends them that does not count what a cache served."""
    for name, value in attributes.items():
        words = ("usage", "metrics", "providermetadata", "genkit:output", "haystack")
        document = parse_value(value) if any(word in name.lower() for word in words) else None
        if isinstance(document, dict):
            yield name, json.dumps(_drop_cached(document))
        elif "cache" not in name.lower():
            yield name, value


def _drop_cached(value: Any) -> Any:
    match value:
        case dict():
            kept = ((name, part) for name, part in value.items() if "cache" not in name.lower())
            return {name: _drop_cached(part) for name, part in kept}
        case list():
            return list(map(_drop_cached, value))
    return value
