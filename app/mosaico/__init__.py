"""MOSAICO from Python: score, compare and gate results of AI agents, and use a service.

Public are the names of `__all__` here, those of `mosaico.plugins` (types of plugins) and those of
`mosaico.formula` (the KPI formula language). Every other module is internal and may change at any time.
Importing this package loads nothing else: each name is loaded when it is used first.
"""

from mosaico.core.lazy_names import load_lazily

# Not that of `typing`: each program imports this package twice (see `mosaico.programs`).
TYPE_CHECKING = False

if TYPE_CHECKING:
    from mosaico.agents.schemas import AgentView
    from mosaico.benchmarks.schemas import BenchmarkView
    from mosaico.comparison.schemas import Comparison, FlippedItem
    from mosaico.core.errors import (
        AppError as MosaicoError,
    )
    from mosaico.core.errors import (
        Conflict,
        ErrorItem,
        Forbidden,
        Invalid,
        NotFound,
        TooLarge,
        Unauthorized,
        Unavailable,
    )
    from mosaico.core.extras import MissingPackages
    from mosaico.gating.rules import GateCheck, GateOutcome
    from mosaico.kpis.schemas import KpiValueView
    from mosaico.kpis.verdict_types import ValueVerdict
    from mosaico.llm.request_budget import LlmBudgetExhausted
    from mosaico.metrics.aggregate import Aggregate
    from mosaico.metrics.offline_models import LlmOptions, LlmUsage, ModelUsage
    from mosaico.runs.schemas import MetricAggregateView, RunView, TraceResultView
    from mosaico.sdk.async_client import AsyncClient
    from mosaico.sdk.client import Client
    from mosaico.sdk.experiment import Experiment, run_experiment
    from mosaico.sdk.inputs import Metrics, Results
    from mosaico.sdk.offline import compare, gate
    from mosaico.sdk.results import GateReport, ResultComparison
    from mosaico.sdk.scores import ScoredRow, Scores, score
    from mosaico.statistics.verdict_rules import Verdict
    from mosaico.traces.files.read_options import ReadOptions
    from mosaico.traces.types import DatasetItem, ToolCall, Trace, TraceOutcome
    from mosaico.traces.uploads.schemas import LocalDatasetView

__all__ = (
    "AgentView",
    "Aggregate",
    "AsyncClient",
    "BenchmarkView",
    "Client",
    "Comparison",
    "Conflict",
    "DatasetItem",
    "ErrorItem",
    "Experiment",
    "FlippedItem",
    "Forbidden",
    "GateCheck",
    "GateOutcome",
    "GateReport",
    "Invalid",
    "KpiValueView",
    "LlmBudgetExhausted",
    "LlmOptions",
    "LlmUsage",
    "LocalDatasetView",
    "MetricAggregateView",
    "Metrics",
    "MissingPackages",
    "ModelUsage",
    "MosaicoError",
    "NotFound",
    "ReadOptions",
    "ResultComparison",
    "Results",
    "RunView",
    "ScoredRow",
    "Scores",
    "TooLarge",
    "ToolCall",
    "Trace",
    "TraceOutcome",
    "TraceResultView",
    "Unauthorized",
    "Unavailable",
    "ValueVerdict",
    "Verdict",
    "compare",
    "gate",
    "run_experiment",
    "score",
)

# Type checkers know the names above, and report every other one.
if not TYPE_CHECKING:
    __getattr__ = load_lazily(
        __name__,
        {
            "agents.schemas": "AgentView",
            "benchmarks.schemas": "BenchmarkView",
            "comparison.schemas": "Comparison FlippedItem",
            "core.errors": "AppError:MosaicoError Conflict ErrorItem Forbidden Invalid NotFound TooLarge"
            " Unauthorized Unavailable",
            "core.extras": "MissingPackages",
            "gating.rules": "GateCheck GateOutcome",
            "kpis.schemas": "KpiValueView",
            "kpis.verdict_types": "ValueVerdict",
            "llm.request_budget": "LlmBudgetExhausted",
            "metrics.aggregate": "Aggregate",
            "metrics.offline_models": "LlmOptions LlmUsage ModelUsage",
            "runs.schemas": "MetricAggregateView RunView TraceResultView",
            "sdk.async_client": "AsyncClient",
            "sdk.client": "Client",
            "sdk.experiment": "Experiment run_experiment",
            "sdk.inputs": "Metrics Results",
            "sdk.offline": "compare gate",
            "sdk.results": "GateReport ResultComparison",
            "sdk.scores": "ScoredRow Scores score",
            "statistics.verdict_rules": "Verdict",
            "traces.files.read_options": "ReadOptions",
            "traces.types": "DatasetItem ToolCall Trace TraceOutcome",
            "traces.uploads.schemas": "LocalDatasetView",
        },
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
