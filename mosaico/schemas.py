"""The answers of the service as the client returns them: the schemas of the API, in snake_case."""

from app.agents.schemas import AgentView
from app.benchmarks.schemas import BenchmarkView
from app.kpis.schemas import KpiValueView
from app.runs.schemas import MetricAggregateView, RunView, TraceResultView
from app.traces.uploads.schemas import LocalDatasetView

__all__ = (
    "AgentView",
    "BenchmarkView",
    "KpiValueView",
    "LocalDatasetView",
    "MetricAggregateView",
    "RunView",
    "TraceResultView",
)
