"""Texts are sent in batches; a bad one fails its own traces only."""

from array import array

import pytest
from starlette.responses import Response

from mosaico.core.clock import utc_now
from mosaico.jobs.handlers import JobContext
from mosaico.llm.completion_pool import BatchOutcome, CompletionPool
from mosaico.llm.conversation import Usage
from mosaico.llm.errors import LlmError, LlmErrorKind, LlmUnavailable
from mosaico.llm.types import (
    BatchResponse,
    ChatAnswer,
    ChatRequest,
    EmbeddingAnswer,
    EmbeddingRequest,
    ModelAnswer,
    ModelRequest,
    PromptMessage,
    RequestBatch,
    request_key,
)
from mosaico.metrics import completion_fetcher
from mosaico.metrics.completion_fetcher import CompletionFetcher
from mosaico.metrics.types import MetricFailed, MetricRef
from mosaico.runs.llm_cache import CachedAnswers
from mosaico.runs.llm_metrics import measure_remote
from mosaico.traces.types import Trace
from tests.support.judged_traces import by_trace, outputs
from tests.support.llm import (
    EMBEDDER,
    JUDGE,
    ModelService,
    ReceivedLlmRequest,
    always,
    error_response,
    vector_of,
)
from tests.support.service import Service, pair


def test_semantic_similarity__texts_are_batched_and_sent_once(
    service: Service, models: ModelService
) -> None:
    service.create_benchmark(metrics=["SEMANTIC_SIMILARITY"])
    service.upload(
        [
            *outputs("one", "two", " one "),
            pair(7, "expected", ""),
            pair(8, "same", "same"),
            pair(9, "expected", None),
        ]
    )
    run = service.complete_run()
    rows = by_trace(service, run)
    one_request, model_requests = vector_of("one"), vector_of("expected")
    cosine = (
        sum(a * b for a, b in zip(one_request, model_requests, strict=True))
        / (sum(a * a for a in one_request) * sum(b * b for b in model_requests)) ** 0.5
    )
    values = [row["values"]["SEMANTIC_SIMILARITY"] for row in rows.values()]
    assert values[0] == values[2] == pytest.approx(cosine, abs=1e-6)
    # An empty answer is worth 0, and an equal one 1, without the model.
    assert values[3:] == [0.0, 1.0, None]
    [received] = models.requests
    assert (received.path, received.body["model"]) == ("/v1/embeddings", EMBEDDER)
    assert sorted(received.texts) == ["expected", "one", "two"]
    service.upload(outputs("two", "three"), run_name="run-2")
    models.requests.clear()
    service.complete_run(runName="run-2")
    assert models.embedded == ["three"]


@pytest.mark.parametrize("status", [400, 500])
def test_batch__one_bad_text_fails_its_own_traces_only(
    status: int, service: Service, models: ModelService
) -> None:
    def limited(received: ReceivedLlmRequest) -> Response | None:
        long = any("x" * 50 in text for text in received.texts)
        return error_response(status, "maximum context length exceeded") if long else None

    models.faults.append(limited)
    service.create_benchmark(metrics=["SEMANTIC_SIMILARITY"])
    service.upload(outputs("a", "b", "x" * 50, "c", "d", "e", "f", "g", "h", "i"))
    rows = list(by_trace(service, service.complete_run()).values())
    missing = {row["traceId"]: row["missing"] for row in rows if row["missing"]}
    assert list(missing) == ["t-2"]
    why = missing["t-2"]["SEMANTIC_SIMILARITY"]
    assert why["failed"] == "JUDGE_ERROR"
    assert "maximum context length" in why["detail"]


def test_batch__too_large_batch_is_split(service: Service, models: ModelService) -> None:
    models.faults.append(
        lambda received: error_response(504, "too slow") if len(received.texts) > 3 else None
    )
    service.create_benchmark(metrics=["SEMANTIC_SIMILARITY"])
    service.upload(outputs(*(f"answer {number}" for number in range(9))))
    run = service.complete_run()
    assert (run["status"], run["errorShare"]) == ("COMPLETED", 0.0)


class FakeCompletionPool(CompletionPool):
    """Asks one batch after the other; fails at those that hold a text with an x."""

    def __init__(self) -> None:
        self.batches: list[RequestBatch] = []

    def submit(self, batch: RequestBatch) -> None:
        self.batches.append(batch)

    def take(self, timeout_s: float) -> list[BatchOutcome]:  # noqa: ARG002
        batch = self.batches.pop(0)
        if any("x" in text_of(one_request) for one_request in batch):
            error = LlmError("too long", kind=LlmErrorKind.SERVER, status=500)
            return [BatchOutcome(batch, error)]
        answers = tuple(map(answer_to, batch))
        return [BatchOutcome(batch, BatchResponse(answers, Usage(input_tokens=1, output_tokens=0)))]


def text_of(request: ModelRequest) -> str:
    if isinstance(request, EmbeddingRequest):
        return request.text
    return request.messages[-1].content


def answer_to(request: ModelRequest) -> ModelAnswer:
    if isinstance(request, EmbeddingRequest):
        return EmbeddingAnswer(array("f", [1.0]))
    return ChatAnswer(content="fine")


def test_fetcher__many_failed_requests_with_a_successful_probe_continue(
    service: Service,
) -> None:
    """Whether it answers at all is tried with the least that it can be asked."""
    store = CachedAnswers(service.resources.db, 1, utc_now)
    model_requests = [
        ChatRequest(model=JUDGE, messages=(PromptMessage(role="user", content=judged_text),))
        for judged_text in [*(f"{number}x" for number in range(20)), "a", "b"]
    ]
    failures = CompletionFetcher(store, "server", FakeCompletionPool()).fetch(
        model_requests, lambda: None
    )
    failed = [
        isinstance(failures[request_key("server", one_request)], MetricFailed)
        for one_request in model_requests
    ]
    assert failed == [True] * 20 + [False] * 2
    assert len(failures) == len(model_requests)


def test_fetcher__bad_texts_are_isolated_across_batches(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion_fetcher, "MAX_BATCH_TEXTS", 4)
    store = CachedAnswers(service.resources.db, 1, utc_now)
    # Each batch of four has one bad text.
    texts = [f"{number}x" if number % 4 == 0 else f"{number}" for number in range(48)]
    model_requests = [EmbeddingRequest(model=EMBEDDER, text=text) for text in texts]
    failures = CompletionFetcher(store, "server", FakeCompletionPool()).fetch(
        model_requests, lambda: None
    )
    failed = [
        isinstance(failures[request_key("server", one_request)], MetricFailed)
        for one_request in model_requests
    ]
    assert failed == ["x" in text for text in texts]


@pytest.mark.parametrize("metric", ["LLM_JUDGE", "SEMANTIC_SIMILARITY"])
def test_fetcher__server_without_any_response_is_unavailable(
    metric: str, service: Service, models: ModelService
) -> None:
    models.faults.append(always(error_response(503, "overloaded")))
    traces = [
        Trace(trace_id=f"t-{n}", item_id="i", input="?", expected_output="is", output=f"{n}")
        for n in range(40)
    ]
    job = JobContext(resources=service.resources, pool=service.pool, is_stopping=lambda: False)
    ref = MetricRef.of(metric, {"model": JUDGE})
    with pytest.raises(LlmUnavailable, match=f"at {models.url} does not respond: 503: overloaded"):
        measure_remote(traces, (ref,), job=job, run_seq=1, cache_suffix="#run-1")
