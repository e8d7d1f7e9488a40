"""What models answered, kept by what was asked, and what the runs spent on it."""

from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import delete, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from app.core.batches import delete_batch
from app.llm.types import ChatAnswer, EmbeddingAnswer, ModelAnswer, Usage
from app.results.models import LlmCacheEntry, RunLlmUsage

MAX_AGE: Final = timedelta(days=30)
EVICTION_BATCH_SIZE: Final = 10_000

# A run that was deleted meanwhile has no row to refer to: its spending is nobody's any more.
_SPEND: Final = text(
    """
    INSERT INTO run_llm_usage AS spent
        (run_seq, model, requests, input_tokens, output_tokens, cost_usd)
    SELECT seq, :model, 1, :input_tokens, :output_tokens, :cost_usd
    FROM benchmark_runs WHERE seq = :run_seq FOR KEY SHARE
    ON CONFLICT (run_seq, model) DO UPDATE SET
        requests = spent.requests + 1,
        input_tokens = spent.input_tokens + excluded.input_tokens,
        output_tokens = spent.output_tokens + excluded.output_tokens,
        cost_usd = spent.cost_usd + excluded.cost_usd
    """
)


class RequestUsage(NamedTuple):
    """What one request took, and of which model."""

    model: str
    usage: Usage


def get_cached_answers(session: Session, keys: Sequence[bytes]) -> dict[bytes, ModelAnswer]:
    """The answers that are kept, by the keys of their requests."""
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
    spent: Sequence[RequestUsage],
    now: datetime,
) -> None:
    """Keep answers by the keys of their requests, and add what they took to the run's spending.

    One without content is not kept. Two who keep the same answer keep the first.
    """
    rows = [
        {"key": key, **columns, "created_at": now}
        for key, answer in sorted(answers.items())  # in one order, so that nobody waits in a circle
        if (columns := _columns(answer)) is not None
    ]
    if rows:
        session.execute(insert(LlmCacheEntry).on_conflict_do_nothing(), rows)
    for model, usage in sorted(spent, key=lambda one: one.model):  # in one order, too
        session.execute(_SPEND, {"run_seq": run_seq, "model": model, **usage._asdict()})


def evict_answers(session: Session, keys: Sequence[bytes]) -> None:
    """Forget answers that were of no use, so that the next run asks again."""
    session.execute(delete(LlmCacheEntry).where(LlmCacheEntry.key.in_(keys)))


def evict_expired_answers(session: Session, now: datetime) -> int:
    """Forget some of the answers that are older than they are kept; see `delete_some`."""
    return delete_batch(
        session, LlmCacheEntry, LlmCacheEntry.created_at < now - MAX_AGE, EVICTION_BATCH_SIZE
    )


def list_llm_usage(session: Session, run_seq: int) -> list[RunLlmUsage]:
    """What a run spent on models, by the name of the model."""
    statement = select(RunLlmUsage).where(RunLlmUsage.run_seq == run_seq)
    return list(session.scalars(statement.order_by(RunLlmUsage.model)))


def _columns(answer: ModelAnswer) -> dict[str, str | bytes | None] | None:
    if isinstance(answer, EmbeddingAnswer):
        return {"content": None, "vector": answer.vector.tobytes()}
    return None if answer.content is None else {"content": answer.content, "vector": None}


def _answer(content: str | None, vector: bytes | None) -> ModelAnswer:
    return ChatAnswer(content=content) if vector is None else EmbeddingAnswer(array("f", vector))
