"""Runs whose model fails, is silent or is missing."""

from collections.abc import Callable

import pytest
from starlette.responses import HTMLResponse, Response

from mosaico.jobs.handlers import JobContext, WorkerStopping
from mosaico.metrics.types import MetricRef
from mosaico.runs.leases import RunEnded
from mosaico.runs.llm_metrics import measure_remote
from mosaico.traces.types import Trace
from tests.support.judged_traces import BY_LENGTH, by_trace, outputs
from tests.support.llm import (
    JUDGE,
    ModelService,
    Silence,
    always,
    error_response,
    times,
)
from tests.support.service import Service


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (error_response(401, "Incorrect API key"), "LLM_AUTH"),
        (error_response(429, "no money left", "insufficient_quota"), "LLM_QUOTA"),
        (error_response(404, "no such model"), "LLM_NOT_FOUND"),
    ],
)
def test_run__final_llm_error_fails_the_run(
    answer: Response, code: str, service: Service, models: ModelService
) -> None:
    models.faults.append(always(answer))
    service.create_benchmark(metrics=[BY_LENGTH])
    service.upload(outputs(*(f"answer {number}" for number in range(40))))
    run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", code)
    assert len(models.requests) <= 16  # eight at a time, and those that had been begun


@pytest.mark.parametrize(
    "answer",
    [HTMLResponse("<html>"), error_response(400, "filtered"), error_response(500, "poisoned")],
)
def test_run__failed_request_affects_its_own_trace_only(
    answer: Response, service: Service, models: ModelService
) -> None:
    models.faults.append(lambda received: answer if "answer 3" in received.texts[-1] else None)
    service.create_benchmark(metrics=[BY_LENGTH])
    service.upload(outputs(*(f"answer {number}" for number in range(6))))
    rows = by_trace(service, service.complete_run())
    missing = {name: row["missing"] for name, row in rows.items() if row["missing"]}
    assert list(missing) == ["t-3"]
    assert missing["t-3"]["LLM_JUDGE"]["failed"] == "JUDGE_ERROR"


def test_run__transient_failures_are_retried(service: Service, models: ModelService) -> None:
    models.faults.append(times(3, error_response(503, "later")))
    models.faults.append(times(3, error_response(429, "slow down", Retry_After="0.05")))
    service.create_benchmark(metrics=[BY_LENGTH])
    service.upload(outputs(*(f"answer {number}" for number in range(20))))
    run = service.complete_run()
    assert (run["status"], run["errorShare"]) == ("COMPLETED", 0.0)
    # 20 requests, and six that failed first.
    assert len(models.requests) == 26
    assert models.most_in_flight <= 8


@pytest.mark.parametrize(
    ("metric", "model_requests"),
    [("LLM_JUDGE", "or MOSAICO_LLM_MODEL"), ("SEMANTIC_SIMILARITY", "MOSAICO_EMBEDDINGS_MODEL")],
)
def test_run__without_a_model_fails_before_it_reads_a_trace(
    metric: str, model_requests: str, service: Service, models: ModelService
) -> None:
    # The resources are frozen; only this service gets others.
    object.__setattr__(service.resources, "llm_server", type(models.access)(base_url=models.url))
    service.create_benchmark(metrics=[metric])
    service.upload(outputs("a"))
    run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "LLM_NOT_CONFIGURED")
    assert model_requests in run["errorMessage"]
    object.__setattr__(service.resources, "llm_server", None)
    run = service.complete_run()
    assert "MOSAICO_LLM_BASE_URL" in run["errorMessage"]
    assert run["tracesTotal"] is None


def test_run__formula_with_an_unlisted_judge_fails_the_run(
    service: Service,
) -> None:
    service.create_benchmark(
        metrics=["ACCURACY"], measures=[{"name": "tone", "formula": 'LLM_JUDGE["tone"]'}]
    )
    service.upload(outputs("a"))
    run = service.complete_run()
    assert run["status"] == "FAILED"
    assert "needs the option prompt" in run["errorMessage"]


def asked_of_silence(
    service: Service,
    models: ModelService,
    must_stop: Callable[[], bool],
    check_lease: Callable[[], None],
) -> None:
    """Ask a server about twenty traces that never answers."""
    models.faults.append(always(Silence(models)))
    ref = MetricRef.of("LLM_JUDGE", {"prompt": "{output}", "model": JUDGE})
    traces = [Trace(trace_id=f"t-{n}", item_id="i", output=f"{n}") for n in range(20)]
    job = JobContext(
        resources=service.resources,
        pool=service.pool,
        is_stopping=must_stop,
        check_lease=check_lease,
    )
    measure_remote(traces, (ref,), job=job, run_seq=1)


def test_worker__stops_without_waiting_for_a_silent_server(
    service: Service, models: ModelService
) -> None:
    with pytest.raises(WorkerStopping):
        asked_of_silence(service, models, lambda: bool(models.requests), lambda: None)
    assert len(models.requests) <= 8


def test_run__ends_without_waiting_for_a_silent_server(
    service: Service, models: ModelService
) -> None:
    def ended() -> None:
        if models.requests:
            raise RunEnded

    with pytest.raises(RunEnded):
        asked_of_silence(service, models, lambda: False, ended)
    assert len(models.requests) <= 8
