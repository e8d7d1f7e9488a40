"""Pages of agents and benchmarks: the lists, and one of each with its last verdicts. Their forms are in `mosaico.agents.pages`
and `mosaico.benchmarks.pages`, which do not import runs.
"""

from typing import Annotated

from fastapi import Depends, Path, Query, Request, Response

from mosaico.access.deps import READ, RUN
from mosaico.access.own_person import list_names_by_address
from mosaico.access.queries import revision_views
from mosaico.agents import queries as agent_queries
from mosaico.agents import router as agents_api
from mosaico.agents.models import AgentRevision
from mosaico.agents.pages import NAV as AGENTS
from mosaico.agents.pages import STEPS as AGENT_STEPS
from mosaico.agents.schemas import AgentCheck
from mosaico.agents.views import agent_view, describe_source
from mosaico.benchmarks import queries as benchmark_queries
from mosaico.benchmarks.models import BenchmarkRevision, name_of_benchmark
from mosaico.benchmarks.pages import NAV as BENCHMARKS
from mosaico.benchmarks.pages import STEPS as BENCHMARK_STEPS
from mosaico.benchmarks.schemas import BenchmarkRevisionView
from mosaico.benchmarks.views import benchmark_view, benchmark_views
from mosaico.comparison.baselines import list_pinned_baselines
from mosaico.core.keyset import PageQuery, find_whole_list
from mosaico.core.resources import Resources
from mosaico.core.revisions import RevisionView
from mosaico.core.web.deps import Res
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, build_url, list_in_api, render_page
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.revision_pages import render_revisions
from mosaico.core.web.routes import Router
from mosaico.overview.grid_cells import VERDICTS, read_grid_cells
from mosaico.overview.version_view import (
    VersionChoice,
    read_agent_versions,
    read_choice,
    version_page,
    versions_in_api,
)
from mosaico.traces.registry import source_title

router = Router()

SHOWN_REVISIONS = 10

AgentId = Annotated[str, Path(alias="agentId")]
BenchmarkId = Annotated[str, Path(alias="benchmarkId")]
ChosenVersions = Annotated[VersionChoice, Depends(read_choice)]
Archived = Annotated[bool, Query()]


@router.get("/agents", dependencies=READ)
def show_agents(
    request: Request,
    res: Res,
    query: ListQuery,
    *,
    archived: Archived = False,
) -> Response:
    """The agents with their last verdict on each benchmark."""
    with res.db.read() as session:
        page = agent_queries.list_agents(session, query, archived=archived)
        cells = read_grid_cells(session, res.clock())
    return render_page(
        request,
        "agents.html",
        title="Agents",
        nav=AGENTS,
        api=list_in_api(request, "/agents", {"archived": "archived"}),
        api_parts=VERDICTS,
        agents=[(agent, describe_source(agent)) for agent in page.rows],
        cells=cells,
        archived=archived,
        next_cursor=page.next_cursor,
    )


@router.get("/agents/{agentId}", dependencies=READ)
def show_agent(request: Request, agent_id: AgentId, res: Res, choice: ChosenVersions) -> Response:
    """Show one agent: its verdicts, its versions, its trace source, and the state of its credentials."""
    return _render_agent(request, agent_id, res, choice)


@router.post("/agents/{agentId}/check", dependencies=RUN)
def check_agent(request: Request, agent_id: AgentId, res: Res) -> Response:
    """Check the credentials of the agent's trace source and show what is wrong."""
    check = agents_api.check_agent(agent_id, res)
    return _render_agent(request, agent_id, res, VersionChoice(), check)


def _render_agent(
    request: Request,
    agent_id: str,
    res: Resources,
    choice: VersionChoice,
    check: AgentCheck | None = None,
) -> Response:
    address = path_of("agents", agent_id)
    with res.db.read() as session:
        agent = agent_queries.get_agent(session, agent_id)
        cells = read_grid_cells(session, res.clock(), agent_id=agent_id)
        view = agent_view(agent, res)
        people = list_names_by_address(session, agent.owners)
        revisions = agent_queries.list_revisions(session, agent_id, PageQuery(SHOWN_REVISIONS))
        revised = revision_views(session, RevisionView, revisions.rows)
        all_revisions = find_whole_list(
            session, revisions, f"{address}/revisions", AgentRevision.agent_id, agent_id
        )
    benchmarks = {item.cell.benchmark_id: item.cell.benchmark_name for item in cells}
    versions = read_agent_versions(res, agent_id, choice, list(benchmarks))
    parts = {"versions": versions_in_api(versions, choice.days)} if benchmarks else {}
    page = version_page(request, res, versions, choice, benchmarks)
    if (compared := page["compared"]) is not None and compared.api:
        parts["comparison"] = compared.api
    return render_page(
        request,
        "agent.html",
        title=agent.name,
        nav=AGENTS,
        api=address,
        api_parts={
            **VERDICTS,
            **parts,
            "revisions": build_url(f"{address}/revisions", limit=SHOWN_REVISIONS),
        },
        steps=AGENT_STEPS,
        agent=view,
        source_title=source_title,
        people=people,
        revisions=revised,
        all_revisions=all_revisions,
        cells=cells,
        check=check,
        **page,
    )


@router.get("/benchmarks", dependencies=READ)
def show_benchmarks(
    request: Request,
    res: Res,
    query: ListQuery,
    *,
    archived: Archived = False,
) -> Response:
    """The benchmarks with the last verdict of each agent."""
    with res.db.read() as session:
        page = benchmark_queries.list_benchmarks(session, query, archived=archived)
        views = benchmark_views(session, page.rows)
        cells = read_grid_cells(session, res.clock())
    return render_page(
        request,
        "benchmarks.html",
        title="Benchmarks",
        nav=BENCHMARKS,
        api=list_in_api(request, "/benchmarks", {"archived": "archived"}),
        api_parts=VERDICTS,
        benchmarks=[(name_of_benchmark(view.id, view.metadata), view) for view in views],
        cells=cells,
        archived=archived,
        next_cursor=page.next_cursor,
    )


@router.get("/benchmarks/{benchmarkId}", dependencies=READ)
def show_benchmark(request: Request, benchmark_id: BenchmarkId, res: Res) -> Response:
    """Show one benchmark: its metrics, its data, and its formulas."""
    with res.db.read() as session:
        benchmark = benchmark_view(session, benchmark_queries.get_benchmark(session, benchmark_id))
        cells = read_grid_cells(session, res.clock(), benchmark_id=benchmark_id)
        pinned = list_pinned_baselines(session, benchmark_id)
        agents = agent_queries.list_agent_names(session, benchmark.evaluates)
        revisions = benchmark_queries.list_revisions(
            session, benchmark_id, PageQuery(SHOWN_REVISIONS)
        )
        revised = revision_views(session, BenchmarkRevisionView, revisions.rows)
        address = path_of("benchmarks", benchmark_id)
        all_revisions = find_whole_list(
            session,
            revisions,
            f"{address}/revisions",
            BenchmarkRevision.benchmark_id,
            benchmark_id,
        )
    return render_page(
        request,
        "benchmark.html",
        title=name_of_benchmark(benchmark.id, benchmark.metadata),
        nav=BENCHMARKS,
        api=address,
        api_parts={
            **VERDICTS,
            "revisions": build_url(f"{address}/revisions", limit=SHOWN_REVISIONS),
            "baseline": f"{address}/baseline",
        },
        steps=BENCHMARK_STEPS,
        benchmark=benchmark,
        cells=cells,
        pinned=pinned,
        revisions=revised,
        all_revisions=all_revisions,
        agents=agents.choices(),
    )


@router.get("/benchmarks/{benchmarkId}/revisions", dependencies=READ)
def show_benchmark_revisions(
    request: Request, benchmark_id: BenchmarkId, res: Res, query: ListQuery
) -> Response:
    """The edits of a benchmark, newest first."""
    with res.db.read() as session:
        name = benchmark_queries.get_benchmark(session, benchmark_id).display_name
        page = benchmark_queries.list_revisions(session, benchmark_id, query)
        revised = revision_views(session, BenchmarkRevisionView, page.rows)
    steps = [*BENCHMARK_STEPS, Crumb(name, path_of("benchmarks", benchmark_id))]
    return render_revisions(request, steps, page.with_rows(revised))


@router.get("/agents/{agentId}/revisions", dependencies=READ)
def show_agent_revisions(
    request: Request, agent_id: AgentId, res: Res, query: ListQuery
) -> Response:
    """The edits of an agent, newest first."""
    with res.db.read() as session:
        name = agent_queries.get_agent(session, agent_id).name
        page = agent_queries.list_revisions(session, agent_id, query)
        revised = revision_views(session, RevisionView, page.rows)
    steps = [*AGENT_STEPS, Crumb(name, path_of("agents", agent_id))]
    return render_revisions(request, steps, page.with_rows(revised))
