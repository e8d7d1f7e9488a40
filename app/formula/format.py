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
    """The text that reads back as this tree."""
    return _text(root, 0, closed=True)


def format_number(value: float) -> str:
    """The shortest text of a number that reads back as the same number."""
    text = repr(value)
    return text.removesuffix(".0")


def _text(node: Expr, rank: int, *, closed: bool) -> str:
    """`rank` is what the place asks for; `closed` says that nothing follows to be swallowed."""
    if _fits(node, rank, closed=closed):
        return _bare(node, closed=closed)
    return f"({_bare(node, closed=True)})"


def _fits(node: Expr, rank: int, *, closed: bool) -> bool:
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


def _bare(node: Expr, *, closed: bool) -> str:  # noqa: PLR0911 - one return per kind of node
    match node:
        case Number():
            return format_number(node.value)
        case Metric():
            return str(node.reference)
        case Negative():
            return f"-{_text(node.operand, NEGATIVE_RANK, closed=closed)}"
        case Not():
            return f"NOT {_text(node.operand, RANK['NOT'], closed=closed)}"
        case Arithmetic() | Logic():
            return _infix(node, RANK[node.operator], closed=closed)
        case Relation():
            return _infix(node, RANK[node.operator] + 1, closed=closed)
        case Conditional():
            condition, then = format_expression(node.condition), format_expression(node.then)
            otherwise = _text(node.otherwise, 0, closed=closed)
            return f"IF {condition} THEN {then} ELSE {otherwise}"
        case Call():
            return f"{node.function}({', '.join(map(_argument, node.arguments))})"


def _infix(node: Arithmetic | Logic | Relation, left_rank: int, *, closed: bool) -> str:
    left = _text(node.left, left_rank, closed=False)
    right = _text(node.right, RANK[node.operator] + 1, closed=closed)
    return f"{left} {node.operator} {right}"


def _argument(argument: Argument) -> str:
    value = format_expression(argument.value)
    return value if argument.weight is None else f"{value}:{format_number(argument.weight)}"
