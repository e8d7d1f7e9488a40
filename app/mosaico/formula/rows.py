"""Evaluates a compiled formula over many rows of metric values at once, for resampling.

Imports numpy: call it only in a process that computes. Each row gives the bits that
`CompiledFormula.evaluate` gives for it, and NaN where that gives no value.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaico.formula.ast import Argument, Arithmetic, Call, Expr, Logic, Metric, Reference, Relation
from mosaico.formula.compile import CompiledFormula
from mosaico.formula.evaluate import evaluate_number
from mosaico.formula.functions import EQUAL_WITHIN, FUNCTIONS, FormulaFunction

Rows: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
# A condition or a winner is unstable when this share of the resamples is on the other side.
UNSTABLE_SHARE = 0.05


class InstabilityKind(StrEnum):
    """The reasons why a value may jump: metrics nearly tied in a MIN or MAX, or a value close to a
    limit.
    """

    TIE = "TIE"
    CLIFF = "CLIFF"


class Instability(NamedTuple):
    """A part of a formula that takes another branch in a share of the resamples."""

    kind: InstabilityKind
    text: str
    share: float


class FormulaRows(NamedTuple):
    """The value of each row, NaN where it is undefined, and the unstable parts of the formula."""

    values: Rows
    instabilities: tuple[Instability, ...]


def evaluate_rows(formula: CompiledFormula, columns: Mapping[Reference, Rows]) -> FormulaRows:
    """Evaluate a formula over columns of one length (at least one row); NaN or no column: missing.

    The first row holds the observed values. The other rows are resamples and are compared with it.
    """
    row_count = max((len(column) for column in columns.values()), default=1)
    numbers = NumpyColumns(formula.source, columns, row_count)
    # Division by zero and overflow are expected here and become NaN below.
    with np.errstate(all="ignore"):
        values = _nan_unless_finite(evaluate_number(formula.root, numbers) + 0.0)
    return FormulaRows(values, tuple(dict.fromkeys(numbers.instabilities)))


class _Truth(NamedTuple):
    """Whether a condition holds, and whether that is defined, row by row."""

    holds: Mask
    defined: Mask


class NumpyColumns:
    """Numbers as columns of floats, conditions as columns of truth values.

    Both branches of an IF are computed for all rows, so `_reached` records in which rows a part
    would be computed at all: only those count as unstable.
    """

    def __init__(self, text: str, columns: Mapping[Reference, Rows], row_count: int) -> None:
        self.instabilities: list[Instability] = []
        self._text = text
        self._columns = columns
        self._row_count = row_count
        self._reached: Mask = np.ones(row_count, dtype=np.bool_)

    def constant(self, value: float) -> Rows:
        return np.full(self._row_count, value)

    def metric(self, node: Metric) -> Rows:
        column = self._columns.get(node.reference)
        return self._all_undefined() if column is None else _nan_unless_finite(column)

    def negative(self, operand: Rows) -> Rows:
        return -operand

    def arithmetic(self, node: Arithmetic, left: Rows, right: Rows) -> Rows:
        return _nan_unless_finite(_COMPUTE[node.operator](left, right))

    def weighted(self, _argument: Argument, value: Rows, weight: float) -> Rows:
        return _nan_unless_finite(value * weight)

    def call(self, node: Call, arguments: Sequence[Rows]) -> Rows:
        defined = _all_defined(arguments)
        self._check_call_stability(node, arguments, self._reached & defined)
        compute = _VECTORIZED.get(node.function)
        function = FUNCTIONS[node.function]
        values = compute(*arguments) if compute else _row_by_row(function, arguments, defined)
        return _nan_unless_finite(np.where(defined, values, np.nan))

    def first_defined(self, _node: Call, arguments: Sequence[Callable[[], Rows]]) -> Rows:
        values = self._all_undefined()
        for argument in arguments:
            undefined = np.isnan(values)
            with self._reaching(undefined):
                values = np.where(undefined, argument(), values)
        return values

    def choose(self, test: _Truth, then: Callable[[], Rows], otherwise: Callable[[], Rows]) -> Rows:
        with self._reaching(test.holds):
            then_values = then()
        with self._reaching(~test.holds):
            other_values = otherwise()
        return np.where(test.defined, np.where(test.holds, then_values, other_values), np.nan)

    def relation(self, node: Relation, left: Rows, right: Rows) -> _Truth:
        holds = _COMPARE[node.operator](left, right)
        defined = ~(np.isnan(left) | np.isnan(right))
        self._check_stability(InstabilityKind.CLIFF, node, holds, self._reached & defined)
        return _Truth(holds, defined)

    def logic(self, node: Logic, left: _Truth, right: Callable[[], _Truth]) -> _Truth:
        needs_right = left.holds if node.operator == "AND" else ~left.holds
        with self._reaching(needs_right):
            second = right()
        return _Truth(
            np.where(needs_right, second.holds, left.holds),
            left.defined & (~needs_right | second.defined),
        )

    def negation(self, operand: _Truth) -> _Truth:
        return operand._replace(holds=~operand.holds)

    def choose_condition(
        self, test: _Truth, then: Callable[[], _Truth], otherwise: Callable[[], _Truth]
    ) -> _Truth:
        with self._reaching(test.holds):
            first = then()
        with self._reaching(~test.holds):
            second = otherwise()
        return _Truth(
            np.where(test.holds, first.holds, second.holds),
            test.defined & np.where(test.holds, first.defined, second.defined),
        )

    @contextmanager
    def _reaching(self, rows: Mask) -> Iterator[None]:
        """Compute a part that only these rows reach."""
        outer = self._reached
        self._reached = outer & rows
        try:
            yield
        finally:
            self._reached = outer

    def _all_undefined(self) -> Rows:
        return np.full(self._row_count, np.nan)

    def _check_call_stability(self, node: Call, arguments: Sequence[Rows], rows: Mask) -> None:
        match node.function:
            case "MIN":
                # Which argument wins, not its value: the value changes in every resample.
                winners = np.argmin(np.stack(arguments), axis=0)
                self._check_stability(InstabilityKind.TIE, node, winners, rows)
            case "MAX":
                winners = np.argmax(np.stack(arguments), axis=0)
                self._check_stability(InstabilityKind.TIE, node, winners, rows)
            case "THRESHOLD":
                passes = arguments[0] >= arguments[1]
                self._check_stability(InstabilityKind.CLIFF, node, passes, rows)

    def _check_stability(
        self,
        kind: InstabilityKind,
        node: Expr,
        branches: NDArray[np.bool_] | NDArray[np.intp],
        rows: Mask,
    ) -> None:
        """Record a part whose branch differs from that of the observed row in too many resamples."""
        resamples = int(rows[1:].sum())
        # Where the observed value does not reach the part, there is nothing to compare with.
        if not rows[0] or not resamples:
            return
        share = int(((branches[1:] != branches[0]) & rows[1:]).sum()) / resamples
        if share >= UNSTABLE_SHARE:
            text = self._text[node.span.start : node.span.end]
            self.instabilities.append(Instability(kind, text, share))


def _nan_unless_finite(values: Rows) -> Rows:
    return np.where(np.isfinite(values), values, np.nan)


def _all_defined(columns: Sequence[Rows]) -> Mask:
    return reduce(np.logical_and, (~np.isnan(column) for column in columns))


def _row_by_row(function: FormulaFunction, arguments: Sequence[Rows], defined: Mask) -> Rows:
    """Apply a function that numpy does not have or may round differently."""
    values = np.full(len(defined), np.nan)
    indices = np.flatnonzero(defined)
    columns = [argument[indices].tolist() for argument in arguments]
    for index, row in zip(indices.tolist(), zip(*columns, strict=True), strict=True):
        try:
            values[index] = function.apply(*row)
        except ValueError:
            continue
    return values


def _equal(left: Rows, right: Rows) -> Mask:
    return np.abs(left - right) <= np.maximum(
        np.abs(EQUAL_WITHIN * left), np.abs(EQUAL_WITHIN * right)
    )


def _sum(*values: Rows) -> Rows:
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
_VECTORIZED: Mapping[str, Callable[..., Rows]] = MappingProxyType(
    {
        "AVERAGE": lambda *values: _sum(*values) / float(len(values)),
        "WEIGHTED_SUM": _sum,
        "MIN": lambda *values: reduce(np.minimum, values),
        "MAX": lambda *values: reduce(np.maximum, values),
        "THRESHOLD": lambda value, limit: np.where(value >= limit, 1.0, 0.0),
        "ABS": np.abs,
    }
)
