"""Routes of baselines and of power estimates, below /benchmarks."""

from typing import Annotated

from fastapi import Path, Query

from mosaico.access.deps import ADMIN, READ
from mosaico.benchmarks.queries import get_benchmark
from mosaico.comparison import baselines, power
from mosaico.comparison.schemas import (
    BaselinePin,
    BaselineView,
    PinnedView,
    PowerRequest,
    PowerView,
)
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.schemas import Page
from mosaico.core.web.deps import Res
from mosaico.core.web.routes import Router

router = Router(prefix="/benchmarks", tags=["benchmarks"])

BenchmarkId = Annotated[str, Path(alias="benchmarkId")]


@router.get("/{benchmarkId}/baseline", dependencies=READ)
def get_baseline(benchmark_id: BenchmarkId, res: Res) -> BaselineView:
    """The baselines of new runs: the pinned run of their agent, otherwise the runs `mode` selects."""
    with res.db.read() as session:
        benchmark = get_benchmark(session, benchmark_id)
        choice = benchmark.baseline
        pinned = baselines.list_pinned_baselines(session, benchmark_id)
        return BaselineView(
            mode=choice.mode,
            runs=choice.runs,
            pinned=[PinnedView.model_validate(baseline) for baseline in pinned],
        )


@router.put("/{benchmarkId}/baseline", dependencies=ADMIN, responses=CONFLICT)
def pin_baseline(benchmark_id: BenchmarkId, body: BaselinePin, res: Res) -> PinnedView:
    """Pin a completed, valid run as the baseline of later runs of its agent."""
    with res.db.begin() as session:
        get_benchmark(session, benchmark_id)
        current = baselines.get_pin_of_run(session, benchmark_id, body.run_id)
        if current is not None:
            return body.confirm_created(PinnedView.model_validate(current))
        pinned = baselines.pin_baseline(session, benchmark_id, body.run_id, res.clock())
        return body.confirm_created(PinnedView.model_validate(pinned))


@router.delete("/{benchmarkId}/baseline", status_code=204, dependencies=ADMIN)
def unpin_baseline(
    benchmark_id: BenchmarkId,
    res: Res,
    agent_id: Annotated[
        str | None,
        Query(alias="agentId", description="Filter by agent ID. Default: all agents."),
    ] = None,
) -> None:
    """Delete the pinned baseline: later runs are compared with the runs before them."""
    with res.db.begin() as session:
        get_benchmark(session, benchmark_id)
        baselines.unpin_baseline(session, benchmark_id, agent_id)


@router.post("/{benchmarkId}/power", dependencies=READ, responses=CONFLICT)
def estimate_power(benchmark_id: BenchmarkId, body: PowerRequest, res: Res) -> Page[PowerView]:
    """The minimum detectable effect of each KPI and metric, estimated from stored runs, and the
    trials or items that detect a smaller drop.
    """
    with res.db.read() as session:
        get_benchmark(session, benchmark_id)
    size = power.BenchmarkSize(body.items, body.trials, body.drop)
    estimates = power.estimate_power(res.db, benchmark_id, body.agent_id, size)
    return Page(items=list(estimates))
