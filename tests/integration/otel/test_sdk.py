"""The real OpenTelemetry SDK and an instrumentation library send to the receiver."""

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    StopReason,
    TextBlock,
    ToolUseBlock,
    Usage,
)
from mosaico.traces.production import ProductionTraces, TraceWindow
from mosaico.traces.registry import TraceQuery
from mosaico.traces.sources.otel import OtelSource
from mosaico.traces.types import ToolCall, Trace
from tests.integration.docs.test_examples import blocks
from tests.support.model_server import ReceivedRequest, ScriptedReply, model_server
from tests.support.otlp import settle_spans
from tests.support.references import Reference
from tests.support.service import Service

openai = Reference("openai")

MESSAGES = [{"role": "user", "content": "What is the capital of Italy?"}]


def reply(request: ReceivedRequest) -> ScriptedReply:
    """First a tool call, then the answer."""
    block = (
        TextBlock(text="Rome")
        if request.turn
        else ToolUseBlock(id="call-1", name="look_up", input={"country": "Italy"})
    )
    return ScriptedReply(
        message=ChatMessage(role=MessageRole.ASSISTANT, content=(block,)),
        stop=StopReason.END if request.turn else StopReason.TOOL_USE,
        usage=Usage(input_tokens=10, output_tokens=2),
    )


@contextmanager
def exporting(service: Service, **resource: str) -> Iterator[TracerProvider]:
    """A provider of the SDK whose spans have arrived when the block ends."""
    provider = TracerProvider(resource=Resource.create(resource))
    exporter = OTLPSpanExporter(
        endpoint=f"{service.client.base_url}/v1/traces",
        headers={"Authorization": service.client.headers["Authorization"]},
        compression=Compression.Gzip,
    )
    # Small batches: a trace comes in several exports, the root in the last one.
    provider.add_span_processor(
        BatchSpanProcessor(exporter, max_export_batch_size=2, schedule_delay_millis=50)
    )
    yield provider
    assert provider.force_flush()
    provider.shutdown()


def received_traces(service: Service) -> list[Trace]:
    now = datetime.now(UTC)
    window = TraceWindow(from_=now - timedelta(hours=1), to=now + timedelta(seconds=1))
    resources = replace(service.resources, clock=lambda: now + timedelta(hours=1))
    query = TraceQuery(dataset_ref=None, run_name=None, production=ProductionTraces(window=window))
    return [
        trace
        for page in OtelSource(resources=resources).pages(query, None)
        for trace in page.traces
    ]


def test_instrumented_agent__is_received_as_one_trace(service: Service) -> None:
    library = pytest.importorskip("openinference.instrumentation.openai")
    instrumentor = library.OpenAIInstrumentor()
    with model_server(reply) as models, exporting(service, **{"service.name": "bot"}) as provider:
        instrumentor.instrument(tracer_provider=provider)
        try:
            with (
                openai.OpenAI(base_url=models.openai_url, api_key="k") as client,
                provider.get_tracer("agent").start_as_current_span(
                    "answer", attributes={"session.id": "s-1"}
                ),
            ):
                call = client.chat.completions.create(model="m", messages=MESSAGES)
                history = [*MESSAGES, call.choices[0].message, _tool_result()]
                client.chat.completions.create(model="m", messages=history)
        finally:
            instrumentor.uninstrument()
    [trace] = received_traces(service)
    assert (trace.input, trace.output, trace.error) == (MESSAGES[0]["content"], "Rome", None)
    assert (trace.input_tokens, trace.output_tokens, trace.turns) == (20, 4, 2)
    assert trace.tool_calls == (ToolCall(name="look_up", arguments={"country": "Italy"}),)
    assert trace.attributes == {
        "service.name": "bot",
        "session": "s-1",
        "name": "answer",
        "model": "m",
    }
    assert trace.latency_ms is not None
    assert trace.transcript is not None


def _tool_result() -> dict[str, str]:
    return {"role": "tool", "tool_call_id": "call-1", "content": "Rome is the capital"}


def test_failed_agent__is_an_agent_error(service: Service) -> None:
    with exporting(service) as provider:
        tracer = provider.get_tracer("agent")
        with pytest.raises(ValueError, match="no answer"), tracer.start_as_current_span("answer"):
            raise ValueError("no answer")
    [trace] = received_traces(service)
    assert (trace.outcome, trace.error) == ("agent_error", "no answer")


def test_docs__experiment_and_its_benchmark_work(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, experiment = blocks("docs/otel.md", "python")
    production, agent, benchmark = blocks("docs/otel.md", "json")
    key = service.client.headers["Authorization"].removeprefix("Bearer ")
    names: dict[str, object] = {}
    base_url = str(service.client.base_url)
    code = exporter.replace("http://127.0.0.1:8080", base_url).replace("mosaico_…", key)
    exec(compile(code, "docs/otel.md", "exec"), names)
    provider = names["provider"]
    assert isinstance(provider, TracerProvider)
    api = importlib.import_module("opentelemetry.trace")
    monkeypatch.setattr(api, "get_tracer", provider.get_tracer)
    exec(compile(experiment, "docs/otel.md", "exec"), {})
    provider.shutdown()

    service.create_agent()
    service.post("/benchmarks", json.loads(production))
    service.post("/benchmarks", json.loads(benchmark))
    settle_spans(service.resources.db)
    run = service.complete_run(benchmarkId="capitals")
    assert (run["status"], run["tracesTotal"], run["runName"]) == ("COMPLETED", 1, "2026-11-22")
    # The spans do not have the service name of this agent.
    service.post("/agents", json.loads(agent))
    other_run = service.complete_run(benchmarkId="capitals", agentId="support-bot")
    assert (other_run["status"], other_run["errorCode"]) == ("FAILED", "DATASET_NOT_FOUND")
