"""HTTP routes of the answers of a run: its items before and now, one item over all nights, distributions and costs."""

from typing import Annotated

from fastapi import Path, Query

from mosaico.access.deps import READ
from mosaico.comparison.answer_schemas import (
    AnswerFilter,
    AnswerPage,
    MetricDistribution,
    RunCostView,
)
from mosaico.comparison.answer_views import page_of
from mosaico.comparison.deciding_metric import find_deciding_metric
from mosaico.comparison.distributions import distributions_of, list_run_costs
from mosaico.comparison.run_answers import find_baseline_run, load_answers
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.schemas import Page
from mosaico.core.web.deps import Res
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.routes import Router
from mosaico.kpis.queries import get_kpis_of_run
from mosaico.run_store import queries
from mosaico.run_store.item_nights import list_item_nights
from mosaico.run_store.run_outcome import find_shown_kpi
from mosaico.runs.schemas import ItemNightView
from mosaico.runs.views import item_night_view

router = Router(prefix="/benchmark-runs", tags=["benchmark runs"])

RunId = Annotated[str, Path(alias="runId")]


@router.get("/{runId}/answers", dependencies=READ, responses=CONFLICT)
def list_answers(
    run_id: RunId, res: Res, page: PageParams, answer_filter: Annotated[AnswerFilter, Query()]
) -> AnswerPage:
    """List the items of a run with the question, the expected answer, and the answers before and now: the worst fall
    first, for `rose` the greatest rise. A run has at most 5,000 traces for it.
    """
    with res.db.read() as session:
        run = queries.get_run_with_traces(session, run_id)
        answers = load_answers(session, run, find_baseline_run(session, run), answer_filter)
        return page_of(session, answers, page)


@router.get("/{runId}/nights", dependencies=READ)
def list_nights(
    run_id: RunId,
    res: Res,
    item_id: Annotated[str, Query(alias="itemId", max_length=1000, description="ID of the item.")],
) -> Page[ItemNightView]:
    """List one item in the last 30 runs of each of at most 8 agents of the benchmark, oldest first."""
    with res.db.read() as session:
        run = queries.get_run(session, run_id)
        decider = find_deciding_metric(session, run)
        nights = list_item_nights(session, run, item_id, decider.column if decider else None)
        return Page(items=[item_night_view(night, decider) for night in nights])


@router.get("/{runId}/distributions", dependencies=READ, responses=CONFLICT)
def list_distributions(run_id: RunId, res: Res) -> Page[MetricDistribution]:
    """List the distributions of the metric that decides and of the latency, of the traces of the run and of its
    baseline, in ten bins. A run has at most 5,000 traces for it.
    """
    with res.db.read() as session:
        run = queries.get_run_with_traces(session, run_id)
        answers = load_answers(session, run, find_baseline_run(session, run), AnswerFilter())
        return Page(items=distributions_of(answers))


@router.get("/{runId}/costs", dependencies=READ)
def list_costs(run_id: RunId, res: Res) -> Page[RunCostView]:
    """List the runs of the agent up to this one with the KPI that decides, the cost and the latency of an answer, oldest
    first; at most 60 runs with 30,000 traces.
    """
    with res.db.read() as session:
        kpi = find_shown_kpi(get_kpis_of_run(session, queries.get_run(session, run_id).seq))
        return Page(items=list_run_costs(session, kpi) if kpi else [])
