"""Texts of traces as a page shows them: the steps of a transcript."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from mosaico.core.text import cut_middle, format_number
from mosaico.harness.transcript import (
    Transcript,
    TranscriptMessage,
    TranscriptRequest,
    TranscriptStep,
    TranscriptToolCall,
)

# A page must stay readable and quick whatever an agent wrote.
MAX_SHOWN_CHARS = 20_000
MAX_STEPS = 200


class ShownStep(NamedTuple):
    """A step of a conversation: who, what it took, and the texts by their title. `kind` is a role, or `tool`."""

    kind: str
    who: str
    note: str
    texts: list[tuple[str, str]]
    duration_ms: float | None = None
    is_error: bool = False


def list_shown_steps(steps: Sequence[TranscriptStep]) -> list[ShownStep]:
    """The first 200 steps."""
    return [_shown_step(step) for step in steps[:MAX_STEPS]]


def _shown_step(step: TranscriptStep) -> ShownStep:
    if isinstance(step, TranscriptMessage):
        texts = [("thinking", step.thinking), ("", step.text)]
        return ShownStep(
            step.role,
            step.role,
            _describe_request(step.request) if step.request else "",
            [(name, cut) for name, text in texts if (cut := cut_text(text))],
            step.request.latency_ms if step.request else None,
        )
    facts = [
        f"exit code {step.exit_code}" if step.exit_code else None,
        _time_text(step.duration_ms),
    ]
    return ShownStep(
        "tool",
        f"tool {step.tool}",
        ", ".join(filter(None, facts)),
        [*([("", arguments)] if (arguments := arguments_of(step)) else []), *tool_texts(step)],
        step.duration_ms,
        step.is_error,
    )


def arguments_of(call: TranscriptToolCall) -> str | None:
    """What a tool was called with, as a reader writes it."""
    if call.command:
        return cut_text(call.command)
    if not call.arguments:
        return None
    return cut_text(json.dumps(call.arguments, ensure_ascii=False, indent=1))


def tool_texts(step: TranscriptToolCall) -> list[tuple[str, str]]:
    """What a tool answered, by title."""
    texts = [("output", step.output), ("stdout", step.stdout), ("stderr", step.stderr)]
    return [(name, cut) for name, text in texts if (cut := cut_text(text))]


def _describe_request(request: TranscriptRequest) -> str:
    """The tokens and the time of a request to the model, as far as they are known."""
    tokens = [
        f"{count:,} {name} tokens"
        for name, count in (("input", request.input_tokens), ("output", request.output_tokens))
        if count is not None
    ]
    retries = f"{request.retries} retries" if request.retries else None
    return ", ".join(filter(None, [*tokens, _time_text(request.latency_ms), retries]))


def _time_text(milliseconds: float | None) -> str | None:
    return None if milliseconds is None else f"{format_number(milliseconds)} ms"


def count_omitted(transcript: Transcript | None) -> int:
    if transcript is None:
        return 0
    return transcript.omitted_steps + max(0, len(transcript.steps) - MAX_STEPS)


def cut_text(text: str | None) -> str | None:
    return None if text is None else cut_middle(text, MAX_SHOWN_CHARS)
