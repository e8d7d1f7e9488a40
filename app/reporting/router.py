"""Routes of the report and the SVG charts of runs, and of the list of runs as CSV."""

from typing import Annotated

from fastapi import Path, Query, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from app.access.deps import READ
from app.core.errors import Invalid
from app.core.problem_documents import CONFLICT
from app.core.web.deps import Res
from app.core.web.routes import Router
from app.reporting import plots, run_table
from app.reporting.report_data import load_report
from app.reporting.run_report import html_report
from app.reporting.stored_api import StoredApi
from app.results.run_list import DEFAULT_SORT, SortOrder
from app.runs.router import RunFilter

router = Router(prefix="/benchmark-runs", tags=["benchmark runs"])
table_router = Router(tags=["benchmark runs"])

SVG = "image/svg+xml"
CSV = "text/csv"

RunId = Annotated[str, Path(alias="runId")]


@router.get("/{runId}/report", response_class=HTMLResponse, dependencies=READ, responses=CONFLICT)
def report_run(run_id: RunId, res: Res) -> HTMLResponse:
    """A run as an HTML page: KPIs with their history, metrics, alerts and the worst traces."""
    return HTMLResponse(html_report(load_report(StoredApi(res), run_id)))


@router.get(
    "/{runId}/plot",
    response_class=Response,
    responses={**CONFLICT, 200: {"content": {SVG: {"schema": {"type": "string"}}}}},
    dependencies=READ,
)
def plot_run(
    run_id: RunId,
    res: Res,
    kpi: Annotated[str | None, Query(description="ID or name of a KPI.")] = None,
    against: Annotated[
        str | None, Query(description="Baseline run: show the changes since this run.")
    ] = None,
    metric: Annotated[
        str | None, Query(description="With `against`: show the change of this metric by item.")
    ] = None,
) -> Response:
    """An SVG chart of a run: a KPI over time up to this run; with `against` the changes since a
    baseline run; with `metric` as well, the change of each item.
    """
    if against is None:
        if metric is not None:
            raise Invalid("`metric` needs a baseline run; add `against`")
        return Response(plots.draw_trend(res, run_id, kpi), media_type=SVG)
    if metric is None:
        return Response(plots.draw_changes(res, run_id, against), media_type=SVG)
    return Response(plots.draw_items(res, run_id, against, metric), media_type=SVG)


@table_router.get(
    "/benchmark-runs.csv",
    response_class=StreamingResponse,
    responses={200: {"content": {CSV: {"schema": {"type": "string"}}}}},
    dependencies=READ,
)
def export_runs(
    res: Res,
    run_filter: RunFilter,
    sort: Annotated[
        SortOrder, Query(description="Order of the list; `-` is the descending order.")
    ] = DEFAULT_SORT,
) -> StreamingResponse:
    """The list of runs as CSV, with the filters and orders of the list; at most 10,000 runs."""
    return StreamingResponse(
        run_table.iter_csv(res.db, run_filter, sort),
        media_type=CSV,
        headers={"Content-Disposition": 'attachment; filename="runs.csv"'},
    )
