"""A number that stands in the answer by itself: 42 is not in 142, 42.5, 4:42 or v42."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from pydantic import JsonValue

from app.harness.mcp.config import Evaluator
from app.harness.mcp.evaluating import EVALUATORS, Criterion, Evidence, Found, expected_items

# A run of digits with what may join them; it neither follows nor precedes a letter.
_RUN: Final = re.compile(r"(?<![^\W_])\d++(?:[.,:]\d++)*+(?:[eE][+-]?\d++)?+(?![^\W_])")
_PLAIN: Final = re.compile(r"\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+")
_GROUPED: Final = re.compile(r"\d{1,3}+(?:,\d{3})++(?:\.\d++)?+")
_LONGEST: Final = 400  # characters; beyond it nobody means a number


def numbers(evaluator: Evaluator) -> list[JsonValue]:
    return [
        item
        for item in expected_items(evaluator)
        if isinstance(item, int | float) and not isinstance(item, bool)
    ]


def holds_number(wanted: JsonValue, evidence: Evidence) -> Found:
    number = Decimal(str(wanted))
    if any(number == each for each in numbers_in(evidence.response)):
        return Found(True, "found")
    return Found(False, "no number of the answer equals it")


def numbers_in(text: str) -> Iterator[Decimal]:
    """The numbers of a text from left to right.

    `1,042` is one number; in brackets, and where commas do not group thousands, they separate.
    """
    for run in _RUN.finditer(text):
        if len(run.group()) <= _LONGEST:
            for index, each in enumerate(_readings(text, run)):
                yield -each if index == 0 and _is_negative(text, run.start()) else each


def _readings(text: str, run: "re.Match[str]") -> Iterator[Decimal]:
    said = run.group()
    in_brackets = text[run.start() - 1 : run.start()] == "[" or text[run.end() :][:1] == "]"
    if not in_brackets and _GROUPED.fullmatch(said):
        yield Decimal(said.replace(",", ""))
        return
    for part in said.split(","):
        if _PLAIN.fullmatch(part):
            yield Decimal(part)


def _is_negative(text: str, start: int) -> bool:
    """Whether a minus stands before it that is no dash between two words or numbers."""
    if text[max(start - 1, 0) : start] not in ("-", "−"):
        return False
    before = text[max(start - 2, 0) : start - 1]
    return not before.isalnum()


EVALUATORS.register(
    "number",
    Criterion(
        summary="the answer contains this number, standing by itself",
        wanted=numbers,
        find=holds_number,
    ),
)
