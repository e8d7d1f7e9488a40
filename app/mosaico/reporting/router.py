"""Routes of the report of a run, the SVG chart of KPIs, and of lists as CSV."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from sqlalchemy.orm import Session

from mosaico.access.deps import READ
from mosaico.agents.queries import AgentLabel, get_agent
from mosaico.benchmarks.queries import get_benchmark, get_kpi
from mosaico.core.errors import Invalid
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.schemas import Instant, Page
from mosaico.core.text import join_words
from mosaico.core.web.csv_files import CSV_RESPONSE, csv_file
from mosaico.core.web.deps import Res
from mosaico.core.web.overlay_chart import MAX_SERIES
from mosaico.core.web.page_text import find_zone
from mosaico.core.web.routes import Router
from mosaico.kpis.queries import DEFAULT_SORT as KPI_SORT
from mosaico.kpis.router import KpiHistoryFilter, KpiSort
from mosaico.reporting import csv_tables
from mosaico.reporting.run_report import render_report
from mosaico.reporting.schemas import TrendPointView
from mosaico.reporting.trend import draw_trends, load_trends, trend_views
from mosaico.run_store.run_list import DEFAULT_SORT, SortOrder
from mosaico.runs.router import RunFilter

run_files = Router(prefix="/benchmark-runs", tags=["benchmark runs"])
kpi_files = Router(prefix="/kpi-history", tags=["KPIs"])

SVG = "image/svg+xml"
SVG_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {"content": {SVG: {"schema": {"type": "string"}}}}
}

# Before every run; PostgreSQL compares it without special cases.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)

RunId = Annotated[str, Path(alias="runId")]


@run_files.get(
    "/{runId}/report", response_class=HTMLResponse, dependencies=READ, responses=CONFLICT
)
def report_run(run_id: RunId, request: Request, res: Res) -> HTMLResponse:
    """A run as one HTML file: its page, with its categories, repeated trials and worst traces."""
    return HTMLResponse(render_report(request, res, run_id))


@run_files.get(
    ".csv",
    response_class=StreamingResponse,
    responses=CSV_RESPONSE,
    dependencies=READ,
)
def export_runs(
    res: Res,
    run_filter: RunFilter,
    sort: Annotated[
        SortOrder, Query(description="Sort key; the prefix `-` sorts in descending order.")
    ] = DEFAULT_SORT,
) -> StreamingResponse:
    """The list of runs as CSV, with the filters and orders of the list; at most 10,000 runs."""
    return csv_file(csv_tables.iter_runs(res.db, run_filter, sort), "runs.csv")


@kpi_files.get(
    ".csv",
    response_class=StreamingResponse,
    responses=CSV_RESPONSE,
    dependencies=READ,
)
def export_kpi_history(
    res: Res, history_filter: KpiHistoryFilter, sort: KpiSort = KPI_SORT
) -> StreamingResponse:
    """KPI values as CSV, with the filters and orders of the list: a row for each KPI of a run, at most
    10,000. `rescoreOf` names the run whose traces a run scores again; charts leave such runs out.
    """
    rows = csv_tables.iter_kpi_values(res.db, history_filter, sort)
    return csv_file(rows, "kpi-history.csv")


@kpi_files.get(".svg", response_class=Response, responses=SVG_RESPONSE, dependencies=READ)
def plot_kpi_history(
    res: Res,
    benchmark_id: Annotated[str, Query(alias="benchmarkId")],
    agent_ids: Annotated[list[str], Query(alias="agentId", min_length=1, max_length=MAX_SERIES)],
    kpi_id: Annotated[str, Query(alias="kpi", description="ID of a KPI of the benchmark.")],
    since: Annotated[Instant | None, Query(alias="from")] = None,
    until: Annotated[Instant | None, Query(alias="to")] = None,
    time_zone: Annotated[
        str, Query(alias="timeZone", description="Time zone of the days in the chart.")
    ] = "UTC",
) -> Response:
    """An SVG chart of a KPI over the runs of at most six agents, with its thresholds: at most 180 points.
    Of more runs, a point is several that follow each other: their mean, their range and their worst verdict. The last
    point is always the newest run.
    """
    zone = find_zone(time_zone)
    if zone is None:
        raise Invalid("`timeZone` is not the name of a time zone; send one such as Europe/Rome")
    with res.db.read() as session:
        kpi = get_kpi(session, benchmark_id, kpi_id)
        benchmark = get_benchmark(session, benchmark_id).display_name
        agents = _label_agents(session, agent_ids)
        trends = load_trends(session, kpi, agents, since or EARLIEST, until)
    names = join_words([label.name for label in agents.values()], "and")
    title = f"{kpi.name} of {names} in {benchmark}"
    return Response(draw_trends(title, kpi, trends, zone), media_type=SVG)


@kpi_files.get("/trend", dependencies=READ)
def get_kpi_trend(
    res: Res,
    benchmark_id: Annotated[str, Query(alias="benchmarkId")],
    agent_ids: Annotated[list[str], Query(alias="agentId", min_length=1, max_length=MAX_SERIES)],
    kpi_id: Annotated[str, Query(alias="kpi", description="ID of a KPI of the benchmark.")],
    since: Annotated[Instant | None, Query(alias="from")] = None,
    until: Annotated[Instant | None, Query(alias="to")] = None,
) -> Page[TrendPointView]:
    """The points of the chart of a KPI over the runs of at most six agents: at most 180, oldest first.
    Of more runs, a point is several that follow each other; the last one is always the newest run.
    """
    with res.db.read() as session:
        kpi = get_kpi(session, benchmark_id, kpi_id)
        agents = _label_agents(session, agent_ids)
        trends = load_trends(session, kpi, agents, since or EARLIEST, until)
    return Page(
        items=[
            view
            for agent_id, trend in zip(agents, trends, strict=True)
            for view in trend_views(agent_id, trend)
        ]
    )


def _label_agents(session: Session, agent_ids: Sequence[str]) -> dict[str, AgentLabel]:
    """The agents by ID. Raises: `AgentNotFound`."""
    agents = (get_agent(session, agent_id) for agent_id in agent_ids)
    return {agent.id: AgentLabel.of(agent.name, agent.color_number) for agent in agents}
