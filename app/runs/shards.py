"""The shards of a run: stretches of its traces that workers measure side by side, each once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from app.core.copy import copy_encoded
from app.core.notify import notify_streams
from app.jobs.queue import enqueue, enqueue_many
from app.metrics.run_value import Note
from app.metrics.types import Skipped, TraceMeasurements
from app.results import queries
from app.results.models import BenchmarkRun, RunShard
from app.results.plan import RunPlan
from app.results.queries import Stretch
from app.results.rules import RunStatus
from app.runs.rows import result_row
from app.runs.service import RunEnded, Step, locked_run
from app.traces.registry import CollectionFailed

SHARD_TRACES = 2000
SHARD_BYTES = 8 * 1024 * 1024

RESULT_COLUMNS = ("run_seq", "position", "values", "notes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStep:
    """A worker's right to measure one shard of a run: void once the fence was raised again."""

    run_id: str
    run_seq: int
    collection_id: int
    shard: int
    first: int
    last: int
    fence: int
    plan: RunPlan


def plan_shards(
    session: Session, step: Step, stretches: Sequence[Stretch], fingerprint: str
) -> None:
    """Make each stretch of the collection a shard on the queue; nothing when that was done. Which
    items the run has is known by now, and with them its fingerprint.

    Raises: `CollectionFailed` when there is no trace to score.
    """
    run = locked_run(session, step)
    if run.shards_total is not None:
        return
    if not stretches:
        raise CollectionFailed(
            "the source holds no trace for this run; check dataset and run name", code="NO_TRACES"
        )
    session.execute(
        insert(RunShard),
        [
            {"run_seq": run.seq, "shard": shard, "first": stretch.first, "last": stretch.last}
            for shard, stretch in enumerate(stretches)
        ],
    )
    run.traces_total, run.shards_total = stretches[-1].last + 1, len(stretches)
    run.fingerprint = fingerprint
    session.flush()
    shards = [{"run_id": run.id, "shard": shard} for shard in range(run.shards_total)]
    enqueue_many(session, "runs.score", shards)
    notify_streams(session, run.id)


def open_shard(session: Session, run_id: str, shard: int) -> ShardStep | None:
    """Take over a shard; None when it is done or the run has ended."""
    run = queries.get_run(session, run_id)
    if run.status != RunStatus.RUNNING:
        return None
    row = queries.find_shard(session, run.seq, shard)
    if row is None or row.done_at is not None:
        return None
    row.fence += 1
    session.flush()
    assert run.collection_id is not None
    return ShardStep(
        run_id=run.id,
        run_seq=run.seq,
        collection_id=run.collection_id,
        shard=shard,
        first=row.first,
        last=row.last,
        fence=row.fence,
        plan=RunPlan.model_validate(run.plan),
    )


def require_shard(session: Session, step: ShardStep) -> None:
    """Raise `RunEnded` when the run has ended or another worker took the shard over."""
    ours = (
        select(RunShard.shard)
        .join(BenchmarkRun, BenchmarkRun.seq == RunShard.run_seq)
        .where(
            RunShard.run_seq == step.run_seq,
            RunShard.shard == step.shard,
            RunShard.fence == step.fence,
            BenchmarkRun.status == RunStatus.RUNNING,
        )
    )
    if session.scalar(ours) is None:
        raise RunEnded


def store_shard(
    session: Session,
    step: ShardStep,
    measured: Sequence[TraceMeasurements],
    now: datetime,
    *,
    summaries: Mapping[str, Note] | None = None,
    reused: int = 0,
) -> None:
    """Write the values of a shard, once; the last shard of a run puts the finish on the queue.
    `reused` of them were measured by earlier runs.

    Raises: `RunEnded` when the run has ended or another worker took the shard over.
    """
    row = queries.find_shard(session, step.run_seq, step.shard)
    if row is None or row.fence != step.fence or row.done_at is not None:
        raise RunEnded
    copy_encoded(session, "trace_results", RESULT_COLUMNS, _result_rows(step, measured))
    row.done_at, row.summaries = now, dict(summaries) if summaries else None
    session.flush()
    progress = session.execute(
        update(BenchmarkRun)
        .where(BenchmarkRun.seq == step.run_seq, BenchmarkRun.status == RunStatus.RUNNING)
        .values(
            shards_done=BenchmarkRun.shards_done + 1,
            traces_processed=BenchmarkRun.traces_processed + len(measured),
            metrics_computed=BenchmarkRun.metrics_computed + _present(measured) - reused,
            metrics_reused=BenchmarkRun.metrics_reused + reused,
        )
        .returning(BenchmarkRun.shards_done, BenchmarkRun.shards_total)
    ).one_or_none()
    if progress is None:
        raise RunEnded
    if progress.shards_done == progress.shards_total:
        enqueue(session, "runs.finish", run_id=step.run_id)
    notify_streams(session, step.run_id)


def _present(measured: Sequence[TraceMeasurements]) -> int:
    return sum(len(row.values) - row.values.count(None) for row in measured)


def _result_rows(step: ShardStep, measured: Sequence[TraceMeasurements]) -> list[bytes]:
    return [
        result_row(step.run_seq, position, row.values, _notes(row) or None)
        for position, row in enumerate(measured, start=step.first)
    ]


def _notes(row: TraceMeasurements) -> dict[str, dict[str, str]]:
    """Why values are missing and what models gave as reasons, as `trace_results.notes` keeps it."""
    notes: dict[str, dict[str, str]] = {
        key: {"skipped": why.reason}
        if isinstance(why, Skipped)
        else {"failed": why.kind, "detail": why.detail}
        for key, why in row.missing.items()
    }
    for key, reason in (row.reasons or {}).items():
        notes[key] = {"reason": reason}
    return notes
