"""Reads of benchmarks and their KPIs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic import Field
from sqlalchemy import Select, exists, func, select
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.agents.queries import get_agent, list_agent_names
from mosaico.benchmarks.models import (
    Benchmark,
    BenchmarkAgent,
    BenchmarkRevision,
    KpiDefinition,
    name_of_benchmark,
)
from mosaico.core.errors import NotFound
from mosaico.core.keyset import PageQuery, PageRows, select_page
from mosaico.core.list_filters import match_any
from mosaico.core.names import NameChoices, Names, list_newest_names
from mosaico.core.schemas import FilterValues, ListFilter
from mosaico.traces.production import ProductionTraces


class BenchmarkNotFound(NotFound):
    """The benchmark does not exist; GET /api/v1/benchmarks lists all benchmarks."""


class KpiNotFound(NotFound):
    """The benchmark has no KPI with this ID; GET /api/v1/benchmarks/{benchmarkId}/kpis lists its
    KPIs.
    """


class OwnerFilter(ListFilter):
    """Filter of what belongs to a benchmark and an agent."""

    benchmark_ids: FilterValues = Field(default=[], validation_alias="benchmarkId")
    agent_ids: FilterValues = Field(default=[], validation_alias="agentId")


def get_benchmark(session: Session, benchmark_id: str, *, for_update: bool = False) -> Benchmark:
    benchmark = session.get(Benchmark, benchmark_id, with_for_update=for_update or None)
    return BenchmarkNotFound.unless(
        benchmark,
        f"the benchmark {benchmark_id!r} does not exist; GET /api/v1/benchmarks lists all benchmarks",
    )


def find_production(session: Session, benchmark_id: str) -> ProductionTraces | None:
    """The production traces that a benchmark reads; None for another one, or one that does not exist."""
    return session.scalar(select(Benchmark.production).where(Benchmark.id == benchmark_id))


def lock_against_edits(session: Session, benchmark_id: str) -> None:
    """Lock a benchmark and its KPIs against edits; nothing if the benchmark does not exist."""
    statement = select(Benchmark.id).where(Benchmark.id == benchmark_id)
    session.execute(statement.with_for_update(read=True))


def list_benchmarks(session: Session, query: PageQuery, *, archived: bool) -> PageRows[Benchmark]:
    statement = select(Benchmark).where(Benchmark.archived.is_(archived))
    return select_page(session, statement, keys=[Benchmark.created_at, Benchmark.id], query=query)


def list_benchmark_names(session: Session) -> Names:
    """The names of the newest benchmarks, as a form offers them; archived ones are left out."""
    names = select(Benchmark.id, Benchmark.metadata_).where(Benchmark.archived.is_(False))
    keys = [Benchmark.created_at, Benchmark.id]
    return list_newest_names(session, names, keys, "/benchmarks", name_of_benchmark)


def add_benchmark_names(
    session: Session, names: Mapping[str, str], ids: Iterable[str]
) -> dict[str, str]:
    """Names by ID, with those of `ids` that are missing: of old and of archived benchmarks."""
    missing = set(ids) - names.keys()
    statement = select(Benchmark).where(Benchmark.id.in_(missing))
    benchmarks = session.scalars(statement) if missing else ()
    return {**names, **{benchmark.id: benchmark.display_name for benchmark in benchmarks}}


def list_owner_names(session: Session) -> dict[str, NameChoices]:
    """The choices of an agent and of a benchmark, by the names of these filters on pages."""
    return {
        "agent": list_agent_names(session).choices(),
        "benchmark": list_benchmark_names(session).choices(),
    }


def get_agent_of_benchmark(
    session: Session, benchmark_id: str, agent_id: str
) -> tuple[Agent, bool]:
    """Return the agent, and whether the benchmark lists another one too. Raises: `AgentNotFound`.

    Only the list of the benchmark counts: which other agents exist must not change what its runs read.
    """
    is_shared = exists().where(
        BenchmarkAgent.benchmark_id == benchmark_id, BenchmarkAgent.agent_id != agent_id
    )
    row = session.execute(select(Agent, is_shared).where(Agent.id == agent_id)).one_or_none()
    return (get_agent(session, agent_id), False) if row is None else (row[0], row[1])


def get_agent_ids_by_benchmark(
    session: Session, benchmark_ids: Iterable[str]
) -> dict[str, list[str]]:
    """The ids of the agents that each benchmark evaluates, sorted."""
    statement = (
        select(BenchmarkAgent.benchmark_id, BenchmarkAgent.agent_id)
        .where(BenchmarkAgent.benchmark_id.in_(list(benchmark_ids)))
        .order_by(BenchmarkAgent.agent_id)
    )
    agent_ids_of: dict[str, list[str]] = {}
    for benchmark_id, agent_id in session.execute(statement):
        agent_ids_of.setdefault(benchmark_id, []).append(agent_id)
    return agent_ids_of


def list_benchmarks_of_agent(session: Session, agent_id: str, limit: int) -> Sequence[Benchmark]:
    """The benchmarks that list an agent, by ID."""
    listed = select(BenchmarkAgent.benchmark_id).where(BenchmarkAgent.agent_id == agent_id)
    statement = select(Benchmark).where(Benchmark.id.in_(listed)).order_by(Benchmark.id)
    return session.scalars(statement.limit(limit)).all()


def get_kpis_by_benchmark(
    session: Session, benchmark_ids: Iterable[str]
) -> dict[str, list[KpiDefinition]]:
    """The current KPIs of each benchmark, sorted by name."""
    statement = current_kpis().where(KpiDefinition.benchmark_id.in_(list(benchmark_ids)))
    kpis_of: dict[str, list[KpiDefinition]] = {}
    for kpi in session.scalars(statement.order_by(KpiDefinition.name, KpiDefinition.id)):
        kpis_of.setdefault(kpi.benchmark_id, []).append(kpi)
    return kpis_of


def get_kpis(session: Session, benchmark_id: str) -> list[KpiDefinition]:
    """The current KPIs of a benchmark, sorted by name."""
    return get_kpis_by_benchmark(session, [benchmark_id]).get(benchmark_id, [])


def list_revisions(
    session: Session, benchmark_id: str, query: PageQuery
) -> PageRows[BenchmarkRevision]:
    """The edits of a benchmark, newest first."""
    statement = select(BenchmarkRevision).where(BenchmarkRevision.benchmark_id == benchmark_id)
    return select_page(session, statement, keys=[BenchmarkRevision.revision], query=query)


def list_kpis(session: Session, benchmark_id: str, query: PageQuery) -> PageRows[KpiDefinition]:
    statement = current_kpis().where(KpiDefinition.benchmark_id == benchmark_id)
    return select_page(
        session,
        statement,
        keys=[KpiDefinition.name, KpiDefinition.id],
        query=query,
        descending=False,
    )


def get_kpi(session: Session, benchmark_id: str, kpi_id: str) -> KpiDefinition:
    """The current revision of a KPI."""
    statement = current_kpis().where(
        KpiDefinition.benchmark_id == benchmark_id, KpiDefinition.id == kpi_id
    )
    kpi = session.scalars(statement).one_or_none()
    return KpiNotFound.unless(
        kpi,
        f"the benchmark {benchmark_id!r} has no KPI {kpi_id!r};"
        f" GET /api/v1/benchmarks/{benchmark_id}/kpis lists its KPIs",
    )


def lock_kpi(session: Session, benchmark_id: str, kpi_id: str) -> KpiDefinition:
    """The current revision of a KPI, locked until the transaction ends.

    Locks:   the benchmark, which every edit of its KPIs locks first.
    """
    get_benchmark(session, benchmark_id, for_update=True)
    return get_kpi(session, benchmark_id, kpi_id)


def get_last_revision(session: Session, benchmark_id: str, kpi_id: str) -> int:
    """The newest revision number of a KPI, retired or not; 0 if the benchmark never had it."""
    statement = select(func.max(KpiDefinition.revision)).where(
        KpiDefinition.benchmark_id == benchmark_id, KpiDefinition.id == kpi_id
    )
    return session.scalar(statement) or 0


class NamedKpi(NamedTuple):
    """A KPI that an ID or a name selects; `has_other_names` tells whether its revisions differ in their name."""

    id: str
    benchmark_id: str
    has_other_names: bool = False


def find_kpis_by_id(
    session: Session, benchmark_ids: Sequence[str], ids: Sequence[str]
) -> list[NamedKpi]:
    """The KPIs of some benchmarks, or of all if none is named, with one of `ids`, deleted or not."""
    statement = (
        select(
            KpiDefinition.id,
            KpiDefinition.benchmark_id,
            func.count(KpiDefinition.name.distinct()) > 1,
        )
        .where(KpiDefinition.id.in_(ids), *match_any((KpiDefinition.benchmark_id, benchmark_ids)))
        .group_by(KpiDefinition.id, KpiDefinition.benchmark_id)
    )
    return [NamedKpi(*row) for row in session.execute(statement)]


def find_kpis(
    session: Session, benchmark_ids: Sequence[str], requested: Sequence[str]
) -> list[NamedKpi]:
    """The KPIs of some benchmarks by ID or name, deleted or not.

    In each benchmark an ID comes before a name, and the name that a KPI has before one that another had.
    """
    by_id = find_kpis_by_id(session, benchmark_ids, requested)
    identified = {(kpi.benchmark_id, kpi.id) for kpi in by_id}
    revisions = select(
        KpiDefinition.benchmark_id,
        KpiDefinition.id,
        KpiDefinition.name,
        KpiDefinition.retired_at.is_(None).label("is_current"),
    ).where(KpiDefinition.benchmark_id.in_(benchmark_ids), KpiDefinition.name.in_(requested))
    current = defaultdict[tuple[str, str], set[str]](set)
    earlier = defaultdict[tuple[str, str], set[str]](set)
    for row in session.execute(revisions):
        if (row.benchmark_id, row.name) not in identified:
            (current if row.is_current else earlier)[row.benchmark_id, row.name].add(row.id)
    named = {
        (benchmark_id, kpi_id)
        for (benchmark_id, _), ids in {**earlier, **current}.items()
        for kpi_id in ids
    }
    by_name = find_kpis_by_id(session, benchmark_ids, sorted({id_ for _, id_ in named}))
    return [
        *by_id,
        *(kpi for kpi in by_name if (kpi.benchmark_id, kpi.id) in named - identified),
    ]


def is_kpi_name(session: Session, names: Sequence[str]) -> bool:
    """Return whether a KPI of any benchmark has one of `names`."""
    keys = [name.lower() for name in names]
    named = current_kpis().where(func.lower(KpiDefinition.name).in_(keys))
    return bool(session.scalar(select(named.exists())))


def current_kpis() -> Select[KpiDefinition]:
    return select(KpiDefinition).where(KpiDefinition.retired_at.is_(None))
