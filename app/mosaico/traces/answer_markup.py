"""What models add to their answers: thoughts, and a fence of code around the whole; pure."""

import re
from typing import Final


def strip_thinking(text: str) -> str:
    """The text after the thoughts of a reasoning model: `<think>…</think>` and its variants.

    A text that only ends its thoughts began them in the prompt; one that does not end them has no answer.
    """
    stripped = _THOUGHTS.sub("", text)
    ends = list(_THOUGHT_END.finditer(stripped))
    if ends:
        stripped = stripped[ends[-1].end() :]
    begin = _THOUGHT_BEGIN.match(stripped.lstrip())
    if begin is not None:
        return ""
    return text if stripped == text else stripped.strip()


def has_thinking(text: str) -> bool:
    """Return whether `strip_thinking` finds thoughts."""
    return _THOUGHT_END.search(text) is not None or _THOUGHT_BEGIN.match(text.lstrip()) is not None


def strip_fences(text: str) -> str:
    """The content of the one code block that a text consists of; any other text unchanged."""
    match = _FENCE.fullmatch(text.strip())
    return text if match is None or "```" in match[1] else match[1].strip("\n")


_TAG: Final = r"(?:think|thinking|thought|thoughts|reasoning|reflection)"
_THOUGHTS: Final = re.compile(rf"<({_TAG})\b[^<>]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_THOUGHT_END: Final = re.compile(rf"</{_TAG}\s*>", re.IGNORECASE)
_THOUGHT_BEGIN: Final = re.compile(rf"<{_TAG}\b[^<>]*>", re.IGNORECASE)
_FENCE: Final = re.compile(r"```[\w+-]*[ \t]*\r?\n(.*?)\r?\n?```", re.DOTALL)
