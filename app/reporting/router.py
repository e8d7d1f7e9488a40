"""Pictures of runs over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from app.access.deps import require_role
from app.core.errors import Invalid
from app.core.problems import PROBLEMS
from app.core.web.deps import Res
from app.reporting import plots

router = APIRouter(prefix="/benchmark-runs", tags=["benchmark runs"], responses=PROBLEMS)

SVG = "image/svg+xml"

RunId = Annotated[str, Path(alias="runId")]


@router.get(
    "/{runId}/plot",
    response_class=Response,
    responses={200: {"content": {SVG: {"schema": {"type": "string"}}}}},
    dependencies=[Depends(require_role("read"))],
)
def plot_run(
    run_id: RunId,
    res: Res,
    kpi: Annotated[str | None, Query(description="Id or name of a KPI.")] = None,
    against: Annotated[str | None, Query(description="A run to hold this one against.")] = None,
    metric: Annotated[str | None, Query(description="Show its change item by item.")] = None,
) -> Response:
    """A picture of a run as SVG: a KPI up to this run; with `against` what changed since another
    run, with `metric` as well the change of each item.
    """
    if against is None:
        if metric is not None:
            raise Invalid("a metric is shown against another run; name one as `against`")
        return Response(plots.trend_picture(res, run_id, kpi), media_type=SVG)
    if metric is None:
        return Response(plots.changes_picture(res, run_id, against), media_type=SVG)
    return Response(plots.items_picture(res, run_id, against, metric), media_type=SVG)
