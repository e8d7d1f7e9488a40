"""Hypothesis strategies for random expression trees of formulas."""

from typing import NamedTuple

from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from mosaico.formula import Reference, format_expression
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
    Relation,
    named_key,
    walk,
)
from mosaico.formula.functions import (
    FUNCTIONS,
    KEYWORDS,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_NODES,
    FormulaFunction,
)
from mosaico.formula.metric_statistics import STATISTICS

NO_SPAN = FormulaSpan(0, 0)
without_deadline = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

names = st.from_regex(r"[A-Z_][A-Z0-9_]{0,4}", fullmatch=True).filter(
    lambda name: name not in KEYWORDS and name not in FUNCTIONS
)
scores = st.builds(
    named_key,
    st.sampled_from(["SCORE", "LLM_JUDGE"]),
    # The parser refuses control characters in a name, and a surrogate cannot be encoded.
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6),
)
stats = st.sampled_from(sorted(STATISTICS))
metrics = st.builds(Reference, names | scores, stats)
FEW = tuple(Reference(name, stat) for name in ("A", "B", "C") for stat in ("mean", "p95"))


LEAVES = ("number", "metric")
# A name that occurs twice is drawn twice as often: trees get deep enough to test precedence.
ARITHMETIC = (*LEAVES, "negative", "arithmetic", "arithmetic")
SHAPES = (*LEAVES, *ARITHMETIC, "choice", *FUNCTIONS)
# Only a comparison ends a condition; without more of them the trees would exceed the limits.
CONDITIONS = ("comparison", "comparison", "comparison", "not", "logic", "choice")
literals = st.floats(min_value=0.0, allow_infinity=False) | st.sampled_from([0.0, 1.0, 0.5])
weights = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def numbers(
    draw: DrawFn, references: SearchStrategy[Reference], shapes: tuple[str, ...] = SHAPES
) -> Expr:
    """Trees that give a number, within the limits of the language."""
    root = _ExpressionBuilder(draw, references, shapes).number(draw(st.integers(0, 4)))
    assume(_within_limits(root))
    return root


class _ExpressionBuilder(NamedTuple):
    draw: DrawFn
    references: SearchStrategy[Reference]
    shapes: tuple[str, ...]

    def number(self, levels: int) -> Expr:
        shape = self.draw(st.sampled_from(self.shapes if levels else LEAVES))
        if shape == "number":
            return Number(value=self.draw(literals), span=NO_SPAN)
        if shape == "metric":
            return Metric(reference=self.draw(self.references), span=NO_SPAN)
        if shape == "negative":
            return Negative(operand=self.number(levels - 1), span=NO_SPAN)
        if shape == "arithmetic":
            left, right = self.number(levels - 1), self.number(levels - 1)
            operator = self.draw(st.sampled_from("+-*/"))
            return Arithmetic(operator=operator, left=left, right=right, span=NO_SPAN)
        if shape == "choice":
            return Conditional(
                condition=self.condition(levels - 1),
                then=self.number(levels - 1),
                otherwise=self.number(levels - 1),
                span=NO_SPAN,
            )
        return self.call(FUNCTIONS[shape], levels - 1)

    def call(self, row: FormulaFunction, levels: int) -> Expr:
        count = self.draw(st.integers(row.min_arguments, row.max_arguments or 3))
        arguments = tuple(
            Argument(value=self.number(levels), weight=self.draw(weights) if row.weighted else None)
            for _ in range(count)
        )
        return Call(function=row.name, arguments=arguments, span=NO_SPAN)

    def condition(self, levels: int) -> Expr:
        shape = self.draw(st.sampled_from(CONDITIONS)) if levels > 0 else "comparison"
        if shape == "not":
            return Not(operand=self.condition(levels - 1), span=NO_SPAN)
        if shape == "logic":
            left, right = self.condition(levels - 1), self.condition(levels - 1)
            operator = self.draw(st.sampled_from(["AND", "OR"]))
            return Logic(operator=operator, left=left, right=right, span=NO_SPAN)
        if shape == "choice":
            return Conditional(
                condition=self.condition(levels - 1),
                then=self.condition(levels - 1),
                otherwise=self.condition(levels - 1),
                span=NO_SPAN,
            )
        left, right = self.number(max(0, levels - 1)), self.number(max(0, levels - 1))
        operator = self.draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
        return Relation(operator=operator, left=left, right=right, span=NO_SPAN)


def _within_limits(root: Expr) -> bool:
    nodes = list(walk(root))
    if len(nodes) > MAX_NODES or max(depth for _, depth in nodes) > MAX_DEPTH:
        return False
    return len(format_expression(root).encode()) <= MAX_BYTES
