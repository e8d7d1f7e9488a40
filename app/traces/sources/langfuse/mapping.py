"""Maps rows of Langfuse experiments to traces."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from app.traces.sources.langfuse.json_fields import (
    first_tags,
    get_object,
    get_text,
    get_time_ms,
    normalize_raw_text,
    parse_embedded_json,
    parse_number,
    require_text,
)
from app.traces.sources.langfuse.reader import TraceLink
from app.traces.sources.langfuse.scores import select_scores
from app.traces.sources.langfuse.usage import AgentUsage, TaskSpan
from app.traces.types import Trace, TraceOutcome

MAX_TRIAL: Final = 2**15 - 1
ERROR_PREFIX: Final = "Error: "


def parse_task(row: Mapping[str, Any]) -> TaskSpan:
    """The task span that a row of `/experiment-items` stands for: the agent's work on one item."""
    return TaskSpan(
        id=require_text(row, "id", "a row of an experiment"),
        trace_id=require_text(row, "traceId", "a row of an experiment"),
        start=get_time_ms(row, "startTime") or 0,
        end=get_time_ms(row, "endTime"),
    )


def map_row(
    row: Mapping[str, Any],
    task: TaskSpan,
    usage: AgentUsage,
    late_scores: Iterable[Any],
    link: TraceLink,
) -> Trace:
    """Map a row of `/experiment-items` to a trace.

    A task that raised an exception is an agent error; its output is the error and not an answer.
    """
    output = normalize_raw_text(row.get("output"))
    failed = row.get("level") == "ERROR"
    metadata = get_object(row, "metadata")
    return Trace(
        trace_id=task.trace_id,
        item_id=get_text(row, "experimentItemId") or task.trace_id,
        trial=parse_trial(metadata),
        outcome=TraceOutcome.AGENT_ERROR if failed else TraceOutcome.SCORED,
        input=normalize_raw_text(row.get("input")),
        expected_output=normalize_raw_text(row.get("expectedOutput")),
        output=None if failed else output,
        error=error_text(output) if failed else None,
        # Writers put tags on the row, into its metadata, or on the calls.
        tags=first_tags(row.get("tags"), metadata.get("tags")) or usage.tags,
        url=link(task.trace_id, task.id),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
        latency_ms=task_latency_ms(task),
        tool_calls=usage.tool_calls,
        turns=usage.turns,
        scores=select_scores([*(row.get("scores") or ()), *late_scores], task_id=task.id),
    )


def parse_trial(metadata: Mapping[str, Any]) -> int:
    """The trial number under `trial` in the metadata; 0 when it is missing or out of range."""
    # Twice: API v4 returns metadata values as JSON in a string, and SDKs write a JSON string.
    number = parse_number(parse_embedded_json(parse_embedded_json(metadata.get("trial"))))
    return int(number) if number is not None and 0 <= number <= MAX_TRIAL else 0


def error_text(output: str | None) -> str:
    """The message of a failed task, without the prefix that SDKs add."""
    message = (output or "").removeprefix(ERROR_PREFIX)
    return message or "the task failed without a message"


def task_latency_ms(task: TaskSpan) -> float | None:
    """The duration of a task in milliseconds; None while it has no end."""
    # Not negative: the clock of a writer may be set back during a task.
    return None if task.end is None else float(max(task.end - task.start, 0))
