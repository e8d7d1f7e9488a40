"""The OTLP receiver: what it accepts, refuses and stores."""

import gzip
import json
import threading
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from mosaico.jobs.child_process import ChildProcesses
from mosaico.traces.models import OtelSpan, OtelTrace
from mosaico.traces.otel import export_process, router
from mosaico.traces.otel.assembly import assemble_trace
from mosaico.traces.otel.export_body import MAX_EXPORT_BYTES
from mosaico.traces.otel.service import EncodedSpans, store_spans
from mosaico.traces.otel.spans import Span, StoredSpan, load_span
from tests.support.otlp import (
    PROTOBUF,
    RECORDED,
    START_NS,
    export,
    json_export,
    needs_recorded,
    span,
)
from tests.support.service import JSON, Service

GZIP = {**PROTOBUF, "Content-Encoding": "gzip"}


def send(service: Service, body: bytes, **headers: str) -> httpx.Response:
    return service.client.post("/v1/traces", content=body, headers={**PROTOBUF, **headers})


def stored_spans(service: Service) -> list[Span]:
    columns = (
        OtelSpan.trace_id,
        OtelSpan.span_id,
        OtelSpan.parent_id,
        OtelSpan.name,
        OtelSpan.start_ns,
        OtelSpan.end_ns,
        OtelSpan.content,
    )
    with service.resources.db.read() as session:
        rows = session.execute(select(*columns).order_by(OtelSpan.trace_id, OtelSpan.span_id))
        return [load_span(StoredSpan(*row)) for row in rows]


def count_rows(service: Service) -> tuple[int, int]:
    with service.resources.db.read() as session:
        counts = text(
            "SELECT (SELECT count(*) FROM otel_traces), (SELECT count(*) FROM otel_spans)"
        )
        traces, spans = session.execute(counts).one()
        return traces, spans


def test_receiver__stores_a_span_as_it_was_sent(service: Service) -> None:
    sent_span = span(
        "chat", span_id="2", parent="1", failed="it broke", ints=2**60, texts=["a", "\0é😀"]
    )
    resource = {"service.name": "bot", "host.id": "x"}
    response = send(service, export([sent_span], resource))
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == "application/x-protobuf"
    [stored] = stored_spans(service)
    assert stored == Span(
        trace_id="1".zfill(32),
        span_id="2".zfill(16),
        parent_id="1".zfill(16),
        name="chat",
        start_ns=START_NS,
        end_ns=START_NS + 1_000_000,
        status=2,
        status_message="it broke",
        attributes={"ints": 2**60, "texts": ["a", "\0é😀"]},
        events=(),
        resource={"service.name": "bot"},
        scope="tests",
    )


@needs_recorded
@pytest.mark.parametrize(
    "name", sorted(path.name for path in RECORDED.glob("*.traces.*")) if RECORDED.is_dir() else []
)
def test_receiver__recorded_export_is_stored_once_however_often_it_comes(
    service: Service, name: str
) -> None:
    body = (RECORDED / name).read_bytes()
    kind = "application/json" if name.endswith("json") else "application/x-protobuf"
    assert send(service, body, **{"Content-Type": kind}).status_code == 200
    spans = stored_spans(service)
    packed = gzip.compress(body)
    for headers in ({"Content-Type": kind}, {"Content-Type": kind, "Content-Encoding": "gzip"}):
        content = packed if "Content-Encoding" in headers else body
        assert send(service, content, **headers).status_code == 200
    assert spans
    assert stored_spans(service) == spans


def test_receiver__batches_in_any_order_form_one_trace(service: Service) -> None:
    root, child = span(span_id="1"), span(span_id="2", parent="1", start_ns=START_NS + 5)
    for batch in ([child], [root], [child, root]):
        assert send(service, export(batch)).status_code == 200
    assert count_rows(service) == (1, 2)
    with service.resources.db.read() as session:
        assert session.scalars(select(OtelTrace.has_root)).one() is True


def test_receiver__chunked_json_without_length_is_accepted(service: Service) -> None:
    body = json.dumps(json_export({"attributes": []})).encode()

    def chunks() -> Iterator[bytes]:
        yield body[:10]
        yield body[10:]

    response = service.client.post(
        "/v1/traces", content=chunks(), headers={"Content-Type": "application/json; charset=utf-8"}
    )
    assert (response.status_code, response.json()) == (200, {})
    assert count_rows(service) == (1, 1)


def test_receiver__invalid_spans_are_rejected_and_the_others_stored(service: Service) -> None:
    broken = span()
    broken.trace_id = b"short"
    response = send(service, export([span(), broken, span()]))
    assert response.status_code == 200
    partial = ExportTraceServiceResponse.FromString(response.content).partial_success
    assert partial.rejected_spans == 1
    assert "traceId '73686f7274'" in partial.error_message
    assert count_rows(service) == (1, 2)


def test_receiver__invalid_utf8_costs_one_span(service: Service) -> None:
    # The library writes valid UTF-8 only: the byte is changed afterwards.
    body = export([span("first"), span("sec\x7fnd"), span("third")]).replace(b"\x7f", b"\xff")
    response = send(service, body)
    partial = ExportTraceServiceResponse.FromString(response.content).partial_success
    assert (response.status_code, partial.rejected_spans) == (200, 1)
    assert [stored.name for stored in stored_spans(service)] == ["first", "third"]


@pytest.mark.parametrize("encoding", ["json", "protobuf", "protobuf-scope"])
def test_receiver__invalid_resource_or_scope_costs_its_spans_alone(
    service: Service, encoding: str
) -> None:
    invalid = export([span("lost")], {"service.name": "b\x7ft"}), export([span("kept", trace="2")])
    if encoding == "json":
        deep: JSON = {"stringValue": "bot"}
        for _ in range(80):
            deep = {"arrayValue": {"values": [deep]}}
        lost = json_export({"traceId": "1".zfill(32), "name": "lost"})["resourceSpans"][0]
        kept = json_export({"traceId": "2".zfill(32), "name": "kept"})["resourceSpans"][0]
        lost["resource"] = {"attributes": [{"key": "service.name", "value": deep}]}
        response = service.client.post("/v1/traces", json={"resourceSpans": [lost, kept]})
        rejected, reason = response.json()["partialSuccess"].values()
    else:
        old, new = (b"\x7f", b"\xff") if encoding == "protobuf" else (b"tests", b"test\xff")
        response = send(service, invalid[0].replace(old, new) + invalid[1])
        partial = ExportTraceServiceResponse.FromString(response.content).partial_success
        rejected, reason = partial.rejected_spans, partial.error_message
    assert (response.status_code, int(rejected)) == (200, 1)
    assert ("cope" if encoding == "protobuf-scope" else "esource") in reason
    assert [stored.name for stored in stored_spans(service)] == ["kept"]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"\x0a\xff\x01", PROTOBUF),
        (b"hello", PROTOBUF),
        (export([span()])[:-1], PROTOBUF),
        (b"[]", {"Content-Type": "application/json"}),
        (b"[" * 100_000, {"Content-Type": "application/json"}),
        (b'{"resourceSpans": 7}', {"Content-Type": "application/json"}),
        (b"{}", {"Content-Type": "text/plain"}),
        (gzip.compress(export([span()]))[:-9], GZIP),
        (b"plain", GZIP),
        (b"", {**PROTOBUF, "Content-Encoding": "zstd"}),
    ],
    ids=[
        "length-beyond-the-body",
        "text",
        "cut-protobuf",
        "json-list",
        "deep-json",
        "wrong-json-type",
        "wrong-content-type",
        "cut-gzip",
        "not-gzip",
        "unknown-encoding",
    ],
)
def test_receiver__undecodable_export_gives_400_and_stores_nothing(
    service: Service, body: bytes, headers: dict[str, str]
) -> None:
    response = send(service, body, **headers)
    assert response.status_code == 400
    assert len(response.content) > 20
    assert count_rows(service) == (0, 0)


@pytest.mark.parametrize(
    "make_body",
    [
        pytest.param(lambda: bytes(MAX_EXPORT_BYTES + 1), id="plain"),
        pytest.param(lambda: gzip.compress(bytes(MAX_EXPORT_BYTES + 1), 1), id="gzip"),
        pytest.param(lambda: zlib.compress(bytes(300 * 1024 * 1024), 1), id="deflate bomb"),
    ],
)
def test_receiver__larger_export_gives_413(
    service: Service, make_body: Callable[[], bytes]
) -> None:
    body = make_body()
    encoding = {} if body[:2] == b"\0\0" else {"Content-Encoding": "gzip"}
    response = send(service, body, **encoding)
    assert response.status_code == 413
    assert b"OTEL_BSP_MAX_EXPORT_BATCH_SIZE" in response.content


def test_receiver__unreachable_database_and_defects_give_503(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(router, "store_spans", fail)
    response = send(service, export([span()]))
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    monkeypatch.undo()


@pytest.mark.parametrize("memory_bytes", [10, 1024**2])
def test_receiver__many_exports_at_once_are_sent_again_later(
    service: Service, monkeypatch: pytest.MonkeyPatch, memory_bytes: int
) -> None:
    monkeypatch.setattr(export_process, "MEMORY_BYTES", memory_bytes)
    with monkeypatch.context() as patch:
        patch.setattr(export_process, "WAIT_S", 0.01)
        patch.setattr(export_process, "_small_exports", threading.Semaphore(0))
        no_child = ChildProcesses(0, warm_up=lambda: None, kept_s=None, wait_s=0.0, waiting=0)
        patch.setattr(export_process, "DECODERS", no_child)
        assert send(service, export([span()])).status_code == 429
    assert send(service, export([span()])).status_code == 200


def test_receiver__large_export_is_decoded_within_a_memory_limit(service: Service) -> None:
    options = service.resources.options
    assert isinstance(options, dict)
    bomb = b'{"resourceSpans": [' + b"{}," * 400_000 + b"{}]}"
    options["import_memory_mb"] = "16"
    refused = send(service, bomb, **{"Content-Type": "application/json"})
    assert refused.status_code == 413
    assert "MOSAICO_IMPORT_MEMORY_MB" in refused.json()["message"]
    options["import_memory_mb"] = ""
    assert send(service, bomb, **{"Content-Type": "application/json"}).status_code == 200
    large = export([span(), span(name="x" * 2 * 1024**2)])
    assert send(service, gzip.compress(large), **GZIP).status_code == 200
    assert count_rows(service) == (1, 2)


def test_receiver__failure_within_the_transaction_stores_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_at_the_end(session: Session, spans: EncodedSpans, now: datetime) -> None:
        store_spans(session, spans, now)
        raise RuntimeError("killed before the commit")

    monkeypatch.setattr(router, "store_spans", fail_at_the_end)
    body = export([span()])
    assert send(service, body).status_code == 503
    assert count_rows(service) == (0, 0)
    monkeypatch.undo()
    assert send(service, body).status_code == 200
    assert count_rows(service) == (1, 1)


def test_receiver__requires_a_key_with_the_role_run(service: Service) -> None:
    key = service.post("/keys", {"name": "reader", "role": "read"})["token"]
    for token, status in (("wrong", 401), (key, 403)):
        headers = {"Authorization": f"Bearer {token}"}
        assert send(service, export([span()]), **headers).status_code == status


def test_receiver__metrics_are_refused_with_the_setting_to_change(service: Service) -> None:
    response = service.client.post("/v1/metrics", content=b"", headers=PROTOBUF)
    assert response.status_code == 404
    assert "_EXPORTER=none" in response.json()["detail"]


def test_receiver__texts_in_logs_are_stored_once_and_belong_to_their_span(service: Service) -> None:
    record = {
        "traceId": "1".zfill(32),
        "spanId": "1".zfill(16),
        "timeUnixNano": str(START_NS),
        "eventName": "gen_ai.user.message",
        "body": {"stringValue": '{"content": "Weather in Rome?"}'},
    }
    other = {**record, "eventName": "", "body": {"stringValue": "the agent started"}}
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record, other]}]}]}
    for _ in range(2):
        response = service.client.post("/v1/logs", json=logs)
        assert (response.status_code, response.json()) == (200, {})
    assert send(service, export([span("chat", span_id="1")])).status_code == 200

    stored = stored_spans(service)
    assert len(stored) == 2
    assert assemble_trace(stored).input == "Weather in Rome?"
    deep: Any = {"stringValue": "x"}
    for _ in range(60):
        deep = {"arrayValue": {"values": [deep]}}
    logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"] = [{**record, "body": deep}]
    response = service.client.post("/v1/logs", json=logs)
    assert response.json()["partialSuccess"]["rejectedLogRecords"] == "1"


def test_receiver__many_small_messages_are_refused_with_their_limit(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(service.resources.options, "import_span_values", "1000")
    response = send(service, b"\x0a\x00" * 2000)
    assert response.status_code == 413
    assert b"MOSAICO_IMPORT_SPAN_VALUES" in response.content
    assert count_rows(service) == (0, 0)
    assert send(service, export([span()])).status_code == 200
