"""Request IDs in jobs, problems and outbound calls; one run for one Idempotency-Key."""

from dataclasses import replace

import pytest
import structlog

from mosaico.core.correlation import (
    bind_correlation,
    get_correlation,
    is_traceparent,
    outbound_headers,
)
from mosaico.core.http.client import outbound_client
from mosaico.jobs.declarations import JobRequest
from mosaico.jobs.handlers import HANDLERS, JobContext, JobHandler
from tests.support.service import JSON, Service

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
HEADERS = {"X-Request-Id": "request-7", "traceparent": TRACEPARENT}


@pytest.fixture
def prepared_service(service: Service) -> Service:
    service.create_agent()
    service.create_benchmark(datasetRef="support")
    service.upload([{"traceId": "t-1", "expectedOutput": "a", "output": "a"}])
    return service


def test_request_id__is_carried_by_jobs_and_their_jobs(
    prepared_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts: dict[str, JSON] = {}

    def watched(handler: JobHandler) -> JobHandler:
        def do(job: JobContext, request: JobRequest) -> None:
            contexts[handler.name] = structlog.contextvars.get_contextvars()
            handler.function(job, request)

        return replace(handler, function=do)

    for handler in HANDLERS:
        monkeypatch.setitem(HANDLERS._handlers, handler.name, watched(handler))
    body = {"benchmarkId": "bench-001", "agentId": "agent-001"}
    run = prepared_service.post("/benchmark-runs", body, **HEADERS)
    prepared_service.work()
    assert prepared_service.get(f"/benchmark-runs/{run['id']}")["status"] == "COMPLETED"
    correlation = {"request_id": "request-7", "traceparent": TRACEPARENT}
    steps = ("runs.collect", "score.shard", "runs.finish")
    expected = {**correlation, "run_id": run["id"]}
    assert [contexts[step] for step in steps] == [expected] * len(steps)


def test_outbound_headers__contain_request_id_and_traceparent() -> None:
    assert outbound_headers() == {}
    with bind_correlation({"request_id": "r-1", "traceparent": TRACEPARENT, "other": "x"}):
        assert get_correlation() == {"request_id": "r-1", "traceparent": TRACEPARENT}
        with outbound_client(timeout_s=1, max_bytes=1) as client:
            request = client.build_request("GET", "https://other.example")
    assert request.headers["X-Request-Id"] == "r-1"
    assert request.headers["traceparent"] == TRACEPARENT
    assert get_correlation() == {}


@pytest.mark.parametrize(
    "text",
    # W3C Trace Context forbids capitals, the version ff and an ID of zeros.
    ["", TRACEPARENT.upper(), "ff" + TRACEPARENT[2:], "00-" + "0" * 32 + TRACEPARENT[35:], "x"],
)
def test_is_traceparent__invalid_text_is_rejected(text: str) -> None:
    assert is_traceparent(TRACEPARENT)
    assert not is_traceparent(text)
