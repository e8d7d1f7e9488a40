"""Common parts of both encodings of OTLP: errors, and the checks of a span."""

import re
from collections.abc import Mapping
from typing import Any, Final

from app.core.errors import Invalid
from app.traces.otel.spans import RejectedSpan, Span, SpanEvent

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
    )
