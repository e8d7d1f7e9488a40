"""Parses the text of a formula and reports every mistake in one pass.

After a syntax mistake the parser inserts the smallest placeholder that makes the next token fit (a
missing value, operator or bracket); where none fits, it skips tokens until one does. A repaired
tree is used only to find more mistakes, never to compute.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from lark import Token, UnexpectedToken

from mosaico.core.text import join_words
from mosaico.formula.advice import advise_bracketed_word, split_arguments
from mosaico.formula.ast import Expr, FormulaSpan, walk
from mosaico.formula.errors import Mistake, mistake_at, position
from mosaico.formula.functions import MAX_DEPTH, MAX_MISTAKES, MAX_NODES
from mosaico.formula.grammar import ParserSession, printable, token_span, tokenize

# Above the 32 levels of brackets that can be open: a bound in case no placeholder ends the formula.
_MOST_INSERTED_AT_END = 64
_PLACEHOLDERS = {
    "NUMBER": "1",
    "NAME": "mean",
    "STRING": '"?"',
    "RSQB": "]",
    "COLON": ":",
    "PLUS": "+",
    "THEN": "THEN",
    "ELSE": "ELSE",
    "RPAR": ")",
}
# Tried in this order: a missing value, then a missing operator or bracket.
_INSERT = ("NUMBER", "NAME", "STRING", "RSQB", "PLUS", "RPAR", "THEN", "ELSE")
_CLOSE = ("NUMBER", "NAME", "STRING", "RSQB", "THEN", "ELSE", "RPAR")
_OPERATORS = frozenset({"PLUS", "MINUS", "STAR", "SLASH", "LT", "LE", "GT", "GE", "EQ", "NE"})
_COMPARISONS = frozenset({"LT", "LE", "GT", "GE", "EQ", "NE"})
_VALUES = frozenset({"NUMBER", "NAME", "SCORE", "LPAR", "IF", "NOT"})
_WORDS = {
    "COMMA": "','",
    "RPAR": "')'",
    "RSQB": "']'",
    "LSQB": "'['",
    "COLON": "':' and a weight",
    "THEN": "THEN",
    "ELSE": "ELSE",
    "$END": "the end",
}


class ParsedFormula(NamedTuple):
    """The result of parsing.

    `root` is None only if the text cannot be repaired. `repaired_offsets` are the positions of
    inserted placeholders. Compile `root` only if `mistakes` is empty.
    """

    root: Expr | None
    mistakes: tuple[Mistake, ...]
    repaired_offsets: tuple[int, ...] = ()


def parse_text(text: str) -> ParsedFormula:
    """Parse a formula. Never raises: mistakes are part of the result."""
    tokens, mistakes, refused = tokenize(text)
    if refused or not tokens:
        return ParsedFormula(None, mistakes)
    # A formula without mistakes is parsed without copies of the session, which make recovery slow.
    root = _parse(tokens)
    if root is not None:
        return _check_limits(text, ParsedFormula(root, mistakes))
    return _check_limits(text, _parse_with_recovery(text, tokens, mistakes))


def _parse(tokens: Sequence[Token]) -> Expr | None:
    session = ParserSession()
    try:
        for token in tokens:
            session.feed(token)
        return session.feed(Token.new_borrow_pos("$END", "", tokens[-1]))
    except UnexpectedToken:
        return None


def _parse_with_recovery(
    text: str, tokens: Sequence[Token], lexical: tuple[Mistake, ...]
) -> ParsedFormula:
    root, mistakes, repaired_offsets = recover(text, tokens)
    # A token that the lexer repaired or dropped causes a syntax mistake there or at the next token:
    # report only the cause.
    causes = {_next_start(tokens, mistake.span.end) for mistake in lexical}
    causes |= {mistake.span.start for mistake in lexical}
    new_mistakes = [mistake for mistake in mistakes if mistake.span.start not in causes]
    return ParsedFormula(root, (*lexical, *new_mistakes), repaired_offsets)


def _next_start(tokens: Sequence[Token], offset: int) -> int:
    starts = (token.start_pos or 0 for token in tokens)
    return next((start for start in starts if start >= offset), offset)


def _check_limits(text: str, reading: ParsedFormula) -> ParsedFormula:
    if reading.root is None:
        return reading
    for count, (node, depth) in enumerate(walk(reading.root), start=1):
        if count > MAX_NODES:
            message = f"the formula has more than {MAX_NODES} parts"
            return _reject(text, FormulaSpan(node.span.start, len(text)), message)
        if depth > MAX_DEPTH:
            message = f"the formula is nested more than {MAX_DEPTH} deep"
            return _reject(text, node.span, message)
    return reading


def _reject(text: str, span: FormulaSpan, message: str) -> ParsedFormula:
    remedy = "Split it into several KPIs or simplify it."
    return ParsedFormula(None, (mistake_at(text, span, message, remedy),))


class RecoveredTree(NamedTuple):
    """The repaired tree (None if repair failed), the mistakes, and the repaired offsets."""

    root: Expr | None
    mistakes: tuple[Mistake, ...]
    repaired_offsets: tuple[int, ...]


def recover(text: str, tokens: Sequence[Token]) -> RecoveredTree:
    """Parse tokens that contain syntax mistakes; stops after 20 mistakes."""
    reading = _Recovery(text, tokens)
    return RecoveredTree(reading.root, tuple(reading.mistakes), tuple(reading.repaired_offsets))


class _Recovery:
    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.mistakes: list[Mistake] = []
        self.repaired_offsets: list[int] = []
        self._session = ParserSession()
        self._previous: Token | None = None
        self._open: list[Token] = []
        self._silent = False
        self._passing = 0
        for token in tokens:
            if len(self.mistakes) == MAX_MISTAKES:
                break
            self._read(token)
        self.root = self._finish()

    def _read(self, token: Token) -> None:
        if self._passing:
            # A bracket that fits nowhere is skipped to its end, as a whole.
            self._passing += (token.type == "LPAR") - (token.type == "RPAR")
            return
        if not self._feed(token):
            if not self._silent:
                self._report(token)
            if not self._mend(token):
                self._silent = True
                self._passing = int(token.type == "LPAR")
                return
        self._silent = False
        # Only a token that fits is one that messages may refer to.
        self._previous = token
        self._follow_brackets(token)

    def _follow_brackets(self, token: Token) -> None:
        if token.type == "LPAR":
            self._open.append(token)
        elif token.type == "RPAR" and self._open:
            self._open.pop()

    def _feed(self, *tokens: Token) -> bool:
        """Consume all of these tokens, or none of them."""
        # lark's parser is unusable after an error, so each attempt works on a copy.
        session = self._session.fork()
        try:
            for token in tokens:
                session.feed(token)
        except UnexpectedToken:
            return False
        self._session = session
        return True

    def _mend(self, token: Token) -> bool:
        # No placeholder makes a surplus bracket right.
        if token.type == "RPAR" and not self._open:
            return False
        return any(self._feed(_placeholder(kind, token), token) for kind in _INSERT)

    def _finish(self) -> Expr | None:
        end = self._end()
        for _ in range(_MOST_INSERTED_AT_END):
            root = _result(self._session, end)
            if root is not None:
                return root
            if not self._silent:
                self._report(end)
                self._silent = True
            if not any(self._feed(_placeholder(kind, end)) for kind in _CLOSE):
                return None
        return None

    def _end(self) -> Token:
        size = len(self.text.rstrip())
        return Token("$END", "", start_pos=size, end_pos=size)

    def _report(self, token: Token) -> None:
        # Asked before the repair: what fits here is the message.
        accepts = self._session.accepts()
        message = f"expected {self._expected(accepts)}{self._after()}, {_describe_token(token)}"
        remedy = self._remedy(token, accepts)
        # The checker must not report the placeholders of this place, for example a wrong number of
        # arguments.
        self.repaired_offsets.append(token_span(token).start)
        self.mistakes.append(mistake_at(self.text, token_span(token), message, remedy))

    def _expected(self, accepts: frozenset[str]) -> str:
        if self._previous is not None and self._previous.type == "DOT":
            return "a statistic such as mean or p95"
        if accepts <= {"NUMBER", "PLUS", "MINUS"}:
            return "a number"
        if accepts >= {"NUMBER", "NAME"}:
            return "a number, a metric or a function"
        if accepts == {"STRING"}:
            return "a name in double quotes"
        parts = ["an operator"] if accepts & _OPERATORS else []
        # A colon fits behind every argument, but only one function knows weights.
        words = (word for kind, word in _WORDS.items() if kind in accepts and kind != "COLON")
        return join_words([*parts, *words], "or")

    def _after(self) -> str:
        if self._previous is None:
            return " at the start"
        return f" after '{printable(self._previous)}'"

    def _remedy(self, token: Token, accepts: frozenset[str]) -> str:
        values_fit = accepts >= {"NUMBER", "NAME"}
        start = token_span(token).start
        if remedy := self._remedy_of_other_language(token, start):
            return remedy
        if token.type == "RPAR" and not self._open:
            return "Remove this ')', or open it with '('."
        if token.type == "$END" and "RPAR" in accepts and self._open:
            where = position(self.text, token_span(self._open[-1]).start)
            return f"Close the '(' of {where}."
        if token.type in _COMPARISONS and not values_fit:
            return "Comparisons do not chain: write A < B AND B < C."
        return _default_remedy(token, accepts)

    def _remedy_of_other_language(self, token: Token, start: int) -> str | None:
        """What to write instead of IF, AND and OR as functions, values without a function, and parts of percentiles."""
        if token.type in {"AND", "OR"} and (
            bracket := re.match(r"\s*\(", self.text[token.end_pos :])
        ):
            return advise_bracketed_word(
                token.type, self.text, (token.end_pos or 0) + bracket.end() - 1
            )
        if token.type == "COMMA" and self._open:
            bracket_start = token_span(self._open[-1]).start
            is_if = re.search(r"(?i)\bIF\s*$", self.text[:bracket_start])
            return advise_bracketed_word("IF", self.text, bracket_start) if is_if else None
        if token.type == "COMMA":
            values = ", ".join(split_arguments(self.text, 0))
            if not values.isprintable() or not values.strip(" ,"):
                return (
                    "Make each value a KPI of its own, or write for example AVERAGE(ROUGE, BLEU)."
                )
            return f"Write AVERAGE({values}), or make each a KPI of its own."
        is_part = self.text[start - 1 : start].isdigit() and token.startswith(".")
        if token.type == "NUMBER" and is_part:
            return "Percentiles are whole numbers: write p99, or max."
        return None


def _default_remedy(token: Token, accepts: frozenset[str]) -> str:
    if token.type == "LSQB":
        return 'Only SCORE["name"] and LLM_JUDGE["name"] take brackets.'
    if accepts & {"THEN", "ELSE"}:
        return "Every IF needs THEN and ELSE: IF condition THEN value ELSE value."
    if accepts <= {"NUMBER", "PLUS", "MINUS"}:
        return "A weight is a plain number such as 0.5."
    if token.type in _VALUES and "NAME" not in accepts:
        return "Put an operator between two values, or ',' between two arguments."
    return "Complete the formula here, or remove the surplus part."


def _placeholder(kind: str, near: Token) -> Token:
    start = token_span(near).start
    return Token(kind, _PLACEHOLDERS[kind], start_pos=start, end_pos=start)


def _result(session: ParserSession, end: Token) -> Expr | None:
    try:
        return session.fork().feed(end)
    except UnexpectedToken:
        return None


def _describe_token(token: Token) -> str:
    if token.type == "$END":
        return "but the formula ends here"
    return f"found {printable(token)}" if token.type == "STRING" else f"found '{printable(token)}'"
