"""HTTP routes of benchmark runs and their comparisons."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Path, Query, Request, Response

from mosaico.access.deps import ADMIN, READ, RUN, get_caller
from mosaico.access.idempotency import Idempotent
from mosaico.comparison import stored_run_comparison
from mosaico.comparison.compared_items import ItemOrder, compare_items
from mosaico.comparison.comparison_store import compare_stored
from mosaico.comparison.deciding_metric import NOTHING_DECIDES, find_deciding_metric
from mosaico.comparison.schemas import CategoryPage, ComparedItemView, Comparison
from mosaico.comparison.stored_run_comparison import ComparisonRequest
from mosaico.core.errors import Invalid
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.schemas import Page, explain_pattern
from mosaico.core.web.deps import Hub, Res
from mosaico.core.web.event_feeds import EventFeed, EventSnapshot
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.routes import Router
from mosaico.core.web.sse import EventStream, stream_events
from mosaico.kpis.queries import get_kpis_of_run
from mosaico.kpis.schemas import KpiValueView
from mosaico.run_store import queries
from mosaico.run_store.attribute_queries import read_run_record
from mosaico.run_store.evaluations import list_evaluations
from mosaico.run_store.recorded_attributes import RunRecord
from mosaico.run_store.rules import RunStatus, TriggerType
from mosaico.run_store.run_errors import list_run_errors
from mosaico.run_store.run_list import DEFAULT_SORT, RunListFilter, SortOrder, search_runs
from mosaico.run_store.trace_list import TraceListFilter
from mosaico.runs import estimates, retention, service
from mosaico.runs.llm_cache import list_llm_usage
from mosaico.runs.schemas import (
    EstimateView,
    EvaluationView,
    LlmUsageView,
    MetricAggregateView,
    RunAcceptance,
    RunCreate,
    RunErrorView,
    RunEstimate,
    RunView,
    TraceResultView,
    TraceView,
)
from mosaico.runs.views import (
    run_columns_view,
    run_columns_views,
    run_view,
    trace_result_view,
    trace_view,
)
from mosaico.statistics.verdict_rules import About

router = Router(prefix="/benchmark-runs", tags=["benchmark runs"])

_TAG_FIELD_PATTERN = r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$"

RunId = Annotated[str, Path(alias="runId")]
TraceId = Annotated[str, Path(alias="traceId", description="ID that the source gave the trace.")]


RunFilter = Annotated[RunListFilter, Query()]


@router.post("", status_code=201, response_model=RunView, dependencies=RUN)
def start_run(body: RunCreate, once: Idempotent) -> Response:
    """Start a benchmark run. It runs in the background; follow it at `/{runId}/events`."""
    return once(
        body,
        lambda session: service.create_run(
            session,
            body.benchmark_id,
            body.agent_id,
            trigger=TriggerType(body.trigger_type),
            run_name=body.run_name,
            window=body.trace_window,
        ),
        location=_location,
    )


@router.post("/estimate", dependencies=RUN, responses=CONFLICT)
def estimate_run(body: RunEstimate, res: Res) -> EstimateView:
    """Count the traces of a run, and the requests that it would send to their source; no run is started."""
    return estimates.estimate_run(res, body)


@router.get("", dependencies=READ)
def list_runs(
    res: Res,
    page: PageParams,
    run_filter: RunFilter,
    sort: Annotated[
        SortOrder, Query(description="Sort key; the prefix `-` sorts in descending order.")
    ] = DEFAULT_SORT,
) -> Page[RunView]:
    """List runs, newest first unless sorted. A repeated filter lists the runs with any of its values."""
    with res.db.read() as session:
        rows = search_runs(session, run_filter, sort, page)
        return Page(items=run_columns_views(session, rows.rows), next_cursor=rows.next_cursor)


@router.get("/compare", dependencies=READ, responses=CONFLICT)
def compare_runs(
    res: Res,
    baseline: Annotated[
        list[str],
        Query(
            min_length=1,
            max_length=stored_run_comparison.MAX_BASELINE_RUNS,
            description="ID of the baseline run. Repeat it to compare with the mean of several runs.",
        ),
    ],
    candidate: Annotated[str, Query(description="ID of the candidate run.")],
    metric: Annotated[str | None, Query(description="The metric of the flipped items.")] = None,
    judge: Annotated[
        list[str] | None,
        Query(
            max_length=stored_run_comparison.MAX_JUDGED,
            description="Name of a KPI or metric to judge. All named ones are judged together: their"
            " intervals and p-values are adjusted. Default: the KPIs of the gate, otherwise all KPIs.",
        ),
    ] = None,
    about: Annotated[
        About | None,
        Query(
            description="The question that decides: TASKS is whether exactly these tasks changed, POPULATION whether"
            " other tasks of this kind would. Default: that of the benchmark, otherwise TASKS where most tasks have"
            " several trials in both runs."
        ),
    ] = None,
    categories_after: Annotated[
        str | None,
        Query(
            alias="categoriesAfter",
            max_length=stored_run_comparison.MAX_CATEGORY_CHARS,
            description="Compare the categories after this one by name; `lastCategory` of the response before.",
        ),
    ] = None,
    run_sd: Annotated[
        float | None,
        Query(
            alias="runSd",
            ge=0,
            le=1,
            description="How much whole runs of an unchanged agent vary (standard deviation): points of a share, a fraction"
            " of any other value. Default: that of the benchmark, otherwise what earlier runs tell.",
        ),
    ] = None,
) -> Comparison:
    """Compare a completed run with a baseline run of the same benchmark: verdicts of KPIs and metrics,
    flipped items and their enriched features, latency, tokens and cost.
    """
    request = ComparisonRequest(
        tuple(baseline), candidate, metric, tuple(judge or ()), categories_after, about, run_sd
    )
    return compare_stored(res.db, request)


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


@router.get("/{runId}", dependencies=READ)
def get_run(run_id: RunId, res: Res) -> RunView:
    with res.db.read_statement() as session:
        return run_columns_view(session, queries.get_run_columns(session, run_id))


@router.get("/{runId}/attributes", dependencies=READ)
def get_run_attributes(run_id: RunId, res: Res) -> RunRecord:
    """Show what the traces of a completed run record, and what changed since its baseline. Both are empty for a run that
    ended before the service recorded them; rescore it.
    """
    with res.db.read() as session:
        return read_run_record(session, queries.get_run(session, run_id))


@router.get("/{runId}/categories", dependencies=READ, responses=CONFLICT)
def list_categories(
    run_id: RunId,
    res: Res,
    page: PageParams,
    field: Annotated[
        str,
        explain_pattern(
            _TAG_FIELD_PATTERN,
            "should be the name of a field of tags, such as category, with at most 100 characters",
        ),
        Query(
            pattern=_TAG_FIELD_PATTERN,
            description="Field of the tags: an item with the tag `field:name` is in the category `name`.",
        ),
    ] = "category",
) -> CategoryPage:
    """The metrics and KPIs of a completed run over the items of each category, with 95 % intervals;
    in alphabetical order, at most 50 at a time.
    """
    return stored_run_comparison.categories_in_child(res.db, run_id, field, page)


@router.post("/{runId}/cancel", dependencies=RUN, responses=CONFLICT)
def cancel_run(run_id: RunId, res: Res) -> RunView:
    """Cancel a pending or running run; its workers stop at their next checkpoint."""
    with res.db.begin() as session:
        return run_view(session, service.cancel_run(session, run_id, res.clock()))


@router.post("/{runId}/accept", dependencies=ADMIN, responses=CONFLICT)
def accept_run(
    run_id: RunId, request: Request, res: Res, body: RunAcceptance | None = None
) -> RunView:
    """Accept the level of a run that regressed: later runs are compared with it. Until then they are
    compared with the runs before it. A repeated request changes nothing.
    """
    by, note = get_caller(request).key_id, body.note if body else None
    with res.db.begin() as session:
        return run_view(
            session, service.accept_run(session, run_id, by=by, note=note, now=res.clock())
        )


@router.post("/{runId}/retry", status_code=201, response_model=RunView, dependencies=RUN)
def retry_run(run_id: RunId, once: Idempotent) -> Response:
    """Start a new attempt of a run that failed or was cancelled, at most three times."""
    return once(None, lambda session: service.retry_run(session, run_id), location=_location)


@router.post("/{runId}/rescore", status_code=201, response_model=RunView, dependencies=RUN)
def rescore_run(run_id: RunId, once: Idempotent) -> Response:
    """Score the traces of a completed run again in a new run, with the current metrics, formulas and
    baseline. The source is not read again, and the values of the old run stay.
    """
    return once(None, lambda session: service.rescore_run(session, run_id), location=_location)


@router.get("/{runId}/results", dependencies=READ)
def list_run_results(
    run_id: RunId,
    res: Res,
    page: PageParams,
    trace_filter: Annotated[TraceListFilter, Query()],
) -> Page[TraceResultView]:
    """List the traces with their values, in the order of the source.

    While a run is in progress, the values of a trace are empty until it is measured.
    """
    with res.db.read() as session:
        run = queries.get_run_with_traces(session, run_id)
        decider = find_deciding_metric(session, run)
        if trace_filter.state == "wrong" and decider is None:
            raise Invalid(NOTHING_DECIDES)
        rows = queries.list_trace_results(session, run, page, trace_filter, decider)
        return rows.to_page(lambda row: trace_result_view(run.metric_keys or [], row, decider))


# A trace ID may contain slashes: a harness names traces `scenario/task#trial`.
@router.get("/{runId}/traces/{traceId:path}", dependencies=READ)
def get_run_trace(run_id: RunId, trace_id: TraceId, res: Res) -> TraceView:
    """Show one trace: its values, and the transcript of what the agent did."""
    with res.db.read() as session:
        run = queries.get_run_with_traces(session, run_id)
        detail = queries.get_trace(session, run, trace_id)
        return trace_view(run.metric_keys or [], detail, find_deciding_metric(session, run))


@router.get("/{runId}/metrics", dependencies=READ)
def list_run_metrics(run_id: RunId, res: Res) -> Page[MetricAggregateView]:
    """List the metrics of a completed run: mean, standard deviation, percentiles, missing values. `ERROR_RATE` is measured
    in every run, and listed if answers failed in the run or in its baseline.
    """
    with res.db.read() as session:
        metrics = queries.list_shown_metrics(session, queries.get_run(session, run_id))
        return Page(items=[MetricAggregateView.model_validate(metric) for metric in metrics])


@router.get("/{runId}/errors", dependencies=READ)
def list_errors(run_id: RunId, res: Res) -> Page[RunErrorView]:
    """List the errors among the first 20,000 traces by the rule that said whose fault they are, the most frequent
    rule first.
    """
    with res.db.read() as session:
        errors = list_run_errors(session, queries.get_run_with_traces(session, run_id))
        return Page(items=[RunErrorView.model_validate(error) for error in errors])


@router.get("/{runId}/llm-usage", dependencies=READ)
def list_run_llm_usage(run_id: RunId, res: Res) -> Page[LlmUsageView]:
    """List the usage of the models that the metrics of a run called; it is not part of the agent's
    cost.
    """
    with res.db.read() as session:
        usage_rows = list_llm_usage(session, queries.get_run(session, run_id).seq)
        return Page(items=[LlmUsageView.model_validate(usage) for usage in usage_rows])


@router.get("/{runId}/kpis", dependencies=READ)
def list_run_kpis(run_id: RunId, res: Res) -> Page[KpiValueView]:
    """List the KPI values of a completed run, by name."""
    with res.db.read() as session:
        kpis = get_kpis_of_run(session, queries.get_run(session, run_id).seq)
        return Page(items=[KpiValueView.model_validate(kpi) for kpi in kpis])


@router.get("/{runId}/evaluations", dependencies=READ)
def list_run_evaluations(run_id: RunId, res: Res) -> Page[EvaluationView]:
    """List what each alert rule made of a completed valid run, by the name of the rule."""
    with res.db.read() as session:
        evaluations = list_evaluations(session, queries.get_run(session, run_id).seq)
        return Page(items=[EvaluationView.model_validate(each) for each in evaluations])


@router.get("/{runId}/events", response_class=EventStream, dependencies=READ)
def follow_run(run_id: RunId, request: Request, res: Res, hub: Hub) -> EventStream:
    """Stream the run as server-sent events: one for each change, until it has ended."""

    def read_runs(run_ids: Sequence[str]) -> dict[str, EventSnapshot]:
        with res.db.read_statement() as session:
            runs = run_columns_views(session, queries.find_runs_columns(session, run_ids))
        return {
            run.id: EventSnapshot(event="run", data=run, final=RunStatus(run.status).is_final)
            for run in runs
        }

    feed = EventFeed("run", read_runs, not_found=queries.run_not_found)
    return stream_events(request, hub, feed, run_id)


@router.delete("/{runId}", status_code=204, dependencies=ADMIN, responses=CONFLICT)
def delete_run(run_id: RunId, res: Res) -> None:
    """Delete a run that has ended, with its values and its KPI history."""
    with res.db.begin() as session:
        retention.delete_run(session, run_id)


def _location(run: RunView) -> str:
    return f"/api/v1/benchmark-runs/{run.id}"
