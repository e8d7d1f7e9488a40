"""Writes an ot-bench run to Langfuse as a dataset run."""

from datetime import datetime

from mosaico.harness.langfuse_export import (
    ExportedAttempt,
    ExportedCall,
    ExportedRun,
    ExportSummary,
    LangfuseProject,
    write_run,
)
from mosaico.harness.mcp.config import TaskType
from mosaico.harness.mcp.stored_attempt import expected_output, input_text, task_scores
from mosaico.harness.mcp.types import McpReport, TaskResult
from mosaico.harness.results import AttemptOutcome
from mosaico.llm.conversation import known_usage


def export_run(
    report: McpReport, project: LangfuseProject, *, dataset: str, now: datetime
) -> ExportSummary:
    """Write the scored attempts; `now` is part of the run name.

    Raises: ExportFailed.
    """
    models = sorted({result.model for result in report.results if result.model})
    scored = [result for result in report.results if result.outcome is AttemptOutcome.SCORED]
    run = ExportedRun(
        program="ot-bench",
        run_name=f"bench-{now:%Y-%m-%d-%H%M%S}",
        title=f"{len(report.results)} attempts of {', '.join(models) or 'no model'}",
        metadata={"models": ", ".join(models)},
        attempts=[_attempt(result) for result in scored],
    )
    return write_run(run, project, dataset=dataset)


def _attempt(result: TaskResult) -> ExportedAttempt:
    has_model = result.type is not TaskType.DIRECT
    return ExportedAttempt(
        task=f"{result.scenario}/{result.task}",
        content_hash=result.content_hash,
        prompt=input_text(result) or "",
        expected=expected_output(result) or "",
        metadata={"scenario": result.scenario, "type": result.type.value},
        model=result.model or None,
        turns=len(result.llm_calls),
        answer=result.response or "",
        usage=known_usage(result.input_tokens, result.output_tokens) if has_model else None,
        cost_usd=result.cost_usd,
        calls=[
            ExportedCall(
                name=f"{call.server}/{call.tool}",
                arguments=call.arguments,
                output=call.text,
                ok=not call.is_error,
            )
            for call in result.tool_calls
        ],
        scores={**task_scores(result), "DURATION_MS": result.duration_ms},
        failures=result.failure_reason(),
    )
