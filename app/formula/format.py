"""The canonical text of a formula: upper case, one blank around operators, fewest parentheses."""

from app.formula.ast import (
    Argument,
    Arithmetic,
    Call,
    Conditional,
    Expr,
    Logic,
    Metric,
    Negative,
    Not,
    Number,
    Relation,
)
from app.formula.functions import NEGATIVE_RANK, RANK

_OPERAND = NEGATIVE_RANK + 1


def format_expression(root: Expr) -> str:
    """The canonical text; parsing it gives an equal tree."""
    return _format_operand(root, 0, closed=True)


def format_number(value: float) -> str:
    """The shortest text that parses to the same number."""
    text = repr(value)
    return text.removesuffix(".0")


def _format_operand(node: Expr, rank: int, *, closed: bool) -> str:
    """`rank` is what the place asks for; `closed` says that nothing follows to be swallowed."""
    if _needs_no_parentheses(node, rank, closed=closed):
        return _format_without_parentheses(node, closed=closed)
    return f"({_format_without_parentheses(node, closed=True)})"


def _needs_no_parentheses(node: Expr, rank: int, *, closed: bool) -> bool:
    if isinstance(node, Conditional):
        return closed
    return _rank(node) >= rank


def _rank(node: Expr) -> int:
    match node:
        case Arithmetic() | Relation() | Logic():
            return RANK[node.operator]
        case Not():
            return RANK["NOT"]
        case Negative():
            return NEGATIVE_RANK
        case _:
            return _OPERAND


def _format_without_parentheses(node: Expr, *, closed: bool) -> str:  # noqa: PLR0911 - one return per kind of node
    match node:
        case Number():
            return format_number(node.value)
        case Metric():
            return str(node.reference)
        case Negative():
            return f"-{_format_operand(node.operand, NEGATIVE_RANK, closed=closed)}"
        case Not():
            return f"NOT {_format_operand(node.operand, RANK['NOT'], closed=closed)}"
        case Arithmetic() | Logic():
            return _infix(node, RANK[node.operator], closed=closed)
        case Relation():
            return _infix(node, RANK[node.operator] + 1, closed=closed)
        case Conditional():
            condition, then = format_expression(node.condition), format_expression(node.then)
            otherwise = _format_operand(node.otherwise, 0, closed=closed)
            return f"IF {condition} THEN {then} ELSE {otherwise}"
        case Call():
            return f"{node.function}({', '.join(map(_argument, node.arguments))})"


def _infix(node: Arithmetic | Logic | Relation, left_rank: int, *, closed: bool) -> str:
    left = _format_operand(node.left, left_rank, closed=False)
    right = _format_operand(node.right, RANK[node.operator] + 1, closed=closed)
    return f"{left} {node.operator} {right}"


def _argument(argument: Argument) -> str:
    value = format_expression(argument.value)
    return value if argument.weight is None else f"{value}:{format_number(argument.weight)}"
