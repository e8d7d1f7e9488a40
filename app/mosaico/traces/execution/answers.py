"""Maps the output of an agent in one attempt to a trace; pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from mosaico.core.errors import Invalid
from mosaico.core.strict_json import parse_json
from mosaico.core.text import replace_unstorable, replace_unstorable_in_json
from mosaico.harness.transcript import Transcript, TranscriptMessage, TranscriptStep
from mosaico.traces.execution.items import ItemAttempt
from mosaico.traces.files.ndjson import TRACE_KEYS, parse_trace
from mosaico.traces.types import Trace, TraceOutcome
from mosaico.traces.value_text import read_text

# Keys of the upload format that an agent may report; the others identify the attempt and its item.
REPORTED_KEYS: Final = frozenset(TRACE_KEYS.values()) - {
    "traceId", "itemId", "trial", "input", "expectedOutput", "expectedAny", "expectedAll",
}  # fmt: skip


class AnswerFormat(StrEnum):
    """The output format of an agent: its answer as text, or a JSON object with the keys of a trace."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAnswer:
    """The end of one attempt.

    `fields` are keys of the upload format, `steps` the steps of the transcript between the question
    and the answer. With an `error` the agent, or for INFRA_ERROR something else, failed.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[TranscriptStep, ...] = ()
    error: str | None = None
    outcome: TraceOutcome = TraceOutcome.SCORED


def parse_answer(text: str) -> dict[str, Any]:
    """The fields of an answer in JSON. Raises: `Invalid` for another text and for an unknown key."""
    document = parse_json(text)
    if not isinstance(document, dict):
        raise Invalid(f"the answer is not a JSON object: {text!r:.80}")
    return checked_fields(document)


def checked_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that an agent reported; an output that is not a text becomes JSON text.

    Raises: `Invalid` for an unknown key.
    """
    unknown_keys = sorted(map(str, fields.keys() - REPORTED_KEYS))
    if unknown_keys:
        raise Invalid(
            f"the answer has the unknown key {unknown_keys[0]!r:.80}; keys:"
            f" {', '.join(sorted(REPORTED_KEYS))}"
        )
    answer = read_text(fields.get("output"))
    error = fields.get("error") or answer.error
    return {**fields, "output": answer.text, **({"error": error} if error else {})}


def trace_of_answer(attempt: ItemAttempt, answer: AgentAnswer, latency_ms: float | None) -> Trace:
    """The trace of an attempt; an answer with invalid fields is a failure of the agent.

    `latency_ms` is the measured time, None for an attempt that was not made.
    """
    try:
        reported = _parse_fields(answer.fields)
    except Invalid as error:
        failure = AgentAnswer(
            steps=answer.steps, error=error.detail, outcome=TraceOutcome.AGENT_ERROR
        )
        return trace_of_answer(attempt, failure, latency_ms)
    outcome = reported.outcome if answer.outcome is TraceOutcome.SCORED else answer.outcome
    error_text = answer.error or reported.error
    if error_text and outcome is TraceOutcome.SCORED:
        outcome = TraceOutcome.AGENT_ERROR
    output = reported.output
    if output is None and outcome is TraceOutcome.SCORED:
        # The agent was asked and answered nothing, which is not a missing answer.
        output = ""
    item = attempt.item
    return replace(
        reported,
        trace_id=attempt.trace_id,
        item_id=item.id,
        trial=attempt.trial,
        outcome=outcome,
        input=item.input,
        expected_output=item.expected_output,
        expected_any=item.expected_any,
        expected_all=item.expected_all,
        output=output,
        error=error_text and replace_unstorable(error_text),
        tags=tuple(dict.fromkeys((*item.tags, *reported.tags))),
        attributes={**item.attributes, **reported.attributes},
        latency_ms=latency_ms if reported.latency_ms is None else reported.latency_ms,
        transcript=reported.transcript or _transcript(attempt, answer, output),
    )


def _parse_fields(fields: Mapping[str, Any]) -> Trace:
    return parse_trace({**replace_unstorable_in_json(fields), "traceId": "reported"})


def _transcript(attempt: ItemAttempt, answer: AgentAnswer, output: str | None) -> Transcript:
    question = TranscriptMessage(role="user", text=attempt.item.input)
    reply = () if output is None else (TranscriptMessage(role="assistant", text=output),)
    return Transcript(steps=(question, *answer.steps, *reply))
