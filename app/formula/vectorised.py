"""A compiled formula over many rows of metric values at once, for resampling. Needs numpy.

Row by row it gives the bits that `CompiledFormula.evaluate` gives, and NaN where that says undefined.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
)
from app.formula.compile import CompiledFormula
from app.formula.functions import EQUAL_WITHIN, FUNCTIONS, Function

Rows: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
# So many resamples on the other side, and a condition or a winner is taken to hang by a thread.
UNSTEADY = 0.05


class Kind(StrEnum):
    """Why a value may jump: metrics nearly tied in a MIN or MAX, or a limit close by."""

    TIE = "TIE"
    CLIFF = "CLIFF"


class Unsteady(NamedTuple):
    """A part of a formula that falls out otherwise in a share of the rows than in the first."""

    kind: Kind
    text: str
    share: float


class FormulaRows(NamedTuple):
    """The value of each row, NaN where it is undefined, and what hangs by a thread."""

    values: Rows
    unsteady: tuple[Unsteady, ...]


def evaluate_rows(formula: CompiledFormula, columns: Mapping[Reference, Rows]) -> FormulaRows:
    """The formula over columns of one length, at least one row; NaN or no column: missing.

    The first row holds the values as they were seen; the others, resamples, are compared with it.
    """
    rows = max((len(column) for column in columns.values()), default=1)
    steps = _Steps(formula.source, columns, rows)
    with np.errstate(all="ignore"):
        values = _finite(steps.number(formula.root, np.ones(rows, dtype=np.bool_)) + 0.0)
    return FormulaRows(values, tuple(dict.fromkeys(steps.unsteady)))


class _Truth(NamedTuple):
    """Whether a condition holds, and whether that is known, row by row."""

    holds: Mask
    known: Mask


class _Steps:
    """Walks the tree once; `reached` says in which rows a part is computed at all."""

    def __init__(self, text: str, columns: Mapping[Reference, Rows], rows: int) -> None:
        self.text = text
        self.columns = columns
        self.rows = rows
        self.unsteady: list[Unsteady] = []

    def number(self, node: Expr, reached: Mask) -> Rows:
        match node:
            case Number():
                return np.full(self.rows, node.value)
            case Metric():
                return _finite(self.columns.get(node.reference, np.full(self.rows, np.nan)))
            case Negative():
                return -self.number(node.operand, reached)
            case Arithmetic():
                return self._arithmetic(node, reached)
            case Choice():
                return self._choice(node, reached)
            case Call():
                return self._call(node, reached)
            case _:
                raise TypeError("a condition stands where a number belongs; check the formula")

    def condition(self, node: Expr, reached: Mask) -> _Truth:
        match node:
            case Comparison():
                return self._comparison(node, reached)
            case Logic():
                return self._logic(node, reached)
            case Not():
                found = self.condition(node.operand, reached)
                return found._replace(holds=~found.holds)
            case Choice():
                chosen = self.condition(node.condition, reached)
                then = self.condition(node.then, reached & chosen.holds)
                otherwise = self.condition(node.otherwise, reached & ~chosen.holds)
                return _Truth(
                    np.where(chosen.holds, then.holds, otherwise.holds),
                    chosen.known & np.where(chosen.holds, then.known, otherwise.known),
                )
            case _:
                raise TypeError("a number stands where a condition belongs; check the formula")

    def _arithmetic(self, node: Arithmetic, reached: Mask) -> Rows:
        left, right = self.number(node.left, reached), self.number(node.right, reached)
        return _finite(_COMPUTE[node.operator](left, right))

    def _choice(self, node: Choice, reached: Mask) -> Rows:
        chosen = self.condition(node.condition, reached)
        then = self.number(node.then, reached & chosen.holds)
        otherwise = self.number(node.otherwise, reached & ~chosen.holds)
        return np.where(chosen.known, np.where(chosen.holds, then, otherwise), np.nan)

    def _comparison(self, node: Comparison, reached: Mask) -> _Truth:
        left, right = self.number(node.left, reached), self.number(node.right, reached)
        found = _Truth(_COMPARE[node.operator](left, right), ~(np.isnan(left) | np.isnan(right)))
        self._watch(Kind.CLIFF, node, found.holds, reached & found.known)
        return found

    def _logic(self, node: Logic, reached: Mask) -> _Truth:
        left = self.condition(node.left, reached)
        asked = left.holds if node.operator == "AND" else ~left.holds
        right = self.condition(node.right, reached & asked)
        return _Truth(np.where(asked, right.holds, left.holds), left.known & (~asked | right.known))

    def _call(self, node: Call, reached: Mask) -> Rows:
        function = FUNCTIONS[node.function]
        if function.first_defined:
            return self._first_defined(node, reached)
        arguments = [self._argument(argument, reached) for argument in node.arguments]
        self._watch_call(node, arguments, reached)
        known = _all_known(arguments)
        compute = _FUNCTIONS.get(node.function)
        found = compute(*arguments) if compute else _one_by_one(function, arguments, known)
        return _finite(np.where(known, found, np.nan))

    def _argument(self, argument: Argument, reached: Mask) -> Rows:
        value = self.number(argument.value, reached)
        return value if argument.weight is None else _finite(value * argument.weight)

    def _first_defined(self, node: Call, reached: Mask) -> Rows:
        found = np.full(self.rows, np.nan)
        for argument in node.arguments:
            missing = np.isnan(found)
            found = np.where(missing, self._argument(argument, reached & missing), found)
        return found

    def _watch_call(self, node: Call, arguments: list[Rows], reached: Mask) -> None:
        known = reached & _all_known(arguments)
        match node.function:
            case "MIN":
                self._watch(Kind.TIE, node, np.argmin(np.stack(arguments), axis=0), known)
            case "MAX":
                self._watch(Kind.TIE, node, np.argmax(np.stack(arguments), axis=0), known)
            case "THRESHOLD":
                self._watch(Kind.CLIFF, node, arguments[0] >= arguments[1], known)

    def _watch(
        self, kind: Kind, node: Expr, sides: NDArray[np.bool_] | NDArray[np.intp], known: Mask
    ) -> None:
        resampled = int(known[1:].sum())
        if not known[0] or not resampled:
            return
        share = int(((sides[1:] != sides[0]) & known[1:]).sum()) / resampled
        if share >= UNSTEADY:
            text = self.text[node.span.start : node.span.end]
            self.unsteady.append(Unsteady(kind, text, share))


def _finite(values: Rows) -> Rows:
    return np.where(np.isfinite(values), values, np.nan)


def _all_known(columns: list[Rows]) -> Mask:
    return reduce(np.logical_and, (~np.isnan(column) for column in columns))


def _one_by_one(function: Function, arguments: list[Rows], known: Mask) -> Rows:
    """What numpy might round otherwise, or does not know, is computed by the function itself."""
    found = np.full(len(known), np.nan)
    places = np.flatnonzero(known)
    columns = [argument[places].tolist() for argument in arguments]
    for place, values in zip(places.tolist(), zip(*columns, strict=True), strict=True):
        try:
            found[place] = function.apply(*values)
        except ValueError:
            continue
    return found


def _equal(left: Rows, right: Rows) -> Mask:
    return np.abs(left - right) <= np.maximum(
        np.abs(EQUAL_WITHIN * left), np.abs(EQUAL_WITHIN * right)
    )


def _total(*values: Rows) -> Rows:
    return reduce(np.add, values)


_COMPUTE: Mapping[str, Callable[[Rows, Rows], Rows]] = MappingProxyType(
    {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
)
_COMPARE: Mapping[str, Callable[[Rows, Rows], Mask]] = MappingProxyType(
    {
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
        "==": _equal,
        "!=": lambda left, right: ~_equal(left, right),
    }
)
_FUNCTIONS: Mapping[str, Callable[..., Rows]] = MappingProxyType(
    {
        "AVERAGE": lambda *values: _total(*values) / float(len(values)),
        "WEIGHTED_SUM": _total,
        "MIN": lambda *values: reduce(np.minimum, values),
        "MAX": lambda *values: reduce(np.maximum, values),
        "THRESHOLD": lambda value, limit: np.where(value >= limit, 1.0, 0.0),
        "ABS": np.abs,
    }
)
