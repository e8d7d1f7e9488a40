"""Runs of a trace source: how a benchmark run selects one, and which were already scored."""

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from sqlalchemy import ARRAY, Text, any_, func, literal, select
from sqlalchemy.orm import Session

from mosaico.agents.queries import get_agent
from mosaico.agents.service import agent_query
from mosaico.benchmarks.queries import get_benchmark
from mosaico.benchmarks.service import source_of
from mosaico.core.resources import Resources
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import RETRYABLE
from mosaico.runs.dataset_items import describe_coverage
from mosaico.traces.models import Collection
from mosaico.traces.registry import TRACE_SOURCES, SourceRun, TraceQuery

# Second argument of the hash: keeps these advisory locks apart from others of the service.
LOCK_SPACE = 2


class ListedRun(NamedTuple):
    """A complete run of a source; `selector` is its name when that is unique, otherwise its ID."""

    run: SourceRun
    selector: str

    @property
    def id(self) -> str:
        return self.run.id

    @property
    def name(self) -> str:
        return self.run.name

    def narrowed_to(self, run: SourceRun) -> "ListedRun":
        """This run as the newest of the runs that share its ID."""
        return ListedRun(run, run.id if self.selector == self.id else self.selector)


def read_dataset_source(
    session: Session, benchmark_id: str, agent_id: str, res: Resources
) -> tuple[str, TraceQuery]:
    """The trace source that has the runs of a benchmark's dataset, and the query with the keys of an agent."""
    benchmark, agent = get_benchmark(session, benchmark_id), get_agent(session, agent_id)
    query = agent_query(
        agent, res, dataset_ref=benchmark.dataset_ref, settle_for=benchmark.settle_for
    )
    return source_of(benchmark, agent), query


def select_complete_runs(listed: Sequence[SourceRun]) -> list[ListedRun]:
    """The complete runs of a source, in the given order."""
    names = Counter(run.name for run in listed)
    return [
        ListedRun(run, run.name if names[run.name] == 1 else run.id)
        for run in listed
        if run.complete
    ]


def match_names(listed: Sequence[ListedRun], pattern: str) -> list[ListedRun]:
    """The runs whose names match a glob (case-sensitive), in the given order."""
    return [run for run in listed if fnmatchcase(run.name, pattern)]


def find_evaluated_runs(
    session: Session, benchmark_id: str, agent_id: str, listed: Sequence[ListedRun]
) -> set[str]:
    """The IDs of the source runs that a benchmark has scored for an agent, or is about to.

    A benchmark run counts for the source run that it has read, and before that is known for every
    source run with the name it selects. Failed and cancelled benchmark runs do not count.
    Locks:   an advisory lock of the benchmark and the agent, because two triggers that look at the
             same time would otherwise both start a run.
    """
    lock_runs_of_agent(session, benchmark_id, agent_id)
    names = list({name for run in listed for name in (run.id, run.name)})
    selector = func.coalesce(Collection.source_run_id, BenchmarkRun.run_name)
    statement = (
        select(selector)
        .select_from(BenchmarkRun)
        .outerjoin(Collection, Collection.id == BenchmarkRun.collection_id)
        .where(
            BenchmarkRun.benchmark_id == benchmark_id,
            BenchmarkRun.agent_id == agent_id,
            BenchmarkRun.status.not_in(RETRYABLE),
            # One array: a statement has at most 65,535 parameters.
            selector == any_(literal(names, ARRAY(Text))),
        )
    )
    judged = set(session.scalars(statement))
    return {run.id for run in listed if judged & {run.id, run.name}}


def assign_source_run(session: Session, run: BenchmarkRun, collection: Collection) -> None:
    """Set which source run a run has read, and its first run over it; once, when `collection` is
    complete. The caller holds the lock of the run.
    """
    run.redacted_texts = collection.redacted_texts
    # A rescored run has both from its origin, and a repeated job finds them stored.
    if run.source_seq is not None:
        return
    # Two runs that read the same source run at the same time must not both become its first one.
    lock_runs_of_agent(session, run.benchmark_id, run.agent_id)
    run.source_run_id, run.source_run_at = collection.source_run_id, collection.source_run_at
    warnings = (collection.source_warning, describe_coverage(session, run, collection))
    run.source_warning = "; ".join(filter(None, warnings)) or None
    run.source_key = _source_key(collection, run)
    first = _find_first_run(session, run)
    run.source_seq, run.same_source_as = (
        (_night_of_attempt(session, run), None) if first is None else first
    )


def _night_of_attempt(session: Session, run: BenchmarkRun) -> int:
    """The place of a run over a new source run: a retry is for the night of the attempt that failed."""
    failed = None if run.retry_of is None else session.get(BenchmarkRun, run.retry_of)
    if failed is None:
        return run.seq
    return failed.night if failed.source_seq is not None else _night_of_attempt(session, failed)


def _find_first_run(session: Session, run: BenchmarkRun) -> tuple[int | None, str | None] | None:
    """The position and the ID of the first run over the same source run; None if there is none."""
    statement = (
        select(BenchmarkRun.source_seq, BenchmarkRun.id)
        .where(
            BenchmarkRun.benchmark_id == run.benchmark_id,
            BenchmarkRun.agent_id == run.agent_id,
            BenchmarkRun.source_key == run.source_key,
            BenchmarkRun.status.not_in(RETRYABLE),
        )
        .order_by(BenchmarkRun.source_seq, BenchmarkRun.seq)
        .limit(1)
        # Not deleted before its ID is stored: the job that ends links to it comes after its deletion.
        .with_for_update(read=True, key_share=True)
    )
    row = session.execute(statement).first()
    return None if row is None else (row[0], row[1])


def _source_key(collection: Collection, run: BenchmarkRun) -> str:
    """The identity of the source run. A source without IDs of runs is identified by its traces and
    the run name: equal uploads under two names are two runs of a deterministic agent.
    """
    if collection.source_run_id is not None:
        return f"{collection.source}/{collection.source_run_id}"
    # The service has had the traces made for this run, equal to others or not.
    if TRACE_SOURCES.get(collection.source).runs_models:
        return f"{collection.source}/run {run.seq}"
    return f"{collection.source}/{collection.id}/{run.run_name or ''}"


def lock_runs_of_agent(session: Session, benchmark_id: str, agent_id: str) -> None:
    """Lock the places of the runs of an agent until the transaction ends."""
    key_hash = func.hashtextextended(f"{benchmark_id}/{agent_id}", LOCK_SPACE)
    session.execute(select(func.pg_advisory_xact_lock(key_hash)))
