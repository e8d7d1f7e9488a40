"""Fetches answers from the model server, and stores each when it arrives."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Final, Protocol, TypeAlias

from mosaico.core.errors import Unavailable
from mosaico.llm.completion_pool import BatchOutcome, CompletionPool
from mosaico.llm.errors import LlmError, LlmUnavailable
from mosaico.llm.types import (
    BatchResponse,
    ChatRequest,
    EmbeddingRequest,
    ModelAnswer,
    ModelRequest,
    PromptMessage,
    RequestBatch,
    RequestUsage,
    request_key,
)
from mosaico.metrics.types import MetricFailed, MetricFailureKind

# Servers limit the texts of an embedding request; smaller batches also lose less by an error.
MAX_BATCH_TEXTS: Final = 64
MAX_BATCH_CHARS: Final = 200_000
POLL_INTERVAL_S: Final = 0.1
CHECKPOINT_INTERVAL_S: Final = 1.0

# After so many failed batches in a row a probe decides whether the server or the batches fail.
MAX_FAILED_IN_A_ROW: Final = 8

Checkpoint: TypeAlias = Callable[[], None]
AnswersByKey: TypeAlias = dict[bytes, ModelAnswer | MetricFailed]


class AnswerStore(Protocol):
    """Stored answers by request key.

    `put` also records the usage of the requests; after `Unavailable` it is called again.
    """

    def get(self, keys: Sequence[bytes]) -> dict[bytes, ModelAnswer]: ...

    def put(self, answers: Mapping[bytes, ModelAnswer], usages: Sequence[RequestUsage]) -> None: ...

    def evict(self, keys: Sequence[bytes]) -> None: ...


class CompletionFetcher:
    """Fetches answers for some traces.

    `cache_scope` is the server and what else separates request keys in the store. `check_stopping`
    is called several times a second and raises when the process is stopping.
    """

    def __init__(
        self,
        store: AnswerStore,
        cache_scope: str,
        pool: CompletionPool,
        check_stopping: Checkpoint = lambda: None,
    ) -> None:
        self._store = store
        self._cache_scope = cache_scope
        self._pool = pool
        self._check_stopping = check_stopping
        self._failed_in_a_row = 0
        self._probe: RequestBatch | None = None
        self._checked_at = time.monotonic()
        self._unstored_answers: dict[bytes, ModelAnswer] = {}
        self._unstored_usages: list[RequestUsage] = []

    def fetch(self, requests: Iterable[ModelRequest], checkpoint: Checkpoint) -> AnswersByKey:
        """The answer to each request, or why there is none, by request key.

        `checkpoint` is called every second and raises when the answers are no longer needed.
        Raises: the errors of `mosaico.llm.errors` that every request would meet, and
        `LlmUnavailable` when the server stopped responding.
        """
        answers: AnswersByKey = {}
        pending = self._submit(split_into_batches(requests))
        while pending:
            for outcome in self._take_outcomes():
                # A batch that was too large is replaced by its halves, hence not simply one less.
                pending += self._submit(self._settle(outcome, answers)) - 1
            self._check(checkpoint)
        return answers

    def _submit(self, batches: Iterable[RequestBatch]) -> int:
        count = 0
        for batch in batches:
            self._pool.submit(batch)
            count += 1
        return count

    def _take_outcomes(self) -> list[BatchOutcome]:
        """New outcomes. Their answers are stored first: an error of one batch loses no other."""
        outcomes = self._pool.take(POLL_INTERVAL_S)
        for batch, response in outcomes:
            if isinstance(response, BatchResponse):
                self._unstored_answers |= zip(self._keys(batch), response.answers, strict=True)
                usage = RequestUsage(batch[0].model, response.usage, response.cost_usd)
                self._unstored_usages.append(usage)
        if self._unstored_usages:
            # While the store is unavailable they wait for the next call.
            with suppress(Unavailable):
                self._store_answers()
        return outcomes

    def _store_answers(self) -> None:
        self._store.put(self._unstored_answers, self._unstored_usages)
        self._unstored_answers, self._unstored_usages = {}, []

    def _settle(self, outcome: BatchOutcome, answers: AnswersByKey) -> list[RequestBatch]:
        """Record the outcome of a batch; returns the batches to send next because of it."""
        batch, response = outcome
        if batch is self._probe:
            self._settle_probe(response)
            return []
        if isinstance(response, BatchResponse):
            self._failed_in_a_row = 0
            answers |= zip(self._keys(batch), response.answers, strict=True)
            return []
        if isinstance(response, LlmError):
            return self._settle_failure(batch, response, answers)
        raise response

    def _settle_failure(
        self, batch: RequestBatch, error: LlmError, answers: AnswersByKey
    ) -> list[RequestBatch]:
        probes = list[RequestBatch]()
        # A status 500 on several texts may be caused by one of them: each half is sent alone.
        if len(batch) == 1 or error.status != HTTPStatus.INTERNAL_SERVER_ERROR:
            probes = self._count_failure(batch, error)
        if len(batch) > 1:
            middle = len(batch) // 2
            return [batch[:middle], batch[middle:], *probes]
        failure = MetricFailed(
            MetricFailureKind.JUDGE_ERROR, f"the model returned no answer: {error}"
        )
        answers |= dict.fromkeys(self._keys(batch), failure)
        return probes

    def _count_failure(self, batch: RequestBatch, error: LlmError) -> list[RequestBatch]:
        """A probe after `MAX_FAILED_IN_A_ROW` failures that may be the server's."""
        self._failed_in_a_row = self._failed_in_a_row + 1 if error.transient else 0
        if self._failed_in_a_row < MAX_FAILED_IN_A_ROW or self._probe is not None:
            return []
        self._probe = [probe_request(batch[0])]
        return [self._probe]

    def _settle_probe(self, response: BatchResponse | Exception) -> None:
        """Continue if the server responds at all. Raises: `LlmUnavailable` otherwise."""
        self._probe = None
        if not isinstance(response, BatchResponse | LlmError):
            raise response
        no_response = isinstance(response, LlmError) and response.transient
        # A batch that succeeded while the probe was sent has reset the counter.
        if no_response and self._failed_in_a_row >= MAX_FAILED_IN_A_ROW:
            server = self._cache_scope.partition("#")[0]
            raise LlmUnavailable(
                f"The model server at {server} does not respond: {response}. Check that it runs and"
                " that MOSAICO_LLM_BASE_URL is right, then try again."
            )
        self._failed_in_a_row = 0

    def _check(self, checkpoint: Checkpoint) -> None:
        self._check_stopping()
        if time.monotonic() - self._checked_at >= CHECKPOINT_INTERVAL_S:
            checkpoint()
            self._checked_at = time.monotonic()

    def _keys(self, batch: RequestBatch) -> list[bytes]:
        return [request_key(self._cache_scope, request) for request in batch]


def probe_request(request: ModelRequest) -> ModelRequest:
    """A minimal request to the same model, without any text of a trace."""
    if isinstance(request, EmbeddingRequest):
        return EmbeddingRequest(model=request.model, text="yes")
    prompt = PromptMessage(role="user", content="Say yes.")
    return ChatRequest(model=request.model, messages=(prompt,))


def split_into_batches(requests: Iterable[ModelRequest]) -> Iterator[RequestBatch]:
    """Split requests into batches: each chat request alone, embedding requests of one model
    together.
    """
    by_model: dict[str, list[EmbeddingRequest]] = {}
    for request in requests:
        if isinstance(request, EmbeddingRequest):
            by_model.setdefault(request.model, []).append(request)
        else:
            yield [request]
    for embeddings in by_model.values():
        yield from _split_embeddings(embeddings)


def _split_embeddings(requests: Iterable[EmbeddingRequest]) -> Iterator[RequestBatch]:
    batch: list[EmbeddingRequest] = []
    chars = 0
    for request in requests:
        is_full = len(batch) == MAX_BATCH_TEXTS or chars + len(request.text) > MAX_BATCH_CHARS
        if batch and is_full:
            yield batch
            batch, chars = [], 0
        batch.append(request)
        chars += len(request.text)
    if batch:
        yield batch
