"""The tree of a formula: frozen nodes that know where in the text they stand.

Two nodes are equal when they mean the same; where they stand does not count.
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
    """One statistic of one metric: what a formula reads.

    `key` is a metric in upper case (`ROUGE`), or one by its name: a score of the traces,
    `SCORE["Answer Relevance"]`, or a judge, `LLM_JUDGE["tone"]`.
    """

    key: str
    stat: str

    def __str__(self) -> str:
        return self.key if self.stat == MEAN else f"{self.key}.{self.stat}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A literal; the parser makes no negative ones."""

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


class Nested(NamedTuple):
    """A node and how deep it stands; the root stands at 1."""

    node: Expr
    depth: int


def named_key(metric: str, name: str) -> str:
    """How one of several of a metric is written: `SCORE["Answer Relevance"]`."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'{metric}["{escaped}"]'


def children(node: Expr) -> tuple[Expr, ...]:
    """The parts of a node, in the order of the text."""
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


def walk(root: Expr) -> Iterator[Nested]:
    """Every node in the order of the text, parents first; needs no recursion.

    A chain such as `A + B - C` is one level, however long it is.
    """
    waiting = [Nested(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield Nested(node, depth)
        waiting.extend(
            Nested(child, depth if _continues(node, child) else depth + 1)
            for child in reversed(children(node))
        )


def references(root: Expr) -> tuple[Reference, ...]:
    """What the formula reads, each once, in the order of the text."""
    found = (node.reference for node, _ in walk(root) if isinstance(node, Metric))
    return tuple(dict.fromkeys(found))


def _continues(node: Expr, child: Expr) -> bool:
    if not isinstance(node, Arithmetic | Logic) or not isinstance(child, Arithmetic | Logic):
        return False
    return child is node.left and any({node.operator, child.operator} <= chain for chain in _CHAINS)
