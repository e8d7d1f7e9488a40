"""Looking for new runs in trace sources, for the benchmarks that wait for them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from app.agents.queries import get_agent
from app.agents.service import langfuse_query
from app.benchmarks.event_triggers import Triggers
from app.benchmarks.queries import get_benchmark
from app.core.resources import Resources
from app.jobs.queue import enqueue_once
from app.results.rules import TriggerType
from app.runs.source_runs import ListedRun, complete_runs, judged_runs, matching
from app.traces.registry import TRACE_SOURCES, TraceQuery
from app.triggers import queries, service
from app.triggers.models import RunWatch, SeenRun
from app.triggers.queries import Watched
from app.triggers.rules import POLLED_EVERY, digest
from app.triggers.service import Start


class Look(NamedTuple):
    """Where to look for runs; `subject` tells one place from another."""

    watched: Watched
    source: str
    query: TraceQuery
    pattern: str

    @property
    def subject(self) -> str:
        query = self.query
        parts = (self.source, query.dataset_ref, query.url, query.public_key)
        return digest(*(part or "" for part in parts))


def release_due_looks(session: Session, now: datetime) -> None:
    """Let jobs look wherever nobody has looked for `POLLED_EVERY`, in whatever process."""
    wanted = queries.watched(session)
    if wanted:
        rows = [{"benchmark_id": each.benchmark_id, "agent_id": each.agent_id} for each in wanted]
        session.execute(insert(RunWatch).values(rows).on_conflict_do_nothing())
    for watched, watch in queries.due_watches(session, now - POLLED_EVERY).items():
        if watched not in wanted:
            session.delete(watch)
        else:
            watch.polled_at = now
            enqueue_once(
                session,
                "triggers.look",
                key=f"triggers.look:{watched.benchmark_id}:{watched.agent_id}",
                benchmark_id=watched.benchmark_id,
                agent_id=watched.agent_id,
            )
    session.flush()


def find_look(session: Session, watched: Watched, res: Resources) -> Look | None:
    """Where to look now; None when the benchmark waits for new runs no more."""
    benchmark = get_benchmark(session, watched.benchmark_id)
    agent = get_agent(session, watched.agent_id)
    new_run = Triggers.model_validate(benchmark.triggers).new_run
    if new_run is None or benchmark.archived or agent.archived:
        return None
    query = langfuse_query(agent, res.secrets, res.options.get("langfuse_default_url", ""))
    query = replace(query, dataset_ref=benchmark.dataset_ref)
    return Look(watched, benchmark.source, query, new_run.pattern)


def list_complete(look: Look, res: Resources) -> list[ListedRun]:
    """The complete runs that the source holds, oldest first; asks it, so never in a transaction.

    Raises: `CollectionFailed`, `Unavailable`, `NotFound` for a source that is not there.
    """
    list_runs = TRACE_SOURCES.get(look.source).list_runs
    return complete_runs(list_runs(res, look.query))[::-1] if list_runs else []


def judge_new(session: Session, look: Look, listed: Sequence[ListedRun], now: datetime) -> None:
    """Start a run for each run of the source that is new; what is there at first is not."""
    watch = session.get(RunWatch, look.watched, with_for_update=True)
    if watch is None:
        return
    if watch.subject != look.subject:
        _forget_seen(session, look.watched)
        watch.subject = look.subject
        _note_seen(session, look.watched, listed)
        return
    seen = queries.seen_runs(session, look.watched)
    new = [run for run in listed if run.id not in seen]
    _note_seen(session, look.watched, new)
    wanted = matching(new, look.pattern)
    judged = judged_runs(session, *look.watched, wanted) if wanted else set()
    for run in wanted:
        if run.id in judged:
            continue
        start = Start(*look.watched, run.asked_as)
        event = service.found_run(session, start, now)
        service.start_all(session, event, [start], TriggerType.EVENT, now, otherwise="")


def _forget_seen(session: Session, watched: Watched) -> None:
    session.execute(
        delete(SeenRun).where(
            SeenRun.benchmark_id == watched.benchmark_id, SeenRun.agent_id == watched.agent_id
        )
    )


def _note_seen(session: Session, watched: Watched, runs: Sequence[ListedRun]) -> None:
    rows = [
        {"benchmark_id": watched.benchmark_id, "agent_id": watched.agent_id, "run_id": run.id}
        for run in runs
    ]
    if rows:
        session.execute(insert(SeenRun).values(rows).on_conflict_do_nothing())
    session.flush()
