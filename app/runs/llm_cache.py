"""LLM cache: stored answers of models by request key; and the LLM usage of each run."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import delete, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from app.core.batch_delete import delete_batch
from app.core.clock import Clock
from app.core.db import Database
from app.llm.types import (
    MAX_ANSWER_AGE,
    ChatAnswer,
    EmbeddingAnswer,
    ModelAnswer,
    RequestUsage,
)
from app.results.models import LlmCacheEntry, RunLlmUsage

# The SELECT adds nothing for a run that was deleted in the meantime.
_ADD_USAGE: Final = text(
    """
    INSERT INTO run_llm_usage AS total
        (run_seq, model, requests, input_tokens, output_tokens, cost_usd)
    SELECT seq, :model, 1, :input_tokens, :output_tokens, :cost_usd
    FROM benchmark_runs WHERE seq = :run_seq FOR KEY SHARE
    ON CONFLICT (run_seq, model) DO UPDATE SET
        requests = total.requests + 1,
        input_tokens = total.input_tokens + excluded.input_tokens,
        output_tokens = total.output_tokens + excluded.output_tokens,
        cost_usd = total.cost_usd + excluded.cost_usd
    """
)


@dataclass(frozen=True, slots=True)
class CachedAnswers:
    """The answers of a run in the LLM cache. Provides `AnswerStore`."""

    db: Database
    run_seq: int
    clock: Clock

    def get(self, keys: Sequence[bytes]) -> dict[bytes, ModelAnswer]:
        """The stored answers by request key."""
        with self.db.read() as session:
            return get_answers(session, keys)

    def put(self, answers: Mapping[bytes, ModelAnswer], usages: Sequence[RequestUsage]) -> None:
        """Store answers and the usage of their requests. Raises: `Unavailable`."""
        with self.db.begin() as session:
            put_answers(session, self.run_seq, answers, usages, self.clock())

    def evict(self, keys: Sequence[bytes]) -> None:
        """Delete unusable answers."""
        with self.db.begin() as session:
            evict_answers(session, keys)


def get_answers(session: Session, keys: Sequence[bytes]) -> dict[bytes, ModelAnswer]:
    """The stored answers among the given request keys."""
    rows = session.execute(
        select(LlmCacheEntry.key, LlmCacheEntry.content, LlmCacheEntry.vector).where(
            LlmCacheEntry.key.in_(keys)
        )
    )
    return {key: _answer(content, vector) for key, content, vector in rows}


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
        {"key": key, **columns, "created_at": now}
        # Every transaction locks in the same order, so that two of them cannot deadlock.
        for key, answer in sorted(answers.items())
        if (columns := _columns(answer)) is not None
    ]
    if rows:
        # The first answer stays: runs that have used it remain comparable.
        session.execute(insert(LlmCacheEntry).on_conflict_do_nothing(), rows)
    for request in sorted(usages, key=lambda request: request.model):  # for the same reason
        session.execute(
            _ADD_USAGE,
            {
                "run_seq": run_seq,
                "model": request.model,
                "input_tokens": request.usage.input_tokens,
                "output_tokens": request.usage.output_tokens,
                "cost_usd": request.cost_usd,
            },
        )


def evict_answers(session: Session, keys: Sequence[bytes]) -> None:
    """Delete unusable answers, so that the next run sends their requests again."""
    session.execute(delete(LlmCacheEntry).where(LlmCacheEntry.key.in_(keys)))


def evict_expired_answers(session: Session, now: datetime) -> int:
    """Delete one batch of the answers that are older than `MAX_ANSWER_AGE`; see `delete_batch`."""
    expired = LlmCacheEntry.created_at < now - MAX_ANSWER_AGE
    return delete_batch(session, LlmCacheEntry, expired)


def list_llm_usage(session: Session, run_seq: int) -> list[RunLlmUsage]:
    """The LLM usage of a run by model name."""
    statement = select(RunLlmUsage).where(RunLlmUsage.run_seq == run_seq)
    return list(session.scalars(statement.order_by(RunLlmUsage.model)))


def _columns(answer: ModelAnswer) -> dict[str, str | bytes | None] | None:
    if isinstance(answer, EmbeddingAnswer):
        return {"content": None, "vector": answer.vector.tobytes()}
    return None if answer.content is None else {"content": answer.content, "vector": None}


def _answer(content: str | None, vector: bytes | None) -> ModelAnswer:
    return ChatAnswer(content=content) if vector is None else EmbeddingAnswer(array("f", vector))
