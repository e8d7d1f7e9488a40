"""Exports of very many small messages: refused when the limit is reached, with its setting, and not decoded to the end."""

import json

import pytest

from mosaico.core.errors import TooLarge
from mosaico.traces.otel.export_body import JSON_TYPE, PROTOBUF_TYPE, Signal, decode_body
from tests.support.otlp import export, span

MANY = 100_000
LIMIT = 5_000
RESOURCE_SPANS, SCOPE_SPANS, SPAN, ATTRIBUTE, EVENT = 0x0A, 0x12, 0x12, 0x4A, 0x5A
VALUE, ARRAY, MEMBER = 0x12, 0x2A, 0x0A


def inside(content: bytes, *tags: int) -> bytes:
    """The content as the field of each tag, from the innermost to the outermost."""
    for tag in tags:
        size, length = len(content), bytearray()
        while size > 127:
            length.append(size & 127 | 128)
            size >>= 7
        content = bytes([tag, *length, size]) + content
    return content


EMPTY = {
    "resources": bytes([RESOURCE_SPANS, 0]) * MANY,
    "scopes": inside(bytes([SCOPE_SPANS, 0]) * MANY, RESOURCE_SPANS),
    "spans": inside(bytes([SPAN, 0]) * MANY, SCOPE_SPANS, RESOURCE_SPANS),
    "attributes": inside(bytes([ATTRIBUTE, 0]) * MANY, SPAN, SCOPE_SPANS, RESOURCE_SPANS),
    "events": inside(bytes([EVENT, 0]) * MANY, SPAN, SCOPE_SPANS, RESOURCE_SPANS),
    "members": inside(
        bytes([MEMBER, 0]) * MANY, ARRAY, VALUE, ATTRIBUTE, SPAN, SCOPE_SPANS, RESOURCE_SPANS
    ),
    "unknown numbers": b"\x78\x00" * MANY,
}
EMPTY_JSON = {
    "resources": {"resourceSpans": [{}] * MANY},
    "spans": {"resourceSpans": [{"scopeSpans": [{"spans": [{}] * MANY}]}]},
    "attributes": {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{}] * MANY}]}]}]},
}


@pytest.mark.parametrize("name", EMPTY)
def test_protobuf__of_many_messages_is_refused_with_the_setting(name: str) -> None:
    decoded = decode_body(EMPTY[name], PROTOBUF_TYPE, Signal.SPANS, LIMIT)
    with pytest.raises(TooLarge, match=r"5,000 spans.*MOSAICO_IMPORT_SPAN_VALUES"):
        list(decoded)


@pytest.mark.parametrize("name", EMPTY_JSON)
def test_json__of_many_messages_is_refused_with_the_setting(name: str) -> None:
    decoded = decode_body(json.dumps(EMPTY_JSON[name]).encode(), JSON_TYPE, Signal.SPANS, LIMIT)
    with pytest.raises(TooLarge, match="MOSAICO_IMPORT_SPAN_VALUES"):
        list(decoded)


def test_export__below_the_limit_is_decoded() -> None:
    sent = [span(texts=["a", "b"], number=number) for number in range(500)]
    assert len(list(decode_body(export(sent), PROTOBUF_TYPE, Signal.SPANS, LIMIT))) == 500
