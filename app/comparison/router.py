"""What the runs of a benchmark are compared with, and what a comparison could see."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from app.access.deps import require_role
from app.benchmarks.queries import get_benchmark
from app.benchmarks.schemas import BaselineConfig
from app.comparison import baselines, power
from app.comparison.schemas import BaselinePin, BaselineView, PinnedView, PowerRequest, PowerView
from app.core.problems import PROBLEMS
from app.core.schemas import Page
from app.core.web.deps import Res

router = APIRouter(prefix="/benchmarks", tags=["benchmarks"], responses=PROBLEMS)

BenchmarkId = Annotated[str, Path(alias="benchmarkId")]


@router.get("/{benchmarkId}/baseline", dependencies=[Depends(require_role("read"))])
def get_baseline(benchmark_id: BenchmarkId, res: Res) -> BaselineView:
    """What new runs are compared with: the pinned run of their agent, else what `mode` says."""
    with res.db.read() as session:
        benchmark = get_benchmark(session, benchmark_id)
        choice = BaselineConfig.model_validate(benchmark.baseline)
        pinned = baselines.list_pinned_baselines(session, benchmark_id)
        return BaselineView(
            mode=choice.mode,
            runs=choice.runs,
            pinned=[PinnedView.model_validate(each) for each in pinned],
        )


@router.put("/{benchmarkId}/baseline", dependencies=[Depends(require_role("admin"))])
def pin_baseline(benchmark_id: BenchmarkId, body: BaselinePin, res: Res) -> PinnedView:
    """Pin a completed, valid run: later runs of its agent are compared with it."""
    with res.db.begin() as session:
        get_benchmark(session, benchmark_id)
        pinned = baselines.pin_baseline(session, benchmark_id, body.run_id, res.clock())
        return PinnedView.model_validate(pinned)


@router.delete(
    "/{benchmarkId}/baseline", status_code=204, dependencies=[Depends(require_role("admin"))]
)
def unpin_baseline(
    benchmark_id: BenchmarkId,
    res: Res,
    agent_id: Annotated[
        str | None, Query(alias="agentId", description="Of this agent; of all without it.")
    ] = None,
) -> None:
    """Forget the pinned run: runs are compared with those before them again."""
    with res.db.begin() as session:
        get_benchmark(session, benchmark_id)
        baselines.unpin_baseline(session, benchmark_id, agent_id)


@router.post("/{benchmarkId}/power", dependencies=[Depends(require_role("read"))])
def estimate_power(benchmark_id: BenchmarkId, body: PowerRequest, res: Res) -> Page[PowerView]:
    """The smallest drop that stands out, by KPI and metric, from what stored runs vary by; and what
    a smaller one would cost.
    """
    with res.db.read() as session:
        get_benchmark(session, benchmark_id)
    size = power.BenchmarkSize(body.items, body.trials, body.drop)
    found = power.estimate_power(res.db, benchmark_id, body.agent_id, size)
    return Page(items=[PowerView.model_validate(each) for each in found])
