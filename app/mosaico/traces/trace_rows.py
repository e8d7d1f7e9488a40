"""Traces as rows of `collected_traces` and `trace_transcripts`, encoded in the binary COPY format.

Encoded here: the driver adapts a row value by value, which takes several times as long. Source: Postgres
manual, COPY § Binary Format.
"""

import dataclasses
import hashlib
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from mosaico.core.bulk_copy import ARRAY_HEAD, NULL_FIELD, encode_field, encode_json, encode_row
from mosaico.harness.transcript import document_of
from mosaico.traces.stored_traces import COLUMNS
from mosaico.traces.types import Trace, TraceOutcome

TRACE_COLUMNS: Final = ("collection_id", "position", *COLUMNS)
TRANSCRIPT_COLUMNS: Final = ("collection_id", "position", "transcript")

# The digest of a collection without traces.
EMPTY_DIGEST: Final = hashlib.sha256().digest()

_TEXT_OID: Final = 25

_HEAD: Final = struct.Struct(">hiqii")
_COLLECTION: Final = struct.Struct(">q")
_POSITION: Final = struct.Struct(">i")
_INT2: Final = struct.Struct(">ih")
_INT4: Final = struct.Struct(">ii")
_INT8: Final = struct.Struct(">iq")
_FLOAT8: Final = struct.Struct(">id")
_NO_TAGS: Final = struct.Struct(">iiii").pack(12, 0, 0, _TEXT_OID)


class EncodedTrace(NamedTuple):
    """All that is stored of a trace: the columns after its collection and position, and the document of
    its transcript.
    """

    fields: bytes
    transcript: bytes | None


def encode_trace(trace: Trace) -> EncodedTrace:
    """Encode a storable trace: the same fields in the same order give the same bytes."""
    transcript = trace.transcript
    return EncodedTrace(
        _encode_fields(trace),
        None if transcript is None else encode_json(document_of(transcript)),
    )


def _encode_fields(trace: Trace) -> bytes:
    return b"".join(
        (
            _text(trace.trace_id),
            _text(trace.item_id),
            _INT2.pack(2, trace.trial),
            _OUTCOMES[trace.outcome],
            _text(trace.input),
            _text(trace.expected_output),
            _text(trace.output),
            _text(trace.error),
            _array(trace.tags) if trace.tags else _NO_TAGS,
            _json(dict(trace.attributes)) if trace.attributes else NULL_FIELD,
            _text(trace.url),
            _integer(trace.input_tokens),
            _integer(trace.output_tokens),
            _number(trace.cost_usd),
            _number(trace.latency_ms),
            NULL_FIELD
            if trace.tool_calls is None
            else _json([dataclasses.asdict(call) for call in trace.tool_calls]),
            NULL_FIELD if trace.turns is None else _INT4.pack(4, trace.turns),
            _json(dict(trace.scores)) if trace.scores else NULL_FIELD,
            _array(trace.expected_any) if trace.expected_any else NULL_FIELD,
            _array(trace.expected_all) if trace.expected_all else NULL_FIELD,
        )
    )


def trace_row(collection_id: int, position: int, encoded: EncodedTrace) -> bytes:
    """A row of `TRACE_COLUMNS`."""
    return _HEAD.pack(len(TRACE_COLUMNS), 8, collection_id, 4, position) + encoded.fields


def transcript_row(collection_id: int, position: int, transcript: bytes) -> bytes:
    """A row of `TRANSCRIPT_COLUMNS`."""
    return encode_row(_COLLECTION.pack(collection_id), _POSITION.pack(position), transcript)


def extend_digest(digest: bytes, encoded: EncodedTrace) -> bytes:
    """The digest of a collection after one more trace, of all that is stored of it.

    Chained trace by trace, so that it survives a killed process as the cursor does, and depends on the
    order of the traces but not on the pages.
    """
    return hashlib.sha256(digest + encoded.fields + (encoded.transcript or b"")).digest()


def _text(text: str | None) -> bytes:
    return NULL_FIELD if text is None else encode_field(text.encode())


def _integer(value: int | None) -> bytes:
    return NULL_FIELD if value is None else _INT8.pack(8, value)


def _number(value: float | None) -> bytes:
    return NULL_FIELD if value is None else _FLOAT8.pack(8, value)


def _array(texts: Sequence[str]) -> bytes:
    members = b"".join(map(_text, texts))
    return encode_field(ARRAY_HEAD.pack(1, 0, _TEXT_OID, len(texts), 1) + members)


def _json(document: object) -> bytes:
    return encode_field(encode_json(document))


_OUTCOMES: Final = {outcome: _text(outcome.value) for outcome in TraceOutcome}
