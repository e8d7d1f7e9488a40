"""Exports of OpenTelemetry spans, in both encodings of OTLP."""

import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from mosaico.core.db import Database
from mosaico.traces.otel.service import EncodedSpans, write_spans
from mosaico.traces.otel.spans import RejectedSpan
from mosaico.traces.otel.spans import Span as DecodedSpan
from tests.support.import_files import DATA
from tests.support.service import JSON

PROTOBUF: Final = {"Content-Type": "application/x-protobuf"}
RECORDED: Final = DATA / "otlp"
# In November 2026, the time of the other tests; JSON has it as a
# text, because a double is not exact here.
START_NS: Final = 1_795_351_438_000_000_000
needs_recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="without the recorded exports")

_span_numbers = itertools.count(1)


def span(
    name: str = "agent",
    *,
    trace: str = "1",
    span_id: str | None = None,
    parent: str | None = None,
    start_ns: int = START_NS,
    duration_ms: float = 1.0,
    failed: str | None = None,
    **attributes: Any,
) -> Span:
    """A span; IDs are filled with zeros, and `__` in the name of an attribute is a dot."""
    number = f"{next(_span_numbers):x}"
    return Span(
        trace_id=bytes.fromhex(trace.zfill(32)),
        span_id=bytes.fromhex((span_id or number).zfill(16)),
        parent_span_id=bytes.fromhex(parent.zfill(16)) if parent else b"",
        name=name,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + int(duration_ms * 1e6),
        status={"code": 2, "message": failed} if failed else {},  # type: ignore[arg-type]
        attributes=key_values({key.replace("__", "."): value for key, value in attributes.items()}),
    )


def export(spans: Sequence[Span], resource: Mapping[str, Any] | None = None) -> bytes:
    """An export of spans in protobuf."""
    message = ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource={"attributes": key_values(resource or {})},  # type: ignore[arg-type]
                scope_spans=[ScopeSpans(scope={"name": "tests"}, spans=spans)],  # type: ignore[arg-type]
            )
        ]
    )
    return bytes(message.SerializeToString())


def json_export(*spans: JSON) -> JSON:
    """An export in JSON; a span gets the IDs, name and times that it lacks."""
    complete = [
        {
            "traceId": "1".zfill(32),
            "spanId": f"{number:x}".zfill(16),
            "name": "agent",
            "startTimeUnixNano": str(START_NS),
            "endTimeUnixNano": str(START_NS + 1_000_000),
            **fields,
        }
        for number, fields in enumerate(spans, start=1)
    ]
    return {"resourceSpans": [{"scopeSpans": [{"spans": complete}]}]}


def key_values(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def any_value(value: Any) -> AnyValue:
    match value:
        # Before int: in Python True is an int, in OTLP it has a type of its own.
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case Mapping():
            return AnyValue(kvlist_value=KeyValueList(values=key_values(value)))
        case _:
            return AnyValue(array_value=ArrayValue(values=map(any_value, value)))


def encode_spans(spans: Iterable[DecodedSpan | RejectedSpan]) -> EncodedSpans:
    """The rows of spans, as the receiver stores them."""
    rows = io.BytesIO()
    counts = write_spans(spans, rows)
    rows.seek(0)
    return EncodedSpans(rows, counts)


def settle_spans(db: Database) -> None:
    """A run waits for half a minute without spans: they came an hour ago."""
    with db.begin() as session:
        session.connection().exec_driver_sql(
            "UPDATE otel_traces SET last_received_at = last_received_at - interval '1 hour'"
        )
