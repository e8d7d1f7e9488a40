"""From text to tree, with every mistake of the text at once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from app.formula.ast import Expr, Span, walk
from app.formula.errors import Mistake, mistake_at
from app.formula.functions import MAX_DEPTH, MAX_NODES

if TYPE_CHECKING:
    from lark import Token


class Reading(NamedTuple):
    """What a text says.

    `root` is a tree whenever one could be made, if need be by mending; `damage` holds the offsets
    where it was mended. It may be compiled only if `mistakes` is empty.
    """

    root: Expr | None
    mistakes: tuple[Mistake, ...]
    damage: tuple[int, ...] = ()


def read(text: str) -> Reading:
    """Read a formula; any text whatever is answered, and nothing is raised."""
    from app.formula.lexer import tokenize

    tokens, mistakes, refused = tokenize(text)
    if refused or not tokens:
        return Reading(None, mistakes)
    root = _parse(tokens)
    if root is not None:
        return _within_limits(text, Reading(root, mistakes))
    return _within_limits(text, _mended(text, tokens, mistakes))


def _parse(tokens: "Sequence[Token]") -> Expr | None:
    from lark import Token, UnexpectedToken

    from app.formula.grammar import Session

    session = Session()
    try:
        for token in tokens:
            session.feed(token)
        return session.feed(Token.new_borrow_pos("$END", "", tokens[-1]))
    except UnexpectedToken:
        return None


def _mended(text: str, tokens: "Sequence[Token]", lexical: tuple[Mistake, ...]) -> Reading:
    from app.formula.recovery import recover

    root, mistakes, damage = recover(text, tokens)
    # What the lexer mended or left out is the cause of a mistake there or right behind: told once.
    causes = {_next_start(tokens, mistake.span.end) for mistake in lexical}
    causes |= {mistake.span.start for mistake in lexical}
    kept = [mistake for mistake in mistakes if mistake.span.start not in causes]
    return Reading(root, (*lexical, *kept), damage)


def _next_start(tokens: "Sequence[Token]", offset: int) -> int:
    starts = (token.start_pos or 0 for token in tokens)
    return next((start for start in starts if start >= offset), offset)


def _within_limits(text: str, reading: Reading) -> Reading:
    if reading.root is None:
        return reading
    for count, (node, depth) in enumerate(walk(reading.root), start=1):
        if count > MAX_NODES:
            message = f"the formula has more than {MAX_NODES} parts"
            return _refuse(text, Span(node.span.start, len(text)), message)
        if depth > MAX_DEPTH:
            message = f"the formula is nested more than {MAX_DEPTH} deep"
            return _refuse(text, node.span, message)
    return reading


def _refuse(text: str, span: Span, message: str) -> Reading:
    remedy = "Split it into several KPIs or simplify it."
    return Reading(None, (mistake_at(text, span, message, remedy),))
