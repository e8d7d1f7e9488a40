"""What a check of a bash task and an evaluator of ot-bench are made of; the entry point group
`mosaico.evaluators` registers both.
"""

from app.core.registry import AddPlugin
from app.harness.bash.check_registry import (
    CHECKS,
    Check,
    CheckEvidence,
    CheckResult,
    CheckWarning,
    FileKind,
    SandboxFiles,
    UnreadableFile,
)
from app.harness.bash.types import ToolCallResult
from app.harness.judge import JudgeScore
from app.harness.mcp.config import EvaluatorConfig
from app.harness.mcp.evaluator_registry import (
    EVALUATORS,
    Evaluator,
    EvaluatorEvidence,
    EvaluatorResult,
    select_check,
)
from app.harness.mcp.types import McpToolCall

__all__ = (
    "CHECKS",
    "EVALUATORS",
    "AddPlugin",
    "Check",
    "CheckEvidence",
    "CheckResult",
    "CheckWarning",
    "Evaluator",
    "EvaluatorConfig",
    "EvaluatorEvidence",
    "EvaluatorResult",
    "FileKind",
    "JudgeScore",
    "McpToolCall",
    "SandboxFiles",
    "ToolCallResult",
    "UnreadableFile",
    "select_check",
)
