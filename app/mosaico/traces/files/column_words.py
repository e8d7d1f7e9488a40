"""Recognizes the columns of a table by the words of their names, in several languages; pure.

`llm_answer`, `Generated Answer`, `modelOutput` and `Modellantwort` are answers because of their words, not because
someone listed them. A word that names another kind of content, such as `tokens`, `id` or `relevancy`, outweighs them.
"""

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final

from mosaico.traces.files.column_vocabulary import (
    AGENTS,
    ANSWER,
    EXPECTED,
    EXPECTED_BESIDE_A_NOUN,
    EXPLANATIONS,
    FILLERS,
    HEADS,
    NOT_A_SCORE,
    OTHER,
    PLAIN_ANSWERS,
    PRODUCTS,
    QUESTION,
    SCORE,
    STEMS,
    WEAK_ANSWER,
    WEAK_EXPECTED,
    WEAK_QUESTION,
    plain_name,
)


class Certainty(IntEnum):
    """How certainly the name of a column says what it holds; ambiguous are only columns of equal certainty."""

    NONE = 0
    WEAK = 1
    STRONG = 2


_WORD: Final = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|[^\W\d_A-Za-z]+")
_NUMBER_SIGN: Final = re.compile(r"#\s*$")
_LAST_LATIN: Final = "\u024f"


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, without case and accents: `modelOutput`, `Model Output`, `model_output`. `Question #` is the
    number of a question.
    """
    return tuple(
        word.casefold() for word in _WORD.findall(plain_name(_NUMBER_SIGN.sub(" number", name)))
    )


@lru_cache(maxsize=4096)
def certainty_of(column: str, field: str) -> Certainty:
    """How certainly a column holds the `output`, `expected` or `input`."""
    head, tail = _split(column)
    if head is not None:
        return _certainty_of_member(head, tail, field)
    return _certainty(words_of(column), field)


def is_plain_answer(column: str) -> bool:
    """Return whether a name says `answer` and not whose: beside another output it is the expected one."""
    words = [word for word in words_of(column) if word not in FILLERS and not word.isdecimal()]
    return len(words) == 1 and words[0] in PLAIN_ANSWERS


def names_a_score(column: str) -> bool:
    """Return whether the name of a column of numbers says that they judge an answer."""
    words = words_of(column)
    return any(_has(word, SCORE) for word in words) and not names_no_score(column)


def names_a_judgment(column: str) -> bool:
    """Return whether a name says that a column judges an answer, and does not explain it."""
    return names_a_score(column) and EXPLANATIONS.isdisjoint(words_of(column))


def names_no_score(column: str) -> bool:
    """Return whether the name says that the numbers judge nothing: a position, a time, a count."""
    return any(_has(word, NOT_A_SCORE) for word in words_of(column))


def most_certain(columns: Iterable[str], field: str) -> list[str]:
    """The columns that hold a field with the highest certainty; several are ambiguous."""
    ranked = [(certainty_of(column, field), column) for column in columns]
    best = max((certainty for certainty, _ in ranked), default=Certainty.NONE)
    if best is Certainty.NONE:
        return []
    return [column for certainty, column in ranked if certainty is best]


def _split(column: str) -> tuple[str | None, str]:
    head, dot, tail = column.partition(".")
    kind = HEADS.get(re.sub(r"[\W_]+", "", head).casefold()) if dot and tail else None
    return kind, tail


def _certainty_of_member(head: str, tail: str, field: str) -> Certainty:
    words = words_of(tail.rpartition(".")[2])
    if any(word in OTHER for word in words_of(tail)):
        return Certainty.NONE
    if head == "expected":
        return Certainty.STRONG if field == "expected" else Certainty.NONE
    certainty = _certainty(words, field)
    is_named = any(_certainty(words, name) for name in ("output", "expected", "input"))
    if certainty and not (head == "input" and field == "output"):
        return certainty
    if certainty:  # an answer that was uploaded with its question
        return Certainty.WEAK
    is_of_head = (head, field) in {("output", "output"), ("input", "input")}
    return Certainty.WEAK if is_of_head and not is_named else Certainty.NONE


def _certainty(words: Sequence[str], field: str) -> Certainty:
    if not words or any(word in OTHER or _asks_whether(word) for word in words):
        return Certainty.NONE
    is_expected = _is_expected(words)
    match field:
        case "expected":
            if not is_expected:
                return Certainty.NONE
            is_weak = all(
                word in WEAK_EXPECTED or word in FILLERS or word == "notes" for word in words
            )
            return Certainty.WEAK if is_weak else Certainty.STRONG
        case "input":
            return Certainty.NONE if is_expected else _question_certainty(words)
        case _:
            return Certainty.NONE if is_expected else _answer_certainty(words)


def _is_expected(words: Sequence[str]) -> bool:
    if _stem(words) == "expected" or ("ground" in words and "truth" in words):
        return True
    marks = [word for word in words if _has(word, EXPECTED)]
    if not marks:
        return False
    others = [word for word in words if word not in marks]
    if all(mark in WEAK_EXPECTED for mark in marks) and any(word in AGENTS for word in others):
        return False  # predicted_label
    if all(mark in EXPECTED_BESIDE_A_NOUN for mark in marks):
        return any(_has(word, ANSWER) or word in PRODUCTS for word in others)
    known = ANSWER | WEAK_ANSWER | PRODUCTS | FILLERS | {"notes"}
    return all(_has(word, known) or word.isdecimal() for word in others)


def _answer_certainty(words: Sequence[str]) -> Certainty:
    known = ANSWER | WEAK_ANSWER | AGENTS | PRODUCTS | FILLERS
    if not all(_has(word, known) or _is_numbering(word) or _stem([word]) for word in words):
        # `generated_email` names what was made in any words, `claude_response` who answered.
        is_made = words[0] in {"generated", "predicted", "pred"} or words[-1] in ANSWER
        is_question = any(_has(word, QUESTION) for word in words)
        return Certainty.STRONG if is_made and not is_question else Certainty.NONE
    if "raw" in words:
        return Certainty.WEAK
    if any(_has(word, ANSWER) for word in words) or _stem(words) == "answer":
        return Certainty.STRONG
    agents = [word for word in words if word in AGENTS]
    products = [word for word in words if word in PRODUCTS and word not in AGENTS]
    if agents and products:
        return Certainty.STRONG
    return Certainty.WEAK if any(_has(word, WEAK_ANSWER) for word in words) else Certainty.NONE


def _question_certainty(words: Sequence[str]) -> Certainty:
    if any(_has(word, ANSWER | WEAK_ANSWER) for word in words) or "system" in words:
        return Certainty.NONE
    if not all(_has(word, QUESTION | WEAK_QUESTION | FILLERS) for word in words):
        return Certainty.NONE
    if any(_has(word, QUESTION) for word in words):
        return Certainty.STRONG
    return Certainty.WEAK if any(word in WEAK_QUESTION for word in words) else Certainty.NONE


def _has(word: str, words: frozenset[str]) -> bool:
    """Return whether a word is among others; scripts without blanks write several words as one."""
    if word in words:
        return True
    return (
        bool(word)
        and word[0] > _LAST_LATIN
        and any(part in word for part in words if part[0] > _LAST_LATIN)
    )


def _asks_whether(word: str) -> bool:
    """Return whether a word of Chinese, Japanese or Korean asks whether something is so: 是否正确, 정답여부."""
    return any(mark in word for mark in ("是否", "여부", "かどうか"))


def _is_numbering(word: str) -> bool:
    """Return whether a word counts columns: answer_1, answer_b."""
    return word.isdecimal() or (len(word) == 1 and word.isascii())


def _stem(words: Sequence[str]) -> str | None:
    joined = "".join(words)
    # Of a compound the last part says what it is: Antwortzeit is a time.
    endings = tuple(joined.removesuffix(ending) for ending in ("", "en", "text", "texte"))
    return next(
        (kind for stem, kind in STEMS.items() if any(e.endswith(stem) for e in endings)), None
    )
