"""Derives properties of a value from the tree of its formula: range, shape and jumps; pure."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mosaico.formula import CompiledFormula, Reference
from mosaico.formula.ast import (
    Argument,
    Arithmetic,
    Call,
    Conditional,
    Expr,
    Logic,
    Metric,
    Negative,
    Number,
    Relation,
    walk,
)
from mosaico.formula.evaluate import evaluate_number


class Line(NamedTuple):
    """`offset + slope * reference`; the slope is not 0."""

    reference: Reference
    slope: float
    offset: float


class Bounds(NamedTuple):
    """The smallest and the largest value of a part of a formula; infinite when unlimited."""

    low: float
    high: float


class ValueRange(NamedTuple):
    """The smallest and the largest possible value; None is unlimited."""

    minimum: float | None
    maximum: float | None

    @property
    def width(self) -> float | None:
        """The largest possible change."""
        if self.minimum is None or self.maximum is None:
            return None
        return self.maximum - self.minimum

    @property
    def is_multiplicative(self) -> bool:
        """Return whether changes are ratios: a value from 0 without an upper limit, such as
        a cost.
        """
        return self.minimum is not None and self.minimum >= 0 and self.maximum is None


EVERYTHING = Bounds(-math.inf, math.inf)


def line_of(formula: CompiledFormula) -> Line | None:
    """The formula as a linear function of one statistic; None when it is anything else.

    A value and an affine function of it are one signal, and so have one verdict.
    """
    line = _line(formula.root)
    return line if isinstance(line, Line) and line.slope != 0 else None


def jumps(formula: CompiledFormula) -> bool:
    """Return whether the value can jump while its metrics change a little: THRESHOLD and IF."""
    return any(
        isinstance(node, Conditional) or (isinstance(node, Call) and node.function == "THRESHOLD")
        for node, _ in walk(formula.root)
    )


def is_tied(formula: CompiledFormula) -> bool:
    """Return whether the formula has a MIN or MAX, whose arguments may be nearly equal."""
    return any(
        isinstance(node, Call) and node.function in {"MIN", "MAX"} for node, _ in walk(formula.root)
    )


def bounds_of(formula: CompiledFormula, limits: Mapping[Reference, Bounds]) -> Bounds:
    """The range of a formula, from the ranges of its inputs, by interval arithmetic."""
    return evaluate_number(formula.root, _BoundsAlgebra(limits))


def _line(node: Expr) -> Line | float | None:
    """A line, the number of a constant, or None."""
    match node:
        case Number():
            return node.value
        case Metric():
            return Line(node.reference, 1.0, 0.0)
        case Negative():
            return _scaled(_line(node.operand), -1.0)
        case Arithmetic():
            return _line_of_arithmetic(node.operator, _line(node.left), _line(node.right))
        case Call(function="WEIGHTED_SUM" | "AVERAGE"):
            return _line_of_sum(node)
        case _:
            return None


def _line_of_arithmetic(
    operator: str, left: Line | float | None, right: Line | float | None
) -> Line | float | None:
    match operator:
        case "+":
            return _added(left, right)
        case "-":
            return _added(left, _scaled(right, -1.0))
        case "*" if isinstance(left, float):
            return _scaled(right, left)
        case "*" if isinstance(right, float):
            return _scaled(left, right)
        case "/" if isinstance(right, float) and right:
            return _scaled(left, 1 / right)
        case _:
            return None


def _line_of_sum(node: Call) -> Line | float | None:
    total: Line | float | None = 0.0
    for argument in node.arguments:
        weight = 1.0 if argument.weight is None else argument.weight
        total = _added(total, _scaled(_line(argument.value), weight))
    return _scaled(total, 1 / len(node.arguments)) if node.function == "AVERAGE" else total


def _scaled(term: Line | float | None, factor: float) -> Line | float | None:
    if isinstance(term, Line):
        return Line(term.reference, term.slope * factor, term.offset * factor)
    return None if term is None else term * factor


def _added(first: Line | float | None, second: Line | float | None) -> Line | float | None:
    if first is None or second is None:
        return None
    if isinstance(first, float):
        if isinstance(second, float):
            return first + second
        return second._replace(offset=second.offset + first)
    if isinstance(second, float):
        return first._replace(offset=first.offset + second)
    if first.reference != second.reference:
        return None
    return Line(first.reference, first.slope + second.slope, first.offset + second.offset)


class _BoundsAlgebra:
    """Numbers as intervals; conditions are unknown, so that both branches count."""

    def __init__(self, limits: Mapping[Reference, Bounds]) -> None:
        self._limits = limits

    def constant(self, value: float) -> Bounds:
        return Bounds(value, value)

    def metric(self, node: Metric) -> Bounds:
        return self._limits.get(node.reference, EVERYTHING)

    def negative(self, operand: Bounds) -> Bounds:
        return Bounds(-operand.high, -operand.low)

    def arithmetic(self, node: Arithmetic, left: Bounds, right: Bounds) -> Bounds:
        match node.operator:
            case "+":
                return Bounds(left.low + right.low, left.high + right.high)
            case "-":
                return Bounds(left.low - right.high, left.high - right.low)
            case "*":
                return _hull(_product(a, b) for a in left for b in right)
            case _:
                if right.low < 0 < right.high or right == (0, 0):
                    return EVERYTHING
                inverse = Bounds(
                    1 / right.high if right.high else -math.inf,
                    1 / right.low if right.low else math.inf,
                )
                return _hull(_product(a, b) for a in left for b in inverse)

    def weighted(self, _argument: Argument, value: Bounds, weight: float) -> Bounds:
        return _hull(_product(end, weight) for end in value)

    def call(self, node: Call, arguments: Sequence[Bounds]) -> Bounds:
        bounds = _BOUNDS_OF_CALL.get(node.function)
        return bounds(arguments) if bounds else EVERYTHING

    def first_defined(self, _node: Call, arguments: Sequence[Callable[[], Bounds]]) -> Bounds:
        return _hull(end for argument in arguments for end in argument())

    def choose(
        self, _test: None, then: Callable[[], Bounds], otherwise: Callable[[], Bounds]
    ) -> Bounds:
        return _hull((*then(), *otherwise()))

    def relation(self, _node: Relation, _left: Bounds, _right: Bounds) -> None:
        return None

    def logic(self, _node: Logic, _left: None, _right: Callable[[], None]) -> None:
        return None

    def negation(self, _operand: None) -> None:
        return None

    def choose_condition(
        self, _test: None, _then: Callable[[], None], _otherwise: Callable[[], None]
    ) -> None:
        return None


def _product(first: float, second: float) -> float:
    # 0 times an unlimited number is 0: the number is finite, however large.
    return 0.0 if 0.0 in {first, second} else first * second


def _hull(ends: Iterable[float]) -> Bounds:
    numbers = list(ends)
    return Bounds(min(numbers), max(numbers))


def _bounds_of_size(bounds: Bounds) -> Bounds:
    sizes = [abs(end) for end in bounds]
    return Bounds(0.0 if bounds.low <= 0 <= bounds.high else min(sizes), max(sizes))


def _total(arguments: Sequence[Bounds]) -> Bounds:
    return Bounds(sum(bounds.low for bounds in arguments), sum(bounds.high for bounds in arguments))


def _clamped(arguments: Sequence[Bounds]) -> Bounds:
    value, low, high = arguments
    return Bounds(*(min(max(end, low.low), high.high) for end in value))


_BOUNDS_OF_CALL: Mapping[str, Callable[[Sequence[Bounds]], Bounds]] = MappingProxyType(
    {
        "WEIGHTED_SUM": _total,
        "AVERAGE": lambda arguments: Bounds(*(end / len(arguments) for end in _total(arguments))),
        "MIN": lambda arguments: Bounds(*map(min, zip(*arguments, strict=True))),
        "MAX": lambda arguments: Bounds(*map(max, zip(*arguments, strict=True))),
        "THRESHOLD": lambda _arguments: Bounds(0.0, 1.0),
        "ABS": lambda arguments: _bounds_of_size(arguments[0]),
        "SQRT": lambda arguments: Bounds(*(math.sqrt(max(0.0, end)) for end in arguments[0])),
        "CLAMP": _clamped,
    }
)
