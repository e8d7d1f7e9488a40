"""The words of an answer beside the expected answer: what agrees with it, and what stands in its place; pure."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from operator import attrgetter
from typing import Final, Literal, NamedTuple, TypeAlias

# The time grows with the square of the length.
MAX_WORDS: Final = 4_000
# Numbers as a whole, so that 34.90 and 34.09 do not agree in part.
_WORDS: Final = re.compile(r"\d+(?:[.,:]\d+)*|\w+")

PartKind: TypeAlias = Literal["plain", "match", "contradiction"]


class AnswerPart(NamedTuple):
    """A part of an answer: `match` is in the expected answer, `contradiction` stands where the expected answer has other
    words.
    """

    kind: PartKind
    text: str


class MarkedAnswer(NamedTuple):
    """An answer in parts. `is_complete` is false for a text that is too long to be marked."""

    parts: list[AnswerPart]
    is_complete: bool = True


def mark_answer(answer: str, expected: Sequence[str], *, is_right: bool | None) -> MarkedAnswer:
    """The answer beside the expected answer, of several beside the one that it shares most words with.

    Only a wrong answer contradicts: a right one may say the same in other words. The case of letters does not count.
    """
    words = list(_WORDS.finditer(answer))
    tokens = [word.group().casefold() for word in words]
    references = [[word.casefold() for word in _WORDS.findall(text)] for text in expected]
    if not tokens or not any(references):
        return MarkedAnswer([AnswerPart("plain", answer)] if answer else [])
    if max(len(tokens), *map(len, references)) > MAX_WORDS:
        return MarkedAnswer([AnswerPart("plain", answer)], is_complete=False)
    kinds = max(
        (_kinds_of(tokens, reference, is_right=is_right) for reference in references),
        key=lambda kinds: kinds.count("match"),
    )
    spans = [(kind, *word.span()) for kind, word in zip(kinds, words, strict=True)]
    return MarkedAnswer(list(_parts_of(answer, spans)))


def _kinds_of(
    tokens: Sequence[str], reference: Sequence[str], *, is_right: bool | None
) -> list[PartKind]:
    kinds: list[PartKind] = ["plain"] * len(tokens)
    matcher = SequenceMatcher(a=reference, b=tokens, autojunk=False)
    for operation, _, _, start, end in matcher.get_opcodes():
        if operation == "equal":
            kinds[start:end] = ["match"] * (end - start)
        elif operation == "replace" and is_right is False:
            kinds[start:end] = ["contradiction"] * (end - start)
    return kinds


def _parts_of(answer: str, spans: Sequence[tuple[PartKind, int, int]]) -> Iterator[AnswerPart]:
    """The whole text: what is between two words of one kind belongs to them, all else is plain."""
    pieces: list[AnswerPart] = []
    at, previous = 0, None
    for kind, start, end in spans:
        pieces.append(AnswerPart(kind if kind == previous else "plain", answer[at:start]))
        pieces.append(AnswerPart(kind, answer[start:end]))
        at, previous = end, kind
    pieces.append(AnswerPart("plain", answer[at:]))
    for kind, group in groupby((piece for piece in pieces if piece.text), attrgetter("kind")):
        yield AnswerPart(kind, "".join(piece.text for piece in group))
