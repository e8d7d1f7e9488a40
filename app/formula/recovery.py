"""Reading on after a syntax mistake, so that the others are found in the same pass.

Where a token does not fit, the smallest placeholder that makes it fit is put in front of it
(a missing value, operator or bracket); where none does, tokens are passed over in silence until
one fits. A tree that was mended is only ever used to look for more mistakes.
"""

from collections.abc import Sequence
from typing import NamedTuple

from lark import Token, UnexpectedToken

from app.formula.ast import Expr
from app.formula.errors import Mistake, mistake_at, position
from app.formula.functions import MAX_MISTAKES
from app.formula.grammar import Session
from app.formula.lexer import shown, token_span

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


class Recovered(NamedTuple):
    """The mended tree (None when it could not be), the mistakes, and where it was mended."""

    root: Expr | None
    mistakes: tuple[Mistake, ...]
    damage: tuple[int, ...]


def recover(text: str, tokens: Sequence[Token]) -> Recovered:
    """Read tokens that are not a formula; at most 20 mistakes are looked for."""
    reading = _Reading(text, tokens)
    return Recovered(reading.root, tuple(reading.mistakes), tuple(reading.damage))


class _Reading:
    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.mistakes: list[Mistake] = []
        self.damage: list[int] = []
        self._session = Session()
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
        self._previous = token
        self._follow_brackets(token)

    def _follow_brackets(self, token: Token) -> None:
        if token.type == "LPAR":
            self._open.append(token)
        elif token.type == "RPAR" and self._open:
            self._open.pop()

    def _feed(self, *tokens: Token) -> bool:
        """Go on with these tokens, or with none of them."""
        session = self._session.fork()
        try:
            for token in tokens:
                session.feed(token)
        except UnexpectedToken:
            return False
        self._session = session
        return True

    def _mend(self, token: Token) -> bool:
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

    def _report(self, found: Token) -> None:
        accepts = self._session.accepts()
        message = f"expected {self._expected(accepts)}{self._after()}, {_found(found)}"
        remedy = self._remedy(found, accepts)
        self.damage.append(token_span(found).start)
        self.mistakes.append(mistake_at(self.text, token_span(found), message, remedy))

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
        return _listed([*parts, *words])

    def _after(self) -> str:
        if self._previous is None:
            return " at the start"
        return f" after '{shown(self._previous)}'"

    def _remedy(self, found: Token, accepts: frozenset[str]) -> str:
        values_fit = accepts >= {"NUMBER", "NAME"}
        if found.type == "RPAR" and not self._open:
            return "Remove this ')', or open it with '('."
        if found.type == "$END" and "RPAR" in accepts and self._open:
            where = position(self.text, token_span(self._open[-1]).start)
            return f"Close the '(' of {where}."
        if found.type in _COMPARISONS and not values_fit:
            return "Comparisons do not chain: write A < B AND B < C."
        return _general_remedy(found, accepts)


def _general_remedy(found: Token, accepts: frozenset[str]) -> str:
    if found.type == "LSQB":
        return 'Only SCORE["name"] and LLM_JUDGE["name"] take brackets.'
    if accepts & {"THEN", "ELSE"}:
        return "Every IF needs THEN and ELSE: IF condition THEN value ELSE value."
    if accepts <= {"NUMBER", "PLUS", "MINUS"}:
        return "A weight is a plain number such as 0.5."
    if found.type in _VALUES and "NAME" not in accepts:
        return "Put an operator between two values, or ',' between two arguments."
    return "Complete the formula here, or remove what is too much."


def _placeholder(kind: str, near: Token) -> Token:
    start = token_span(near).start
    return Token(kind, _PLACEHOLDERS[kind], start_pos=start, end_pos=start)


def _result(session: Session, end: Token) -> Expr | None:
    try:
        return session.fork().feed(end)
    except UnexpectedToken:
        return None


def _found(token: Token) -> str:
    if token.type == "$END":
        return "but the formula ends here"
    return f"found {shown(token)}" if token.type == "STRING" else f"found '{shown(token)}'"


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
