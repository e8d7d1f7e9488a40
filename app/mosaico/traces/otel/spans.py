"""The span: the common form in which both encodings of OTLP deliver a piece of an agent's work; its checks."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import chain
from typing import Any, Final, NamedTuple

from mosaico.core.errors import Invalid

STATUS_ERROR: Final = 2
# Where an event has its content, as a JSON text.
EVENT_CONTENT: Final = "gen_ai.event.content"

# What a trace needs of its resource; the rest describes machines and SDKs.
RESOURCE_PREFIXES: Final = ("service.", "deployment.environment", "mosaico.", "langfuse.")
# Events that say nothing come by the thousand: one per chunk of a streamed response.
EVENT_PREFIXES: Final = (
    *("exception", "gen_ai.", "LLMChatStart", "LLMChatEnd", "LLMCompletionStart"),
    *("LLMCompletionEnd", "QueryStart", "QueryEnd"),
)


class SpanEvent(NamedTuple):
    """An event of a span, such as an exception."""

    name: str
    attributes: Mapping[str, Any]


class Span(NamedTuple):
    """One span; IDs in lower-case hex, times in nanoseconds since 1970 by the clock of the client.

    `parent_id` is None for the root of a trace. Attribute values are JSON values; integers may exceed
    64 bits, numbers may be NaN, and texts may hold NUL or lone surrogates.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int
    end_ns: int
    status: int
    status_message: str
    attributes: Mapping[str, Any]
    events: tuple[SpanEvent, ...]
    resource: Mapping[str, Any]
    scope: str
    scope_version: str = ""

    def attribute(self, name: str) -> Any:
        """An attribute of the span, or else of its resource; None when neither has it."""
        value = self.attributes.get(name)
        return self.resource.get(name) if value is None else value

    @property
    def failed(self) -> bool:
        return self.status == STATUS_ERROR


# The scope of a span that is one event, which came as a log record.
EVENT_SCOPE: Final = "mosaico.event"


class RejectedSpan(NamedTuple):
    """A span that cannot be stored, and why."""

    reason: str


def keeps_event(name: str, attributes: Mapping[str, Any]) -> bool:
    """Return whether an event is stored with its span."""
    return bool(attributes) and name.startswith(EVENT_PREFIXES)


def keeps_resource_attribute(name: str) -> bool:
    """Return whether an attribute of a resource is stored with its spans."""
    return name.startswith(RESOURCE_PREFIXES)


def dump_content(span: Span) -> str:
    """The content of a span as ASCII text: NUL, lone surrogates and NaN survive, and Postgres stores it."""
    return json.dumps(
        [
            span.status,
            span.status_message,
            span.attributes,
            [(event.name, event.attributes) for event in span.events],
            span.resource,
            span.scope,
            span.scope_version,
        ]
    )


class StoredSpan(NamedTuple):
    """A row of `otel_spans`; `content` is that of `dump_content`."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int
    end_ns: int
    content: str


def load_span(stored: StoredSpan) -> Span:
    """The span of a row."""
    # Rows of older versions have no version of the scope.
    status, message, attributes, events, resource, *scope = json.loads(stored.content)
    return Span(
        *stored[:6],
        status=status,
        status_message=message,
        attributes=attributes,
        events=tuple(SpanEvent(*event) for event in events),
        resource=resource,
        scope=scope[0],
        scope_version=scope[1] if len(scope) > 1 else "",
    )


def build_event(
    *,
    trace_id: str,
    span_id: str,
    name: str,
    time_ns: int,
    attributes: Mapping[str, Any],
    body: Any,
) -> Span | None:
    """A log record with an event of a span, as a span of no duration below that one; None for any other log record.

    Log records have no ID: it is made from the content, so that a repeated export finds the stored one.
    """
    name = name or str(attributes.get("event.name"))
    fields = {**attributes, **(body if isinstance(body, Mapping) else {EVENT_CONTENT: body})}
    is_complete = _TRACE_ID.fullmatch(trace_id) and _SPAN_ID.fullmatch(span_id)
    if not is_complete or not keeps_event(name, fields):
        return None
    event = SpanEvent(name, {key: value for key, value in fields.items() if value is not None})
    content = json.dumps([trace_id, span_id, time_ns, event])
    return Span(
        trace_id=trace_id,
        span_id=sha256(content.encode()).hexdigest()[:16],
        parent_id=span_id,
        name=name,
        start_ns=min(time_ns, MAX_NS),
        end_ns=min(time_ns, MAX_NS),
        status=0,
        status_message="",
        attributes={},
        events=(event,),
        resource={},
        scope=EVENT_SCOPE,
    )


def attach_events(spans: Sequence[Span]) -> list[Span]:
    """The spans, each with its events that came as log records; without any span one that has all events."""
    events = defaultdict[str | None, list[SpanEvent]](list)
    for span in spans:
        if span.scope == EVENT_SCOPE:
            events[span.parent_id] += span.events
    if not events:
        return list(spans)
    own = [span for span in spans if span.scope != EVENT_SCOPE]
    if not own:
        return [spans[0]._replace(events=tuple(chain.from_iterable(events.values())))]
    return [
        span._replace(events=(*span.events, *events[span.span_id]))
        if span.span_id in events
        else span
        for span in own
    ]


# The largest time that the column of a span can hold, in the year 2262.
MAX_NS: Final = 2**63 - 1
_TRACE_ID: Final = re.compile("(?!0{32})[0-9a-f]{32}")
_SPAN_ID: Final = re.compile("(?!0{16})[0-9a-f]{16}")


class UndecodableBody(Invalid):
    """The body is not an OTLP export of spans; send protobuf or JSON with the matching Content-Type."""

    code = "undecodable-export"
    status = 400


def build_span(
    *,
    trace_id: str,
    span_id: str,
    parent_id: str,
    name: str,
    start_ns: int,
    end_ns: int,
    status: int,
    status_message: str,
    attributes: Mapping[str, Any],
    events: tuple[SpanEvent, ...],
    resource: Mapping[str, Any],
    scope: str,
    scope_version: str,
) -> Span | RejectedSpan:
    """A span, if its IDs are valid.

    A parent ID of zeros, which some SDKs write for none, is none.
    """
    if _TRACE_ID.fullmatch(trace_id) is None:
        return RejectedSpan(f"has the traceId {trace_id[:40]!r}, which is not 16 bytes in hex")
    if _SPAN_ID.fullmatch(span_id) is None:
        return RejectedSpan(f"has the spanId {span_id[:40]!r}, which is not 8 bytes in hex")
    return Span(
        trace_id,
        span_id,
        parent_id if _SPAN_ID.fullmatch(parent_id) else None,
        name,
        min(start_ns, MAX_NS),
        min(end_ns, MAX_NS),
        status,
        status_message,
        attributes,
        events,
        resource,
        scope,
        scope_version,
    )
