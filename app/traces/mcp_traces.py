"""What came of a task of ot-bench, as a trace like any other."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from app.harness.mcp.config import TaskType
from app.harness.mcp.reports.figures import reason
from app.harness.mcp.scores import asked_of, expected_of, task_scores
from app.harness.mcp.types import McpReport, TaskResult
from app.harness.results import AttemptOutcome
from app.traces.types import ToolCall, Trace, TraceOutcome

LONGEST_ID: Final = 200

_OUTCOMES: Final = {
    AttemptOutcome.SCORED: TraceOutcome.SCORED,
    AttemptOutcome.AGENT_ERROR: TraceOutcome.AGENT_ERROR,
    AttemptOutcome.TIMEOUT: TraceOutcome.TIMEOUT,
    AttemptOutcome.INFRA_ERROR: TraceOutcome.INFRA_ERROR,
    AttemptOutcome.JUDGE_ERROR: TraceOutcome.JUDGE_ERROR,
}


class _Item(NamedTuple):
    """A task as one model does it."""

    file: str
    scenario: str
    task: str
    model: str


def traces_of(report: McpReport) -> Iterator[Trace]:
    """The attempts of a run; those that were skipped were none.

    An item is called `scenario/task`; where that is not one item, its model and file are told, too.
    """
    items = {_item(each) for each in report.results}
    tasks = Counter((each.scenario, each.task) for each in items)
    for result in report.results:
        if result.outcome is not AttemptOutcome.SKIPPED:
            alone = tasks[result.scenario, result.task] == 1
            yield trace_of(result, () if alone else (result.model, result.file))


def trace_of(result: TaskResult, told: Iterable[str] = ()) -> Trace:
    """One attempt at one task; `told` is added to the name of its item.

    The hash of what was asked is a tag: only attempts that share it can be compared.
    """
    item_id = _short(" · ".join([f"{result.scenario}/{result.task}", *filter(None, told)]))
    asked = result.type is TaskType.HARNESS
    return Trace(
        trace_id=f"{item_id}#{result.trial}",
        item_id=item_id,
        trial=result.trial,
        outcome=_OUTCOMES.get(result.outcome, TraceOutcome.INFRA_ERROR),
        input=asked_of(result),
        expected_output=expected_of(result),
        output=result.response,
        error=reason(result) or None,
        tags=(*result.tags, f"task:{result.content_hash}"),
        input_tokens=result.input_tokens if asked else None,
        output_tokens=result.output_tokens if asked else None,
        cost_usd=result.cost_usd,
        latency_ms=result.duration_ms,
        tool_calls=_calls(result),
        turns=len(result.llm_calls) if asked else None,
        scores=task_scores(result),
    )


def stem_of(report: McpReport) -> str:
    """`bench-gpt-5-mini-2026-11-22-093000`: what a run is called; several models are only counted."""
    models = sorted({each.model for each in report.results if each.model})
    made_by = f"{len(models)}-models" if len(models) > 1 else (models or ["direct"])[0]
    stamp = re.sub(r"[^0-9-]", "", report.timestamp.replace("T", "-").replace(":", ""))
    return f"bench-{re.sub(r'[^A-Za-z0-9_.-]', '-', made_by)}-{stamp}"


def _item(result: TaskResult) -> _Item:
    return _Item(result.file, result.scenario, result.task, result.model)


def _short(name: str) -> str:
    """The name, cut where it is too long, and still its own."""
    if len(name) <= LONGEST_ID:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{name[: LONGEST_ID - 14]}…-{digest}"


def _calls(result: TaskResult) -> tuple[ToolCall, ...]:
    several = len(result.servers) > 1
    return tuple(
        ToolCall(
            name=f"{call.server}__{call.tool}" if several else call.tool,
            arguments=call.arguments,
            ok=not call.is_error,
            latency_ms=call.duration_ms,
        )
        for call in result.tool_calls
    )
