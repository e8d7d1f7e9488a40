"""The explanation of a formula: the value of each of its parts, as a tree."""

from typing import NamedTuple

from app.formula.ast import (
    Arithmetic,
    Conditional,
    Expr,
    Logic,
    Not,
    Number,
    Relation,
    children,
    format_expression,
)
from app.formula.evaluate import (
    ExplainedFloats,
    MetricValues,
    UndefinedPart,
    evaluate_condition,
    evaluate_number,
)
from app.formula.functions import RANK


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
