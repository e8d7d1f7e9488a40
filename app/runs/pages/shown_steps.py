"""The steps of a transcript as a page shows them."""

import json
from typing import NamedTuple

from app.core.text import cut_middle, format_number
from app.harness.transcript import Transcript, TranscriptMessage, TranscriptStep

# A page must stay readable and quick whatever an agent wrote.
MAX_SHOWN_CHARS = 20_000
MAX_STEPS = 200


class ShownStep(NamedTuple):
    """A step of a transcript: who, and the texts by their title."""

    who: str
    note: str
    texts: list[tuple[str, str]]
    is_error: bool = False


def list_shown_steps(transcript: Transcript | None) -> list[ShownStep]:
    steps = transcript.steps if transcript else ()
    return [_shown_step(step) for step in steps[:MAX_STEPS]]


def _shown_step(step: TranscriptStep) -> ShownStep:
    if isinstance(step, TranscriptMessage):
        texts = [("thinking", step.thinking), ("", step.text)]
        return ShownStep(
            step.role, "", [(name, cut) for name, text in texts if (cut := cut_text(text))]
        )
    arguments = step.command or (
        json.dumps(step.arguments, ensure_ascii=False, indent=1) if step.arguments else None
    )
    texts = [
        ("", arguments),
        ("output", step.output),
        ("stdout", step.stdout),
        ("stderr", step.stderr),
    ]
    facts = [f"exit code {step.exit_code}" if step.exit_code else None,
             None if step.duration_ms is None else f"{format_number(step.duration_ms)} ms"]  # fmt: skip
    return ShownStep(
        f"tool {step.tool}",
        ", ".join(filter(None, facts)),
        [(name, cut) for name, text in texts if (cut := cut_text(text))],
        step.is_error,
    )


def count_omitted(transcript: Transcript | None) -> int:
    if transcript is None:
        return 0
    return transcript.omitted_steps + max(0, len(transcript.steps) - MAX_STEPS)


def cut_text(text: str | None) -> str | None:
    return None if text is None else cut_middle(text, MAX_SHOWN_CHARS)
