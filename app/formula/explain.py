"""A formula computed step by step: slower than the compiled one, and able to say what is missing.

It gives the same bits as the compiled function wherever that gives a number.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from app.formula.ast import (
    Argument,
    Arithmetic,
    Call,
    Choice,
    Comparison,
    Expr,
    Logic,
    Metric,
    Negative,
    Not,
    Number,
    Reference,
    Span,
)
from app.formula.errors import position
from app.formula.functions import COMPARE, COMPUTE, FUNCTIONS

Values = Mapping[Reference, float | None]


class FormulaValue(NamedTuple):
    """The value of a formula, or None and the reason why it has none."""

    value: float | None
    reason: str | None = None


class _Undefined(Exception):
    """Some part has no value; the text is the reason."""


def explain(root: Expr, text: str, values: Values) -> FormulaValue:
    """Compute a checked formula from what is there; `text` is what its columns refer to."""
    try:
        return FormulaValue(_Steps(text, values).number(root) + 0.0)
    except _Undefined as undefined:
        return FormulaValue(None, str(undefined))


class _Steps:
    def __init__(self, text: str, values: Values) -> None:
        self.text = text
        self.values = values

    def number(self, node: Expr) -> float:  # noqa: PLR0911 - one return per kind of node
        match node:
            case Number():
                return node.value
            case Metric():
                return self._metric(node)
            case Negative():
                return -self.number(node.operand)
            case Arithmetic():
                return self._arithmetic(node)
            case Choice():
                return self.number(self._branch(node))
            case Call() if FUNCTIONS[node.function].first_defined:
                return self._first_defined(node)
            case Call():
                return self._call(node)
            case _:
                raise TypeError("a condition stands where a number belongs; check the formula")

    def condition(self, node: Expr) -> bool:
        match node:
            case Comparison():
                return COMPARE[node.operator](self.number(node.left), self.number(node.right))
            case Logic(operator="AND"):
                return self.condition(node.left) and self.condition(node.right)
            case Logic():
                return self.condition(node.left) or self.condition(node.right)
            case Not():
                return not self.condition(node.operand)
            case Choice():
                return self.condition(self._branch(node))
            case _:
                raise TypeError("a number stands where a condition belongs; check the formula")

    def _branch(self, node: Choice) -> Expr:
        return node.then if self.condition(node.condition) else node.otherwise

    def _metric(self, node: Metric) -> float:
        value = self.values.get(node.reference)
        if value is None:
            raise self._undefined(f"{node.reference} has no value", node.span)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self._undefined(f"{node.reference} is not a finite number", node.span)
        return number

    def _arithmetic(self, node: Arithmetic) -> float:
        left, right = self.number(node.left), self.number(node.right)
        if node.operator == "/" and right == 0.0:
            raise self._undefined("division by zero", node.right.span)
        return self._finite(COMPUTE[node.operator](left, right), f"'{node.operator}'", node.span)

    def _call(self, node: Call) -> float:
        arguments = [self._argument(argument) for argument in node.arguments]
        try:
            value = FUNCTIONS[node.function].apply(*arguments)
        except ValueError as error:
            raise self._undefined(f"{node.function}: {error}", node.span) from None
        return self._finite(value, node.function, node.span)

    def _argument(self, argument: Argument) -> float:
        value = self.number(argument.value)
        if argument.weight is None:
            return value
        return self._finite(value * argument.weight, "a weighted value", argument.value.span)

    def _first_defined(self, node: Call) -> float:
        reasons: list[str] = []
        for argument in node.arguments:
            try:
                return self.number(argument.value)
            except _Undefined as undefined:
                reasons.append(str(undefined))
        message = f"no argument of {node.function} is defined"
        raise _Undefined(f"{self._undefined(message, node.span)}: {'; '.join(reasons)}")

    def _finite(self, value: float, operation: str, span: Span) -> float:
        if math.isfinite(value):
            return value
        raise self._undefined(f"the result of {operation} is too large", span)

    def _undefined(self, message: str, span: Span) -> _Undefined:
        return _Undefined(f"{message} ({position(self.text, span.start)})")
