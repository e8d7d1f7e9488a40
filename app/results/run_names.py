"""The names that people gave to the benchmarks and agents of runs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.agents.models import Agent
from app.benchmarks.models import Benchmark, name_of_benchmark
from app.results.models import BenchmarkRun


class Names(NamedTuple):
    """Display names of benchmarks and agents, by ID."""

    benchmarks: Mapping[str, str]
    agents: Mapping[str, str]


def read_names(session: Session, runs: Sequence[BenchmarkRun]) -> Names:
    """The names of the benchmarks and agents of some runs: a benchmark may have one in its metadata."""
    benchmark_ids, agent_ids = (
        {getattr(run, name) for run in runs} for name in ("benchmark_id", "agent_id")
    )
    benchmarks = session.execute(
        select(Benchmark.id, Benchmark.metadata_).where(Benchmark.id.in_(benchmark_ids))
    )
    agents = session.execute(select(Agent.id, Agent.name).where(Agent.id.in_(agent_ids)))
    return Names(
        {id_: name_of_benchmark(id_, metadata) for id_, metadata in benchmarks},
        {row.id: row.name for row in agents},
    )
