"""The display names of benchmarks and agents."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.benchmarks.models import Benchmark, name_of_benchmark


class OwnerNames(NamedTuple):
    """Display names of benchmarks and agents, by ID."""

    benchmarks: Mapping[str, str]
    agents: Mapping[str, str]


def read_names(session: Session, owners: Collection[tuple[str, str]]) -> OwnerNames:
    """The names of some benchmarks and agents, as pairs of IDs: a benchmark may have one in its metadata."""
    if not owners:
        return OwnerNames({}, {})
    benchmark_ids = {benchmark_id for benchmark_id, _ in owners}
    agent_ids = {agent_id for _, agent_id in owners}
    benchmarks = session.execute(
        select(Benchmark.id, Benchmark.metadata_).where(Benchmark.id.in_(benchmark_ids))
    )
    agents = session.execute(select(Agent.id, Agent.name).where(Agent.id.in_(agent_ids)))
    return OwnerNames(
        {id_: name_of_benchmark(id_, metadata) for id_, metadata in benchmarks},
        {row.id: row.name for row in agents},
    )
