"""What models add to their answers: thoughts, and a fence of code around the whole; pure."""

import re
from typing import Final


def strip_thinking(text: str) -> str:
    """The text after the thoughts of a reasoning model: `<think>…</think>` and its variants.

    A text that only ends its thoughts began them in the prompt; one that does not end them has no answer. Takes time in
    proportion to the length of the text.
    """
    if not _has_words(text):
        return text
    parts: list[str] = []
    position, begin = 0, None
    for mark in _MARK.finditer(text):
        if not _is_end(mark[0]):
            if begin is None:
                begin = mark.start()
                parts.append(text[position:begin])
            continue
        if begin is None:
            # Whatever precedes an end without a beginning is a thought.
            parts.clear()
        position, begin = mark.end(), None
    if begin is not None:
        if not "".join(parts).strip():
            return ""
        position = begin
    stripped = "".join((*parts, text[position:]))
    return text if stripped == text else _SPECIAL_TOKENS.sub("", stripped).strip()


def has_thinking(text: str) -> bool:
    """Return whether `strip_thinking` finds thoughts."""
    if not _has_words(text):
        return False
    marks = _MARK.finditer(text)
    return any(_is_end(mark[0]) or not text[: mark.start()].strip() for mark in marks)


def strip_fences(text: str) -> str:
    """The content of the one code block that a text consists of; any other text unchanged."""
    match = _FENCE.fullmatch(text.strip())
    return text if match is None or "```" in match[1] else match[1].strip("\n")


def _has_words(text: str) -> bool:
    """Return whether a text may have marks of thoughts, which is cheaper to see than where they are."""
    lowered = text.lower()
    return any(word in lowered for word in _WORDS)


def _is_end(mark: str) -> bool:
    return mark[1:2] == "/" or _END.match(mark) is not None


_WORDS: Final = ("think", "thought", "reasoning", "reflection", "<|channel|>")
# How models begin and end their thoughts: DeepSeek and others, Magistral, Kimi, OpenThinker, Command A, gpt-oss.
_MARK: Final = re.compile(
    r"</?(?:\w{1,20}:)?(?:think|thinking|thought|thoughts|reasoning|reflection)\b[^<>]*>|\[/?THINK\]|◁/?think▷"
    r"|<\|(?:(?:begin|end)_of_thought|(?:START|END)_THINKING|channel\|>(?:analysis|final)<\|message)\|>",
    re.IGNORECASE,
)
_END: Final = re.compile(r"<\|(?:end_|channel\|>final)", re.IGNORECASE)
_SPECIAL_TOKENS: Final = re.compile(r"\A(?:\s*<\|\w+\|>)+|(?:<\|\w+\|>\s*)+\Z")
_FENCE: Final = re.compile(r"```[\w+-]*[ \t]*\r?\n(.*?)\r?\n?```", re.DOTALL)
