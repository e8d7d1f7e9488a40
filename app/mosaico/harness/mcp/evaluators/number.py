"""Evaluator `number`: the answer contains a separate number.

42 is in `42 km`, `42ms` and `$42`, 1042 in `1,042` and `1 042`. 42 is not in `142`, `42.5`, `4:42`, `v42`, `42nd` or `item_42`.
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
# Digits in groups of three with spaces, which may be narrow or not break. Source: ISO 80000-1.
_SPACED: Final = re.compile(
    r"(?<![^\W_])(?<!\d[.,:\s])"
    r"\d{1,3}+(?:[ \u00a0\u2009\u202f]\d{3}(?!\d))++"
    r"(?![ \u00a0\u2009\u202f]\d)"
)
_SPACES: Final = re.compile(r"[ \u00a0\u2009\u202f]")
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

    `1,042` and `1 042` are one number. In square brackets, and where commas do not group thousands,
    commas separate numbers. `100 200` can be one number or two: both readings follow each other.
    """
    certain = _SPACED.sub(lambda match: _join(match) if _is_one(match) else match.group(), text)
    yield from _scan(certain)
    joined = _SPACED.sub(_join, certain)
    if joined != certain:
        yield from _scan(joined)


def _is_one(spaced: "re.Match[str]") -> bool:
    """Return whether the groups can only be one number: by their spaces, or as in `1 042`."""
    _, *others = _SPACES.split(spaced.group())
    return " " not in spaced.group() or any(group.startswith("0") for group in others)


def _join(spaced: "re.Match[str]") -> str:
    return _SPACES.sub("", spaced.group())


def _scan(text: str) -> Iterator[Decimal]:
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
