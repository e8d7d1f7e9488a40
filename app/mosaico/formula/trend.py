"""The direction in which a formula moves while its inputs improve; pure.

A minus sign and a denominator turn the direction of a part around, a factor does so where it is
negative. Parts that move in different directions have no common one.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

from mosaico.formula.ast import Argument, Arithmetic, Call, Expr, Logic, Metric, Reference, Relation
from mosaico.formula.bounds import Bounds, BoundsAlgebra
from mosaico.formula.evaluate import evaluate_number


class Trend(Enum):
    """The move of a value while the inputs improve; UNKNOWN is also the trend of mixed parts."""

    RISES = "rises"
    FALLS = "falls"
    CONSTANT = "constant"
    UNKNOWN = "unknown"

    @property
    def opposite(self) -> "Trend":
        return _OPPOSITE.get(self, self)


_OPPOSITE = {Trend.RISES: Trend.FALLS, Trend.FALLS: Trend.RISES}
# Functions that rise with each of their arguments.
_RISING = frozenset(
    {"WEIGHTED_SUM", "AVERAGE", "MIN", "MAX", "SQRT", "LOG", "EXP", "ROUND", "CLAMP"}
)


class _Part(NamedTuple):
    """A number: its trend, and its range, which gives the sign of a factor."""

    trend: Trend
    bounds: Bounds


def trend_of(
    root: Expr, trends: Mapping[Reference, Trend], limits: Mapping[Reference, Bounds]
) -> Trend:
    """The trend of an expression, from the trends and the ranges of its inputs."""
    return evaluate_number(root, _TrendAlgebra(trends, limits)).trend


class _TrendAlgebra:
    """Numbers with their trend and range; the trend of a condition is that of becoming true."""

    def __init__(
        self, trends: Mapping[Reference, Trend], limits: Mapping[Reference, Bounds]
    ) -> None:
        self._trends = trends
        self._ranges = BoundsAlgebra(limits)

    def constant(self, value: float) -> _Part:
        return _Part(Trend.CONSTANT, self._ranges.constant(value))

    def metric(self, node: Metric) -> _Part:
        trend = self._trends.get(node.reference, Trend.UNKNOWN)
        return _Part(trend, self._ranges.metric(node))

    def negative(self, operand: _Part) -> _Part:
        return _Part(operand.trend.opposite, self._ranges.negative(operand.bounds))

    def arithmetic(self, node: Arithmetic, left: _Part, right: _Part) -> _Part:
        bounds = self._ranges.arithmetic(node, left.bounds, right.bounds)
        return _Part(_trend_of_arithmetic(node.operator, left, right), bounds)

    def weighted(self, argument: Argument, value: _Part, weight: float) -> _Part:
        bounds = self._ranges.weighted(argument, value.bounds, weight)
        return _Part(_times(value.trend, Bounds(weight, weight)), bounds)

    def call(self, node: Call, arguments: Sequence[_Part]) -> _Part:
        bounds = self._ranges.call(node, [argument.bounds for argument in arguments])
        return _Part(_trend_of_call(node.function, arguments), bounds)

    def first_defined(self, node: Call, arguments: Sequence[Callable[[], _Part]]) -> _Part:
        parts = [argument() for argument in arguments]
        ranges = [partial(getattr, part, "bounds") for part in parts]
        bounds = self._ranges.first_defined(node, ranges)
        return _Part(_common(*(part.trend for part in parts)), bounds)

    def choose(
        self, test: Trend, then: Callable[[], _Part], otherwise: Callable[[], _Part]
    ) -> _Part:
        first, second = then(), otherwise()
        bounds = self._ranges.choose(None, lambda: first.bounds, lambda: second.bounds)
        branches = _common(first.trend, second.trend)
        jump = _jump(test, first.bounds, second.bounds)
        if jump is Trend.UNKNOWN and branches is not Trend.CONSTANT:
            # The condition selects a case, and says nothing about better and worse.
            return _Part(branches, bounds)
        return _Part(_common(branches, jump), bounds)

    def relation(self, node: Relation, left: _Part, right: _Part) -> Trend:
        if node.operator in {"==", "!="}:
            is_constant = _common(left.trend, right.trend) is Trend.CONSTANT
            return Trend.CONSTANT if is_constant else Trend.UNKNOWN
        trend = _common(left.trend, right.trend.opposite)
        return trend if node.operator.startswith(">") else trend.opposite

    def logic(self, _node: Logic, left: Trend, right: Callable[[], Trend]) -> Trend:
        return _common(left, right())

    def negation(self, operand: Trend) -> Trend:
        return operand.opposite

    def choose_condition(
        self, test: Trend, then: Callable[[], Trend], otherwise: Callable[[], Trend]
    ) -> Trend:
        trends = {test, then(), otherwise()}
        return Trend.CONSTANT if trends == {Trend.CONSTANT} else Trend.UNKNOWN


def _common(*trends: Trend) -> Trend:
    """The trend of parts that all move in this direction or not at all."""
    moving = {*trends} - {Trend.CONSTANT}
    if len(moving) > 1:
        return Trend.UNKNOWN
    return next(iter(moving), Trend.CONSTANT)


def _times(trend: Trend, factor: Bounds) -> Trend:
    """The trend of a part that is multiplied by a factor of this range."""
    if trend is Trend.CONSTANT or factor == (0, 0):
        return Trend.CONSTANT
    if factor.low >= 0:
        return trend
    return trend.opposite if factor.high <= 0 else Trend.UNKNOWN


def _trend_of_arithmetic(operator: str, left: _Part, right: _Part) -> Trend:
    match operator:
        case "+":
            return _common(left.trend, right.trend)
        case "-":
            return _common(left.trend, right.trend.opposite)
        case "*":
            return _common(_times(left.trend, right.bounds), _times(right.trend, left.bounds))
        case _:
            return _trend_of_quotient(left, right)


def _trend_of_quotient(left: _Part, right: _Part) -> Trend:
    if right.trend is not Trend.CONSTANT and right.bounds.low < 0 < right.bounds.high:
        # The quotient jumps where the denominator passes 0.
        return Trend.UNKNOWN
    return _common(_times(left.trend, right.bounds), _times(right.trend.opposite, left.bounds))


def _trend_of_call(function: str, arguments: Sequence[_Part]) -> Trend:
    value, *thresholds = arguments
    if function in _RISING:
        return _common(*(argument.trend for argument in arguments))
    if function == "THRESHOLD":
        return _common(value.trend, *(threshold.trend.opposite for threshold in thresholds))
    if function == "POW":
        return _trend_of_power(*arguments)
    if function == "ABS":
        return _times(value.trend, value.bounds)
    return Trend.UNKNOWN


def _trend_of_power(base: _Part, exponent: _Part) -> Trend:
    """That of a base that is not negative and a constant exponent; unknown for any other."""
    if {base.trend, exponent.trend} == {Trend.CONSTANT}:
        return Trend.CONSTANT
    if exponent.trend is not Trend.CONSTANT or base.bounds.low < 0:
        return Trend.UNKNOWN
    return _times(base.trend, exponent.bounds)


def _jump(test: Trend, then: Bounds, otherwise: Bounds) -> Trend:
    """The trend of the jump from one branch to the other; unknown where neither is above the other."""
    if test is Trend.CONSTANT or then.low >= otherwise.high:
        return test
    return test.opposite if then.high <= otherwise.low else Trend.UNKNOWN
