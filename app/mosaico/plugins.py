"""The types of plugins: metrics, channels, trace sources, importers of files, checks and evaluators.

An entry point of the group `mosaico.metrics`, `mosaico.channels`, `mosaico.trace_sources`,
`mosaico.importers` or `mosaico.evaluators` names a function `register`; `docs/extending.md` shows each
kind. These names are stable, their modules are not.
"""

from typing import TYPE_CHECKING

from mosaico.core.lazy_names import load_lazily

if TYPE_CHECKING:
    from mosaico.core.encryption import Secret
    from mosaico.core.errors import Unavailable
    from mosaico.core.http.client import outbound_client
    from mosaico.core.registry import AddPlugin
    from mosaico.core.resources import Resources
    from mosaico.core.url_syntax import redact_url
    from mosaico.harness.bash.check_registry import (
        CHECKS,
        Check,
        CheckEvidence,
        CheckResult,
        CheckWarning,
        FileKind,
        SandboxFiles,
        UnreadableFile,
    )
    from mosaico.harness.bash.types import ToolCallResult
    from mosaico.harness.judge import JudgeScore
    from mosaico.harness.mcp.config import EvaluatorConfig
    from mosaico.harness.mcp.evaluator_registry import (
        EVALUATORS,
        Evaluator,
        EvaluatorEvidence,
        EvaluatorResult,
        select_check,
    )
    from mosaico.harness.mcp.types import McpToolCall
    from mosaico.harness.transcript import (
        Transcript,
        TranscriptMessage,
        TranscriptRequest,
        TranscriptToolCall,
    )
    from mosaico.llm.types import (
        ChatAnswer,
        ChatRequest,
        EmbeddingAnswer,
        EmbeddingRequest,
        ModelAnswer,
        ModelKind,
        ModelRequest,
        PromptMessage,
    )
    from mosaico.metrics.registry import METRICS
    from mosaico.metrics.types import (
        BatchMetric,
        CountedMetric,
        Direction,
        InvalidJudgment,
        MetricFactory,
        MetricJudgeScore,
        MetricProvider,
        MetricSpec,
        Need,
        ReadableTexts,
        RemoteMetric,
        RunMetric,
    )
    from mosaico.notifications.message_layout import MessageLayout, TextSpan, build_layout
    from mosaico.notifications.registry import (
        CHANNELS,
        ChannelSpec,
        InvalidRecipient,
        OutgoingMessage,
    )
    from mosaico.notifications.types import (
        DeliveryFailed,
        DeliveryOutcome,
        DeliverySucceeded,
        MessageFact,
        MessageItem,
        MessageLink,
        MessageRejected,
        MessageSeverity,
        NotificationMessage,
        PublishedMessage,
        RecipientGone,
    )
    from mosaico.notifications.webhook_client import parse_recipient_url, post
    from mosaico.traces.files.import_file import Container, ImportFile, TableRow
    from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
    from mosaico.traces.files.limited_file import InvalidImport
    from mosaico.traces.files.table_traces import read_table
    from mosaico.traces.production import ProductionTraces, ScoreFilter, TraceFilters, TraceWindow
    from mosaico.traces.registry import (
        TRACE_SOURCES,
        CollectionFailed,
        CredentialsRefused,
        NewScore,
        RequestEstimate,
        SourceCheck,
        SourceRun,
        SourceSpec,
        TracePage,
        TraceQuery,
        TraceSource,
    )
    from mosaico.traces.types import DatasetItem, ToolCall, Trace, TraceOutcome

__all__ = (
    "CHANNELS",
    "CHECKS",
    "EVALUATORS",
    "IMPORTERS",
    "METRICS",
    "TRACE_SOURCES",
    "AddPlugin",
    "BatchMetric",
    "ChannelSpec",
    "ChatAnswer",
    "ChatRequest",
    "Check",
    "CheckEvidence",
    "CheckResult",
    "CheckWarning",
    "CollectionFailed",
    "Container",
    "CountedMetric",
    "CredentialsRefused",
    "DatasetItem",
    "DeliveryFailed",
    "DeliveryOutcome",
    "DeliverySucceeded",
    "Direction",
    "EmbeddingAnswer",
    "EmbeddingRequest",
    "Evaluator",
    "EvaluatorConfig",
    "EvaluatorEvidence",
    "EvaluatorResult",
    "FileKind",
    "ImportFile",
    "ImportedTraces",
    "Importer",
    "InvalidImport",
    "InvalidJudgment",
    "InvalidRecipient",
    "JudgeScore",
    "McpToolCall",
    "MessageFact",
    "MessageItem",
    "MessageLayout",
    "MessageLink",
    "MessageRejected",
    "MessageSeverity",
    "MetricFactory",
    "MetricJudgeScore",
    "MetricProvider",
    "MetricSpec",
    "ModelAnswer",
    "ModelKind",
    "ModelRequest",
    "Need",
    "NewScore",
    "NotificationMessage",
    "OutgoingMessage",
    "ProductionTraces",
    "PromptMessage",
    "PublishedMessage",
    "ReadableTexts",
    "RecipientGone",
    "RemoteMetric",
    "RequestEstimate",
    "Resources",
    "RunMetric",
    "SandboxFiles",
    "ScoreFilter",
    "Secret",
    "SourceCheck",
    "SourceRun",
    "SourceSpec",
    "TableRow",
    "TextSpan",
    "ToolCall",
    "ToolCallResult",
    "Trace",
    "TraceFilters",
    "TraceOutcome",
    "TracePage",
    "TraceQuery",
    "TraceSource",
    "TraceWindow",
    "Transcript",
    "TranscriptMessage",
    "TranscriptRequest",
    "TranscriptToolCall",
    "Unavailable",
    "UnreadableFile",
    "build_layout",
    "outbound_client",
    "parse_recipient_url",
    "post",
    "read_table",
    "redact_url",
    "select_check",
)

# Type checkers know the names above, and report every other one.
if not TYPE_CHECKING:
    __getattr__ = load_lazily(
        __name__,
        {
            "core.encryption": "Secret",
            "core.errors": "Unavailable",
            "core.http.client": "outbound_client",
            "core.registry": "AddPlugin",
            "core.resources": "Resources",
            "core.url_syntax": "redact_url",
            "harness.bash.check_registry": "CHECKS Check CheckEvidence CheckResult CheckWarning FileKind SandboxFiles"
            " UnreadableFile",
            "harness.bash.types": "ToolCallResult",
            "harness.judge": "JudgeScore",
            "harness.mcp.config": "EvaluatorConfig",
            "harness.mcp.evaluator_registry": "EVALUATORS Evaluator EvaluatorEvidence EvaluatorResult select_check",
            "harness.mcp.types": "McpToolCall",
            "harness.transcript": "Transcript TranscriptMessage TranscriptRequest TranscriptToolCall",
            "llm.types": "ChatAnswer ChatRequest EmbeddingAnswer EmbeddingRequest ModelAnswer ModelKind"
            " ModelRequest PromptMessage",
            "metrics.registry": "METRICS",
            "metrics.types": "BatchMetric CountedMetric Direction InvalidJudgment MetricFactory"
            " MetricJudgeScore MetricProvider MetricSpec Need ReadableTexts RemoteMetric RunMetric",
            "notifications.message_layout": "MessageLayout TextSpan build_layout",
            "notifications.registry": "CHANNELS ChannelSpec InvalidRecipient OutgoingMessage",
            "notifications.types": "DeliveryFailed DeliveryOutcome DeliverySucceeded MessageFact MessageItem"
            " MessageLink MessageRejected MessageSeverity NotificationMessage PublishedMessage"
            " RecipientGone",
            "notifications.webhook_client": "parse_recipient_url post",
            "traces.files.import_file": "Container ImportFile TableRow",
            "traces.files.limited_file": "InvalidImport",
            "traces.files.importer_registry": "IMPORTERS ImportedTraces Importer",
            "traces.files.table_traces": "read_table",
            "traces.production": "ProductionTraces ScoreFilter TraceFilters TraceWindow",
            "traces.registry": "CollectionFailed CredentialsRefused NewScore RequestEstimate SourceCheck"
            " SourceRun SourceSpec TRACE_SOURCES TracePage TraceQuery TraceSource",
            "traces.types": "DatasetItem ToolCall Trace TraceOutcome",
        },
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
