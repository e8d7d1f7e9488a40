"""The difference of two texts, word by word, to show them side by side; pure."""

import re
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

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
