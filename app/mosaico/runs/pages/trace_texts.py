"""Texts of traces as a page shows them: the steps of a transcript, and the difference of two texts, word by word."""

import json
import re
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from mosaico.core.text import cut_middle, format_number
from mosaico.harness.transcript import Transcript, TranscriptMessage, TranscriptStep

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


# The time grows with the square of the length.
MAX_WORDS = 4_000

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")


class DiffPart(NamedTuple):
    """A part of a text: in both texts, or in this one only."""

    kind: Literal["same", "changed"]
    text: str


class TextDiff(NamedTuple):
    """Both texts in parts. `is_complete` is false for texts that are too long to compare."""

    left: list[DiffPart]
    right: list[DiffPart]
    is_complete: bool


def compare_texts(left: str, right: str) -> TextDiff:
    """The parts of two texts, in order; equal texts have one part each."""
    left_words, right_words = _WORDS.findall(left), _WORDS.findall(right)
    if max(len(left_words), len(right_words)) > MAX_WORDS:
        return TextDiff([DiffPart("same", left)], [DiffPart("same", right)], is_complete=False)
    matcher = SequenceMatcher(a=left_words, b=right_words, autojunk=False)
    left_parts, right_parts = [], []
    for operation, *spans in matcher.get_opcodes():
        kind: Literal["same", "changed"] = "same" if operation == "equal" else "changed"
        left_start, left_end, right_start, right_end = spans
        left_parts.append(DiffPart(kind, "".join(left_words[left_start:left_end])))
        right_parts.append(DiffPart(kind, "".join(right_words[right_start:right_end])))
    return TextDiff(
        [part for part in left_parts if part.text],
        [part for part in right_parts if part.text],
        is_complete=True,
    )
