"""Runs that a trace source holds: how a benchmark run asks for one, and which were judged."""

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.results.models import BenchmarkRun
from app.results.rules import RETRYABLE
from app.traces.models import Collection
from app.traces.registry import SourceRun

# What the locks of the database are told apart by.
LOCK_SPACE = 2


class ListedRun(NamedTuple):
    """A complete run that a source holds; `asked_as` is its name where that is unique, else its
    id.
    """

    id: str
    name: str
    selector: str


def select_complete_runs(listed: Sequence[SourceRun]) -> list[ListedRun]:
    """Those of a source's runs that are complete, in the order given."""
    names = Counter(run.name for run in listed)
    return [
        ListedRun(run.id, run.name, run.name if names[run.name] == 1 else run.id)
        for run in listed
        if run.complete
    ]


def match_names(listed: Sequence[ListedRun], pattern: str) -> list[ListedRun]:
    """Those whose names match a glob, in the order given; capitals matter."""
    return [run for run in listed if fnmatchcase(run.name, pattern)]


def find_judged_runs(
    session: Session, benchmark_id: str, agent_id: str, listed: Sequence[ListedRun]
) -> set[str]:
    """The ids of the runs that a benchmark has judged for an agent, or is about to.

    A benchmark run counts for the run of the source that it has read, and until that is known for
    all that bear the name it asks for. One that failed or was cancelled has judged nothing.
    Locks:   the question itself until the transaction ends, so that those who ask at once take
             turns.
    """
    turn = func.hashtextextended(f"{benchmark_id}/{agent_id}", LOCK_SPACE)
    session.execute(select(func.pg_advisory_xact_lock(turn)))
    read = func.coalesce(Collection.source_run_id, BenchmarkRun.run_name)
    statement = (
        select(read)
        .select_from(BenchmarkRun)
        .outerjoin(Collection, Collection.id == BenchmarkRun.collection_id)
        .where(
            BenchmarkRun.benchmark_id == benchmark_id,
            BenchmarkRun.agent_id == agent_id,
            BenchmarkRun.status.not_in(RETRYABLE),
            read.in_({word for run in listed for word in (run.id, run.name)}),
        )
    )
    said = set(session.scalars(statement))
    return {run.id for run in listed if said & {run.id, run.name}}
