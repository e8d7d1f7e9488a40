"""Decodes the JSON encoding of an OTLP export.

With a walker of its own: `json_format` of protobuf reads the hex IDs as base64, without an error.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

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

# Deeper values are refused by the protobuf encoding, too.
MAX_DEPTH: Final = 50
_STATUS_NAMES: Final = {"STATUS_CODE_UNSET": 0, "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}


def iter_json_spans(body: bytes, budget: ExportBudget) -> Iterator[Span | RejectedSpan]:
    """The spans of an export in order; unknown keys are ignored, and null equals a missing key.

    Invalid UTF-8 becomes U+FFFD. Raises: `UndecodableBody`, `TooLarge`.
    """
    export = _parse(body)
    for resource_spans in _objects(export, "resourceSpans", budget):
        resource = _resource_attributes(_object(resource_spans, "resource"), budget)
        for scope_spans in _objects(resource_spans, "scopeSpans", budget):
            scope = _object(scope_spans, "scope")
            for span in _objects(scope_spans, "spans", budget):
                if isinstance(resource, RejectedSpan):
                    yield resource
                else:
                    yield _decode_span(span, resource, scope, budget)


def iter_json_events(body: bytes, budget: ExportBudget) -> Iterator[Span | RejectedSpan]:
    """The events of spans in an export of log records. Raises: `UndecodableBody`, `TooLarge`."""
    for resource_logs in _objects(_parse(body), "resourceLogs", budget):
        for scope_logs in _objects(resource_logs, "scopeLogs", budget):
            for record in _objects(scope_logs, "logRecords", budget):
                event = _decode_event(record, budget)
                if event is not None:
                    yield event


def _decode_event(record: Mapping[str, Any], budget: ExportBudget) -> Span | RejectedSpan | None:
    times = (_nanoseconds(record, key) for key in ("timeUnixNano", "observedTimeUnixNano"))
    try:
        return build_event(
            trace_id=_text(record, "traceId").lower(),
            span_id=_text(record, "spanId").lower(),
            name=_text(record, "eventName"),
            time_ns=next(filter(None, times), 0),
            attributes=_attributes(record, budget),
            body=_value(_object(record, "body"), MAX_DEPTH, budget),
        )
    except _InvalidSpan as error:
        return RejectedSpan(str(error))


def _parse(body: bytes) -> Mapping[str, Any]:
    try:
        # One span with invalid bytes must not reject the export: exporters drop all spans of a 400.
        export = json.loads(body.decode("utf-8", "replace"))
    except json.JSONDecodeError as error:
        raise UndecodableBody(
            f"the body is not valid JSON: {error.msg.lower()} at line {error.lineno}, column"
            f" {error.colno}"
        ) from None
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits, deep nesting
        raise UndecodableBody(f"the body cannot be read: {error}") from None
    if not isinstance(export, Mapping):
        raise UndecodableBody("the body is not a JSON object of OTLP")
    return export


def _resource_attributes(
    resource: Mapping[str, Any], budget: ExportBudget
) -> dict[str, Any] | RejectedSpan:
    """The kept attributes of a resource; without valid ones, why none of its spans can be stored."""
    try:
        return _attributes(resource, budget, keeps_resource_attribute)
    except _InvalidSpan as error:
        return RejectedSpan(f"has a resource that {error}")


def _decode_span(
    span: Mapping[str, Any],
    resource: Mapping[str, Any],
    scope: Mapping[str, Any],
    budget: ExportBudget,
) -> Span | RejectedSpan:
    try:
        status = _object(span, "status")
        return build_span(
            # Hex of either case names the same span; the database compares texts.
            trace_id=_text(span, "traceId").lower(),
            span_id=_text(span, "spanId").lower(),
            parent_id=_text(span, "parentSpanId").lower(),
            name=_text(span, "name"),
            start_ns=_nanoseconds(span, "startTimeUnixNano"),
            end_ns=_nanoseconds(span, "endTimeUnixNano"),
            status=_status_code(status.get("code")),
            status_message=_text(status, "message"),
            attributes=_attributes(span, budget),
            events=tuple(_events(span, budget)),
            resource=resource,
            scope=_text(scope, "name"),
            scope_version=_text(scope, "version"),
        )
    except _InvalidSpan as error:
        return RejectedSpan(str(error))


class _InvalidSpan(Exception):
    """A span has a field of the wrong form."""


def _status_code(code: Any) -> int:
    if isinstance(code, str):
        return _STATUS_NAMES.get(code, 0)
    return code if isinstance(code, int) else 0


def _events(span: Mapping[str, Any], budget: ExportBudget) -> Iterator[SpanEvent]:
    for event in _objects(span, "events", budget):
        name, attributes = _text(event, "name"), _attributes(event, budget)
        if keeps_event(name, attributes):
            yield SpanEvent(name, attributes)


def _attributes(
    owner: Mapping[str, Any], budget: ExportBudget, keeps: Any = None
) -> dict[str, Any]:
    return {
        key: _value(_object(pair, "value"), MAX_DEPTH, budget)
        for pair in _objects(owner, "attributes", budget)
        if (key := _text(pair, "key")) and (keeps is None or keeps(key))
    }


def _value(value: Mapping[str, Any], depth: int, budget: ExportBudget) -> Any:
    """The content of an `AnyValue`; None for an unknown or missing one."""
    if depth == 0:
        raise _InvalidSpan(f"has an attribute that is nested deeper than {MAX_DEPTH} levels")
    # An `AnyValue` has one member. The kinds are tried in the order of the object, so that unknown
    # members of a later version are skipped.
    for kind, content in value.items():
        match kind, content:
            case ("stringValue", str()) | ("boolValue", bool()) | ("bytesValue", str()):
                return content
            case "intValue", _:
                return _integer(content)
            case "doubleValue", _:
                return _double(content)
            case "arrayValue", Mapping():
                return [
                    _value(member, depth - 1, budget)
                    for member in _objects(content, "values", budget)
                ]
            case "kvlistValue", Mapping():
                return {
                    _text(pair, "key"): _value(_object(pair, "value"), depth - 1, budget)
                    for pair in _objects(content, "values", budget)
                }
    return None


def _integer(content: Any) -> Any:
    """64-bit integers are texts in JSON; writers send numbers, too."""
    if isinstance(content, str):
        try:
            return int(content)
        except ValueError:
            return None
    # `bool` is a subclass of `int` in Python.
    return content if isinstance(content, int | float) and not isinstance(content, bool) else None


def _double(content: Any) -> float | None:
    """A number, or one of the texts NaN, Infinity and -Infinity."""
    try:
        return None if content is None or isinstance(content, bool) else float(content)
    except (TypeError, ValueError, OverflowError):
        return None


def _nanoseconds(span: Mapping[str, Any], key: str) -> int:
    value = _integer(span.get(key))
    return max(value, 0) if isinstance(value, int) else 0


def _text(owner: Mapping[str, Any], key: str) -> str:
    value = owner.get(key)
    return value if isinstance(value, str) else ""


def _object(owner: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = owner.get(key)
    return value if isinstance(value, Mapping) else {}


def _objects(
    owner: Mapping[str, Any], key: str, budget: ExportBudget
) -> Iterator[Mapping[str, Any]]:
    value = owner.get(key)
    if value is None:
        return
    if not isinstance(value, list):
        # A wrong structure rejects the whole export, because nothing says how the rest is meant.
        raise UndecodableBody(f"{key} is not a list")
    budget.spend(len(value))
    for member in value:
        if not isinstance(member, Mapping):
            raise UndecodableBody(f"a member of {key} is not an object")
        yield member
