"""How the sources of the contract are filled with traces, and what they return for them."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from mosaico.core.encryption import Secret
from mosaico.core.resources import Resources
from mosaico.traces.otel.export_body import decode_body
from mosaico.traces.otel.service import store_spans
from mosaico.traces.production import ProductionTraces, TraceFilters, TraceWindow, sampling_rank
from mosaico.traces.registry import TraceQuery
from mosaico.traces.types import ToolCall, Trace, TraceOutcome
from mosaico.traces.uploads.encoding import read_upload
from mosaico.traces.uploads.service import store_local_dataset
from mosaico.traces.uploads.uploaded_traces import read_lines
from tests.support.langfuse import FakeLangfuse
from tests.support.otlp import encode_spans, export, key_values, span
from tests.support.service import JSON, ndjson

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DAY = TraceWindow(from_=NOW, to=NOW + timedelta(days=1))
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
    # More than 32 bits, and a cost that floats hold exactly.
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
# More than two pages of each source, which have 100 traces in these tests.
LOCAL_COUNT, LANGFUSE_COUNT, SAMPLE_SIZE = 203, 251, 150


class Case(NamedTuple):
    """A source by its name, how lines of an upload fill it, and what it returns for them.

    `full_trace` is that of the line `FULL`, `id_of` the ID for the `traceId` of a line. `arrange`
    returns the IDs that the source reads, in its order. `records_content`: it can tell an empty answer
    from one that was not recorded.
    """

    name: str
    fill: Callable[[Resources, list[JSON]], TraceQuery]
    full_trace: Trace = FULL_TRACE
    id_of: Callable[[str], str] = str
    arrange: Callable[[list[str]], list[str]] = list
    records_content: bool = True
    size: int = LOCAL_COUNT

    def lines(self) -> list[JSON]:
        """So many lines that the source returns several pages."""
        return [{"traceId": f"t-{number}"} for number in range(self.size)]


def fill_local(resources: Resources, lines: list[JSON]) -> TraceQuery:
    store_upload(resources, ndjson(lines), replace=False)
    return TraceQuery(dataset_ref="support", run_name=None)


def store_upload(resources: Resources, body: bytes, *, replace: bool) -> None:
    with TemporaryFile() as file:
        file.write(body)
        _store_file(resources, file, len(body), replace=replace)


def _store_file(resources: Resources, file: IO[bytes], size_bytes: int, *, replace: bool) -> None:
    with (
        read_upload(resources, file, "any", read_lines, "", 1000) as encoded,
        resources.db.begin() as session,
    ):
        store_local_dataset(
            session, "support", "run-1", encoded, size_bytes=size_bytes, replace=replace
        )


def fill_otel_run(resources: Resources, lines: list[JSON]) -> TraceQuery:
    store_export(resources, lines)
    return TraceQuery(dataset_ref="support", run_name=None)


def fill_otel_window(resources: Resources, lines: list[JSON]) -> TraceQuery:
    store_export(resources, lines)
    return window_query(item_key="session")


def window_query(**fields: Any) -> TraceQuery:
    """A query for the traces of the day."""
    return TraceQuery(
        dataset_ref=None, run_name=None, production=ProductionTraces(window=DAY, **fields)
    )


def store_export(resources: Resources, lines: list[JSON]) -> None:
    """Receive the traces of the lines of an upload as spans that ended long ago."""
    body = export([part for line in lines for part in spans_of(line)])
    spans = encode_spans(decode_body(body, "application/x-protobuf"))
    with resources.db.begin() as session:
        store_spans(session, spans, NOW + timedelta(hours=1))


def spans_of(line: JSON) -> list[Span]:
    """The spans of a trace: its root, a call of a model and calls of tools."""
    trace = hex_id(line["traceId"])
    # A nanosecond apart, so that the order of the traces is that of the lines.
    start = int(NOW.timestamp()) * 1_000_000_000 + position_of(line["traceId"])
    item: JSON = {
        "mosaico.dataset": "support",
        "mosaico.run": "run-1",
        "mosaico.item_id": line.get("itemId", line["traceId"]),
    }
    if line["traceId"] != "full":
        texts = {"input.value": line.get("input"), "output.value": line.get("output")}
        item |= {name: text for name, text in texts.items() if text is not None}
        return [span(trace=trace, span_id="1", start_ns=start, **item)]
    root = span(trace=trace, span_id="1", start_ns=start, failed=line["error"], **item)
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


def position_of(trace_id: str) -> int:
    """The position of a line: `full` comes first, then `t-0`, `t-1` …"""
    return 0 if trace_id == "full" else int(trace_id.removeprefix("t-")) + 1


def hex_id(trace_id: str) -> str:
    """The ID of the trace of a line at an OpenTelemetry receiver, and in production at Langfuse."""
    return f"{position_of(trace_id) + 1:032x}"


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


def fill_langfuse_window(
    langfuse: FakeLangfuse, resources: Resources, lines: list[JSON], **production: Any
) -> TraceQuery:
    """Traces of production of one environment, a second apart, between those of another one."""
    for number, line in enumerate(lines):
        has_texts = "output" in line
        langfuse.production_trace(
            position_of(line["traceId"]) + 1,
            started=NOW + timedelta(seconds=number),
            question=line.get("input"),
            answer=line.get("output"),
            failure="the tool broke" if "error" in line else None,
            texts_on_calls=not has_texts,
            calls=2 if has_texts else 0,
            session_id=line.get("itemId"),
            tags=(*line.get("tags", ()),),
            environment="live",
            scores=line.get("scores"),
        )
        # Each page has some of another environment: a source that
        # filters after paging would lose count.
        if not number % 50:
            langfuse.production_trace(
                10**6 + number, started=NOW + timedelta(seconds=number), environment="test"
            )
    query = window_query(
        item_key="session", filters=TraceFilters(environment=["live"]), **production
    )
    return replace(_with_keys(query, langfuse), late_scores=True)


def fill_langfuse_run(
    langfuse: FakeLangfuse, resources: Resources, lines: list[JSON]
) -> TraceQuery:
    """An experiment with a row for each line; lines without an output answer `answer N`."""
    langfuse.experiment(
        items=len(lines),
        every=timedelta(seconds=1),
        errors={number for number, line in enumerate(lines) if "error" in line},
        output_of=lambda number: lines[number].get("output", f"answer {number}"),
    )
    return _with_keys(TraceQuery(dataset_ref="support", run_name=None), langfuse)


def _with_keys(query: TraceQuery, langfuse: FakeLangfuse) -> TraceQuery:
    return replace(
        query,
        url=langfuse.url,
        public_key=langfuse.public_key,
        secret_key=Secret(langfuse.secret_key),
    )


def window_trace(langfuse: FakeLangfuse) -> Trace:
    """The line `FULL` as a trace of production at Langfuse."""
    trace_id = hex_id("full")
    return Trace(
        trace_id=trace_id,
        item_id="item",
        outcome=TraceOutcome.AGENT_ERROR,
        input="in",
        error="the tool broke",
        tags=("b", "a"),
        attributes={"name": "agent", "session": "item", "environment": "live"},
        url=f"{langfuse.url}/project/project-1/traces/{trace_id}",
        input_tokens=200,
        output_tokens=40,
        cost_usd=0.002,
        latency_ms=2000.0,
        tool_calls=(),
        turns=2,
        scores={"Tone": 0.1},
    )


def run_trace(langfuse: FakeLangfuse) -> Trace:
    """The line `FULL` as the failed first row of an experiment."""
    trace_id = "00000001" + "0" * 24
    # API v3 links the trace, API v4 the span of the task.
    observation = "" if langfuse.server.mode == "v3" else "?observation=0001010000000000"
    return Trace(
        trace_id=trace_id,
        item_id="dataset-1-0",
        outcome=TraceOutcome.AGENT_ERROR,
        input="question 0",
        expected_output="answer 0",
        error="the agent gave up",
        attributes={"model": "small-model", "topic": "topic 0", "environment": "sdk-experiment"},
        url=f"{langfuse.url}/project/project-1/traces/{trace_id}{observation}",
        input_tokens=200,
        # Two calls with 20 tokens and the number of their span, 2 and 3; the task lasts 1,200 ms at
        # a pace of five seconds, here one.
        output_tokens=45,
        cost_usd=0.002,
        latency_ms=240.0,
        tool_calls=(),
        turns=2,
    )


def newest_first(trace_ids: list[str]) -> list[str]:
    return trace_ids[::-1]


def by_item_id(trace_ids: list[str]) -> list[str]:
    """The rows of an experiment as API v3 lists them."""
    return sorted(trace_ids, key=lambda trace_id: str(int(trace_id[8:], 16)))


def by_rank(trace_ids: list[str]) -> list[str]:
    """The sample of a window of production traces."""
    return sorted(trace_ids, key=partial(sampling_rank, 7))[:SAMPLE_SIZE]


def row_id(trace_id: str) -> str:
    """The ID of the trace of a row of the first experiment."""
    return f"{1:08x}{position_of(trace_id):024x}"


def langfuse_cases(langfuse: FakeLangfuse) -> dict[str, Case]:
    """A run, a window and a sample of a window on a server, which has one API version."""
    run = partial(fill_langfuse_run, langfuse)
    window = partial(fill_langfuse_window, langfuse)
    sample = partial(fill_langfuse_window, langfuse, sample_size=SAMPLE_SIZE, seed=7)
    is_v3 = langfuse.server.mode == "v3"
    run_order, window_order = (by_item_id, list) if is_v3 else (newest_first, newest_first)
    trace = window_trace(langfuse)
    cases = {
        "run": Case("langfuse", run, run_trace(langfuse), row_id, run_order, records_content=False),
        "window": Case("langfuse", window, trace, hex_id, window_order),
        "sample": Case("langfuse", sample, trace, hex_id, by_rank),
    }
    return {kind: case._replace(size=LANGFUSE_COUNT) for kind, case in cases.items()}


CASES = {
    "local": Case("local", fill_local),
    "otel run": Case("otel", fill_otel_run, OTEL_TRACE, hex_id),
    "otel window": Case("otel", fill_otel_window, OTEL_TRACE, hex_id),
}
LANGFUSE_CASES = [
    f"langfuse {api} {kind}" for api in ("v4", "v3") for kind in ("run", "window", "sample")
]
