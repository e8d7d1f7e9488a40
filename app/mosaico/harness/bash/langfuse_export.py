"""Writes a bash evaluation to Langfuse as a dataset run."""

from dataclasses import replace
from datetime import datetime

from mosaico.harness.bash.result_file import file_stem
from mosaico.harness.bash.types import AgentTrace, EvalReport, EvalResult, TaskScore
from mosaico.harness.langfuse_export import (
    ExportedAttempt,
    ExportedCall,
    ExportedRun,
    ExportSummary,
    LangfuseProject,
    write_run,
)
from mosaico.harness.results import last_answer
from mosaico.llm.conversation import known_usage


def export_run(
    report: EvalReport, project: LangfuseProject, *, dataset: str, now: datetime
) -> ExportSummary:
    """Write the attempts with a score; the others say nothing about the model.

    `now` is part of the run name, so that a resumed run becomes a new dataset run.
    Raises: ExportFailed.
    """
    report = replace(report, timestamp=f"{now:%Y-%m-%dT%H:%M:%SZ}")
    run = ExportedRun(
        program="bashkit-eval",
        run_name=file_stem(report),
        title=report.title(),
        metadata={"provider": report.provider, "model": report.model},
        attempts=[
            _attempt(report.model, result, result.trace, result.score)
            for result in report.results
            if result.trace and result.score
        ],
    )
    return write_run(run, project, dataset=dataset)


def _attempt(
    model: str, result: EvalResult, trace: AgentTrace, score: TaskScore
) -> ExportedAttempt:
    task = result.task
    return ExportedAttempt(
        task=task.id,
        content_hash=task.content_hash(),
        prompt=task.prompt,
        expected="\n".join(expectation.check for expectation in task.expectations),
        metadata={"category": task.category},
        model=model,
        turns=trace.turns,
        answer=last_answer(trace.messages) or "",
        usage=known_usage(trace.total_input_tokens, trace.total_output_tokens),
        cost_usd=trace.cost_usd,
        calls=[
            ExportedCall(
                name="bash",
                arguments={"commands": call.commands},
                output={"stdout": call.stdout, "stderr": call.stderr, "exitCode": call.exit_code},
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
        failures="; ".join(result.failures()),
    )
