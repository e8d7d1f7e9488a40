"""Decodes the protobuf encoding of an OTLP export, one span at a time.

The outer messages are split by hand: a span that protobuf refuses (invalid UTF-8, deep nesting) then
costs only itself, and memory holds one decoded span. `json_format` would take five times as long.
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from mosaico.traces.otel.export_budget import ExportBudget
from mosaico.traces.otel.spans import (
    RejectedSpan,
    Span,
    SpanEvent,
    UndecodableBody,
    build_event,
    build_span,
    keeps_event,
    keeps_resource_attribute,
)

# Field numbers. Source: opentelemetry-proto, trace_service.proto and trace.proto.
RESOURCE_SPANS: Final = 1
RESOURCE: Final = 1
SCOPE_SPANS: Final = 2
SCOPE: Final = 1
SPANS: Final = 2

M = TypeVar("M", Resource, InstrumentationScope)

_VARINT, _FIXED_64, _LENGTH_DELIMITED, _FIXED_32 = 0, 1, 2, 5
_MAX_VARINT_BYTES: Final = 10
_CONTINUES: Final = 0x80


def iter_protobuf_spans(body: bytes, budget: ExportBudget) -> Iterator[Span | RejectedSpan]:
    """The spans of an `ExportTraceServiceRequest` in order.

    Raises: `UndecodableBody` when the body, or a message around the spans, is not protobuf; `TooLarge`.
    """
    for resource_spans in _messages(body, RESOURCE_SPANS, budget):
        resource = _merged(Resource, _messages(resource_spans, RESOURCE, budget))
        attributes = (
            {} if isinstance(resource, RejectedSpan) else _kept_attributes(resource, budget)
        )
        for scope_spans in _messages(resource_spans, SCOPE_SPANS, budget):
            scope = _merged(InstrumentationScope, _messages(scope_spans, SCOPE, budget))
            for span in _messages(scope_spans, SPANS, budget):
                # Both cost the spans inside, and no others.
                if isinstance(resource, RejectedSpan):
                    yield resource
                elif isinstance(scope, RejectedSpan):
                    yield scope
                else:
                    yield _decode_span(span, attributes, (scope.name, scope.version), budget)


def iter_protobuf_events(body: bytes, budget: ExportBudget) -> Iterator[Span | RejectedSpan]:
    """The events of spans in an `ExportLogsServiceRequest`, whose field numbers are those of spans. Raises: `UndecodableBody`,
    `TooLarge`.
    """
    for resource_logs in _messages(body, RESOURCE_SPANS, budget):
        for scope_logs in _messages(resource_logs, SCOPE_SPANS, budget):
            for data in _messages(scope_logs, SPANS, budget):
                event = _decode_event(data, budget)
                if event is not None:
                    yield event


def _decode_event(data: bytes, budget: ExportBudget) -> Span | RejectedSpan | None:
    try:
        record = LogRecord.FromString(data)
    except DecodeError as error:
        return RejectedSpan(f"is not valid protobuf: {error}")
    return build_event(
        trace_id=record.trace_id.hex(),
        span_id=record.span_id.hex(),
        name=record.event_name,
        time_ns=record.time_unix_nano or record.observed_time_unix_nano,
        attributes=_attributes(record.attributes, budget),
        body=_value(record.body, budget),
    )


def _decode_span(
    data: bytes, resource: dict[str, Any], scope: tuple[str, str], budget: ExportBudget
) -> Span | RejectedSpan:
    try:
        span = ProtoSpan.FromString(data)
    except DecodeError as error:
        return RejectedSpan(f"is not valid protobuf: {error}")
    return build_span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=span.name,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        status=span.status.code,
        status_message=span.status.message,
        attributes=_attributes(span.attributes, budget),
        events=tuple(_events(span, budget)) if span.events else (),
        resource=resource,
        scope=scope[0],
        scope_version=scope[1],
    )


def _kept_attributes(resource: Resource, budget: ExportBudget) -> dict[str, Any]:
    budget.spend(len(resource.attributes))
    return {
        pair.key: _value(pair.value, budget)
        for pair in resource.attributes
        if keeps_resource_attribute(pair.key)
    }


def _merged(kind: type[M], parts: Iterable[bytes]) -> M | RejectedSpan:
    """A message that has several parts, as protobuf allows; or why no span inside it can be stored."""
    message = kind()
    try:
        for part in parts:
            message.MergeFromString(part)
    except DecodeError as error:
        return RejectedSpan(f"has a {kind.__name__} that is not valid protobuf: {error}")
    return message


def _attributes(pairs: Sequence[KeyValue], budget: ExportBudget) -> dict[str, Any]:
    budget.spend(len(pairs))
    # The last of two equal keys wins, as in the SDKs. Most values are texts: they skip the dispatch.
    return {pair.key: pair.value.string_value or _value(pair.value, budget) for pair in pairs}


def _value(value: AnyValue, budget: ExportBudget) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    convert = _CONVERTED_KINDS.get(kind)
    content = getattr(value, kind)
    return content if convert is None else convert(content, budget)


_CONVERTED_KINDS: Final[dict[str, Callable[[Any, ExportBudget], Any]]] = {
    "array_value": lambda array, budget: _members(array.values, budget),
    "kvlist_value": lambda pairs, budget: _attributes(pairs.values, budget),
    "bytes_value": lambda data, _: base64.b64encode(data).decode(),
}


def _members(values: Sequence[AnyValue], budget: ExportBudget) -> list[Any]:
    budget.spend(len(values))
    return [_value(member, budget) for member in values]


def _events(span: ProtoSpan, budget: ExportBudget) -> Iterator[SpanEvent]:
    budget.spend(len(span.events))
    for event in span.events:
        if keeps_event(event.name, attributes := _attributes(event.attributes, budget)):
            yield SpanEvent(event.name, attributes)


def _messages(data: bytes, number: int, budget: ExportBudget) -> Iterator[bytes]:
    """The embedded messages with a field number. Raises: `UndecodableBody`, `TooLarge`."""
    position, end = 0, len(data)
    while position < end:
        budget.spend()
        tag, position = _read_varint(data, position)
        wire_type = tag & 7
        if wire_type == _LENGTH_DELIMITED:
            length, start = _read_varint(data, position)
            position = start + length
            if position > end:
                raise UndecodableBody("the protobuf message is truncated")
            if tag >> 3 == number:
                yield data[start:position]
        elif wire_type == _VARINT:
            _, position = _read_varint(data, position)
        elif wire_type == _FIXED_64:
            position += 8
        elif wire_type == _FIXED_32:
            position += 4
        else:
            raise UndecodableBody(f"the body is not protobuf: wire type {wire_type}")


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A number, and the position behind it. Raises: `UndecodableBody`."""
    value = shift = 0
    for at in range(position, min(position + _MAX_VARINT_BYTES, len(data))):
        byte = data[at]
        value |= (byte & ~_CONTINUES) << shift
        if byte < _CONTINUES:
            return value, at + 1
        shift += 7
    raise UndecodableBody("the protobuf message is truncated")
