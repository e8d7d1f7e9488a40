"""HTTP routes that compare two runs: their verdicts, and their items side by side."""

from typing import Annotated

from fastapi import Query

from app.access.deps import READ
from app.comparison import stored_run_comparison
from app.comparison.items.compared import ItemOrder, compare_items
from app.comparison.schemas import ComparedItemView, Comparison
from app.core.problem_documents import CONFLICT
from app.core.schemas import Page
from app.core.web.deps import Res
from app.core.web.page_parameters import PageParams
from app.core.web.routes import Router

router = Router(prefix="/benchmark-runs", tags=["benchmark runs"])

# The largest number of runs that the baseline mode MEAN_OF_LAST averages.
MAX_BASELINE_RUNS = 30
MAX_JUDGED = 100


@router.get("/compare", dependencies=READ, responses=CONFLICT)
def compare_runs(
    res: Res,
    baseline: Annotated[
        list[str],
        Query(
            min_length=1,
            max_length=MAX_BASELINE_RUNS,
            description="ID of the baseline run. Repeat it to compare with the mean of several runs.",
        ),
    ],
    candidate: Annotated[str, Query(description="ID of the candidate run.")],
    metric: Annotated[str | None, Query(description="The metric of the flipped items.")] = None,
    judge: Annotated[
        list[str] | None,
        Query(
            max_length=MAX_JUDGED,
            description="Name of a KPI or metric to judge. All named ones are judged together: their"
            " intervals and p-values are adjusted. Default: the KPIs of the gate, otherwise all KPIs.",
        ),
    ] = None,
) -> Comparison:
    """Compare a completed run with a baseline run of the same benchmark: verdicts of KPIs and metrics,
    flipped items and their enriched features, latency, tokens and cost.
    """
    return stored_run_comparison.compare_in_child(
        res.db, baseline, candidate, metric=metric, judged=judge or ()
    )


@router.get("/compare/items", dependencies=READ, responses=CONFLICT)
def list_compared_items(
    res: Res,
    page: PageParams,
    baseline: Annotated[str, Query(description="ID of the baseline run.")],
    candidate: Annotated[str, Query(description="ID of the candidate run.")],
    metric: Annotated[
        str | None,
        Query(description="The metric of the order and of the trials (default: the first)."),
    ] = None,
    sort: Annotated[
        ItemOrder,
        Query(
            description="`fall` is the worst fall first, `rise` the greatest rise first, `item` by ID."
        ),
    ] = "fall",
) -> Page[ComparedItemView]:
    """List the items of two completed runs side by side: trials, changes of each metric, failed tools."""
    with res.db.read() as session:
        pair = stored_run_comparison.get_comparable_pair(session, baseline, candidate)
        return compare_items(session, pair, metric, sort, page).to_page(lambda item: item)
