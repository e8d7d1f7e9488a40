"""O1: an OTLP export decoded to spans, and with the rows of the database, beside protobuf's `MessageToDict`.

The export is that of an agent: a root span, and calls of models with messages and token counts.
"""

from collections.abc import Callable, Iterator
from time import process_time

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.result_rows import BenchRow, Interleaved, interleave
from mosaico.traces.otel.export_body import decode_body
from mosaico.traces.otel.service import encode_spans
from tests.support.otlp import export, span

SPANS = 2_000
CALLS_PER_TRACE = 4
CONTENT_TYPE = "application/x-protobuf"
GOAL_US = 25.0
MESSAGES = '[{"role": "user", "parts": [{"type": "text", "content": "%s"}]}]' % ("word " * 60)
RESOURCE = {"service.name": "bot", "telemetry.sdk.language": "python", "host.name": "node-1"}


def measure() -> Iterator[BenchRow]:
    """One row for the decoding alone, one with the rows that are copied into the database."""
    raw = _export()
    # Both sides read the same export, and read it without an error.
    assert len(MessageToDict(ExportTraceServiceRequest.FromString(raw))["resourceSpans"]) == 1
    decoded = _timed(raw, lambda: _decode(raw))
    stored = _timed(raw, lambda: _encode(raw))
    yield BenchRow(
        name="O1 decode",
        goal=f"≤ {GOAL_US:g} µs",
        ratio=decoded.ours_seconds / decoded.peer_seconds,
        holds=decoded.ours_seconds / SPANS * 1e6 <= GOAL_US,
        note=_note(decoded),
    )
    yield BenchRow(
        name="O1 with rows",
        goal="< 1",
        ratio=stored.ours_seconds / stored.peer_seconds,
        holds=stored.ours_seconds < stored.peer_seconds,
        note=_note(stored),
    )


def _timed(raw: bytes, ours: Callable[[], object]) -> Interleaved:
    return interleave(
        ours,
        lambda: MessageToDict(ExportTraceServiceRequest.FromString(raw)),
        clock=process_time,
    )


def _note(timed: Interleaved) -> str:
    ours_us, peer_us = (
        seconds / SPANS * 1e6 for seconds in (timed.ours_seconds, timed.peer_seconds)
    )
    return f"{ours_us:.1f} µs of CPU a span; MessageToDict {peer_us:.1f} µs"


def _decode(raw: bytes) -> int:
    return sum(1 for _ in decode_body(raw, CONTENT_TYPE))


def _encode(raw: bytes) -> None:
    with encode_spans(decode_body(raw, CONTENT_TYPE)):
        pass


def _export() -> bytes:
    spans = []
    for number in range(SPANS // (CALLS_PER_TRACE + 1)):
        trace = f"{number + 1:x}"
        spans.append(span("agent", trace=trace, span_id="1", input__value="word " * 20))
        spans += [
            span(
                "chat",
                trace=trace,
                span_id=f"{call + 2:x}",
                parent="1",
                gen_ai__operation__name="chat",
                gen_ai__request__model="model-1",
                gen_ai__response__model="model-1-2026",
                gen_ai__usage__input_tokens=812,
                gen_ai__usage__output_tokens=64,
                gen_ai__input__messages=MESSAGES,
                gen_ai__output__messages=MESSAGES,
                gen_ai__conversation__id=f"session-{number}",
            )
            for call in range(CALLS_PER_TRACE)
        ]
    return export(spans, RESOURCE)
