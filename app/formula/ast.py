"""The tree of a formula: frozen nodes with their position, and their canonical text.

Two nodes are equal when they mean the same; their positions are not compared. The canonical text is
in upper case, with one blank around operators and the fewest parentheses.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from app.formula.functions import NEGATIVE_RANK, RANK
from app.formula.tag_filter import quote

MEAN = "mean"


_CHAINS = ({"+", "-"}, {"*", "/"}, {"AND"}, {"OR"})
_OPERAND = NEGATIVE_RANK + 1


class FormulaSpan(NamedTuple):
    """Start and end (exclusive) in the text, in characters."""

    start: int
    end: int


class Reference(NamedTuple):
    """One statistic of one metric: an input of a formula.

    `key` is a metric in upper case (`ROUGE`), or one by its name: a score of the traces,
    `SCORE["Answer Relevance"]`, or a judge, `LLM_JUDGE["tone"]`. A filter of tags is part of it:
    `ROUGE{lang="de"}`.
    """

    key: str
    stat: str

    def __str__(self) -> str:
        return self.key if self.stat == MEAN else f"{self.key}.{self.stat}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A literal. It is never negative: a sign becomes a `Negative` node."""

    value: float
    span: FormulaSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A statistic of a metric or of a score."""

    reference: Reference
    span: FormulaSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Negative:
    """`-operand`."""

    operand: "Expr"
    span: FormulaSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """`left operator right` with one of `+ - * /`."""

    operator: str
    left: "Expr"
    right: "Expr"
    span: FormulaSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """`left operator right` with one of `< <= > >= == !=`."""

    operator: str
    left: "Expr"
    right: "Expr"
    span: FormulaSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logic:
    """`left operator right` with AND or OR."""

    operator: str
    left: "Expr"
    right: "Expr"
    span: FormulaSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """`NOT operand`."""

    operand: "Expr"
    span: FormulaSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditional:
    """`IF condition THEN then ELSE otherwise`."""

    condition: "Expr"
    then: "Expr"
    otherwise: "Expr"
    span: FormulaSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a function, with its weight if it has one."""

    value: "Expr"
    weight: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`FUNCTION(argument, …)`; the name is in upper case and may be unknown."""

    function: str
    arguments: tuple[Argument, ...]
    span: FormulaSpan = field(compare=False, repr=False)


Expr: TypeAlias = (
    Number | Metric | Negative | Arithmetic | Relation | Logic | Not | Conditional | Call
)


class NodeAtDepth(NamedTuple):
    """A node and its nesting depth; the root has depth 1."""

    node: Expr
    depth: int


def named_key(metric: str, name: str) -> str:
    """The key of a named metric: `SCORE["Answer Relevance"]`."""
    return f"{metric}[{quote(name)}]"


def children(node: Expr) -> tuple[Expr, ...]:
    """The child nodes, in text order."""
    match node:
        case Number() | Metric():
            return ()
        case Negative() | Not():
            return (node.operand,)
        case Arithmetic() | Relation() | Logic():
            return (node.left, node.right)
        case Conditional():
            return (node.condition, node.then, node.otherwise)
        case Call():
            return tuple(argument.value for argument in node.arguments)


def walk(root: Expr) -> Iterator[NodeAtDepth]:
    """Yield every node in text order, parents first. Iterative: a long chain must not overflow the stack.

    A chain such as `A + B - C` is one level, however long it is.
    """
    waiting = [NodeAtDepth(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield NodeAtDepth(node, depth)
        waiting.extend(
            NodeAtDepth(child, depth if _continues_chain(node, child) else depth + 1)
            for child in reversed(children(node))
        )


def references(root: Expr) -> tuple[Reference, ...]:
    """The distinct inputs of a formula, in text order."""
    metric_references = (node.reference for node, _ in walk(root) if isinstance(node, Metric))
    return tuple(dict.fromkeys(metric_references))


def _continues_chain(node: Expr, child: Expr) -> bool:
    if not isinstance(node, Arithmetic | Logic) or not isinstance(child, Arithmetic | Logic):
        return False
    return child is node.left and any({node.operator, child.operator} <= chain for chain in _CHAINS)


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
