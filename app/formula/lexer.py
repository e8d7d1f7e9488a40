"""From text to tokens; whatever is no part of the language is reported and mended or left out."""

import re
import unicodedata
from typing import NamedTuple

from lark import Token

from app.formula.ast import Span
from app.formula.errors import Mistake, mistake_at
from app.formula.functions import MAX_BYTES, MAX_DEPTH, MAX_MISTAKES
from app.formula.grammar import lex, unquoted

_MEANT = {
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
}
_QUOTES = frozenset("'`“”‘’„«»")
_MOST_SHOWN = 24
_UNSTORABLE = frozenset({"Cc", "Cs"})
_OPEN, _CLOSE = ("LPAR", "LSQB"), ("RPAR", "RSQB")


class Lexed(NamedTuple):
    """The tokens of a text, and what was wrong with it; `refused` when nothing more is worth it."""

    tokens: tuple[Token, ...]
    mistakes: tuple[Mistake, ...]
    refused: bool = False


def tokenize(text: str) -> Lexed:
    """Split a formula into tokens; texts beyond the limits are refused unread."""
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return _refuse(text, Span(0, len(text)), f"the formula is longer than {MAX_BYTES} bytes")
    reader = _Reader(text)
    if not reader.raw:
        remedy = "Write for example AVERAGE(ROUGE, BLEU)."
        empty = mistake_at(text, Span(0, len(text)), "the formula is empty", remedy)
        return Lexed((), (empty,), refused=True)
    deep = _bracket_too_deep(reader.raw)
    if deep is not None:
        message = f"brackets are nested more than {MAX_DEPTH} deep"
        return _refuse(text, token_span(deep), message)
    tokens = tuple(token for each in reader.raw if (token := reader.read(each)) is not None)
    return Lexed(tokens, tuple(reader.mistakes))


def token_span(token: Token) -> Span:
    return Span(token.start_pos or 0, token.end_pos or 0)


def shown(text: str) -> str:
    """A piece of the user's text, safe to print: short, without control characters."""
    clean = "".join(
        char if char.isprintable() else f"U+{ord(char):04X}" for char in text[:_MOST_SHOWN]
    )
    return clean + "…" * (len(text) > _MOST_SHOWN)


class _Reader:
    """Looks at each token once and collects what is wrong with it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.raw = lex(text)
        self.mistakes: list[Mistake] = []

    def read(self, token: Token) -> Token | None:
        """The token to parse; None when it is to be left out."""
        match token.type:
            case "UNKNOWN":
                self._unknown(token)
                return None
            case "LOOKALIKE":
                kind, meant = _MEANT[str(token)]
                self._report(token, f"unknown operator {token}", f"Write {meant}.")
                return Token.new_borrow_pos(kind, meant, token)
            case "UNCLOSED":
                self._report(token, "the text that starts here never ends", 'Close it with ".')
                return Token.new_borrow_pos("STRING", '"?"', token)
            case "MALFORMED":
                remedy = "Write a number like 0.5 or 1e-3; names start with a letter."
                self._report(token, f"{shown(token)} is neither a number nor a name", remedy)
                return Token.new_borrow_pos("NUMBER", "1", token)
            case "NUMBER":
                return self._number(token)
            case "STRING":
                self._string(token)
        return token

    def _report(self, token: Token, message: str, remedy: str) -> None:
        if len(self.mistakes) < MAX_MISTAKES:
            self.mistakes.append(mistake_at(self.text, token_span(token), message, remedy))

    def _unknown(self, token: Token) -> None:
        quoted = any(char in _QUOTES for char in token)
        remedy = 'Names stand in straight double quotes: "name".' if quoted else "Remove it."
        noun = "character" if len(token) == 1 else "characters"
        self._report(token, f"unknown {noun} {shown(token)}", remedy)

    def _number(self, token: Token) -> Token:
        if float(token) != float("inf"):
            return token
        self._report(token, f"the number {shown(token)} is too large", "Write one below 1e308.")
        return Token.new_borrow_pos("NUMBER", "1", token)

    def _string(self, token: Token) -> None:
        if "\\" in re.sub(r'\\[\\"]', "", token[1:-1]):
            remedy = r"Write \" for a quote and \\ for a backslash; there are no other escapes."
            self._report(token, "unknown escape in the name of a score", remedy)
        name = unquoted(token)
        if not name:
            self._report(token, "the name of a score is empty", "Write the score's name.")
        elif any(unicodedata.category(char) in _UNSTORABLE for char in name):
            remedy = "Remove it from the name."
            self._report(token, "the name of a score has a control character", remedy)


def _refuse(text: str, span: Span, message: str) -> Lexed:
    remedy = "Split it into several KPIs or simplify it."
    return Lexed((), (mistake_at(text, span, message, remedy),), refused=True)


def _bracket_too_deep(tokens: list[Token]) -> Token | None:
    depth = 0
    for token in tokens:
        depth += (token.type in _OPEN) - (token.type in _CLOSE)
        if depth > MAX_DEPTH:
            return token
    return None
