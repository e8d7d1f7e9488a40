"""What every trace source promises, shown on each source that can be read without a network.

A new source joins with one function that fills it with traces and one row in `SOURCES`.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from app.core.resources import Resources
from app.traces import queries
from app.traces.models import Collection
from app.traces.otel.export_body import decode_body
from app.traces.otel.service import encode_spans, store_spans
from app.traces.production import ProductionTraces, TraceWindow
from app.traces.queries import read_traces
from app.traces.registry import TRACE_SOURCES, CollectionFailed, TraceQuery
from app.traces.service import create_collection, encode_traces, store_local_dataset, store_page
from app.traces.storable_traces import collect
from app.traces.types import ToolCall, Trace, TraceOutcome
from tests.support.otlp import export, key_values, span
from tests.support.service import JSON, ndjson

NOW = datetime(2026, 11, 21, tzinfo=UTC)
COUNT = 1203
FULL: JSON = {
    "traceId": "full",
    "itemId": "item",
    "trial": 2,
    "outcome": "agent_error",
    "input": "in",
    "expectedOutput": "expected",
    "output": "é😀",
    "error": "why",
    "tags": ["b", "a"],
    "url": "https://example.org/full",
    "inputTokens": 2**40,
    "outputTokens": 0,
    "costUsd": 0.125,
    "latencyMs": 7,
    "toolCalls": [{"name": "grep", "arguments": {"q": ["x", 1.5, None]}, "ok": False}],
    "turns": 5,
    "scores": {"Tone": 0.1},
}
FULL_TRACE = Trace(
    trace_id="full",
    item_id="item",
    trial=2,
    outcome=TraceOutcome.AGENT_ERROR,
    input="in",
    expected_output="expected",
    output="é😀",
    error="why",
    tags=("b", "a"),
    url="https://example.org/full",
    input_tokens=2**40,
    output_tokens=0,
    cost_usd=0.125,
    latency_ms=7.0,
    tool_calls=(ToolCall(name="grep", arguments={"q": ["x", 1.5, None]}, ok=False),),
    turns=5,
    scores={"Tone": 0.1},
)


def fill_local(resources: Resources, traces: list[JSON]) -> TraceQuery:
    store_upload(resources, ndjson(traces), replace=False)
    return TraceQuery(dataset_ref="support", run_name=None)


def store_upload(resources: Resources, body: bytes, *, replace: bool) -> None:
    with (
        encode_traces(enumerate(body.splitlines(), start=1)) as encoded,
        resources.db.begin() as session,
    ):
        store_local_dataset(
            session, "support", "run-1", encoded, size_bytes=len(body), replace=replace
        )


def fill_otel_run(resources: Resources, traces: list[JSON]) -> TraceQuery:
    store_export(resources, traces)
    return TraceQuery(dataset_ref="support", run_name=None)


def fill_otel_window(resources: Resources, traces: list[JSON]) -> TraceQuery:
    store_export(resources, traces)
    day = TraceWindow(from_=NOW, to=NOW + timedelta(days=1))
    return TraceQuery(
        dataset_ref=None, run_name=None, production=ProductionTraces(window=day, item_key="session")
    )


def store_export(resources: Resources, traces: list[JSON]) -> None:
    """Receive the traces of the lines of an upload as spans that ended long ago."""
    body = export([part for number, line in enumerate(traces) for part in spans_of(number, line)])
    with (
        encode_spans(decode_body(body, "application/x-protobuf")) as spans,
        resources.db.begin() as session,
    ):
        store_spans(session, spans, NOW + timedelta(hours=1))


def spans_of(number: int, line: JSON) -> list[Span]:
    """The spans of a trace: its root, a call of a model and calls of tools."""
    trace = f"{number + 1:x}"
    start = int(NOW.timestamp()) * 1_000_000_000 + number
    item: JSON = {
        "mosaico.dataset": "support",
        "mosaico.run": "run-1",
        "mosaico.item_id": line.get("itemId", line["traceId"]),
    }
    root = span(trace=trace, span_id="1", start_ns=start, failed=line.get("error"), **item)
    if line["traceId"] != "full":
        return [root]
    more = {
        "session.id": line["itemId"],
        "mosaico.trial": line["trial"],
        "mosaico.expected_output": line["expectedOutput"],
        "langfuse.trace.tags": line["tags"],
        "input.value": line["input"],
    }
    root.end_time_unix_nano = start + line["latencyMs"] * 1_000_000
    root.attributes.extend(key_values(more))
    model = span(
        trace=trace,
        parent="1",
        start_ns=start,
        gen_ai__operation__name="chat",
        gen_ai__usage__input_tokens=line["inputTokens"],
        gen_ai__usage__output_tokens=line["outputTokens"],
        gen_ai__usage__cost=line["costUsd"],
    )
    model.events.add(
        name="gen_ai.evaluation.result",
        attributes=key_values(
            {"gen_ai.evaluation.name": "Tone", "gen_ai.evaluation.score.value": 0.1}
        ),
    )
    [call] = line["toolCalls"]
    tool = span(
        trace=trace,
        parent="1",
        start_ns=start,
        failed="no match",
        gen_ai__tool__name=call["name"],
        gen_ai__tool__call__arguments=json.dumps(call["arguments"]),
    )
    return [root, model, tool]


def hex_id(trace_id: str) -> str:
    """The ID of the trace of a line: the full one comes first, then `t-0`, `t-1` …"""
    number = 1 if trace_id == "full" else int(trace_id.removeprefix("t-")) + 2
    return f"{number:032x}"


OTEL_TRACE = replace(
    FULL_TRACE,
    trace_id=hex_id("full"),
    output=None,  # that of a failed trace is unknown
    url=None,
    turns=1,
    attributes={"name": "agent", "session": "item"},
    tool_calls=(
        ToolCall(name="grep", arguments={"q": ["x", 1.5, None]}, ok=False, latency_ms=1.0),
    ),
)


class Case(NamedTuple):
    """A source by its name, how it is filled, and how it returns `FULL` and the IDs of the lines."""

    name: str
    fill: Callable[[Resources, list[JSON]], TraceQuery]
    full_trace: Trace = FULL_TRACE
    id_of: Callable[[str], str] = str


SOURCES = {
    "local": Case("local", fill_local),
    "otel run": Case("otel", fill_otel_run, OTEL_TRACE, hex_id),
    "otel window": Case("otel", fill_otel_window, replace(OTEL_TRACE, trial=2), hex_id),
}
every_source = pytest.mark.parametrize("case", SOURCES.values(), ids=SOURCES)


def collected(resources: Resources, collection_id: int) -> list[Trace]:
    with resources.db.read() as session:
        return read_traces(session, collection_id, 0, 10_000)


@every_source
def test_trace_source__returns_each_trace_once_in_order(
    case: Case, service_resources: Resources
) -> None:
    lines = [{"traceId": f"t-{number}"} for number in range(COUNT)]
    query = case.fill(service_resources, [FULL, *lines])
    source = TRACE_SOURCES.get(case.name).open(service_resources)
    pages = list(collect(source, query, None))
    traces = [trace for page in pages for trace in page.traces]
    assert traces[0] == case.full_trace
    ids = [case.id_of(f"t-{number}") for number in range(COUNT)]
    assert [trace.trace_id for trace in traces[1:]] == ids
    assert [page.cursor is None for page in pages] == [False] * (len(pages) - 1) + [True]
    assert {page.total for page in pages} <= {None, COUNT + 1}
    assert len(pages) > 1


@every_source
def test_trace_source__resumes_after_any_page_with_the_same_traces(
    case: Case, service_resources: Resources
) -> None:
    query = case.fill(service_resources, [{"traceId": f"t-{n}"} for n in range(COUNT)])
    spec = TRACE_SOURCES.get(case.name)
    pages = list(spec.open(service_resources).pages(query, None))
    for page_number, page in enumerate(pages[:-1], start=1):
        again = list(spec.open(service_resources).pages(query, page.cursor))
        assert again == pages[page_number:]


@every_source
def test_trace_source__missing_dataset_fails_with_a_code(
    case: Case, service_resources: Resources
) -> None:
    source = TRACE_SOURCES.get(case.name).open(service_resources)
    for query in (
        TraceQuery(dataset_ref="absent", run_name=None),
        TraceQuery(dataset_ref=None, run_name=None),
    ):
        with pytest.raises(CollectionFailed) as caught:
            next(iter(source.pages(query, None)))
        assert caught.value.error_code == "DATASET_NOT_FOUND"


@every_source
def test_collection__interrupted_and_resumed_contains_each_trace_once(
    case: Case, service_resources: Resources
) -> None:
    query = case.fill(service_resources, [FULL, *({"traceId": f"t-{n}"} for n in range(COUNT))])
    source = TRACE_SOURCES.get(case.name).open(service_resources)
    db = service_resources.db
    with db.begin() as session:
        collection_id = create_collection(session, case.name, {}).id
    [first, *_] = pages = list(collect(source, query, None))
    for page in (first, first):  # the worker died before it knew that the page was stored
        with db.begin() as session:
            store_page(session, session.get_one(Collection, collection_id), page, NOW)
    for page in collect(source, query, first.cursor):
        with db.begin() as session:
            store_page(session, session.get_one(Collection, collection_id), page, NOW)
    assert collected(service_resources, collection_id) == [
        trace for page in pages for trace in page.traces
    ]
    with db.read() as session:
        collection = session.get_one(Collection, collection_id)
        assert (collection.trace_count, collection.completed_at) == (COUNT + 1, NOW)


def test_trace_source__long_lines_give_short_pages(
    service_resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_PAGE_BYTES", 8000)
    long = "x" * 3000
    query = fill_local(
        service_resources, [{"traceId": f"t-{number}", "output": long} for number in range(7)]
    )
    source = TRACE_SOURCES.get("local").open(service_resources)
    # 3 kB a line and 8 kB a page: a line that begins below the limit is still taken.
    assert [len(page.traces) for page in source.pages(query, None)] == [3, 3, 1]


def test_upload_source__replaced_upload_is_detected_while_reading(
    service_resources: Resources,
) -> None:
    query = fill_local(service_resources, [{"traceId": f"t-{n}"} for n in range(COUNT)])
    pages = TRACE_SOURCES.get("local").open(service_resources).pages(query, None)
    next(pages)
    store_upload(service_resources, b'{"traceId": "new"}', replace=True)
    with pytest.raises(CollectionFailed, match="deleted while the run was reading"):
        next(pages)
