"""Derives properties of a value from the tree of its formula: shape and jumps; pure."""

from typing import NamedTuple

from mosaico.formula import CompiledFormula, Reference
from mosaico.formula.ast import (
    Arithmetic,
    Call,
    Conditional,
    Expr,
    Metric,
    Negative,
    Number,
    walk,
)


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


class Line(NamedTuple):
    """`offset + slope * reference`; the slope is not 0."""

    reference: Reference
    slope: float
    offset: float

    def range_of(self, limits: ValueRange) -> ValueRange:
        """The range of the function, from that of the statistic."""
        ends = [
            None if end is None else self.offset + self.slope * end
            for end in (limits.minimum, limits.maximum)
        ]
        return ValueRange(*(ends if self.slope > 0 else ends[::-1]))


def line_of(formula: CompiledFormula) -> Line | None:
    """The formula as a linear function of one statistic; None when it is anything else.

    A value and an affine function of it are one signal, and so have one verdict.
    """
    line = _line(formula.root)
    return line if isinstance(line, Line) and line.slope != 0 else None


def jumps(formula: CompiledFormula) -> bool:
    """Return whether the value can jump while its metrics change a little: THRESHOLD, ROUND and IF."""
    return any(
        isinstance(node, Conditional)
        or (isinstance(node, Call) and node.function in {"THRESHOLD", "ROUND"})
        for node, _ in walk(formula.root)
    )


def is_tied(formula: CompiledFormula) -> bool:
    """Return whether the formula has a MIN or MAX, whose arguments may be nearly equal."""
    return any(
        isinstance(node, Call) and node.function in {"MIN", "MAX"} for node, _ in walk(formula.root)
    )


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
