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
    return text if stripped == text else _SPECIAL_TOKENS.sub("", stripped).strip()


def has_thinking(text: str) -> bool:
    """Return whether `strip_thinking` finds thoughts."""
    if not any(sign in text for sign in _SIGNS):
        return False
    return _THOUGHT_END.search(text) is not None or _THOUGHT_BEGIN.match(text.lstrip()) is not None


def strip_fences(text: str) -> str:
    """The content of the one code block that a text consists of; any other text unchanged."""
    match = _FENCE.fullmatch(text.strip())
    return text if match is None or "```" in match[1] else match[1].strip("\n")


_TAG: Final = r"(?:\w+:)?(?:think|thinking|thought|thoughts|reasoning|reflection)"
# How models begin and end their thoughts: DeepSeek and others, Magistral, Kimi, OpenThinker, Command A, gpt-oss.
_NOTATIONS: Final = (
    (rf"<{_TAG}\b[^<>]*>", rf"</{_TAG}\s*>"),
    (r"\[THINK\]", r"\[/THINK\]"),
    ("◁think▷", "◁/think▷"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    (r"<\|channel\|>analysis<\|message\|>", r"<\|channel\|>final<\|message\|>"),
)
_FLAGS: Final = re.DOTALL | re.IGNORECASE
_THOUGHTS: Final = re.compile("|".join(f"{begin}.*?{end}" for begin, end in _NOTATIONS), _FLAGS)
_THOUGHT_END: Final = re.compile("|".join(end for _, end in _NOTATIONS), _FLAGS)
_THOUGHT_BEGIN: Final = re.compile("|".join(begin for begin, _ in _NOTATIONS), _FLAGS)
# A text without one of these signs has no thoughts, which is cheap to see.
_SIGNS: Final = ("<", "[", "◁")
_SPECIAL_TOKENS: Final = re.compile(r"\A(?:\s*<\|\w+\|>)+|(?:<\|\w+\|>\s*)+\Z")
_FENCE: Final = re.compile(r"```[\w+-]*[ \t]*\r?\n(.*?)\r?\n?```", re.DOTALL)
