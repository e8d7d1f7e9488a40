"""Spans of two frameworks in one run, and what a client and the run say about spans that are not understood."""

from typing import Any, Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from mosaico.traces.reader_versions import SOURCE_READERS, ReaderVersion
from tests.support.otel_frameworks.fixtures import FIXTURES
from tests.support.otel_frameworks.form import export_of
from tests.support.otlp import PROTOBUF, export, json_export, settle_spans, span
from tests.support.service import JSON, Service

METRICS: Final = (
    *("INPUT_TOKENS", "OUTPUT_TOKENS", "TOTAL_TOKENS", "COST_USD", "TURNS"),
    *("TOOL_CALLS", "TOOL_CALLS_OK", "TOOL_CALLS_ERROR", "TOOL_CALL_SUCCESS_RATE"),
)
DATASET: Final = {"mosaico.dataset": "weather", "mosaico.run": "r-1"}


def send(service: Service, body: bytes) -> bytes:
    response = service.client.post("/v1/traces", content=body, headers=PROTOBUF)
    assert response.status_code == 200, response.text
    return response.content


def run_over_received(service: Service, metrics: tuple[str, ...]) -> JSON:
    settle_spans(service.resources.db)
    service.create_agent()
    service.create_benchmark(source="otel", datasetRef="weather", metrics=list(metrics))
    return service.complete_run()


def test_run__over_two_frameworks_has_the_figures_worked_out_by_hand(service: Service) -> None:
    sent = ("Vercel AI SDK 4.3.19 Anthropic", "logfire, Claude Agent SDK 5.4.0")
    for number, name in enumerate(sent, start=1):
        [fixture] = [fixture for fixture in FIXTURES if fixture.id == name]
        resource = {**DATASET, "mosaico.item_id": f"item-{number}"}
        assert not send(service, export_of(fixture, number, resource).SerializeToString())

    run = run_over_received(service, METRICS)

    assert (run["status"], run["tracesTotal"]) == ("COMPLETED", 2)
    assert run["sourceWarning"] is None
    page = service.client.get(f"/runs/{run['id']}/traces/{'1'.zfill(32)}")
    assert page.status_code == 200
    assert "not-understood" not in page.text
    metrics = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert {metric["metric"]: metric["mean"] for metric in metrics} == pytest.approx(
        {
            "INPUT_TOKENS": 110,  # 190 with those of the cache, and 30 of the agent alone
            "OUTPUT_TOKENS": 12,  # 15 and 9
            "TOTAL_TOKENS": 122,
            "COST_USD": 0.25,  # the AI SDK reports none
            "TURNS": 1.5,  # 2 and 1
            "TOOL_CALLS": 1,
            "TOOL_CALLS_OK": 1,
            "TOOL_CALLS_ERROR": 0,
            "TOOL_CALL_SUCCESS_RATE": 1,
        }
    )


def test_unknown_texts__are_named_to_the_client_and_by_the_run(service: Service) -> None:
    named = {f"mosaico__{key}": value for key, value in (("dataset", "weather"), ("run", "r-1"))}
    unknown: dict[str, Any] = {**named, "bot__answer": "Rome", "mosaico__item_id": "a"}
    body = export([span(**unknown), span(trace="2", output__value="Rome")])

    partial = ExportTraceServiceResponse.FromString(send(service, body)).partial_success
    assert partial.rejected_spans == 0
    assert "bot.answer" in partial.error_message
    attributes = [{"key": "bot.answer", "value": {"stringValue": "Rome"}}]
    response = service.client.post(
        "/v1/traces", json=json_export({"traceId": "3".zfill(32), "attributes": attributes})
    )
    assert response.json()["partialSuccess"]["rejectedSpans"] == "0"
    assert "bot.answer" in response.json()["partialSuccess"]["errorMessage"]

    run = run_over_received(service, ("TURNS",))
    assert "bot.answer" in run["sourceWarning"]
    pages = (f"/runs/{run['id']}", f"/runs/{run['id']}/traces/{'1'.zfill(32)}")
    for path in pages:
        assert "bot.answer" in service.client.get(path).text


@pytest.mark.parametrize(
    ("before", "verdict"), [(ReaderVersion(answers=1), "INVALID"), (None, "REGRESSED")]
)
def test_another_version_of_the_reader__is_a_visible_break_and_no_regression(
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    before: ReaderVersion | None,
    verdict: str,
) -> None:
    """Every answer gets worse; by the same version of the reader that is a regression."""
    service.create_agent()
    service.create_benchmark(source="otel", datasetRef="weather", metrics=["CONTAINS"])
    with monkeypatch.context() as patch:
        if before is not None:
            patch.setitem(SOURCE_READERS, "otel", before)
        run_of_items(service, "r-1", answer="It is sunny.")
    run = run_of_items(service, "r-2", answer="I cannot say.")

    assert run["verdict"]["verdict"] == verdict
    changes = run["verdict"]["measuredDifferently"]
    assert any("reader otel" in change for change in changes) is (before is not None)
    rows = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert [row["verdict"]["verdict"] for row in rows] == [verdict]


def run_of_items(service: Service, name: str, answer: str) -> JSON:
    named: dict[str, Any] = {"mosaico__dataset": "weather", "mosaico__run": name}
    spans = [
        span(
            trace=f"{number:x}{name.encode().hex()}",
            **named,
            mosaico__item_id=f"item-{number}",
            mosaico__expected_output="sunny",
            input__value="Weather in Rome?",
            output__value=answer,
        )
        for number in range(1, 41)
    ]
    assert not send(service, export(spans))
    settle_spans(service.resources.db)
    return service.complete_run(runName=name)
