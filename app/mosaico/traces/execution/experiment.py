"""One run of an agent over a dataset, from its items to the result file."""

import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from mosaico.core.console.files import require_folder
from mosaico.harness.budget import Budget
from mosaico.harness.commands.progress import show_progress
from mosaico.harness.limits import BudgetLimits
from mosaico.harness.reports.view import AttemptStatus, AttemptView, format_seconds
from mosaico.harness.result_file import claim_result_file, result_of
from mosaico.harness.results import sum_of_known
from mosaico.traces.execution.items import ItemAttempt, plan_attempts
from mosaico.traces.execution.record import ExecutionRecord, ExecutionRecorder, resume_record
from mosaico.traces.execution.runner import ExecutionLimits, ItemAgent, run_agent
from mosaico.traces.types import DatasetItem, Trace, TraceOutcome

_STATUSES = {
    TraceOutcome.SCORED: AttemptStatus.NEUTRAL,
    TraceOutcome.AGENT_ERROR: AttemptStatus.FAILED,
    TraceOutcome.TIMEOUT: AttemptStatus.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPlan:
    """The plan of an execution: its command, its items and its result file.

    `agent_name` and `dataset_name` identify a run that is resumed. `save` is the folder of a new
    result file, `resume` the file of an earlier run. Without `shows_progress` nothing is printed
    while it runs.
    """

    agent: ItemAgent
    agent_name: str
    items: Sequence[DatasetItem]
    dataset_name: str
    trials: int = 1
    limits: ExecutionLimits = field(default_factory=ExecutionLimits)
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    save: Path = Path()
    resume: Path | None = None
    shows_progress: bool = True


def open_recorder(plan: ExecutionPlan, now: datetime) -> ExecutionRecorder:
    """The recorder of a new run, or of the run that is resumed.

    Raises: `UnwritableOutput`, and the errors of `resume_record`.
    """
    record = ExecutionRecord(dataset=plan.dataset_name, agent=plan.agent_name)
    attempts = plan_attempts(plan.items, plan.trials)
    if plan.resume is not None:
        path = result_of(plan.resume)
        return ExecutionRecorder(path, resume_record(plan.resume, record), attempts)
    require_folder(plan.save)
    path = claim_result_file(plan.save, _file_stem(plan.dataset_name, now), ".jsonl")
    return ExecutionRecorder(path, record, attempts)


def execute_plan(
    plan: ExecutionPlan, now: datetime, run: Callable[[Coroutine[Any, Any, None]], None]
) -> ExecutionRecorder:
    """Run a plan and write its result file, also when the run is interrupted or fails.

    `run` runs a coroutine to its end. Raises: its errors and those of `open_recorder`.
    """
    with closing(open_recorder(plan, now)) as recorder:
        try:
            run(execute(plan, recorder))
        finally:
            recorder.finish()
    return recorder


async def execute(plan: ExecutionPlan, recorder: ExecutionRecorder) -> None:
    """Make the missing attempts; each is stored and shown as soon as it ends."""
    missing = recorder.missing()
    budget = used_budget(plan.budget, recorder.traces)
    total = len(recorder.attempts)
    progress = (
        show_progress(total, done=total - len(missing))
        if plan.shows_progress
        else nullcontext(_show_nothing)
    )
    with progress as show:

        def keep(attempt: ItemAttempt, trace: Trace) -> None:
            recorder.add(trace)
            show(_attempt_view(attempt, trace))

        await run_agent(plan.agent, missing, plan.limits, budget, keep)


def used_budget(limits: BudgetLimits, traces: Sequence[Trace]) -> Budget:
    """The budget of a run, with what the traces have used."""
    return Budget(
        limits=limits,
        known_input_tokens=sum(trace.input_tokens or 0 for trace in traces),
        known_output_tokens=sum(trace.output_tokens or 0 for trace in traces),
        known_usd=sum(trace.cost_usd or 0.0 for trace in traces),
    )


def summarize_execution(recorder: ExecutionRecorder) -> Mapping[str, Any]:
    """The figures of a run; a sum with unknown parts is the sum of the known ones, None without any."""
    traces = recorder.traces
    outcomes = Counter(str(trace.outcome) for trace in traces)
    return {
        "file": str(recorder.path),
        "items": len({attempt.item.id for attempt in recorder.attempts}),
        "attempts": len(recorder.attempts),
        "made": len(traces),
        "missing": len(recorder.missing()),
        "outcomes": {str(name): outcomes[name] for name in TraceOutcome if outcomes[name]},
        "inputTokens": sum_of_known([trace.input_tokens for trace in traces]),
        "outputTokens": sum_of_known([trace.output_tokens for trace in traces]),
        "costUsd": sum_of_known([trace.cost_usd for trace in traces]),
        "withoutCost": sum(trace.cost_usd is None for trace in traces),
    }


def _show_nothing(attempt: AttemptView) -> None:
    """Progress of a run whose caller reports its outcome only."""


def _file_stem(dataset_name: str, now: datetime) -> str:
    name = dataset_name.removeprefix("langfuse:").rpartition("/")[2].partition(".")[0]
    return f"{re.sub(r'[^A-Za-z0-9_-]', '-', name)[:80] or 'run'}-{now:%Y-%m-%d-%H%M%S}"


def _attempt_view(attempt: ItemAttempt, trace: Trace) -> AttemptView:
    """The line of an attempt; no verdict, because metrics are computed later."""
    status = _STATUSES.get(trace.outcome, AttemptStatus.ERROR)
    latency_ms = trace.latency_ms or 0.0
    return AttemptView(
        task=attempt.item.id,
        title=attempt.label,
        label={AttemptStatus.NEUTRAL: "DONE", AttemptStatus.FAILED: "FAIL"}.get(status, "ERROR"),
        status=status,
        group="",
        case=attempt.label,
        duration_s=latency_ms / 1000,
        facts=f"{format_seconds(latency_ms)}, {json.dumps(trace.output or '', ensure_ascii=False)[:60]}",
        error=trace.error or "",
    )
