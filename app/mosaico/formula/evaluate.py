"""Evaluates the tree of a formula: one walk for every kind of number; explains the value of each
part.

The walk fixes the meaning of the language: which parts are computed and in which order. IF computes
one branch, AND and OR compute their right side only if it is needed, COALESCE stops at its first
defined argument. An `Algebra` defines the type of a number:

- `ExplainedFloats` below: floats; an undefined part raises with its reason and column;
- `mosaico.formula.compile`: Python code, for speed;
- `mosaico.formula.rows`: numpy columns, for resampling.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from mosaico.core.strict_json import float_of
from mosaico.formula.ast import (
    Argument,
    Arithmetic,
    Call,
    Conditional,
    Expr,
    FormulaSpan,
    Logic,
    Metric,
    Negative,
    Not,
    Number,
    Reference,
    Relation,
    children,
    format_expression,
)
from mosaico.formula.errors import position
from mosaico.formula.functions import (
    COMPARE,
    COMPUTE,
    FUNCTIONS,
    RANK,
)

N = TypeVar("N")
C = TypeVar("C")
MetricValues = Mapping[Reference, float | None]


class Algebra(Protocol[N, C]):
    """Operations on numbers `N` and conditions `C`. A callable argument is computed on demand."""

    def constant(self, value: float, /) -> N: ...
    def metric(self, node: Metric, /) -> N: ...
    def negative(self, operand: N, /) -> N: ...
    def arithmetic(self, node: Arithmetic, left: N, right: N, /) -> N: ...
    def weighted(self, argument: Argument, value: N, weight: float, /) -> N: ...
    def call(self, node: Call, arguments: Sequence[N], /) -> N: ...
    def first_defined(self, node: Call, arguments: Sequence[Callable[[], N]], /) -> N: ...
    def choose(self, test: C, then: Callable[[], N], otherwise: Callable[[], N], /) -> N: ...
    def relation(self, node: Relation, left: N, right: N, /) -> C: ...
    def logic(self, node: Logic, left: C, right: Callable[[], C], /) -> C: ...
    def negation(self, operand: C, /) -> C: ...
    def choose_condition(
        self, test: C, then: Callable[[], C], otherwise: Callable[[], C], /
    ) -> C: ...


def evaluate_number(node: Expr, algebra: Algebra[N, C]) -> N:
    """The number that a checked expression gives in an algebra."""
    number = partial(evaluate_number, algebra=algebra)
    match node:
        case Number():
            return algebra.constant(node.value)
        case Metric():
            return algebra.metric(node)
        case Negative():
            return algebra.negative(number(node.operand))
        case Arithmetic():
            return algebra.arithmetic(node, number(node.left), number(node.right))
        case Conditional():
            test = evaluate_condition(node.condition, algebra)
            return algebra.choose(test, partial(number, node.then), partial(number, node.otherwise))
        case Call():
            return _evaluate_call(node, algebra)
        case _:
            raise TypeError("a condition is in the place of a number; check the formula first")


def evaluate_condition(node: Expr, algebra: Algebra[N, C]) -> C:
    """The condition that a checked expression gives in an algebra."""
    condition = partial(evaluate_condition, algebra=algebra)
    match node:
        case Relation():
            left, right = evaluate_number(node.left, algebra), evaluate_number(node.right, algebra)
            return algebra.relation(node, left, right)
        case Logic():
            return algebra.logic(node, condition(node.left), partial(condition, node.right))
        case Not():
            return algebra.negation(condition(node.operand))
        case Conditional():
            return algebra.choose_condition(
                condition(node.condition),
                # As `partial`, so that the algebra decides whether this branch is computed.
                partial(condition, node.then),
                partial(condition, node.otherwise),
            )
        case _:
            raise TypeError("a number is in the place of a condition; check the formula first")


def _evaluate_call(node: Call, algebra: Algebra[N, C]) -> N:
    arguments = [partial(_evaluate_argument, argument, algebra) for argument in node.arguments]
    if FUNCTIONS[node.function].first_defined:
        return algebra.first_defined(node, arguments)
    return algebra.call(node, [argument() for argument in arguments])


def _evaluate_argument(argument: Argument, algebra: Algebra[N, C]) -> N:
    # The weight is applied by the algebra, because its product can be too large.
    value = evaluate_number(argument.value, algebra)
    if argument.weight is None:
        return value
    return algebra.weighted(argument, value, argument.weight)


class FormulaValue(NamedTuple):
    """The value of a formula, or None and the reason why it has none."""

    value: float | None
    reason: str | None = None


class UndefinedPart(Exception):
    """A part of the formula has no value; the text is the reason."""


def explain(root: Expr, text: str, values: MetricValues) -> FormulaValue:
    """Evaluate a checked formula step by step and say why a value is undefined.

    Slower than the compiled function and bit for bit equal wherever that gives a finite number.
    `text` is the source of the tree: reasons name its columns.
    """
    try:
        # + 0.0 turns -0.0 into 0.0, as the compiled formula does.
        return FormulaValue(evaluate_number(root, ExplainedFloats(text, values)) + 0.0)
    except UndefinedPart as undefined:
        return FormulaValue(None, str(undefined))


class ExplainedFloats:
    """Floats; an operation without a finite result raises with its reason."""

    def __init__(self, text: str, values: MetricValues) -> None:
        self._text = text
        self._values = values

    def constant(self, value: float) -> float:
        return value

    def metric(self, node: Metric) -> float:
        value = self._values.get(node.reference)
        if value is None:
            raise self._undefined(f"{node.reference} has no value", node.span)
        number = float_of(value)
        if not math.isfinite(number):
            raise self._undefined(f"{node.reference} is not a finite number", node.span)
        return number

    def negative(self, operand: float) -> float:
        return -operand

    def arithmetic(self, node: Arithmetic, left: float, right: float) -> float:
        if node.operator == "/" and right == 0.0:
            raise self._undefined("division by zero", node.right.span)
        return self._finite(COMPUTE[node.operator](left, right), f"'{node.operator}'", node.span)

    def weighted(self, argument: Argument, value: float, weight: float) -> float:
        return self._finite(value * weight, "a weighted value", argument.value.span)

    def call(self, node: Call, arguments: Sequence[float]) -> float:
        try:
            value = FUNCTIONS[node.function].apply(*arguments)
        except ValueError as error:
            raise self._undefined(f"{node.function}: {error}", node.span) from None
        return self._finite(value, node.function, node.span)

    def first_defined(self, node: Call, arguments: Sequence[Callable[[], float]]) -> float:
        reasons: list[str] = []
        for argument in arguments:
            try:
                return argument()
            except UndefinedPart as undefined:
                reasons.append(str(undefined))
        message = f"no argument of {node.function} is defined"
        raise UndefinedPart(f"{self._undefined(message, node.span)}: {'; '.join(reasons)}")

    def choose(
        self, test: bool, then: Callable[[], float], otherwise: Callable[[], float]
    ) -> float:
        return then() if test else otherwise()

    def relation(self, node: Relation, left: float, right: float) -> bool:
        return COMPARE[node.operator](left, right)

    def logic(self, node: Logic, left: bool, right: Callable[[], bool]) -> bool:
        return left and right() if node.operator == "AND" else left or right()

    def negation(self, operand: bool) -> bool:
        return not operand

    def choose_condition(
        self, test: bool, then: Callable[[], bool], otherwise: Callable[[], bool]
    ) -> bool:
        return then() if test else otherwise()

    def _finite(self, value: float, operation: str, span: FormulaSpan) -> float:
        if math.isfinite(value):
            return value
        raise self._undefined(f"the result of {operation} is too large", span)

    def _undefined(self, message: str, span: FormulaSpan) -> UndefinedPart:
        return UndefinedPart(f"{message} ({position(self._text, span.start)})")


class FormulaPart(NamedTuple):
    """A part of a formula: its text, its number or the truth of its condition, or why it has none.

    `parts` are what it is computed from, in the order of the text; a literal number has no line of its own.
    """

    text: str
    value: float | bool | None
    reason: str | None
    parts: tuple["FormulaPart", ...]


def explain_parts(root: Expr, text: str, values: MetricValues) -> FormulaPart:
    """The tree of a checked formula for these metrics; `text` is its source."""
    return _explain(root, ExplainedFloats(text, values))


def _explain(node: Expr, algebra: ExplainedFloats) -> FormulaPart:
    value: float | bool | None = None
    reason: str | None = None
    try:
        if _is_condition(node):
            value = evaluate_condition(node, algebra)
        else:
            value = evaluate_number(node, algebra) + 0.0
    except UndefinedPart as undefined:
        reason = str(undefined)
    parts = tuple(
        _explain(child, algebra) for child in _operands(node) if not isinstance(child, Number)
    )
    return FormulaPart(format_expression(node), value, reason, parts)


def _operands(node: Expr) -> list[Expr]:
    """The parts of a node; a chain such as `A + B - C` has three."""
    operands: list[Expr] = []
    for child in children(node):
        is_chain = (
            isinstance(node, Arithmetic)
            and isinstance(child, Arithmetic)
            and RANK[node.operator] == RANK[child.operator]
        )
        operands.extend(_operands(child) if is_chain else [child])
    return operands


def _is_condition(node: Expr) -> bool:
    if isinstance(node, Conditional):
        return _is_condition(node.then)
    return isinstance(node, Relation | Logic | Not)
