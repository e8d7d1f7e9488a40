"""What a metric is made of; the entry point group `mosaico.metrics` registers it."""

from app.core.registry import AddPlugin
from app.llm.types import (
    ChatAnswer,
    ChatRequest,
    EmbeddingAnswer,
    EmbeddingRequest,
    ModelAnswer,
    ModelKind,
    ModelRequest,
    PromptMessage,
)
from app.metrics.registry import METRICS
from app.metrics.types import (
    BatchMetric,
    CountedMetric,
    Direction,
    InvalidJudgment,
    MetricFactory,
    MetricJudgeScore,
    MetricProvider,
    MetricSpec,
    Need,
    RemoteMetric,
    RunMetric,
)
from app.traces.types import ToolCall, Trace, TraceOutcome

__all__ = (
    "METRICS",
    "AddPlugin",
    "BatchMetric",
    "ChatAnswer",
    "ChatRequest",
    "CountedMetric",
    "Direction",
    "EmbeddingAnswer",
    "EmbeddingRequest",
    "InvalidJudgment",
    "MetricFactory",
    "MetricJudgeScore",
    "MetricProvider",
    "MetricSpec",
    "ModelAnswer",
    "ModelKind",
    "ModelRequest",
    "Need",
    "PromptMessage",
    "RemoteMetric",
    "RunMetric",
    "ToolCall",
    "Trace",
    "TraceOutcome",
)
