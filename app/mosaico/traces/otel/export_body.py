"""The bodies of an export and of its response."""

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from http import HTTPStatus
from tempfile import SpooledTemporaryFile
from typing import IO, Final

from fastapi import Response

from mosaico.core.defaults import IMPORT_SPAN_VALUES
from mosaico.core.errors import AppError, TooLarge
from mosaico.traces.otel.export_budget import ExportBudget
from mosaico.traces.otel.json_decoder import iter_json_events, iter_json_spans
from mosaico.traces.otel.service import SpanCounts
from mosaico.traces.otel.spans import RejectedSpan, Span, UndecodableBody

# Before and after unpacking. Source: OTLP specification, recommended limit.
MAX_EXPORT_BYTES: Final = 20 * 1024 * 1024
# More of a body is on disk, and is decoded in a child process.
MEMORY_BYTES: Final = 1024**2
BLOCK_BYTES: Final = 256 * 1024
PROTOBUF_TYPE: Final = "application/x-protobuf"
JSON_TYPE: Final = "application/json"
PACKED_ENCODINGS: Final = frozenset({"gzip", "deflate"})
# Detects the formats of both encodings. Source: zlib manual, inflateInit2.
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS


@contextmanager
def unpacked_body(packed: IO[bytes], encoding: str) -> Iterator[IO[bytes]]:
    """The body of an export with a `Content-Encoding`, at its beginning; "" and `identity` are unpacked already. A
    large one is on disk.

    Raises: `UndecodableBody` for another encoding and for damaged data; `TooLarge`.
    """
    if encoding in ("", "identity"):
        yield packed
        return
    if encoding not in PACKED_ENCODINGS:
        raise UndecodableBody(
            f"the Content-Encoding {encoding[:40]!r} is not supported; send gzip, or no compression"
        )
    with SpooledTemporaryFile(max_size=MEMORY_BYTES) as body:
        try:
            for block in _iter_unpacked(packed):
                body.write(block)
                if body.tell() > MAX_EXPORT_BYTES:
                    raise export_too_large()
        except zlib.error as error:
            raise UndecodableBody(f"the compressed body is damaged: {error}") from None
        body.seek(0)
        yield body


class Signal(Enum):
    """What an export has; the values are the names of its rejected members in a JSON response."""

    SPANS = "rejectedSpans"
    LOGS = "rejectedLogRecords"


def decode_body(
    body: bytes,
    content_type: str,
    signal: Signal = Signal.SPANS,
    max_values: int = IMPORT_SPAN_VALUES,
) -> Iterator[Span | RejectedSpan]:
    """The spans of an unpacked body, or the events of spans in its log records.

    Raises: `UndecodableBody`, also while the spans are read; `TooLarge` for more than `max_values` messages.
    """
    budget = ExportBudget(max_values)
    if content_type == JSON_TYPE:
        return (
            iter_json_spans(body, budget)
            if signal is Signal.SPANS
            else iter_json_events(body, budget)
        )
    # It loads protobuf, which a service without exports never needs.
    from mosaico.traces.otel import protobuf_decoder as decoder

    is_spans = signal is Signal.SPANS
    return (
        decoder.iter_protobuf_spans(body, budget)
        if is_spans
        else decoder.iter_protobuf_events(body, budget)
    )


def export_too_large() -> TooLarge:
    """The error for a body above the limit, packed or unpacked."""
    return TooLarge(
        f"the export is larger than {MAX_EXPORT_BYTES} bytes; send fewer spans at once, for example"
        " with OTEL_BSP_MAX_EXPORT_BATCH_SIZE=128"
    )


def _iter_unpacked(packed: IO[bytes]) -> Iterator[bytes]:
    """The unpacked content in blocks; a gzip file can have several members."""
    unpacker, pending = zlib.decompressobj(_GZIP_OR_ZLIB), packed.read(BLOCK_BYTES)
    while pending:
        # With a limit: a packed kilobyte can become a megabyte.
        yield unpacker.decompress(pending, BLOCK_BYTES)
        pending = unpacker.unconsumed_tail or unpacker.unused_data or packed.read(BLOCK_BYTES)
        if unpacker.eof and pending:
            unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
    # The limit can leave output behind although all input is consumed.
    yield unpacker.flush()
    if not unpacker.eof:
        raise zlib.error("it is truncated")


# Source: google/rpc/code.proto.
_RPC_CODES: Final = {
    HTTPStatus.BAD_REQUEST: 3,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: 3,
    HTTPStatus.TOO_MANY_REQUESTS: 8,
    HTTPStatus.SERVICE_UNAVAILABLE: 14,
}
RETRY_AFTER: Final = {"Retry-After": "1"}
RETRYABLE: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


def success_response(spans: SpanCounts, content_type: str, signal: Signal) -> Response:
    """200, with the number of rejected spans and what is not understood; a warning rejects no span."""
    message = spans.message
    if content_type == JSON_TYPE:
        partial = {signal.value: str(spans.rejected), "errorMessage": message}
        body = json.dumps({"partialSuccess": partial} if message else {}).encode()
        return Response(body, media_type=JSON_TYPE)
    # Only the first export in protobuf pays for the import. The response to logs has the same encoding.
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTracePartialSuccess,
        ExportTraceServiceResponse,
    )

    response = ExportTraceServiceResponse()
    if message:
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
