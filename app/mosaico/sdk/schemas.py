"""The answers of the service as the client returns them: the schemas of the API, in snake_case."""

from mosaico.agents.schemas import AgentView
from mosaico.benchmarks.schemas import BenchmarkView
from mosaico.kpis.schemas import KpiValueView
from mosaico.runs.schemas import MetricAggregateView, RunView, TraceResultView
from mosaico.traces.uploads.schemas import LocalDatasetView

__all__ = (
    "AgentView",
    "BenchmarkView",
    "KpiValueView",
    "LocalDatasetView",
    "MetricAggregateView",
    "RunView",
    "TraceResultView",
)
