"""LLM cache: stored answers of models by request key; and the LLM usage of each run."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Final

from sqlalchemy import delete, select, text
from sqlalchemy.orm import Session

from mosaico.core.batch_delete import delete_batch
from mosaico.core.batches import batched
from mosaico.core.clock import Clock
from mosaico.core.db import Database
from mosaico.core.defaults import KEEP_LLM_ANSWERS
from mosaico.jobs.handlers import RecordProgress, ignore_progress
from mosaico.llm.types import (
    ChatAnswer,
    EmbeddingAnswer,
    ModelAnswer,
    RequestUsage,
)
from mosaico.run_store.models import LlmCacheEntry, RunLlmUsage

_MODEL_OF: Final = attrgetter("model")

# The SELECT adds nothing for a run that was deleted in the meantime.
_ADD_USAGE: Final = text(
    """
    INSERT INTO run_llm_usage AS total
        (run_seq, model, requests, input_tokens, output_tokens, cost_usd)
    SELECT seq, :model, :requests, :input_tokens, :output_tokens, :cost_usd
    FROM benchmark_runs WHERE seq = :run_seq FOR KEY SHARE
    ON CONFLICT (run_seq, model) DO UPDATE SET
        requests = total.requests + excluded.requests,
        input_tokens = total.input_tokens + excluded.input_tokens,
        output_tokens = total.output_tokens + excluded.output_tokens,
        cost_usd = total.cost_usd + excluded.cost_usd
    """
)
# The first answer stays: runs that have used it remain comparable.
_STORE_ANSWERS: Final = text(
    """
    INSERT INTO llm_cache (key, content, vector, created_at)
    SELECT answer.key, answer.content, answer.vector, :now
    FROM unnest(CAST(:keys AS bytea[]), CAST(:contents AS text[]), CAST(:vectors AS bytea[]))
        AS answer (key, content, vector)
    ON CONFLICT DO NOTHING
    """
)


@dataclass(frozen=True, slots=True)
class CachedAnswers:
    """The answers of a run in the LLM cache. Provides `AnswerStore`."""

    db: Database
    run_seq: int
    clock: Clock
    record_progress: RecordProgress = ignore_progress

    def get(self, keys: Sequence[bytes]) -> dict[bytes, ModelAnswer]:
        """The stored answers by request key."""
        with self.db.read() as session:
            return get_answers(session, keys)

    def put(self, answers: Mapping[bytes, ModelAnswer], usages: Sequence[RequestUsage]) -> None:
        """Store answers and the usage of their requests. Raises: `Unavailable`."""
        with self.db.begin() as session:
            put_answers(session, self.run_seq, answers, usages, self.clock())
            if answers:
                self.record_progress(session)

    def evict(self, keys: Sequence[bytes]) -> None:
        """Delete unusable answers."""
        with self.db.begin() as session:
            evict_answers(session, keys)


def get_answers(session: Session, keys: Sequence[bytes]) -> dict[bytes, ModelAnswer]:
    """The stored answers among the given request keys."""
    statement = select(LlmCacheEntry.key, LlmCacheEntry.content, LlmCacheEntry.vector)
    return {
        key: _answer(content, vector)
        for batch in batched(keys)
        for key, content, vector in session.execute(statement.where(LlmCacheEntry.key.in_(batch)))
    }


def put_answers(
    session: Session,
    run_seq: int,
    answers: Mapping[bytes, ModelAnswer],
    usages: Sequence[RequestUsage],
    now: datetime,
) -> None:
    """Store answers by request key, and add the usage of their requests to the run.

    A refusal is not stored. The first stored answer of a key wins.
    """
    rows = [
        (key, *columns)
        # Every transaction locks in the same order, so that two of them cannot deadlock.
        for key, answer in sorted(answers.items())
        if (columns := _columns(answer)) is not None
    ]
    for batch in batched(rows):
        keys, contents, vectors = map(list, zip(*batch, strict=True))
        session.execute(
            _STORE_ANSWERS, {"keys": keys, "contents": contents, "vectors": vectors, "now": now}
        )
    for model, requests in _group_by_model(usages):
        costs = [request.cost_usd for request in requests if request.cost_usd is not None]
        session.execute(
            _ADD_USAGE,
            {
                "run_seq": run_seq,
                "model": model,
                "requests": len(requests),
                "input_tokens": sum(request.usage.input_tokens for request in requests),
                "output_tokens": sum(request.usage.output_tokens for request in requests),
                # One unknown cost makes their sum unknown.
                "cost_usd": sum(costs) if len(costs) == len(requests) else None,
            },
        )


def _group_by_model(usages: Sequence[RequestUsage]) -> Iterator[tuple[str, list[RequestUsage]]]:
    """The requests by model, in the order of the models: every transaction locks in it."""
    by_model = sorted(usages, key=_MODEL_OF)
    return ((model, list(requests)) for model, requests in groupby(by_model, key=_MODEL_OF))


def evict_answers(session: Session, keys: Sequence[bytes]) -> None:
    """Delete unusable answers, so that the next run sends their requests again."""
    for batch in batched(sorted(keys)):
        session.execute(delete(LlmCacheEntry).where(LlmCacheEntry.key.in_(batch)))


def evict_expired_answers(session: Session, now: datetime) -> int:
    """Delete one batch of the answers that are older than `KEEP_LLM_ANSWERS`; see `delete_batch`."""
    expired = LlmCacheEntry.created_at < now - KEEP_LLM_ANSWERS
    return delete_batch(session, LlmCacheEntry, expired)


def list_llm_usage(session: Session, run_seq: int) -> list[RunLlmUsage]:
    """The LLM usage of a run by model name."""
    statement = select(RunLlmUsage).where(RunLlmUsage.run_seq == run_seq)
    return list(session.scalars(statement.order_by(RunLlmUsage.model)))


def _columns(answer: ModelAnswer) -> tuple[str | None, bytes | None] | None:
    """The text and the vector of an answer; None for a refusal."""
    if isinstance(answer, EmbeddingAnswer):
        return None, answer.vector.tobytes()
    return None if answer.content is None else (answer.content, None)


def _answer(content: str | None, vector: bytes | None) -> ModelAnswer:
    return ChatAnswer(content=content) if vector is None else EmbeddingAnswer(array("f", vector))
