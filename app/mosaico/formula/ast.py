"""The tree of a formula: frozen nodes with their position, their canonical text, and tag filters.

Two nodes are equal when they mean the same; their positions are not compared. The canonical text is
in upper case, with one blank around operators and the fewest parentheses.

A metric can have a tag filter: `ROUGE{lang="de"}` is ROUGE over the traces with the tag `lang:de`.
A condition names a field and its value; the tag of a trace is `field:value`. The field `tag` names
a whole tag: `{tag="smoke"}`. Several conditions must all hold. A filtered metric is one more metric
with a name of its own, whose canonical form has sorted conditions.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from mosaico.formula.functions import NEGATIVE_RANK, RANK
from mosaico.formula.metric_statistics import passes_of

WHOLE_TAG: Final = "tag"
_FIELD: Final = "[A-Za-z_][A-Za-z0-9_.-]*"
_LITERAL: Final = r'"(?:[^"\\]|\\.)*"'
_CONDITION: Final = re.compile(rf"({_FIELD})\s*=\s*({_LITERAL})", re.DOTALL)
_FILTER: Final = rf"\{{\s*{_FIELD}\s*=\s*{_LITERAL}(?:\s*,\s*{_FIELD}\s*=\s*{_LITERAL})*\s*\}}"
_FIELD_TAG: Final = re.compile(rf"({_FIELD}):(.+)", re.DOTALL)
# The name of a score may contain braces, so it is read before the filter.
_FILTERED_KEY: Final = re.compile(
    rf"([A-Za-z_][A-Za-z0-9_]*(?:\[{_LITERAL}\])?)\s*({_FILTER})", re.DOTALL
)
MEAN = "mean"
_CHAINS = ({"+", "-"}, {"*", "/"}, {"AND"}, {"OR"})
_OPERAND = NEGATIVE_RANK + 1


class FilteredKey(NamedTuple):
    """The key of a metric without its filter, and the tags that a trace must have."""

    key: str
    tags: tuple[str, ...]


def filtered_key(key: str, tags: Iterable[str]) -> str:
    """The canonical key of a metric over the traces with all these tags; the key itself without any."""
    conditions = [_condition(tag) for tag in sorted(set(tags))]
    return f"{key}{{{', '.join(conditions)}}}" if conditions else key


@lru_cache(maxsize=1024)
def split_filter(key: str) -> FilteredKey:
    """The parts of a key; a key without a filter has no tags."""
    match = _FILTERED_KEY.fullmatch(key) if key.endswith("}") else None
    return FilteredKey(match[1], tags_of_filter(match[2])) if match else FilteredKey(key, ())


def tags_of_filter(text: str) -> tuple[str, ...]:
    """The tags that a filter such as `{lang="de", tag="smoke"}` requires, sorted."""
    conditions = ((field, unquote(literal)) for field, literal in _CONDITION.findall(text))
    tags = {name if field == WHOLE_TAG else f"{field}:{name}" for field, name in conditions}
    return tuple(sorted(tags))


def literals_of_filter(text: str) -> list[str]:
    """The string literals of a filter, in double quotes."""
    return [literal for _, literal in _CONDITION.findall(text)]


def quote(text: str) -> str:
    """The text as a string literal in double quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def unquote(literal: str) -> str:
    """The content of a string literal in double quotes."""
    return re.sub(r"\\(.)", r"\1", literal[1:-1], flags=re.DOTALL)


def _condition(tag: str) -> str:
    match = _FIELD_TAG.fullmatch(tag)
    if match is None or match[1] == WHOLE_TAG:
        return f"{WHOLE_TAG}={quote(tag)}"
    return f"{match[1]}={quote(match[2])}"


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
        if passes := passes_of(self.stat):
            return f"{passes.function}({self.key}, {passes.k})"
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
class _Unary:
    """An operator before its operand."""

    operand: "Expr"
    span: FormulaSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Binary:
    """An operator between its operands."""

    operator: str
    left: "Expr"
    right: "Expr"
    span: FormulaSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Negative(_Unary):
    """`-operand`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic(_Binary):
    """`left operator right` with one of `+ - * /`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation(_Binary):
    """`left operator right` with one of `< <= > >= == !=`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logic(_Binary):
    """`left operator right` with AND or OR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Not(_Unary):
    """`NOT operand`."""


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
    """Format an operand with parentheses if needed: `rank` is the minimum rank without parentheses;
    `closed` means that no operator follows that would bind to the operand.
    """
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
