"""Scores that evaluators write after a run was judged: a new run over the same source run takes its place."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import structlog
from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from mosaico.core.errors import AppError
from mosaico.core.resources import Resources
from mosaico.jobs.declarations import CheckLateScores
from mosaico.jobs.handlers import JobContext
from mosaico.jobs.queue import enqueue
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.plan import RunPlan, is_score_column
from mosaico.run_store.queries import get_run, list_run_metrics
from mosaico.run_store.rules import RETRYABLE, RunStatus, TriggerType
from mosaico.run_store.run_result import RunResult
from mosaico.runs.dataset_items import page_completion
from mosaico.runs.erasure import has_erased_texts
from mosaico.runs.plan_builder import collect_lock, trace_query
from mosaico.runs.service import create_run
from mosaico.traces.models import Collection
from mosaico.traces.registry import TRACE_SOURCES, TraceQuery, collect
from mosaico.traces.trace_rows import EMPTY_DIGEST, encode_trace, extend_digest

log = structlog.stdlib.get_logger(__name__)

# After the end of a run, and after the check before.
CHECKS_AFTER: Final = (timedelta(hours=1), timedelta(hours=23))


def watch_late_scores(
    session: Session, run: BenchmarkRun, res: Resources, now: datetime, *, check: int = 0
) -> None:
    """Enqueue the next check of a completed run whose metrics use scores of its source."""
    plan = run.begun_plan
    is_watched = plan.score_names and TRACE_SOURCES.get(plan.source).has_late_scores
    if not is_watched or run.source_run_id is None or run.rescore_of is not None:
        return
    if check == len(CHECKS_AFTER):
        return
    try:
        lock = collect_lock(session, plan, res)
    except AppError as error:  # the agent's secret cannot be decrypted
        log.info("late scores are not looked for", run_id=run.id, error=str(error))
        return
    request = CheckLateScores(run_id=run.id, check=check)
    enqueue(session, request, lock=lock, start_at=now + CHECKS_AFTER[check])


def check_late_scores(job: JobContext, request: CheckLateScores) -> None:
    """Read the source run again without storing it; if its traces or scores are others, start a run over it."""
    res = job.resources
    with res.db.read() as session:
        run = get_run(session, request.run_id)
        if run.status != RunStatus.COMPLETED or _has_later_run(session, run):
            return
        collection = session.get(Collection, run.collection_id)
        if collection is None or collection.digest is None:
            return
        # Received spans were deleted, and another source would deliver the texts again.
        if has_erased_texts(session, collection.id):
            return
        plan, digest = run.begun_plan, collection.digest
        # Without a wait: what has not arrived is found by the next check.
        query = replace(trace_query(session, plan, res), run_name=run.source_run_id, score_names=())
    is_changed = _read_digest(job, plan, query) != digest
    with res.db.begin() as session:
        run = get_run(session, request.run_id)
        if not is_changed:
            watch_late_scores(session, run, res, res.clock(), check=request.check + 1)
        elif not _has_later_run(session, run):
            _start_run(session, run)


def _start_run(session: Session, run: BenchmarkRun) -> None:
    try:
        new_run = create_run(
            session,
            run.benchmark_id,
            run.agent_id,
            trigger=TriggerType.EVENT,
            run_name=run.source_run_id,
        )
    except AppError as error:  # the benchmark or the agent was archived
        log.info("late scores are not judged", run_id=run.id, error=str(error))
        return
    log.info("scores arrived after a run was judged", run_id=run.id, new_run_id=new_run.id)


def _read_digest(job: JobContext, plan: RunPlan, query: TraceQuery) -> bytes:
    """The digest of the traces of the source, as a collection of them would have it."""
    source = TRACE_SOURCES.get(plan.source).open(job.resources)
    digest, hashes = EMPTY_DIGEST, set[int]()
    # Completed by the version as the stored traces were, or they would always differ.
    complete_page = page_completion(job.resources.db, plan)
    for page in collect(source, query, None, complete_page):
        job.checkpoint()
        for trace in page.traces:
            # Sources repeat rows; the first one counts. Hashes, because a run can have a million traces.
            if hash(trace.trace_id) not in hashes:
                hashes.add(hash(trace.trace_id))
                digest = extend_digest(digest, encode_trace(trace))
    return digest


def _has_later_run(session: Session, run: BenchmarkRun) -> bool:
    """Return whether another run was started over the same source run since."""
    later = exists().where(
        BenchmarkRun.benchmark_id == run.benchmark_id,
        BenchmarkRun.agent_id == run.agent_id,
        BenchmarkRun.seq > run.seq,
        BenchmarkRun.status.not_in(RETRYABLE),
        (BenchmarkRun.source_key == run.source_key) | (BenchmarkRun.run_name == run.source_run_id),
    )
    return bool(session.scalar(select(later)))


def describe_arrived_scores(session: Session, run: BenchmarkRun, result: RunResult) -> str | None:
    """What changed since the run before over the same source run, in a sentence; None without one."""
    if run.same_source_as is None or not result.place.has_new_data:
        return None
    earlier = session.scalars(
        select(BenchmarkRun)
        .where(
            BenchmarkRun.benchmark_id == run.benchmark_id,
            BenchmarkRun.agent_id == run.agent_id,
            BenchmarkRun.source_key == run.source_key,
            BenchmarkRun.seq < run.seq,
            BenchmarkRun.status == RunStatus.COMPLETED,
        )
        .order_by(BenchmarkRun.seq.desc())
        .limit(1)
    ).one_or_none()
    if earlier is None:
        return None
    before = {row.metric: row.n for row in list_run_metrics(session, earlier.seq)}
    counts = [
        f"{column} {before[column]} → {aggregate.n}"
        for column, aggregate in result.aggregates.items()
        if is_score_column(column) and before.get(column, aggregate.n) != aggregate.n
    ]
    changes = (
        f"number of scores: {', '.join(counts)}" if counts else "the scores or traces are others"
    )
    return f"This run takes the place of {earlier.id} over the same run of the source: {changes}."
