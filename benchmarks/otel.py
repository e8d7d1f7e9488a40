"""O1 and O2: the decoder of OTLP alone, and with the encoding of its rows, compared with the JSON form of protobuf.

An export has 512 spans with the attributes of model calls, the size in which exporters of OpenTelemetry send them.
"""

import time
from collections.abc import Iterator

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.result_rows import BenchRow, interleave
from mosaico.traces.otel.export_body import PROTOBUF_TYPE, decode_body
from mosaico.traces.otel.service import encode_spans
from tests.support.otel_frameworks.fixtures import RECORDED
from tests.support.otel_frameworks.form import export_of

SPANS = 512
# It is 0.3; loaded machines differ by a sixth of that.
DECODER_GOAL = 0.35
RECEIVER_GOAL = 1.0


def make_export() -> bytes:
    """An export of recorded spans."""
    request, count = ExportTraceServiceRequest(), 0
    while count < SPANS:
        for number, fixture in enumerate(RECORDED, start=1):
            request.MergeFrom(export_of(fixture, number))
            count += len(fixture.spans)
    return bytes(request.SerializeToString())


def measure() -> Iterator[BenchRow]:
    """O1 and O2."""
    body = make_export()

    def convert() -> None:
        MessageToDict(ExportTraceServiceRequest.FromString(body))

    def decode() -> None:
        for _ in decode_body(body, PROTOBUF_TYPE):
            pass

    def encode() -> None:
        with encode_spans(decode_body(body, PROTOBUF_TYPE)):
            pass

    for name, work, goal in (
        ("O1 OTLP decoder", decode, DECODER_GOAL),
        ("O2 OTLP decoder and rows", encode, RECEIVER_GOAL),
    ):
        ours, peer = interleave(work, convert, clock=time.process_time)
        ratio = ours / peer
        note = f"{ours * 1e3:.1f} ms, MessageToDict {peer * 1e3:.1f} ms"
        yield BenchRow(name, f"≤ {goal} × MessageToDict", ratio, ratio <= goal, note)
