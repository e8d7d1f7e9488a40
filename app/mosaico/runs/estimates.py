"""Estimates the requests of a run to its source, before it is started."""

from datetime import datetime

from sqlalchemy.orm import Session

from mosaico.agents.queries import get_agent
from mosaico.agents.service import agent_query
from mosaico.benchmarks.queries import get_benchmark, get_kpis
from mosaico.benchmarks.service import source_of
from mosaico.core.errors import Invalid
from mosaico.core.resources import Resources
from mosaico.formula import compile_formula
from mosaico.run_store.plan import is_score_column
from mosaico.runs.schemas import EstimateView, RunEstimate
from mosaico.runs.service import reads_no_production, require_runnable
from mosaico.traces.production import ProductionTraces
from mosaico.traces.registry import TRACE_SOURCES, TraceQuery


def estimate_run(res: Resources, body: RunEstimate) -> EstimateView:
    """Count the requests of a run that would be created now; the counts are requested from the
    source.

    Raises: `NotFound`; `Invalid` when the benchmark reads runs of another server, or its source counts
            no requests; the errors of the source.
    """
    now = res.clock()
    with res.db.read() as session:
        source, query = _read_query(session, body, now, res)
    spec = TRACE_SOURCES.get(source)
    if spec.estimate is None:
        raise Invalid(
            f"the source {source!r} is read without requests to another server; there is nothing to"
            " estimate"
        )
    estimate = spec.estimate(res, query)
    return EstimateView(
        trace_window=query.production and query.production.exact_window,
        traces=estimate.traces,
        selected=estimate.selected,
        requests=dict(estimate.requests),
        total_requests=sum(estimate.requests.values()),
        at_most=estimate.at_most,
    )


def _read_query(
    session: Session, body: RunEstimate, now: datetime, res: Resources
) -> tuple[str, TraceQuery]:
    benchmark, agent = (
        get_benchmark(session, body.benchmark_id),
        get_agent(session, body.agent_id),
    )
    require_runnable(session, benchmark, agent)
    source = source_of(benchmark, agent)
    production: ProductionTraces | None = benchmark.production
    if production is None and (body.trace_window or TRACE_SOURCES.get(source).reads_production):
        raise reads_no_production(benchmark.id)
    kpis = get_kpis(session, benchmark.id)
    columns = [
        *(metric.key for metric in benchmark.metrics),
        *(ref.key for kpi in kpis for ref in compile_formula(kpi.formula).references),
    ]
    query = agent_query(
        agent,
        res,
        dataset_ref=None if production else benchmark.dataset_ref,
        run_name=None if production else benchmark.run_name,
        production=production and production.frozen(body.trace_window, now),
        late_scores=benchmark.late_scores or any(map(is_score_column, columns)),
    )
    return source, query
