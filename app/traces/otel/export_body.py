"""The body of an export: unpacked with a limit, and decoded."""

import zlib
from collections.abc import Iterator
from typing import IO, Final

from app.core.errors import TooLarge
from app.traces.otel.json_decoder import iter_json_spans
from app.traces.otel.spans import RejectedSpan, Span, UndecodableBody

# Before and after unpacking. Source: OTLP specification, recommended limit.
MAX_EXPORT_BYTES: Final = 20 * 1024 * 1024
BLOCK_BYTES: Final = 256 * 1024
PROTOBUF_TYPE: Final = "application/x-protobuf"
JSON_TYPE: Final = "application/json"
PACKED_ENCODINGS: Final = frozenset({"gzip", "deflate"})
# Detects the formats of both encodings. Source: zlib manual, inflateInit2.
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS


def unpack_body(packed: IO[bytes], encoding: str) -> bytes:
    """The body of an export with a `Content-Encoding`; "" and `identity` are unpacked already.

    Raises: `UndecodableBody` for another encoding and for damaged data; `TooLarge`.
    """
    if encoding in ("", "identity"):
        return packed.read()
    if encoding not in PACKED_ENCODINGS:
        raise UndecodableBody(
            f"the Content-Encoding {encoding[:40]!r} is not supported; send gzip, or no compression"
        )
    body = bytearray()
    try:
        for block in _iter_unpacked(packed):
            body += block
            if len(body) > MAX_EXPORT_BYTES:
                raise export_too_large()
    except zlib.error as error:
        raise UndecodableBody(f"the compressed body is damaged: {error}") from None
    return bytes(body)


def decode_body(body: bytes, content_type: str) -> Iterator[Span | RejectedSpan]:
    """The spans of an unpacked body. Raises: `UndecodableBody`, also while the spans are read."""
    if content_type == JSON_TYPE:
        return iter_json_spans(body)
    # It loads protobuf, which a service without exports never needs.
    from app.traces.otel.protobuf_decoder import iter_protobuf_spans

    return iter_protobuf_spans(body)


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
