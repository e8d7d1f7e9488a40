"""Converts the results of an ot-bench run to traces."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mosaico.harness.mcp.config import TaskType
from mosaico.harness.mcp.stored_attempt import (
    attempt_transcript,
    expected_output,
    input_text,
    task_scores,
)
from mosaico.harness.mcp.types import McpReport, TaskResult
from mosaico.harness.results import AttemptOutcome
from mosaico.traces.types import OUTCOMES, ToolCall, Trace, TraceOutcome

LONGEST_ID: Final = 200  # characters


class _TaskOfModel(NamedTuple):
    """A task as one model does it: one item of a test set."""

    file: str
    scenario: str
    task: str
    model: str


def traces_of(report: McpReport) -> Iterator[Trace]:
    """The traces of all attempts except the skipped ones.

    An item is named `scenario/task`; model and file are added where this name is ambiguous.
    """
    items = {_item(result) for result in report.results}
    name_counts = Counter((item.scenario, item.task) for item in items)
    for result in report.results:
        if result.outcome is not AttemptOutcome.SKIPPED:
            is_unique = name_counts[result.scenario, result.task] == 1
            yield trace_of(result, () if is_unique else (result.model, result.file))


def trace_of(result: TaskResult, qualifiers: Iterable[str] = ()) -> Trace:
    """The trace of one attempt; `qualifiers` extend the name of its item.

    The content hash of the task is a tag: only attempts that share it are comparable.
    """
    name = " · ".join([f"{result.scenario}/{result.task}", *filter(None, qualifiers)])
    item_id = _shorten(name)
    has_model = result.type is TaskType.HARNESS
    return Trace(
        trace_id=f"{item_id}#{result.trial}",
        item_id=item_id,
        trial=result.trial,
        outcome=OUTCOMES.get(result.outcome, TraceOutcome.INFRA_ERROR),
        input=input_text(result),
        expected_output=expected_output(result),
        output=result.response,
        error=result.failure_reason() or None,
        tags=(*result.tags, f"scenario:{result.scenario}", f"task:{result.content_hash}"),
        input_tokens=result.input_tokens if has_model else None,
        output_tokens=result.output_tokens if has_model else None,
        cost_usd=result.cost_usd,
        latency_ms=result.duration_ms,
        tool_calls=_tool_calls(result),
        turns=len(result.llm_calls) if has_model else None,
        scores=task_scores(result),
        transcript=attempt_transcript(result),
    )


def stem_of(report: McpReport) -> str:
    """The name of a run: `bench-gpt-5-mini-2026-11-22-093000`; several models are only counted."""
    models = sorted({result.model for result in report.results if result.model})
    label = f"{len(models)}-models" if len(models) > 1 else (models or ["direct"])[0]
    stamp = re.sub(r"[^0-9-]", "", report.timestamp.replace("T", "-").replace(":", ""))
    return f"bench-{re.sub(r'[^A-Za-z0-9_.-]', '-', label)}-{stamp}"


def _item(result: TaskResult) -> _TaskOfModel:
    return _TaskOfModel(result.file, result.scenario, result.task, result.model)


def _shorten(name: str) -> str:
    """The name; a long one is cut and gets a hash, so that it stays unique."""
    if len(name) <= LONGEST_ID:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{name[: LONGEST_ID - 14]}…-{digest}"


def _tool_calls(result: TaskResult) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(
            name=result.tool_name(call),
            arguments=call.arguments,
            ok=not call.is_error,
            latency_ms=call.duration_ms,
        )
        for call in result.tool_calls
    )
