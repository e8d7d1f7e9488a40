"""The range of a formula from the ranges of its inputs, by interval arithmetic; pure."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mosaico.formula.ast import Argument, Arithmetic, Call, Logic, Metric, Reference, Relation
from mosaico.formula.compile import CompiledFormula
from mosaico.formula.evaluate import evaluate_number
from mosaico.formula.functions import FUNCTIONS


class Bounds(NamedTuple):
    """The smallest and the largest value of a part of a formula; infinite when unlimited."""

    low: float
    high: float


EVERYTHING = Bounds(-math.inf, math.inf)


def bounds_of(formula: CompiledFormula, limits: Mapping[Reference, Bounds]) -> Bounds:
    """The range of a formula, from the ranges of its inputs, by interval arithmetic."""
    return evaluate_number(formula.root, BoundsAlgebra(limits))


class BoundsAlgebra:
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


def _bounds_of_exponential(arguments: Sequence[Bounds]) -> Bounds:
    return Bounds(*(FUNCTIONS["EXP"].apply(end) for end in arguments[0]))


def _bounds_of_power(arguments: Sequence[Bounds]) -> Bounds:
    """That of a base that is not negative and one exponent; unlimited for any other."""
    base, exponent = arguments
    if base.low < 0 or exponent.low != exponent.high:
        return EVERYTHING
    if exponent.low >= 0:
        return Bounds(*(_power(end, exponent.low) for end in base))
    return Bounds(_power(base.high, exponent.low), _power(base.low, exponent.low))


def _power(base: float, exponent: float) -> float:
    return math.inf if base == 0 and exponent < 0 else FUNCTIONS["POW"].apply(base, exponent)


def _bounds_of_rounded(arguments: Sequence[Bounds]) -> Bounds:
    """The rounded ends; unlimited for digits that vary."""
    value, *digits = arguments
    if any(bounds.low != bounds.high for bounds in digits):
        return EVERYTHING
    numbers = [bounds.low for bounds in digits]
    if not all(number.is_integer() for number in numbers):
        return EVERYTHING
    apply = FUNCTIONS["ROUND"].apply
    return Bounds(*(apply(end, *numbers) if math.isfinite(end) else end for end in value))


_BOUNDS_OF_CALL: Mapping[str, Callable[[Sequence[Bounds]], Bounds]] = MappingProxyType(
    {
        "WEIGHTED_SUM": _total,
        "AVERAGE": lambda arguments: Bounds(*(end / len(arguments) for end in _total(arguments))),
        "MIN": lambda arguments: Bounds(*map(min, zip(*arguments, strict=True))),
        "MAX": lambda arguments: Bounds(*map(max, zip(*arguments, strict=True))),
        "THRESHOLD": lambda _arguments: Bounds(0.0, 1.0),
        "ABS": lambda arguments: _bounds_of_size(arguments[0]),
        "SQRT": lambda arguments: Bounds(*(math.sqrt(max(0.0, end)) for end in arguments[0])),
        "EXP": _bounds_of_exponential,
        "POW": _bounds_of_power,
        "ROUND": _bounds_of_rounded,
        "CLAMP": _clamped,
    }
)
