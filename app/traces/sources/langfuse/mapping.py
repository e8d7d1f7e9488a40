"""From rows of Langfuse to traces."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from app.traces.sources.langfuse.payload import (
    number_of,
    object_of,
    required_text,
    tags_of,
    text_of,
    text_of_raw,
    time_of,
    unquoted,
)
from app.traces.sources.langfuse.reader import Link
from app.traces.sources.langfuse.scores import scores_of
from app.traces.sources.langfuse.usage import Spending, Task
from app.traces.types import Outcome, Trace

MAX_TRIAL: Final = 2**15 - 1
ERROR_PREFIX: Final = "Error: "


def task_of(row: Mapping[str, Any]) -> Task:
    """The span that a row of an experiment is: the agent's own work on one item."""
    return Task(
        id=required_text(row, "id", "a row of an experiment"),
        trace_id=required_text(row, "traceId", "a row of an experiment"),
        start=time_of(row, "startTime") or 0,
        end=time_of(row, "endTime"),
    )


def trace_of_row(
    row: Mapping[str, Any], task: Task, spending: Spending, late_scores: Iterable[Any], link: Link
) -> Trace:
    """A row of `/experiment-items` as a trace; a task that raised is a failure, not an answer."""
    output = text_of_raw(row.get("output"))
    failed = row.get("level") == "ERROR"
    metadata = object_of(row, "metadata")
    return Trace(
        trace_id=task.trace_id,
        item_id=text_of(row, "experimentItemId") or task.trace_id,
        trial=trial_of(metadata),
        outcome=Outcome.AGENT_ERROR if failed else Outcome.SCORED,
        input=text_of_raw(row.get("input")),
        expected_output=text_of_raw(row.get("expectedOutput")),
        output=None if failed else output,
        error=error_text(output) if failed else None,
        tags=tags_of(row.get("tags"), metadata.get("tags")) or spending.tags,
        url=link(task.trace_id, task.id),
        input_tokens=spending.input_tokens,
        output_tokens=spending.output_tokens,
        cost_usd=spending.cost_usd,
        latency_ms=latency_ms(task),
        tool_calls=spending.tool_calls,
        turns=spending.turns,
        scores=scores_of([*(row.get("scores") or ()), *late_scores], task_id=task.id),
    )


def trial_of(metadata: Mapping[str, Any]) -> int:
    """Which repetition of its item a trace is, where its metadata says so under `trial`."""
    value = unquoted(metadata.get("trial"))
    number = number_of(unquoted(value))  # a number in a text in a text is what the API makes of it
    return int(number) if number is not None and 0 <= number <= MAX_TRIAL else 0


def error_text(output: str | None) -> str:
    """What a task said when it raised."""
    said = (output or "").removeprefix(ERROR_PREFIX)
    return said or "the task failed without a message"


def latency_ms(task: Task) -> float | None:
    return None if task.end is None else float(max(task.end - task.start, 0))
