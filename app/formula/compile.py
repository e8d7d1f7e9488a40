"""A checked formula as one Python function of floats.

The function's code is built node by node from our own tree; no text of a user is ever compiled.
It assumes finite arguments. Where something is missing, a domain is left, or a result is too
large, `CompiledFormula.evaluate` turns to the explainer, which says why.
"""

import ast as python
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FunctionType, MappingProxyType
from typing import NoReturn

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
    references,
)
from app.formula.check import check_formula, parse_expression, unknown_metrics
from app.formula.errors import InvalidFormula
from app.formula.explain import FormulaValue, Values, explain
from app.formula.format import format_expression
from app.formula.functions import FUNCTIONS, Function, equal, unequal

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
    """A formula ready to be computed, any number of times, from any thread.

    `function` takes one finite Python float per reference, in that order. It is the fast way for
    resampling, and raises ArithmeticError or ValueError, or gives a result that is not finite,
    where `evaluate` would say undefined.
    """

    source: str
    text: str
    references: tuple[Reference, ...]
    root: Expr = field(repr=False)
    function: Callable[..., float] = field(repr=False, compare=False)

    def evaluate(self, values: Values) -> FormulaValue:
        """The value for these metrics, or None with the reason; a missing metric is never 0."""
        try:
            arguments = [float(values[reference]) for reference in self.references]  # type: ignore[arg-type]
            if all(map(math.isfinite, arguments)):
                result = self.function(*arguments)
                if math.isfinite(result):
                    return FormulaValue(result + 0.0)
        except (KeyError, TypeError, ValueError, ArithmeticError):
            pass
        return explain(self.root, self.source, values)


def compile_formula(text: str, known: Collection[str] | None = None) -> CompiledFormula:
    """Compile a formula; the last 1024 texts are remembered.

    `known` are the metric keys that may be used, in upper case; None accepts any.
    Raises `InvalidFormula` with every mistake.
    """
    try:
        compiled = _compile(text)
    except InvalidFormula:
        raise InvalidFormula(check_formula(text, known).mistakes) from None
    mistakes = () if known is None else unknown_metrics(compiled.root, text, known)
    if mistakes:
        raise InvalidFormula(mistakes)
    return compiled


@lru_cache(maxsize=CACHE_SIZE)
def _compile(text: str) -> CompiledFormula:
    root = parse_expression(text)
    read = references(root)
    return CompiledFormula(
        source=text,
        text=format_expression(root),
        references=read,
        root=root,
        function=_function(root, read),
    )


def _too_large() -> NoReturn:
    raise OverflowError("an intermediate result is too large")


_NAMESPACE: Mapping[str, object] = {
    "__builtins__": {},
    "equal": equal,
    "unequal": unequal,
    "too_large": _too_large,
    **{row.name: row.apply for row in FUNCTIONS.values()},
}


def _function(root: Expr, read: tuple[Reference, ...]) -> Callable[..., float]:
    writer = _Writer(read)
    arguments = python.arguments(
        posonlyargs=[python.arg(name) for name in writer.names.values()],
        args=[],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    tree = python.Expression(python.Lambda(arguments, writer.write(root)))
    code = compile(python.fix_missing_locations(tree), "<formula>", "eval")
    inner = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
    return FunctionType(inner, dict(_NAMESPACE), "formula")


class _Writer:
    """Writes a tree as a Python expression."""

    def __init__(self, read: tuple[Reference, ...]) -> None:
        self.names = {reference: f"m{index}" for index, reference in enumerate(read)}

    def write(self, node: Expr) -> python.expr:  # noqa: PLR0911 - one return per kind of node
        match node:
            case Number():
                return python.Constant(node.value)
            case Metric():
                return _load(self.names[node.reference])
            case Negative():
                return python.UnaryOp(python.USub(), self.write(node.operand))
            case Arithmetic():
                return self._arithmetic(node)
            case Comparison():
                return self._comparison(node)
            case Logic():
                sides = [self.write(node.left), self.write(node.right)]
                return python.BoolOp(_LOGIC[node.operator](), sides)
            case Not():
                return python.UnaryOp(python.Not(), self.write(node.operand))
            case Choice():
                return python.IfExp(
                    self.write(node.condition), self.write(node.then), self.write(node.otherwise)
                )
            case Call():
                return self._call(FUNCTIONS[node.function], node)

    def _arithmetic(self, node: Arithmetic) -> python.expr:
        left = self.write(node.left)
        right = self._small(node.right) if node.operator == "/" else self.write(node.right)
        return python.BinOp(left, _ARITHMETIC[node.operator](), right)

    def _comparison(self, node: Comparison) -> python.expr:
        left, right = self._small(node.left), self._small(node.right)
        if node.operator in _EQUALITY:
            return _apply(_EQUALITY[node.operator], [left, right])
        return python.Compare(left, [_COMPARISON[node.operator]()], [right])

    def _call(self, function: Function, node: Call) -> python.expr:
        arguments = [self._argument(function, argument) for argument in node.arguments]
        return function.emit(arguments) if function.emit else _apply(function.name, arguments)

    def _argument(self, function: Function, argument: Argument) -> python.expr:
        value = self._small(argument.value) if function.hides else self.write(argument.value)
        if argument.weight is None:
            return value
        return python.BinOp(value, python.Mult(), python.Constant(argument.weight))

    def _small(self, node: Expr) -> python.expr:
        """The value where an infinite one would go unseen: raises OverflowError instead.

        x - x is 0 for every number but the infinite ones and NaN.
        """
        value = self.write(node)
        if not may_be_infinite(node):
            return value
        kept = python.NamedExpr(python.Name("kept", python.Store()), value)
        difference = python.BinOp(kept, python.Sub(), _load("kept"))
        test = python.Compare(difference, [python.Eq()], [python.Constant(0.0)])
        return python.IfExp(test, _load("kept"), _apply("too_large", []))


def may_be_infinite(node: Expr) -> bool:
    """Whether finite metrics could make this part infinite."""
    match node:
        case Arithmetic():
            return True
        case Negative():
            return may_be_infinite(node.operand)
        case Choice():
            return may_be_infinite(node.then) or may_be_infinite(node.otherwise)
        case Call():
            function = FUNCTIONS[node.function]
            inside = (may_be_infinite(argument.value) for argument in node.arguments)
            return function.grows or (not function.hides and any(inside))
        case _:
            return False


def _load(name: str) -> python.expr:
    return python.Name(name, python.Load())


def _apply(name: str, arguments: list[python.expr]) -> python.expr:
    return python.Call(_load(name), arguments, [])
