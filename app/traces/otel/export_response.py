"""Responses to exports, in the encoding of the request."""

import json
from http import HTTPStatus
from typing import Final

from fastapi import Response

from app.core.errors import AppError
from app.traces.otel.export_body import JSON_TYPE, PROTOBUF_TYPE
from app.traces.otel.service import EncodedSpans

# Source: google/rpc/code.proto.
_RPC_CODES: Final = {
    HTTPStatus.BAD_REQUEST: 3,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: 3,
    HTTPStatus.TOO_MANY_REQUESTS: 8,
    HTTPStatus.SERVICE_UNAVAILABLE: 14,
}
RETRY_AFTER: Final = {"Retry-After": "1"}
RETRYABLE: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


def success_response(spans: EncodedSpans, content_type: str) -> Response:
    """200, with the number of rejected spans when there are any."""
    message = "; ".join(f"a span {reason}" for reason in spans.reasons)
    if content_type == JSON_TYPE:
        partial = {"rejectedSpans": str(spans.rejected), "errorMessage": message}
        body = json.dumps({"partialSuccess": partial} if spans.rejected else {}).encode()
        return Response(body, media_type=JSON_TYPE)
    # Only the first export in protobuf pays for the import.
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTracePartialSuccess,
        ExportTraceServiceResponse,
    )

    response = ExportTraceServiceResponse()
    if spans.rejected:
        response.partial_success.CopyFrom(
            ExportTracePartialSuccess(rejected_spans=spans.rejected, error_message=message)
        )
    return Response(response.SerializeToString(), media_type=PROTOBUF_TYPE)


def error_response(error: AppError, content_type: str) -> Response:
    """A `Status` message; clients repeat 429 and 503 after `Retry-After`.

    Every other server error would be final for a client, so that it becomes 503.
    """
    status = HTTPStatus(error.status)
    if status not in _RPC_CODES:
        status = HTTPStatus.SERVICE_UNAVAILABLE
    headers = RETRY_AFTER if status in RETRYABLE else {"Connection": "close"}
    code = _RPC_CODES[status]
    if content_type == PROTOBUF_TYPE:
        body, media_type = _encode_status(code, error.detail), PROTOBUF_TYPE
    else:
        document = {"code": code, "message": error.detail}
        body, media_type = json.dumps(document).encode(), JSON_TYPE
    return Response(body, status_code=status, media_type=media_type, headers=headers)


def _encode_status(code: int, message: str) -> bytes:
    """`google.rpc.Status` in protobuf: field 1 is the code, field 2 the message.

    By hand, because its Python class is in a package of all Google APIs.
    """
    # Short enough for a length of two bytes.
    text = message.encode("utf-8", "replace")[:2000]
    return bytes([0x08, code, 0x12, 0x80 | len(text) & 0x7F, len(text) >> 7]) + text
