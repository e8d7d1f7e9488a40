"""Patterns of users, searched in time linear in the text: no look-around, no back-references.

Source: RE2, which has the grammar and the meaning that datasets were written for; `$` matches at
the very end only.
"""

from functools import lru_cache
from typing import Final, Protocol

import re2

MAX_PATTERN: Final = 10_000  # characters


class InvalidPattern(ValueError):
    """A pattern cannot be searched for."""


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str) -> object | None: ...


@lru_cache(maxsize=1024)
def compile_pattern(text: str) -> Pattern:
    """The pattern ready for use. Raises InvalidPattern with what is wrong with it."""
    if len(text) > MAX_PATTERN:
        raise InvalidPattern(f"it is longer than {MAX_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        pattern: Pattern = re2.compile(text, options=options)
    except re2.error as error:
        raise InvalidPattern(_reason(error)) from None
    return pattern


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else error
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    if "(?=" in text or "(?!" in text or "(?<" in text:
        return f"{text}; look-around is not supported"
    if "invalid escape sequence: \\" in text and text[-1].isdigit():
        return f"{text}; back-references are not supported"
    return text
