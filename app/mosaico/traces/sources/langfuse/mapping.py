"""Maps what a Langfuse server returns to traces: rows of API v4, traces and observations of API v3."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from mosaico.core.strict_json import text_of_json
from mosaico.traces.error_rules import outcome_of_error
from mosaico.traces.production import item_id_of
from mosaico.traces.sources.langfuse.json_fields import (
    JSON,
    first_tags,
    get_object,
    get_text,
    get_time_ms,
    normalize_raw_text,
    parse_embedded_json,
    parse_fields,
    parse_metadata,
    parse_number,
    require_text,
)
from mosaico.traces.sources.langfuse.reader import TraceLink
from mosaico.traces.sources.langfuse.scores import select_labels, select_scores
from mosaico.traces.sources.langfuse.usage import (
    CALL_TYPES,
    TASK_SPAN_NAME,
    AgentUsage,
    ObservedSpan,
    TaskSpan,
    parse_span,
    select_descendants,
    sum_usage,
)
from mosaico.traces.types import MAX_TRIAL, Trace, TraceOutcome

ERROR_PREFIX: Final = "Error: "
MALFORMED_PREFIX: Final = "malformed-"
TAG_EXPECTED_OUTPUT_GONE: Final = "expected-output-gone"


class RunItem(NamedTuple):
    """A link from an item of the dataset to the trace, or span, that answered it."""

    item_id: str
    trace_id: str
    span_id: str | None
    is_malformed: bool = False


class TraceBundle(NamedTuple):
    """Some traces by ID, with their observations and scores."""

    traces: dict[str, JSON]
    observations: dict[str, list[JSON]]
    scores: dict[str, list[Mapping[str, Any]]]

    def merge(self, other: "TraceBundle") -> "TraceBundle":
        return TraceBundle(
            self.traces | other.traces,
            self.observations | other.observations,
            self.scores | other.scores,
        )


def is_task_row(row: Mapping[str, Any]) -> bool:
    """Return whether a row of `/experiment-items` has the IDs that a trace needs, and readable scores."""
    has_ids = get_text(row, "id") is not None and get_text(row, "traceId") is not None
    return has_ids and has_readable_scores(row)


def has_readable_scores(row: Mapping[str, Any]) -> bool:
    """Return whether the scores of a row or a trace are a list, or missing."""
    return isinstance(row.get("scores"), list | None)


def map_malformed_row(row: Mapping[str, Any]) -> Trace:
    """An infrastructure error in place of a malformed row: one bad row must not end the run."""
    trace_id = f"{MALFORMED_PREFIX}{digest_row(row)}"
    return malformed_trace(trace_id, get_text(row, "experimentItemId") or trace_id)


def digest_row(row: Mapping[str, Any]) -> str:
    """An ID by the content of a row, so that one that is read twice is stored once."""
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:16]


def malformed_trace(trace_id: str, item_id: str) -> Trace:
    """An infrastructure error in place of a trace that Langfuse returned malformed."""
    return Trace(
        trace_id=trace_id,
        item_id=item_id,
        outcome=TraceOutcome.INFRA_ERROR,
        error="Langfuse returned this row without the ID of the row or of its trace, or with"
        " scores that are not a list",
    )


def parse_task(row: Mapping[str, Any]) -> TaskSpan:
    """The task span that a row of `/experiment-items` represents: the agent's work on one item."""
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

    A task that raised an exception has an error, which decides the outcome, and no answer.
    """
    output = normalize_raw_text(row.get("output"))
    failed = row.get("level") == "ERROR"
    error = error_text(output) if failed else None
    metadata = get_object(row, "metadata")
    scores = [*(row.get("scores") or ()), *late_scores]
    trace = Trace(
        trace_id=task.trace_id,
        item_id=get_text(row, "experimentItemId") or task.trace_id,
        trial=parse_trial(metadata),
        outcome=_outcome(error),
        input=normalize_raw_text(row.get("input")),
        expected_output=normalize_raw_text(row.get("expectedOutput")),
        output=None if failed else _answer(output, task),
        error=error,
        # Writers put tags on the row, into its metadata, or on the calls.
        tags=first_tags(row.get("tags"), metadata.get("tags")) or usage.tags,
        # Later ones win: the fields of the trace, then the item, then what the writer added.
        attributes={**usage.versions}
        | parse_metadata(metadata)
        | parse_metadata(get_object(row, "experimentItemMetadata"))
        | usage.attributes
        | parse_fields(row)
        | select_labels(scores, task_id=task.id),
        url=link(task.trace_id, task.id),
    )
    return _measured(trace, usage, task_latency_ms(task), select_scores(scores, task_id=task.id))


def map_root(
    root: Mapping[str, Any],
    texts: tuple[str | None, str | None],
    usage: AgentUsage,
    scores: Sequence[Any],
    link: TraceLink,
    item_key: str | None,
) -> Trace:
    """Map the root of a production trace, with its input and output, to a trace.

    Its own fields are attributes before those of its spans: writers put them on one or on all.
    """
    task = parse_task(root)
    input_text, output = texts
    failed, metadata = root.get("level") == "ERROR", get_object(root, "metadata")
    error = error_text(get_text(root, "statusMessage") or output) if failed else None
    name = get_text(root, "traceName") or get_text(root, "name")
    is_recorded = input_text is not None or output is not None
    trace = Trace(
        trace_id=task.trace_id,
        item_id=task.trace_id,
        outcome=_outcome(error),
        input=input_text,
        # Without any text the writer records none, which is not an empty answer.
        output=None if failed or not is_recorded else _answer(output, task),
        error=error,
        tags=first_tags(root.get("tags"), metadata.get("tags")) or usage.tags,
        attributes={**usage.versions}
        | parse_metadata(metadata)
        | ({"name": name} if name else {})
        | usage.attributes
        | parse_fields(root)
        | select_labels(scores, task_id=task.id),
        url=link(task.trace_id, None),
    )
    trace = _measured(trace, usage, task_latency_ms(task), select_scores(scores, task_id=task.id))
    return replace(trace, item_id=item_id_of(item_key, trace))


def map_trace(
    item: RunItem, bundle: TraceBundle, dataset_item: JSON | None, link: TraceLink
) -> Trace:
    """Map a run item to a trace, with the texts of the task span, or else of the whole trace."""
    trace, rows = bundle.traces[item.trace_id], bundle.observations.get(item.trace_id, [])
    if not has_readable_scores(trace):
        return malformed_trace(item.trace_id, item.item_id)
    spans = [span for row in rows if (span := parse_span(row)) is not None]
    task = _find_task(item, spans)
    task_row = next((row for row in rows if task is not None and row.get("id") == task.id), {})
    output, failed = _task_text(task_row, trace, "output"), task_row.get("level") == "ERROR"
    error = error_text(get_text(task_row, "statusMessage") or output) if failed else None
    usage = sum_usage(_select_agent_calls(task, spans))
    tags = first_tags(trace.get("tags"))
    scores = [*bundle.scores.get(item.trace_id, ()), *(trace.get("scores") or ())]
    task_id = task.id if task else ""
    mapped = Trace(
        trace_id=item.trace_id,
        item_id=item.item_id,
        trial=parse_trial(get_object(trace, "metadata")),
        outcome=_outcome(error),
        input=_task_text(task_row, trace, "input"),
        expected_output=text_of_json((dataset_item or {}).get("expectedOutput")),
        output=None if failed else _answer(output, task),
        error=error,
        tags=tags if dataset_item is not None else (*tags, TAG_EXPECTED_OUTPUT_GONE),
        attributes={**usage.versions}
        | parse_metadata(get_object(trace, "metadata"))
        | parse_metadata(get_object(dataset_item or {}, "metadata"))
        | parse_fields(trace)
        | select_labels(scores, task_id=task_id),
        url=link(item.trace_id, item.span_id),
    )
    return _measured(
        mapped, usage, _trace_latency_ms(task, trace), select_scores(scores, task_id=task_id)
    )


def _measured(
    trace: Trace, usage: AgentUsage, latency_ms: float | None, scores: Mapping[str, float]
) -> Trace:
    """A trace with the usage and latency of its agent, and with its scores."""
    return replace(
        trace,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
        latency_ms=latency_ms,
        tool_calls=usage.tool_calls,
        turns=usage.turns,
        scores=scores,
    )


def select_texts(
    calls: Iterable[tuple[str | None, str | None]],
) -> tuple[str | None, str | None]:
    """The first input and the last output of calls, given both texts of each in order of time."""
    first_input = last_output = None
    for input_text, output in calls:
        first_input = input_text if first_input is None else first_input
        last_output = last_output if output is None else output
    return first_input, last_output


def _outcome(error: str | None) -> TraceOutcome:
    """The outcome of a task; the error decides, because an outage of a provider is not a failure of the agent."""
    return TraceOutcome.SCORED if error is None else outcome_of_error(error)


def _answer(output: str | None, task: TaskSpan | None) -> str | None:
    """The output of a task that did not fail: "" when the task ended without one, None when it has not
    ended.
    """
    has_ended = task is not None and task.end is not None
    return "" if output is None and has_ended else output


def _find_task(item: RunItem, spans: Sequence[ObservedSpan]) -> TaskSpan | None:
    """The task span: by the name that SDKs give it, else the linked span, else the root."""
    named = next((span for span in spans if span.name == TASK_SPAN_NAME), None)
    linked = next((span for span in spans if span.id == item.span_id), None)
    root = next((span for span in spans if span.parent_id is None), None)
    span = named or linked or root
    if span is None:
        return None
    return TaskSpan(id=span.id, trace_id=item.trace_id, start=span.start, end=span.end)


def _select_agent_calls(task: TaskSpan | None, spans: Sequence[ObservedSpan]) -> list[ObservedSpan]:
    if task is None:
        return []
    # The task itself can be a call: some writers link a generation directly.
    agent_spans = [span for span in spans if span.id == task.id] + select_descendants(task, spans)
    return [span for span in agent_spans if span.type in CALL_TYPES]


def _task_text(task_row: JSON, trace: JSON, name: str) -> str | None:
    text = text_of_json(task_row.get(name))
    return text if text is not None else text_of_json(trace.get(name))


def _trace_latency_ms(task: TaskSpan | None, trace: JSON) -> float | None:
    """Milliseconds of the task; of the whole trace when there is no finished task."""
    if task is not None and task.end is not None:
        return task_latency_ms(task)
    seconds = parse_number(trace.get("latency"))
    return seconds * 1000 if seconds is not None and seconds >= 0 else None  # -1 means unknown


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
