"""The tree of a formula: frozen nodes with their position in the text.

Two nodes are equal when they mean the same; their positions are not compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

MEAN = "mean"


class Span(NamedTuple):
    """Start and end (exclusive) in the text, in characters."""

    start: int
    end: int


class Reference(NamedTuple):
    """One statistic of one metric: an input of a formula.

    `key` is a metric in upper case (`ROUGE`), or one by its name: a score of the traces,
    `SCORE["Answer Relevance"]`, or a judge, `LLM_JUDGE["tone"]`.
    """

    key: str
    stat: str

    def __str__(self) -> str:
        return self.key if self.stat == MEAN else f"{self.key}.{self.stat}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A literal. It is never negative: a sign becomes a `Negative` node."""

    value: float
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A statistic of a metric or of a score."""

    reference: Reference
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Negative:
    """`-operand`."""

    operand: "Expr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """`left operator right` with one of `+ - * /`."""

    operator: str
    left: "Expr"
    right: "Expr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """`left operator right` with one of `< <= > >= == !=`."""

    operator: str
    left: "Expr"
    right: "Expr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logic:
    """`left operator right` with AND or OR."""

    operator: str
    left: "Expr"
    right: "Expr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """`NOT operand`."""

    operand: "Expr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditional:
    """`IF condition THEN then ELSE otherwise`."""

    condition: "Expr"
    then: "Expr"
    otherwise: "Expr"
    span: Span = field(compare=False, repr=False)


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
    span: Span = field(compare=False, repr=False)


Expr: TypeAlias = (
    Number | Metric | Negative | Arithmetic | Relation | Logic | Not | Conditional | Call
)

_CHAINS = ({"+", "-"}, {"*", "/"}, {"AND"}, {"OR"})


class NodeAtDepth(NamedTuple):
    """A node and its nesting depth; the root has depth 1."""

    node: Expr
    depth: int


def named_key(metric: str, name: str) -> str:
    """The key of a named metric: `SCORE["Answer Relevance"]`."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'{metric}["{escaped}"]'


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
