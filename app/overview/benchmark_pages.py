"""Pages of benchmarks: the list, and one benchmark with its KPIs and the verdicts of its agents.
The forms of benchmarks are in `app.benchmarks.pages`, which does not import runs.
"""

from typing import Annotated

from fastapi import Path, Query, Request, Response

from app.access.deps import READ
from app.agents.queries import list_agent_names
from app.benchmarks import queries
from app.benchmarks.models import name_of_benchmark
from app.benchmarks.pages import NAV, STEPS
from app.benchmarks.views import benchmark_view, benchmark_views
from app.comparison.baselines import list_pinned_baselines
from app.core.keyset import PageQuery
from app.core.web.deps import Res
from app.core.web.page_paths import path_of
from app.core.web.pages import build_url, list_in_api, render_page
from app.core.web.query_parameters import ListQuery
from app.core.web.routes import Router
from app.overview.pages import VERDICTS, read_grid_cells

router = Router()

SHOWN_REVISIONS = 10


@router.get("/benchmarks", dependencies=READ)
def show_benchmarks(
    request: Request,
    res: Res,
    query: ListQuery,
    *,
    archived: Annotated[bool, Query()] = False,
) -> Response:
    """The benchmarks with the last verdict of each agent."""
    with res.db.read() as session:
        page = queries.list_benchmarks(session, query, archived=archived)
        views = benchmark_views(session, page.rows)
        cells = read_grid_cells(session, res.clock())
    return render_page(
        request,
        "benchmarks.html",
        title="Benchmarks",
        nav=NAV,
        api=list_in_api(request, "/benchmarks", {"archived": "archived"}),
        api_parts=VERDICTS,
        benchmarks=[(name_of_benchmark(view.id, view.metadata), view) for view in views],
        cells=cells,
        archived=archived,
        next_cursor=page.next_cursor,
    )


@router.get("/benchmarks/{benchmarkId}", dependencies=READ)
def show_benchmark(
    request: Request, benchmark_id: Annotated[str, Path(alias="benchmarkId")], res: Res
) -> Response:
    """Show one benchmark: its metrics, its data, and its formulas."""
    with res.db.read() as session:
        benchmark = benchmark_view(session, queries.get_benchmark(session, benchmark_id))
        cells = read_grid_cells(session, res.clock(), benchmark_id=benchmark_id)
        pinned = list_pinned_baselines(session, benchmark_id)
        agents = list_agent_names(session, benchmark.evaluates)
        revisions = queries.list_revisions(session, benchmark_id, PageQuery(SHOWN_REVISIONS))
    address = path_of("benchmarks", benchmark_id)
    return render_page(
        request,
        "benchmark.html",
        title=name_of_benchmark(benchmark.id, benchmark.metadata),
        nav=NAV,
        api=address,
        api_parts={
            **VERDICTS,
            "revisions": build_url(f"{address}/revisions", limit=SHOWN_REVISIONS),
            "baseline": f"{address}/baseline",
        },
        steps=STEPS,
        benchmark=benchmark,
        cells=cells,
        pinned=pinned,
        revisions=revisions.rows,
        has_more_revisions=revisions.next_cursor is not None,
        agents=agents.choices(),
    )
