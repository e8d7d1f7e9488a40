"""The Langfuse side of an executed agent: its experiment, and where its failing items go."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Final

from mosaico.core.console.terminal import print_status, warn_failed_plugin
from mosaico.harness.langfuse_export import (
    ExportedAttempt,
    ExportedCall,
    ExportedRun,
    LangfuseProject,
    write_attempts,
)
from mosaico.harness.langfuse_failures import FailingItem, FailureTargets, send_failing_items
from mosaico.llm.conversation import known_usage
from mosaico.metrics.engine import measure_all
from mosaico.metrics.registry import default_refs, load_metrics
from mosaico.traces.execution.items import FINISHED_OUTCOMES, LANGFUSE_PREFIX
from mosaico.traces.files.trace_file import is_file_name
from mosaico.traces.types import Trace

PROGRAM: Final = "mosaico"
TASK_PASSED: Final = "TASK_PASSED"
ACCURACY: Final = "ACCURACY"
AGENT_MODEL: Final = "agent"
# An item fails when its attempts pass in less than half of the cases.
PASS_SHARE: Final = 0.5


def export_execution(
    traces: Sequence[Trace],
    project: LangfuseProject,
    *,
    dataset_name: str,
    agent_name: str,
    now: datetime,
) -> Mapping[str, str]:
    """Write the finished attempts as an experiment; the Langfuse trace of each of them, by trace ID.

    The run name has the time of the export, so that a repetition is another experiment.
    Raises: `ExportFailed`.
    """
    is_langfuse = dataset_name.startswith(LANGFUSE_PREFIX)
    is_file = not is_langfuse and is_file_name(dataset_name)
    dataset = Path(dataset_name).stem if is_file else dataset_name.removeprefix(LANGFUSE_PREFIX)
    finished = [trace for trace in traces if trace.outcome in FINISHED_OUTCOMES]
    run = ExportedRun(
        program=PROGRAM,
        run_name=f"{PROGRAM}-{now:%Y-%m-%d-%H%M%S}",
        title=f"{len(finished)} attempts of {agent_name}",
        metadata={"agent": agent_name},
        attempts=[_exported(trace, is_langfuse=is_langfuse) for trace in finished],
    )
    trace_ids = {
        id(attempt): trace.trace_id for attempt, trace in zip(run.attempts, finished, strict=True)
    }
    written = write_attempts(run, project, dataset=dataset)
    print_status(
        f"{len(written)} attempts are in Langfuse: dataset {dataset!r}, run {run.run_name!r}"
    )
    return {trace_ids[id(entry.attempt)]: entry.trace_id for entry in written}


def find_failing_items(
    traces: Sequence[Trace], langfuse_ids: Mapping[str, str]
) -> list[FailingItem]:
    """The items whose attempts pass in less than half of the cases.

    A failed attempt does not pass. Another one passes by TASK_PASSED where the agent reports it,
    else by ACCURACY; without both it is not counted, like an attempt that could not be made.
    """
    load_metrics(warn_failed_plugin)
    refs = tuple(default_refs([TASK_PASSED, ACCURACY]))
    attempts: defaultdict[str, list[tuple[Trace, float]]] = defaultdict(list)
    finished = [trace for trace in traces if trace.outcome in FINISHED_OUTCOMES]
    for trace, row in zip(finished, measure_all(iter(finished), refs), strict=True):
        passed = _pass_value(trace, row.values)
        if passed is not None:
            attempts[trace.item_id].append((trace, passed))
    return [
        _failing_item(measured, langfuse_ids)
        for measured in attempts.values()
        if fmean(passed for _, passed in measured) < PASS_SHARE
    ]


def report_failing_items(
    traces: Sequence[Trace],
    project: LangfuseProject,
    targets: FailureTargets,
    langfuse_ids: Mapping[str, str],
) -> None:
    """Send the failing items to the targets, and say how many. Raises: `ExportFailed`."""
    items = find_failing_items(traces, langfuse_ids)
    send_failing_items(project, items, targets)
    names = [name for name in (targets.queue, targets.dataset) if name is not None]
    print_status(f"{len(items)} failing items are in {' and '.join(names)}")


def _pass_value(trace: Trace, values: Iterable[object]) -> float | None:
    if trace.outcome.is_agent_failure:
        return 0.0
    numbers = (value for value in values if isinstance(value, int | float))
    return next((float(number) for number in numbers), None)


def _failing_item(
    measured: Sequence[tuple[Trace, float]], langfuse_ids: Mapping[str, str]
) -> FailingItem:
    failing = [trace for trace, passed in measured if passed < PASS_SHARE]
    first = failing[0]
    return FailingItem(
        id=first.item_id,
        input=first.input or "",
        expected_output=first.expected_output,
        reason=first.error or f"answered: {first.output or 'nothing'}"[:500],
        trace_ids=[
            langfuse_ids[trace.trace_id] for trace in failing if trace.trace_id in langfuse_ids
        ],
    )


def _exported(trace: Trace, *, is_langfuse: bool) -> ExportedAttempt:
    return ExportedAttempt(
        task=trace.item_id,
        # Items of other datasets are found again by their content.
        content_hash=f"{trace.item_id}/{trace.input}/{trace.expected_output}",
        item_id=trace.item_id if is_langfuse else None,
        prompt=trace.input or "",
        expected=trace.expected_output or "",
        metadata={},
        # Langfuse keeps tokens and costs at calls of models only.
        model=None if trace.cost_usd is None and trace.input_tokens is None else AGENT_MODEL,
        turns=trace.turns or 0,
        answer=trace.output or "",
        usage=known_usage(trace.input_tokens, trace.output_tokens),
        cost_usd=trace.cost_usd,
        calls=[
            ExportedCall(
                name=call.name, arguments=call.arguments, output=None, ok=call.ok is not False
            )
            for call in trace.tool_calls or ()
        ],
        scores=trace.scores,
        failures=trace.error or "",
    )
