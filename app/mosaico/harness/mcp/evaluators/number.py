"""Evaluator `number`: the answer contains a separate number.

42 is in `42 km`, `42ms` and `$42`, and not in `142`, `42.5`, `4:42`, `v42`, `42nd` or `item_42`.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from pydantic import JsonValue

from mosaico.core.strict_json import is_number
from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.evaluator_registry import (
    EVALUATORS,
    Evaluator,
    EvaluatorEvidence,
    EvaluatorResult,
    expected_items,
)

# A run of digits and joining characters, then the letters of a unit. It is not part of a name: an
# underscore may surround it, as in Markdown, but not join it to letters or digits.
_DIGIT_RUN: Final = re.compile(
    r"(?<![^\W_])(?<![^\W_]_)(?<![^\W_]__)"
    r"(\d++(?:[.,:]\d++)*+(?:[eE][+-]?\d++)?+)"
    r"(?!(?:st|nd|rd|th)(?![^\W_]))[^\W\d_]{0,12}+"
    r"(?!_*+[^\W_])"
)
_PLAIN: Final = re.compile(r"\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+")
_GROUPED: Final = re.compile(r"\d{1,3}+(?:,\d{3})++(?:\.\d++)?+")
_MAX_NUMBER_CHARS: Final = 400  # longer runs are not numbers; this bounds the work


def select_numbers(evaluator: EvaluatorConfig) -> list[JsonValue]:
    return [item for item in expected_items(evaluator) if is_number(item)]


def check_number(expected: JsonValue, evidence: EvaluatorEvidence) -> EvaluatorResult:
    number = Decimal(str(expected))
    if any(number == candidate for candidate in numbers_in(evidence.response)):
        return EvaluatorResult(True, "found")
    return EvaluatorResult(False, "no number in the answer equals it")


def numbers_in(text: str) -> Iterator[Decimal]:
    """The numbers of a text from left to right.

    `1,042` is one number. In square brackets, and where commas do not group thousands, commas
    separate numbers.
    """
    for run in _DIGIT_RUN.finditer(text):
        if len(run.group(1)) <= _MAX_NUMBER_CHARS:
            for index, number in enumerate(_parse_run(text, run)):
                yield -number if index == 0 and _is_negative(text, run.start()) else number


def _parse_run(text: str, run: "re.Match[str]") -> Iterator[Decimal]:
    digits = run.group(1)
    in_brackets = text[run.start() - 1 : run.start()] == "[" or text[run.end() :][:1] == "]"
    if not in_brackets and _GROUPED.fullmatch(digits):
        yield Decimal(digits.replace(",", ""))
        return
    for part in digits.split(","):
        if _PLAIN.fullmatch(part):
            yield Decimal(part)


def _is_negative(text: str, start: int) -> bool:
    """Return whether a minus sign, and not a dash between two words or numbers, precedes the
    number.
    """
    if text[max(start - 1, 0) : start] not in ("-", "−"):
        return False
    before = text[max(start - 2, 0) : start - 1]
    return not before.isalnum()


EVALUATORS.register(
    "number",
    Evaluator(
        summary="the answer contains this number as a separate number",
        select=select_numbers,
        evaluate=check_number,
    ),
)
