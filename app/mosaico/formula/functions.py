"""The tables of the language: functions, statistics, operators, limits.

The checker, the evaluator and the help read the same rows. A new function is one row. The meaning of
an existing function never changes, because formulas are stored.
"""

import ast as python
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import reduce
from operator import add, ge, gt, le, lt, mul, sub, truediv
from types import MappingProxyType
from typing import Any, NamedTuple

from mosaico.formula.metric_statistics import PERCENTILES, STATISTIC_FUNCTIONS, STATISTICS

# The depth and the number of nodes bound the time of every walk; the bytes bound the lexer.
MAX_BYTES = 4096
MAX_DEPTH = 32
MAX_NODES = 256
MAX_MISTAKES = 20
# No float has a decimal beyond these.
MAX_DIGITS = 300
# Computed metrics are rarely equal to the last bit; 1e-9 is far below every difference that matters
# and far above rounding errors.
EQUAL_WITHIN = 1e-9

Emit = Callable[[Sequence[python.expr]], python.expr]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulaFunction:
    """One function of the language.

    `apply` computes it from finite floats and raises ValueError with the reason outside its domain.
    `emit`, if present, builds the same computation as one Python expression.
    `hides_infinity`: an infinite argument can give a finite result, so the compiled code checks each
    argument. `can_overflow`: finite arguments can give an infinite result.
    """

    name: str
    signature: str
    meaning: str
    example: str
    apply: Callable[..., float]
    emit: Emit | None = None
    min_arguments: int = 1
    max_arguments: int | None = None
    weighted: bool = False
    first_defined: bool = False
    hides_infinity: bool = False
    can_overflow: bool = False

    @property
    def arity(self) -> str:
        """The number of arguments, in words."""
        if self.max_arguments is None:
            return f"at least {_count_arguments(self.min_arguments)}"
        if self.max_arguments > self.min_arguments:
            return f"{self.min_arguments} or {_count_arguments(self.max_arguments)}"
        return _count_arguments(self.min_arguments)


class FormulaOperator(NamedTuple):
    """An operator; a higher rank binds tighter."""

    symbol: str
    rank: int
    meaning: str
    example: str


def _count_arguments(count: int) -> str:
    return "1 argument" if count == 1 else f"{count} arguments"


def _total(*values: float) -> float:
    # Not the built-in sum: since Python 3.12 it compensates, and results would differ by version.
    return reduce(add, values)


def _average(*values: float) -> float:
    return _total(*values) / float(len(values))


def _threshold(value: float, threshold: float) -> float:
    return 1.0 if value >= threshold else 0.0


# Not the built-in itself: with one argument, min() would iterate over the number.
def _least(*values: float) -> float:
    return min(values)


def _greatest(*values: float) -> float:
    return max(values)


def _square_root(value: float) -> float:
    if value < 0.0:
        raise ValueError("the square root of a negative number")
    return math.sqrt(value)


def _logarithm(value: float) -> float:
    if value <= 0.0:
        raise ValueError("the logarithm of a number that is not positive")
    return math.log(value)


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _power(base: float, exponent: float) -> float:
    if base == 0.0 and exponent < 0.0:
        raise ValueError("a negative power of 0")
    if base < 0.0 and not exponent.is_integer():
        raise ValueError("a power of a negative number with an exponent that is not whole")
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def _rounded(value: float, digits: float = 0.0) -> float:
    if not (digits.is_integer() and abs(digits) <= MAX_DIGITS):
        raise ValueError(
            f"a number of digits that is not whole, from -{MAX_DIGITS} to {MAX_DIGITS}"
        )
    # Decimal, because round() of a float rounds 0.125 to 0.12, and 2.675, which is a little less, to 2.67.
    step = Decimal(1).scaleb(-int(digits))
    return float((Decimal(repr(value)) / step).to_integral_value(ROUND_HALF_UP) * step)


def _clamp(value: float, low: float, high: float) -> float:
    if low > high:
        raise ValueError("a range whose lower end is above its upper end")
    # Cannot hide a wrong range: it was checked above, because with low > high the result would
    # depend on the order of min and max.
    return min(max(value, low), high)


def _first(*values: float) -> float:
    return values[0]


def _emit_total(values: Sequence[python.expr]) -> python.expr:
    return reduce(lambda left, right: python.BinOp(left, python.Add(), right), values)


def _emit_average(values: Sequence[python.expr]) -> python.expr:
    return python.BinOp(_emit_total(values), python.Div(), python.Constant(float(len(values))))


def _emit_threshold(values: Sequence[python.expr]) -> python.expr:
    test = python.Compare(values[0], [python.GtE()], [values[1]])
    return python.IfExp(test, python.Constant(1.0), python.Constant(0.0))


def _emit_first(values: Sequence[python.expr]) -> python.expr:
    # An undefined argument raises, and the explainer then looks at the others.
    return values[0]


_FUNCTION_TABLE = (
    FormulaFunction(
        name="AVERAGE",
        signature="AVERAGE(x, …)",
        meaning="arithmetic mean of its arguments",
        example="AVERAGE(ROUGE, BLEU)",
        apply=_average,
        emit=_emit_average,
        can_overflow=True,
    ),
    FormulaFunction(
        name="WEIGHTED_SUM",
        signature="WEIGHTED_SUM(x:w, …)",
        meaning="plain sum of w·x; weights are numbers, may be negative, need not add up to 1",
        example="WEIGHTED_SUM(ROUGE:0.5, BLEU:0.3, F1_SCORE:0.2)",
        apply=_total,
        emit=_emit_total,
        weighted=True,
        can_overflow=True,
    ),
    FormulaFunction(
        name="MIN",
        signature="MIN(x, …)",
        meaning="smallest of its arguments",
        example="MIN(PRECISION, RECALL)",
        apply=_least,
        hides_infinity=True,
    ),
    FormulaFunction(
        name="MAX",
        signature="MAX(x, …)",
        meaning="largest of its arguments",
        example="MAX(ROUGE_1, ROUGE_2)",
        apply=_greatest,
        hides_infinity=True,
    ),
    FormulaFunction(
        name="THRESHOLD",
        signature="THRESHOLD(x, t)",
        meaning="1 if x is at least t, else 0",
        example="THRESHOLD(ACCURACY, 0.8)",
        apply=_threshold,
        emit=_emit_threshold,
        min_arguments=2,
        max_arguments=2,
        hides_infinity=True,
    ),
    FormulaFunction(
        name="ABS",
        signature="ABS(x)",
        meaning="x without its sign",
        example="ABS(PRECISION - RECALL)",
        apply=abs,
        max_arguments=1,
    ),
    FormulaFunction(
        name="SQRT",
        signature="SQRT(x)",
        meaning="square root; undefined when x is negative",
        example="SQRT(PRECISION * RECALL)",
        apply=_square_root,
        max_arguments=1,
    ),
    FormulaFunction(
        name="LOG",
        signature="LOG(x)",
        meaning="natural logarithm; undefined when x is 0 or negative",
        example="LOG(1 + ROUGE.count)",
        apply=_logarithm,
        max_arguments=1,
    ),
    FormulaFunction(
        name="EXP",
        signature="EXP(x)",
        meaning="e to the power of x",
        example="EXP(-LATENCY_MS / 1000)",
        apply=_exponential,
        max_arguments=1,
        hides_infinity=True,
        can_overflow=True,
    ),
    FormulaFunction(
        name="POW",
        signature="POW(x, y)",
        meaning="x to the power of y; undefined for a negative power of 0, and for a negative x when y is not whole",
        example="POW(PRECISION * RECALL, 0.5)",
        apply=_power,
        min_arguments=2,
        max_arguments=2,
        hides_infinity=True,
        can_overflow=True,
    ),
    FormulaFunction(
        name="ROUND",
        signature="ROUND(x, digits)",
        meaning="x with this many decimals, halves away from 0; without digits a whole number; -2 rounds to hundreds",
        example="ROUND(ROUGE, 2)",
        apply=_rounded,
        max_arguments=2,
        hides_infinity=True,
        can_overflow=True,
    ),
    FormulaFunction(
        name="CLAMP",
        signature="CLAMP(x, low, high)",
        meaning="x, but not below low and not above high; undefined when low is above high",
        example="CLAMP(ROUGE * 2, 0, 1)",
        apply=_clamp,
        min_arguments=3,
        max_arguments=3,
        hides_infinity=True,
    ),
    FormulaFunction(
        name="COALESCE",
        signature="COALESCE(x, …)",
        meaning="its first argument that is defined; the only function that accepts undefined arguments",
        example='COALESCE(SCORE["Answer Relevance"], ROUGE)',
        apply=_first,
        emit=_emit_first,
        first_defined=True,
        hides_infinity=True,
    ),
)

FUNCTIONS = MappingProxyType({row.name: row for row in _FUNCTION_TABLE})

OPERATORS = (
    FormulaOperator("IF … THEN … ELSE …", 0, "one of two values; only the selected value is computed",
             "IF ROUGE > 0.5 THEN ROUGE ELSE BLEU"),
    FormulaOperator("OR", 1, "true if either side is true; the right side is computed only if needed",
             "IF ROUGE > 0.5 OR BLEU > 0.5 THEN 1 ELSE 0"),
    FormulaOperator("AND", 2, "true if both sides are true; the right side is computed only if needed",
             "IF ROUGE > 0.5 AND BLEU > 0.5 THEN 1 ELSE 0"),
    FormulaOperator("NOT", 3, "true if the condition is false", "IF NOT ROUGE < 0.5 THEN 1 ELSE 0"),
    FormulaOperator("<", 4, "less than", "IF ROUGE < 0.5 THEN 0 ELSE 1"),
    FormulaOperator("<=", 4, "at most", "IF ROUGE <= 0.5 THEN 0 ELSE 1"),
    FormulaOperator(">", 4, "greater than", "IF ROUGE > 0.5 THEN 1 ELSE 0"),
    FormulaOperator(">=", 4, "at least", "IF ROUGE >= 0.5 THEN 1 ELSE 0"),
    FormulaOperator("==", 4, "equal within a relative difference of 1e-9", "IF ROUGE == 1 THEN 1 ELSE 0"),
    FormulaOperator("!=", 4, "not equal in the sense of ==", "IF ROUGE != 1 THEN 0 ELSE 1"),
    FormulaOperator("+", 5, "sum", "ROUGE + BLEU"),
    FormulaOperator("-", 5, "difference; in front of a value, its negative (binds tighter than * and /)",
             "ROUGE - BLEU"),
    FormulaOperator("*", 6, "product", "ROUGE * 100"),
    FormulaOperator("/", 6, "quotient; undefined when the right side is 0", "ROUGE / BLEU"),
)  # fmt: skip

# Above `*`: -2 * 3 is (-2) * 3, as in Python.
NEGATIVE_RANK = 7
RANK = MappingProxyType({row.symbol: row.rank for row in OPERATORS})
KEYWORDS = frozenset({"IF", "THEN", "ELSE", "AND", "OR", "NOT"})


def equal(left: float, right: float) -> bool:
    """Return whether two numbers differ by at most 1e-9 of the larger one."""
    # No absolute tolerance: `x == 0` is true for 0 only, however small the values of a metric are.
    return math.isclose(left, right, rel_tol=EQUAL_WITHIN, abs_tol=0.0)


def unequal(left: float, right: float) -> bool:
    return not equal(left, right)


COMPARE: MappingProxyType[str, Callable[[float, float], bool]] = MappingProxyType(
    {"<": lt, "<=": le, ">": gt, ">=": ge, "==": equal, "!=": unequal}
)
COMPUTE: MappingProxyType[str, Callable[[float, float], float]] = MappingProxyType(
    {"+": add, "-": sub, "*": mul, "/": truediv}
)


def help_document() -> dict[str, Any]:
    """Functions, statistics, operators, references and limits of the language, as JSON."""
    return {
        "functions": [
            {
                "name": row.name,
                "signature": row.signature,
                "meaning": row.meaning,
                "example": row.example,
                "minArguments": row.min_arguments,
                "maxArguments": row.max_arguments,
                "weighted": row.weighted,
            }
            for row in FUNCTIONS.values()
        ]
        + [
            {**row._asdict(), "minArguments": 2, "maxArguments": 2, "weighted": False}
            for row in STATISTIC_FUNCTIONS.values()
        ],
        "operators": [
            {
                "symbol": row.symbol,
                "precedence": row.rank,
                "meaning": row.meaning,
                "example": row.example,
            }
            for row in OPERATORS
        ],
        "statistics": [
            {"name": row.name, "meaning": row.meaning}
            for row in (*STATISTICS.values(), PERCENTILES)
        ],
        "references": [
            {"form": "METRIC", "meaning": "mean of a metric; names count in any case"},
            {"form": "METRIC.stat", "meaning": "another statistic of the metric"},
            {
                "form": 'SCORE["name"].stat',
                "meaning": "a score that came with the traces; its name is case-sensitive,"
                ' with \\" and \\\\ as escapes',
            },
            {"form": 'LLM_JUDGE["name"].stat', "meaning": "one of several judges, by its name"},
            {
                "form": 'METRIC{field="value"}.stat',
                "meaning": 'a metric over the traces with the tag field:value; {tag="name"} is a'
                " whole tag; several conditions, separated by commas, must all hold",
            },
        ],
        "keywords": sorted(KEYWORDS),
        "limits": {"bytes": MAX_BYTES, "depth": MAX_DEPTH, "nodes": MAX_NODES},
    }
