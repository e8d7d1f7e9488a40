"""A run of ot-bench as a dataset run in Langfuse."""

from datetime import datetime

from app.harness.langfuse_export import (
    Exported,
    ExportedAttempt,
    ExportedCall,
    ExportedRun,
    LangfuseAccess,
    write_run,
)
from app.harness.mcp.config import TaskType
from app.harness.mcp.reports.figures import reason
from app.harness.mcp.scores import asked_of, expected_of, task_scores
from app.harness.mcp.types import McpReport, TaskResult
from app.harness.results import AttemptOutcome
from app.llm.conversation import Usage


def export_run(
    report: McpReport, access: LangfuseAccess, *, dataset: str, now: datetime
) -> Exported:
    """Write the attempts that were judged; `now` is part of the name of the run.

    Raises: ExportFailed.
    """
    models = sorted({each.model for each in report.results if each.model})
    run = ExportedRun(
        program="ot-bench",
        run_name=f"bench-{now:%Y-%m-%d-%H%M%S}",
        title=f"{len(report.results)} attempts of {', '.join(models) or 'no model'}",
        metadata={"models": ", ".join(models)},
        attempts=[
            _attempt(each) for each in report.results if each.outcome is AttemptOutcome.SCORED
        ],
    )
    return write_run(run, access, dataset=dataset)


def _attempt(result: TaskResult) -> ExportedAttempt:
    calls = [
        ExportedCall(
            name=f"{call.server}/{call.tool}",
            given=call.arguments,
            answer=call.text,
            ok=not call.is_error,
        )
        for call in result.tool_calls
    ]
    return ExportedAttempt(
        task=f"{result.scenario}/{result.task}",
        content_hash=result.content_hash,
        prompt=asked_of(result) or "",
        expected=expected_of(result) or "",
        metadata={"scenario": result.scenario, "type": result.type.value},
        model=result.model or None,
        turns=len(result.llm_calls),
        answer=result.response or "",
        usage=_usage(result),
        cost_usd=result.cost_usd,
        calls=calls,
        scores={**task_scores(result), "DURATION_MS": result.duration_ms},
        unmet=reason(result),
    )


def _usage(result: TaskResult) -> Usage | None:
    read, written = result.input_tokens, result.output_tokens
    if result.type is TaskType.DIRECT or read is None or written is None:
        return None
    return Usage(input_tokens=read, output_tokens=written)
