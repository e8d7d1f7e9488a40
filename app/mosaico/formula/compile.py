"""Compiles a checked formula to one Python function of floats.

The code is built node by node from our own tree; the text of a user is never compiled. The function
assumes finite arguments. Where a value is missing, a function leaves its domain or a result is too
large, `CompiledFormula.evaluate` falls back to `explain`, which returns the reason.
"""

import ast as python
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FunctionType, MappingProxyType
from typing import NoReturn

from mosaico.formula.ast import (
    Argument,
    Arithmetic,
    Call,
    Conditional,
    Expr,
    Logic,
    Metric,
    Negative,
    Reference,
    Relation,
    format_expression,
    references,
)
from mosaico.formula.check import check_formula, parse_expression, unknown_metrics
from mosaico.formula.errors import InvalidFormula
from mosaico.formula.evaluate import FormulaValue, MetricValues, evaluate_number, explain
from mosaico.formula.functions import FUNCTIONS, equal, unequal

# Formulas are stored with benchmarks: few texts, often evaluated.
CACHE_SIZE = 1024

_ARITHMETIC: MappingProxyType[str, type[python.operator]] = MappingProxyType(
    {"+": python.Add, "-": python.Sub, "*": python.Mult, "/": python.Div}
)
_COMPARISON: MappingProxyType[str, type[python.cmpop]] = MappingProxyType(
    {"<": python.Lt, "<=": python.LtE, ">": python.Gt, ">=": python.GtE}
)
_EQUALITY = MappingProxyType({"==": "equal", "!=": "unequal"})
_LOGIC: MappingProxyType[str, type[python.boolop]] = MappingProxyType(
    {"AND": python.And, "OR": python.Or}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledFormula:
    """A formula that can be evaluated any number of times, from any thread.

    `function` takes one finite Python float per reference, in the order of `references`. It raises
    ArithmeticError or ValueError, or returns a number that is not finite, where `evaluate` returns
    a reason instead of a value.
    """

    source: str
    text: str
    references: tuple[Reference, ...]
    root: Expr = field(repr=False)
    function: Callable[..., float] = field(repr=False, compare=False)

    def evaluate(self, values: MetricValues) -> FormulaValue:
        """The value for these metrics, or None with the reason; a missing metric is never 0."""
        try:
            # float() of a missing value (None) raises TypeError, which leads to `explain`.
            arguments = [float(values[reference]) for reference in self.references]  # type: ignore[arg-type]
            if all(map(math.isfinite, arguments)):
                number = self.function(*arguments)
                if math.isfinite(number):
                    # Turns -0.0 into 0.0, which would print as -0.
                    return FormulaValue(number + 0.0)
        except (KeyError, TypeError, ValueError, ArithmeticError):
            pass
        return explain(self.root, self.source, values)


def compile_formula(text: str, metric_keys: Collection[str] | None = None) -> CompiledFormula:
    """Compile a formula; the last 1024 texts are cached.

    `metric_keys` are the metrics that the formula may use, in upper case; None accepts any.
    Raises `InvalidFormula` with every mistake.
    """
    try:
        compiled = _compile(text)
    except InvalidFormula:
        # Checked again with the known metrics: the user gets syntax mistakes and unknown names in
        # one answer. The cache holds valid formulas only, and does not depend on the metrics of one
        # benchmark.
        raise InvalidFormula(check_formula(text, metric_keys).mistakes) from None
    if metric_keys is not None:
        mistakes = unknown_metrics(compiled.root, text, metric_keys)
        if mistakes:
            raise InvalidFormula(mistakes)
    return compiled


@lru_cache(maxsize=CACHE_SIZE)
def _compile(text: str) -> CompiledFormula:
    root = parse_expression(text)
    parameters = references(root)
    return CompiledFormula(
        source=text,
        text=format_expression(root),
        references=parameters,
        root=root,
        function=_compile_function(root, parameters),
    )


def _raise_too_large() -> NoReturn:
    raise OverflowError("an intermediate result is too large")


_NAMESPACE: Mapping[str, object] = {
    # The code is our own; without builtins even a defect in it could not reach files or imports.
    "__builtins__": {},
    "equal": equal,
    "unequal": unequal,
    "raise_too_large": _raise_too_large,
    **{row.name: row.apply for row in FUNCTIONS.values()},
}


def _compile_function(root: Expr, parameters: tuple[Reference, ...]) -> Callable[..., float]:
    code_of_numbers = PythonCode(parameters)
    arguments = python.arguments(
        # Positional only: a call by position is the fastest that Python has.
        posonlyargs=[python.arg(name) for name in code_of_numbers.names.values()],
        args=[],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    body = evaluate_number(root, code_of_numbers)
    tree = python.Expression(python.Lambda(arguments, body))
    code = compile(python.fix_missing_locations(tree), "<formula>", "eval")
    # compile() gives the code of an expression that creates the lambda; its body is a constant of
    # it. So nothing is executed here.
    inner = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
    return FunctionType(inner, dict(_NAMESPACE), "formula")


class PythonCode:
    """Numbers and conditions as Python expressions. Python's own IF, AND and OR are lazy, too."""

    def __init__(self, parameters: tuple[Reference, ...]) -> None:
        self.names = {reference: f"m{index}" for index, reference in enumerate(parameters)}

    def constant(self, value: float) -> python.expr:
        return python.Constant(value)

    def metric(self, node: Metric) -> python.expr:
        return _load(self.names[node.reference])

    def negative(self, operand: python.expr) -> python.expr:
        return python.UnaryOp(python.USub(), operand)

    def arithmetic(self, node: Arithmetic, left: python.expr, right: python.expr) -> python.expr:
        # 1 / infinity is 0: the overflow would go unnoticed.
        divisor = _require_finite(node.right, right) if node.operator == "/" else right
        return python.BinOp(left, _ARITHMETIC[node.operator](), divisor)

    def weighted(self, _argument: Argument, value: python.expr, weight: float) -> python.expr:
        return python.BinOp(value, python.Mult(), python.Constant(weight))

    def call(self, node: Call, arguments: Sequence[python.expr]) -> python.expr:
        function = FUNCTIONS[node.function]
        operands = list(arguments)
        if function.hides_infinity:
            operands = [
                _require_finite(argument.value, operand)
                for argument, operand in zip(node.arguments, operands, strict=True)
            ]
        return function.emit(operands) if function.emit else _apply(function.name, operands)

    def first_defined(
        self, node: Call, arguments: Sequence[Callable[[], python.expr]]
    ) -> python.expr:
        # An undefined first argument raises, and `explain` then tries the others.
        return _require_finite(node.arguments[0].value, arguments[0]())

    def choose(
        self,
        test: python.expr,
        then: Callable[[], python.expr],
        otherwise: Callable[[], python.expr],
    ) -> python.expr:
        return python.IfExp(test, then(), otherwise())

    def relation(self, node: Relation, left: python.expr, right: python.expr) -> python.expr:
        sides = [_require_finite(node.left, left), _require_finite(node.right, right)]
        if node.operator in _EQUALITY:
            return _apply(_EQUALITY[node.operator], sides)
        return python.Compare(sides[0], [_COMPARISON[node.operator]()], [sides[1]])

    def logic(
        self, node: Logic, left: python.expr, right: Callable[[], python.expr]
    ) -> python.expr:
        return python.BoolOp(_LOGIC[node.operator](), [left, right()])

    def negation(self, operand: python.expr) -> python.expr:
        return python.UnaryOp(python.Not(), operand)

    choose_condition = choose


def _require_finite(node: Expr, value: python.expr) -> python.expr:
    """The value of a node where an infinite one would go unnoticed: raises OverflowError instead.

    x - x is 0 for every float except infinities and NaN, and is faster than a call of `isfinite`.
    """
    if not may_be_infinite(node):
        return value
    # One name is enough: it is read again before another part can assign it.
    assignment = python.NamedExpr(python.Name("value", python.Store()), value)
    difference = python.BinOp(assignment, python.Sub(), _load("value"))
    test = python.Compare(difference, [python.Eq()], [python.Constant(0.0)])
    return python.IfExp(test, _load("value"), _apply("raise_too_large", []))


def may_be_infinite(node: Expr) -> bool:
    """Return whether finite metrics can make this part of a formula infinite."""
    match node:
        case Arithmetic():
            return True
        case Negative():
            return may_be_infinite(node.operand)
        case Conditional():
            return may_be_infinite(node.then) or may_be_infinite(node.otherwise)
        case Call():
            function = FUNCTIONS[node.function]
            operands = (may_be_infinite(argument.value) for argument in node.arguments)
            return function.can_overflow or (not function.hides_infinity and any(operands))
        case _:
            return False


def _load(name: str) -> python.expr:
    return python.Name(name, python.Load())


def _apply(name: str, arguments: list[python.expr]) -> python.expr:
    return python.Call(_load(name), arguments, [])
