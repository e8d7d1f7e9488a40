"""A run of bash tasks as a dataset run in Langfuse."""

from dataclasses import replace
from datetime import datetime

from app.harness.bash.recordings import file_stem
from app.harness.bash.types import AgentTrace, EvalReport, EvalResult, TaskScore
from app.harness.langfuse_export import (
    Exported,
    ExportedAttempt,
    ExportedCall,
    ExportedRun,
    LangfuseAccess,
    last_words,
    write_run,
)
from app.llm.conversation import Usage


def export_run(
    report: EvalReport, access: LangfuseAccess, *, dataset: str, now: datetime
) -> Exported:
    """Write the attempts that have a score; the others say nothing of the model. A run that was
    resumed becomes another one: `now` is part of its name.

    Raises: ExportFailed.
    """
    report = replace(report, timestamp=f"{now:%Y-%m-%dT%H:%M:%SZ}")
    run = ExportedRun(
        program="bashkit-eval",
        run_name=file_stem(report),
        title=report.title(),
        metadata={"provider": report.provider, "model": report.model},
        attempts=[
            _attempt(report.model, each, each.trace, each.score)
            for each in report.results
            if each.trace and each.score
        ],
    )
    return write_run(run, access, dataset=dataset)


def _attempt(
    model: str, result: EvalResult, trace: AgentTrace, score: TaskScore
) -> ExportedAttempt:
    task = result.task
    return ExportedAttempt(
        task=task.id,
        content_hash=task.content_hash(),
        prompt=task.prompt,
        expected="\n".join(each.check for each in task.expectations),
        metadata={"category": task.category},
        model=model,
        turns=trace.turns,
        answer=last_words(trace.messages),
        usage=_usage(trace),
        cost_usd=trace.cost_usd,
        calls=[
            ExportedCall(
                name="bash",
                given={"commands": call.commands},
                answer={"stdout": call.stdout, "stderr": call.stderr, "exitCode": call.exit_code},
                ok=call.exit_code == 0,
            )
            for call in trace.tool_calls
        ],
        scores={
            "TASK_SCORE": score.rate(),
            "TASK_PASSED": float(score.all_passed()),
            "NATURAL_STOP": float(trace.natural_stop),
            "DURATION_MS": float(trace.duration_ms),
        },
        unmet="; ".join(
            f"{each.check}: {each.detail}" for each in score.results if not each.passed
        ),
    )


def _usage(trace: AgentTrace) -> Usage | None:
    read, written = trace.total_input_tokens, trace.total_output_tokens
    if read is None or written is None:
        return None
    return Usage(input_tokens=read, output_tokens=written)
