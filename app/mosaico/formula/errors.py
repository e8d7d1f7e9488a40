"""The errors of formulas: mistakes in the text, and undefined values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mosaico.core.errors import ErrorItem, Invalid
from mosaico.formula.ast import FormulaSpan


class TextPosition(NamedTuple):
    """The position of a character; line and column start at 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{f'line {self.line}, ' * (self.line > 1)}column {self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One mistake in the text of a formula: position, message and remedy."""

    message: str
    remedy: str
    line: int
    column: int
    span: FormulaSpan

    @property
    def detail(self) -> str:
        return f"{self.message}. {self.remedy}".strip()

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.detail}"


class InvalidFormula(Invalid):
    """The formula is not valid; correct the parts that `errors` lists."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        items = [
            ErrorItem(pointer="/formula", detail=str(mistake), span=mistake.span)
            for mistake in mistakes
        ]
        noun = "mistake" if len(items) == 1 else "mistakes"
        super().__init__(f"the formula has {len(items)} {noun}; correct each", errors=items)


class DslParseException(Invalid):
    """The formula is not valid; `ParseResult.errors` holds every mistake."""

    code = "invalid-formula"


class UndefinedFormula(Invalid):
    """The formula has no value for these metrics; the reason names the metric to provide."""


def position(text: str, offset: int) -> TextPosition:
    """Line and column of a character of the text."""
    before = text[:offset]
    return TextPosition(before.count("\n") + 1, offset - before.rfind("\n"))


def mistake_at(text: str, span: FormulaSpan, message: str, remedy: str) -> Mistake:
    """Create a mistake for a part of the text."""
    line, column = position(text, span.start)
    return Mistake(message=message, remedy=remedy.strip(), line=line, column=column, span=span)
