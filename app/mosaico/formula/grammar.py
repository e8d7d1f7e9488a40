"""Splits the text of a formula into tokens and builds its tree: the Lark grammar and its lexer.

Input outside the language does not raise: the lexer reports it and repairs or drops the token, so
that the parser can find every other mistake in the same pass.
"""

import re
import unicodedata
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple, cast

from lark import Lark, Token, Transformer, v_args
from lark.parsers.lalr_interactive_parser import InteractiveParser

from mosaico.formula.advice import advise_sign
from mosaico.formula.ast import (
    MEAN,
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
    Reference,
    Relation,
    filtered_key,
    literals_of_filter,
    named_key,
    tags_of_filter,
    unquote,
)
from mosaico.formula.errors import Mistake, mistake_at
from mosaico.formula.functions import MAX_BYTES, MAX_DEPTH, MAX_MISTAKES
from mosaico.formula.metric_statistics import MAX_K, STATISTIC_FUNCTIONS, PassStatistic

# What people write from other languages or copy from documents; each has exactly one meaning here,
# so the parser goes on with it after the mistake is reported.
_LOOKALIKES = {
    "=": ("EQ", "=="),
    "<>": ("NE", "!="),
    "≠": ("NE", "!="),
    "=<": ("LE", "<="),
    "≤": ("LE", "<="),
    "=>": ("GE", ">="),
    "≥": ("GE", ">="),
    "&&": ("AND", "AND"),
    "||": ("OR", "OR"),
    "!": ("NOT", "NOT"),
    "×": ("STAR", "*"),
    "÷": ("SLASH", "/"),
    "−": ("MINUS", "-"),
    "–": ("MINUS", "-"),
    # Read on as a product, which has operands in the same places.
    "^": ("STAR", "*"),
    "**": ("STAR", "*"),
}
_POWERS = frozenset({"^", "**"})
_MAX_PRINTED_CHARS = 24
# Control characters and surrogates: PostgreSQL does not store NUL, and UTF-8 has no surrogates.
_UNSTORABLE = frozenset({"Cc", "Cs"})
_OPEN, _CLOSE = ("LPAR", "LSQB"), ("RPAR", "RSQB")


@v_args(inline=True)
class TreeBuilder(Transformer[Token, Expr]):
    """Builds one node per rule of the grammar; Lark calls the innermost rule first."""

    def formula(self, root: Expr) -> Expr:
        return root

    def logic(self, left: Expr, operator: Token, right: Expr) -> Expr:
        span = _span_around(left, right)
        return Logic(operator=operator.type, left=left, right=right, span=span)

    def negation(self, sign: Token, operand: Expr) -> Expr:
        return Not(operand=operand, span=FormulaSpan(_start(sign), operand.span.end))

    def comparison(self, left: Expr, operator: Token, right: Expr) -> Expr:
        return Relation(
            operator=str(operator), left=left, right=right, span=_span_around(left, right)
        )

    def arithmetic(self, left: Expr, operator: Token, right: Expr) -> Expr:
        return Arithmetic(
            operator=str(operator), left=left, right=right, span=_span_around(left, right)
        )

    def negative(self, sign: Token, operand: Expr) -> Expr:
        return Negative(operand=operand, span=FormulaSpan(_start(sign), operand.span.end))

    def number(self, token: Token) -> Expr:
        return Number(value=float(token), span=FormulaSpan(_start(token), _end(token)))

    # Brackets leave no node: the tree's shape has the precedence, and the formatter adds brackets
    # where they are needed.
    def group(self, _open: Token, inner: Expr, _close: Token) -> Expr:
        return inner

    def choice(self, *parts: Token | Expr) -> Expr:
        first, condition, _, then, _, otherwise = cast(
            "tuple[Token, Expr, Token, Expr, Token, Expr]", parts
        )
        return Conditional(
            condition=condition,
            then=then,
            otherwise=otherwise,
            span=FormulaSpan(_start(first), otherwise.span.end),
        )

    # Names count in any case; the tree holds one form, so equal formulas have equal trees.
    def metric(
        self, name: Token, condition: Token | None, _dot: Token | None, stat: Token | None
    ) -> Expr:
        return Metric(
            reference=Reference(_filtered(name.upper(), condition), _statistic(stat)),
            span=FormulaSpan(_start(name), _end(stat or condition or name)),
        )

    def score(self, *tokens: Token | None) -> Expr:
        first, _, name, close, condition, _, stat = cast(
            "tuple[Token, Token, Token, Token, Token | None, Token | None, Token | None]", tokens
        )
        key = _filtered(named_key(first.upper(), unquote(name)), condition)
        return Metric(
            reference=Reference(key, _statistic(stat)),
            span=FormulaSpan(_start(first), _end(stat or condition or close)),
        )

    def call(self, *parts: Token | Argument | None) -> Expr:
        name, close = cast("Token", parts[0]), cast("Token", parts[-1])
        arguments = tuple(part for part in parts if isinstance(part, Argument))
        span = FormulaSpan(_start(name), _end(close))
        reference = _pass_reference(name.upper(), arguments)
        if reference is not None:
            return Metric(reference=reference, span=span)
        return Call(function=name.upper(), arguments=arguments, span=span)

    def argument(self, value: Expr, _colon: Token | None, weight: float | None) -> Argument:
        return Argument(value=value, weight=weight)

    def weight(self, sign: Token | None, number: Token) -> float:
        return -float(number) if sign == "-" else float(number)


def _pass_reference(function: str, arguments: tuple[Argument, ...]) -> Reference | None:
    """The statistic that PASS_AT_K(METRIC, k) reads; None for any other call, and for other arguments."""
    match [function in STATISTIC_FUNCTIONS, *arguments]:
        case [
            True,
            Argument(value=Metric(reference=Reference(stat="mean")) as metric, weight=None),
            Argument(value=Number(value=k), weight=None),
        ] if k.is_integer() and 1 <= k <= MAX_K:
            return Reference(metric.reference.key, PassStatistic(function, int(k)).name)
        case _:
            return None


def _filtered(key: str, condition: Token | None) -> str:
    return key if condition is None else filtered_key(key, tags_of_filter(condition))


def _statistic(stat: Token | None) -> str:
    return stat.lower() if stat else MEAN


# Building the tables takes much longer than parsing a formula.
@lru_cache(maxsize=1)
def load_grammar() -> Lark:
    """The parser tables, built at the first use."""
    return Lark(
        files("mosaico.formula").joinpath("grammar.lark").read_text(encoding="utf-8"),
        parser="lalr",
        # The basic lexer does not depend on the parser's state: it can split a text with syntax
        # mistakes to the end.
        lexer="basic",
        start=["formula", "mistake"],
        transformer=TreeBuilder(),
    )


def lex_tokens(text: str) -> list[Token]:
    """All tokens of a text, including tokens for input outside the language."""
    session = load_grammar().parse_interactive(text, start="formula")
    return list(session.lexer_thread.lex(session.parser_state))  # type: ignore[no-untyped-call]


class ParserSession:
    """An LALR parser that takes one token at a time."""

    def __init__(self, parser: InteractiveParser | None = None) -> None:
        self._parser = parser or load_grammar().parse_interactive(start="formula")

    def feed(self, token: Token) -> Expr | None:
        """Consume a token; `$END` returns the tree.

        Raises lark's `UnexpectedToken`; do not use the session after that.
        """
        root: Expr | None = self._parser.feed_token(token)
        return root

    def fork(self) -> "ParserSession":
        """A copy of this session that continues independently."""
        # The nodes are immutable, so both copies may share them; copying them for each attempt
        # would make recovery quadratic.
        return ParserSession(self._parser.copy(deepcopy_values=False))  # type: ignore[no-untyped-call]

    def accepts(self) -> frozenset[str]:
        """The kinds of token that fit next."""
        return frozenset(self._parser.accepts())  # type: ignore[no-untyped-call]


def _start(token: Token) -> int:
    return token.start_pos or 0


def _end(token: Token) -> int:
    return token.end_pos or 0


def _span_around(left: Expr, right: Expr) -> FormulaSpan:
    return FormulaSpan(left.span.start, right.span.end)


class TokenizedFormula(NamedTuple):
    """The tokens and the lexical mistakes of a text. `is_rejected`: the text is beyond a limit."""

    tokens: tuple[Token, ...]
    mistakes: tuple[Mistake, ...]
    is_rejected: bool = False


def tokenize(text: str) -> TokenizedFormula:
    """Split a formula into tokens; a text beyond the limits is rejected without being parsed."""
    # Characters first: encoding a text of megabytes only to reject it costs memory.
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return _reject(
            text, FormulaSpan(0, len(text)), f"the formula is longer than {MAX_BYTES} bytes"
        )
    reader = _TokenReader(text)
    if not reader.raw:
        remedy = "Write for example AVERAGE(ROUGE, BLEU)."
        empty = mistake_at(text, FormulaSpan(0, len(text)), "the formula is empty", remedy)
        return TokenizedFormula((), (empty,), is_rejected=True)
    # Before parsing: the functions that walk the tree are recursive, and Python's stack is limited.
    deep = _bracket_too_deep(reader.raw)
    if deep is not None:
        message = f"brackets are nested more than {MAX_DEPTH} deep"
        return _reject(text, token_span(deep), message)
    tokens = tuple(
        token for raw_token in reader.raw if (token := reader.read(raw_token)) is not None
    )
    return TokenizedFormula(tokens, tuple(reader.mistakes))


def token_span(token: Token) -> FormulaSpan:
    return FormulaSpan(token.start_pos or 0, token.end_pos or 0)


def printable(text: str) -> str:
    """A part of the user's text that is safe to print: short and without control characters."""
    clean = "".join(
        char if char.isprintable() else f"U+{ord(char):04X}" for char in text[:_MAX_PRINTED_CHARS]
    )
    return clean + "…" * (len(text) > _MAX_PRINTED_CHARS)


class _TokenReader:
    """Checks each token and collects its mistakes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.raw = lex_tokens(text)
        self.mistakes: list[Mistake] = []

    def read(self, token: Token) -> Token | None:
        """The token for the parser; None when it is dropped."""
        match token.type:
            case "UNKNOWN" | "MALFORMED_FILTER":
                self._report_dropped(token)
                return None
            case "LOOKALIKE":
                kind, replacement = _LOOKALIKES[str(token)]
                remedy = f"Write {replacement}."
                if token in _POWERS:
                    remedy = advise_sign(str(token), self.text, token_span(token).start)
                self._report(token, f"unknown operator {token}", remedy)
                # The replaced token keeps the position of what the user wrote, so that later
                # messages point there.
                return Token.new_borrow_pos(kind, replacement, token)
            case "UNCLOSED":
                self._report(token, "the string that starts here has no end", 'Close it with ".')
                return Token.new_borrow_pos("STRING", '"?"', token)
            case "MALFORMED":
                remedy = "Write a number like 0.5 or 1e-3; names start with a letter."
                self._report(token, f"{printable(token)} is neither a number nor a name", remedy)
                return Token.new_borrow_pos("NUMBER", "1", token)
            case "NUMBER":
                return self._number(token)
            case "STRING":
                self._string(token, str(token), "name of a score")
            case "FILTER":
                for literal in literals_of_filter(token):
                    self._string(token, literal, "value of a filter")
        return token

    def _report(self, token: Token, message: str, remedy: str) -> None:
        if len(self.mistakes) < MAX_MISTAKES:
            self.mistakes.append(mistake_at(self.text, token_span(token), message, remedy))

    def _report_dropped(self, token: Token) -> None:
        if token.type == "MALFORMED_FILTER":
            remedy = 'Write {field="value"}, such as {category="text"}.'
            self._report(token, f"{printable(token)} is not a filter", remedy)
            return
        remedy = advise_sign(str(token), self.text, token_span(token).start)
        noun = "character" if len(token) == 1 else "characters"
        self._report(token, f"unknown {noun} {printable(token)}", remedy)

    def _number(self, token: Token) -> Token:
        # A literal such as 1e999 is infinity for float(), and the compiled code assumes finite
        # numbers.
        if float(token) != float("inf"):
            return token
        self._report(
            token, f"the number {printable(token)} is too large", "Write a number below 1e308."
        )
        return Token.new_borrow_pos("NUMBER", "1", token)

    def _string(self, token: Token, literal: str, noun: str) -> None:
        if "\\" in re.sub(r'\\[\\"]', "", literal[1:-1]):
            remedy = r"Write \" for a quote and \\ for a backslash; there are no other escapes."
            self._report(token, f"unknown escape in the {noun}", remedy)
        content = unquote(literal)
        if not content:
            self._report(token, f"the {noun} is empty", "Write it between the quotes.")
        elif any(unicodedata.category(char) in _UNSTORABLE for char in content):
            self._report(token, f"the {noun} has a control character", "Remove it.")


def _reject(text: str, span: FormulaSpan, message: str) -> TokenizedFormula:
    remedy = "Split it into several KPIs or simplify it."
    return TokenizedFormula((), (mistake_at(text, span, message, remedy),), is_rejected=True)


def _bracket_too_deep(tokens: list[Token]) -> Token | None:
    depth = 0
    for token in tokens:
        depth += (token.type in _OPEN) - (token.type in _CLOSE)
        if depth > MAX_DEPTH:
            return token
    return None
