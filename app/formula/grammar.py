"""The grammar, loaded once, and the tree that its rules build."""

import re
from functools import lru_cache
from importlib.resources import files
from typing import cast

from lark import Lark, Token, Transformer, v_args
from lark.parsers.lalr_interactive_parser import InteractiveParser

from app.formula.ast import (
    MEAN,
    Argument,
    Arithmetic,
    Call,
    Choice,
    Comparison,
    Expr,
    Logic,
    Metric,
    Negative,
    Not,
    Number,
    Reference,
    Span,
    named_key,
)


@v_args(inline=True)
class TreeBuilder(Transformer[Token, Expr]):
    """One method per rule of the grammar, called while the text is read, innermost first."""

    def formula(self, root: Expr) -> Expr:
        return root

    def logic(self, left: Expr, operator: Token, right: Expr) -> Expr:
        span = _around(left, right)
        return Logic(operator=operator.type, left=left, right=right, span=span)

    def negation(self, sign: Token, operand: Expr) -> Expr:
        return Not(operand=operand, span=Span(_start(sign), operand.span.end))

    def comparison(self, left: Expr, operator: Token, right: Expr) -> Expr:
        return Comparison(operator=str(operator), left=left, right=right, span=_around(left, right))

    def arithmetic(self, left: Expr, operator: Token, right: Expr) -> Expr:
        return Arithmetic(operator=str(operator), left=left, right=right, span=_around(left, right))

    def negative(self, sign: Token, operand: Expr) -> Expr:
        return Negative(operand=operand, span=Span(_start(sign), operand.span.end))

    def number(self, token: Token) -> Expr:
        return Number(value=float(token), span=Span(_start(token), _end(token)))

    def group(self, _open: Token, inner: Expr, _close: Token) -> Expr:
        return inner

    def choice(self, *parts: Token | Expr) -> Expr:
        first, condition, _, then, _, otherwise = cast(
            "tuple[Token, Expr, Token, Expr, Token, Expr]", parts
        )
        return Choice(
            condition=condition,
            then=then,
            otherwise=otherwise,
            span=Span(_start(first), otherwise.span.end),
        )

    def metric(self, name: Token, _dot: Token | None, stat: Token | None) -> Expr:
        return Metric(
            reference=Reference(name.upper(), stat.lower() if stat else MEAN),
            span=Span(_start(name), _end(stat or name)),
        )

    def score(self, *tokens: Token | None) -> Expr:
        first, _, name, close, _, stat = cast(
            "tuple[Token, Token, Token, Token, Token | None, Token | None]", tokens
        )
        return Metric(
            reference=Reference(
                named_key(first.upper(), unquoted(name)), stat.lower() if stat else MEAN
            ),
            span=Span(_start(first), _end(stat or close)),
        )

    def call(self, *parts: Token | Argument | None) -> Expr:
        name, close = cast("Token", parts[0]), cast("Token", parts[-1])
        return Call(
            function=name.upper(),
            arguments=tuple(part for part in parts if isinstance(part, Argument)),
            span=Span(_start(name), _end(close)),
        )

    def argument(self, value: Expr, _colon: Token | None, weight: float | None) -> Argument:
        return Argument(value=value, weight=weight)

    def weight(self, sign: Token | None, number: Token) -> float:
        return -float(number) if sign == "-" else float(number)


def unquoted(literal: str) -> str:
    """The text that a string in double quotes stands for."""
    return re.sub(r"\\(.)", r"\1", literal[1:-1], flags=re.DOTALL)


@lru_cache(maxsize=1)
def load_grammar() -> Lark:
    """The parser tables; made at the first use."""
    return Lark(
        files("app.formula").joinpath("grammar.lark").read_text(encoding="utf-8"),
        parser="lalr",
        lexer="basic",
        start=["formula", "mistake"],
        transformer=TreeBuilder(),
    )


def lex(text: str) -> list[Token]:
    """All tokens of a text; what is no part of the language comes as a token too."""
    session = load_grammar().parse_interactive(text, start="formula")
    return list(session.lexer_thread.lex(session.parser_state))  # type: ignore[no-untyped-call]


class Session:
    """The parser in the middle of a formula, fed with one token at a time."""

    def __init__(self, parser: InteractiveParser | None = None) -> None:
        self._parser = parser or load_grammar().parse_interactive(start="formula")

    def feed(self, token: Token) -> Expr | None:
        """Go on; `$END` gives the tree. Raises lark's `UnexpectedToken`, and is spoilt then."""
        root: Expr | None = self._parser.feed_token(token)
        return root

    def fork(self) -> "Session":
        """A second session that goes on from here alone."""
        return Session(self._parser.copy(deepcopy_values=False))  # type: ignore[no-untyped-call]

    def accepts(self) -> frozenset[str]:
        """The kinds of token that may come next."""
        return frozenset(self._parser.accepts())  # type: ignore[no-untyped-call]


def _start(token: Token) -> int:
    return token.start_pos or 0


def _end(token: Token) -> int:
    return token.end_pos or 0


def _around(left: Expr, right: Expr) -> Span:
    return Span(left.span.start, right.span.end)
