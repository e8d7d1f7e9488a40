"""Getting answers from a server of models, side by side, and keeping each as soon as it is there."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Final, TypeAlias

from app.core.errors import Unavailable
from app.jobs.handlers import Job
from app.llm.crew import Arrived, Batch, Crew
from app.llm.failures import PASSING, Failure, LlmUnavailable, NoAnswer
from app.llm.types import (
    ChatRequest,
    EmbeddingRequest,
    ModelAnswer,
    ModelRequest,
    PromptMessage,
    request_key,
)
from app.llm.wire import Reply
from app.metrics.types import Failed, FailureKind
from app.runs.llm_cache import RequestUsage, put_answers

TEXTS_AT_ONCE: Final = 64
CHARS_AT_ONCE: Final = 200_000
LOOK_UP_S: Final = 0.1
LOOK_UP_RUN_S: Final = 1.0

# So many requests without an answer, one after the other: it may be the server, not the requests.
MOST_UNANSWERED: Final = 8

Checkpoint: TypeAlias = Callable[[], None]
Answers: TypeAlias = dict[bytes, ModelAnswer | Failed]


class Fetching:
    """The answers that one shard of a run gets from a server."""

    def __init__(self, job: Job, run_seq: int, endpoint: str, crew: Crew) -> None:
        self._job = job
        self._run_seq = run_seq
        self._endpoint = endpoint
        self._crew = crew
        self._unanswered = 0
        self._witness: Batch | None = None
        self._looked_up_at = time.monotonic()
        self._unkept: dict[bytes, ModelAnswer] = {}
        self._unspent: list[RequestUsage] = []

    def fetch(self, wanted: Iterable[ModelRequest], checkpoint: Checkpoint) -> Answers:
        """An answer, or why there is none, for each request, by its key.

        `checkpoint` raises when nobody wants them any more; it is called each second.
        Raises: what every request would meet, and `LlmUnavailable` when none is answered any more.
        """
        found: Answers = {}
        left = self._put(batches(wanted))
        while left:
            for arrived in self._taken():
                left += self._put(self._settle(arrived, found)) - 1
            self._look_up(checkpoint)
        return found

    def _put(self, some: Iterable[Batch]) -> int:
        count = 0
        for batch in some:
            self._crew.put(batch)
            count += 1
        return count

    def _taken(self) -> list[Arrived]:
        """What has arrived; its answers are kept before anything else happens."""
        taken = self._crew.take(LOOK_UP_S)
        for batch, result in taken:
            if isinstance(result, Reply):
                self._unkept |= dict(zip(self._keys(batch), result.answers, strict=True))
                self._unspent.append(RequestUsage(batch[0].model, result.usage))
        if self._unspent:
            # While the database is away, they wait for the next time.
            with suppress(Unavailable):
                self._keep()
        return taken

    def _keep(self) -> None:
        res = self._job.resources
        with res.db.begin() as session:
            put_answers(session, self._run_seq, self._unkept, self._unspent, res.clock())
        self._unkept, self._unspent = {}, []

    def _settle(self, arrived: Arrived, found: Answers) -> list[Batch]:
        """Note what a batch brought; returns what is to be asked in its place."""
        batch, result = arrived
        if batch is self._witness:
            self._hear(result)
            return []
        match result:
            case Reply(answers=answers):
                self._unanswered = 0
                found |= zip(self._keys(batch), answers, strict=True)
            case NoAnswer(failure=failure):
                witnesses = list[Batch]()
                # A server that fails at several texts may fail at one of them only.
                if len(batch) == 1 or failure.status != HTTPStatus.INTERNAL_SERVER_ERROR:
                    witnesses = self._count_unanswered(batch, failure)
                if len(batch) > 1:
                    half = len(batch) // 2  # one text may spoil all, or all be too much at once
                    return [batch[:half], batch[half:], *witnesses]
                lost = Failed(FailureKind.JUDGE_ERROR, f"the model gave no answer: {failure}")
                found |= dict.fromkeys(self._keys(batch), lost)
                return witnesses
            case error:
                raise error
        return []

    def _count_unanswered(self, batch: Batch, failure: Failure) -> list[Batch]:
        """The request that tells whether it is the server, when it is time for it."""
        self._unanswered = self._unanswered + 1 if failure.kind in PASSING else 0
        if self._unanswered < MOST_UNANSWERED or self._witness is not None:
            return []
        self._witness = [least_like(batch[0])]
        return [self._witness]

    def _hear(self, result: Reply | Exception) -> None:
        """Go on if the server answers anything at all. Raises: `LlmUnavailable` otherwise."""
        self._witness = None
        if not isinstance(result, Reply | NoAnswer):
            raise result
        is_answered = isinstance(result, Reply) or result.failure.kind not in PASSING
        if not is_answered and self._unanswered >= MOST_UNANSWERED:
            server = self._endpoint.partition("#")[0]
            raise LlmUnavailable(
                f"The server of models at {server} does not answer: {result}. Check that it runs and"
                " that MOSAICO_LLM_BASE_URL is right, then retry the run."
            )
        self._unanswered = 0

    def _look_up(self, checkpoint: Checkpoint) -> None:
        self._job.checkpoint()
        if time.monotonic() - self._looked_up_at >= LOOK_UP_RUN_S:
            checkpoint()
            self._looked_up_at = time.monotonic()

    def _keys(self, batch: Batch) -> list[bytes]:
        return [request_key(self._endpoint, request) for request in batch]


def least_like(request: ModelRequest) -> ModelRequest:
    """The least that the same model can be asked: no text of a trace is in it."""
    if isinstance(request, EmbeddingRequest):
        return EmbeddingRequest(model=request.model, text="yes")
    question = PromptMessage(role="user", content="Say yes.")
    return ChatRequest(model=request.model, messages=(question,))


def batches(requests: Iterable[ModelRequest]) -> Iterator[Batch]:
    """Each conversation by itself, and texts for one model together, as many as a server takes."""
    texts: dict[str, list[EmbeddingRequest]] = {}
    for request in requests:
        if isinstance(request, EmbeddingRequest):
            texts.setdefault(request.model, []).append(request)
        else:
            yield [request]
    for together in texts.values():
        yield from _stretches(together)


def _stretches(requests: Iterable[EmbeddingRequest]) -> Iterator[Batch]:
    stretch: list[EmbeddingRequest] = []
    chars = 0
    for request in requests:
        if stretch and (len(stretch) == TEXTS_AT_ONCE or chars + len(request.text) > CHARS_AT_ONCE):
            yield stretch
            stretch, chars = [], 0
        stretch.append(request)
        chars += len(request.text)
    if stretch:
        yield stretch
