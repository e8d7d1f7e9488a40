"""Regular expressions of users, searched by RE2 in linear time.

Without look-around and back-references a pattern cannot cause exponential run time. RE2 also has the
dialect that the datasets were written for: `$` matches only at the very end.
"""

from functools import lru_cache
from typing import Final, Protocol

MAX_PATTERN: Final = 10_000  # characters


class InvalidPattern(ValueError):
    """The pattern is not valid."""


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str) -> object | None: ...


@lru_cache(maxsize=1024)
def compile_pattern(text: str) -> Pattern:
    """The compiled pattern. Raises InvalidPattern."""
    if len(text) > MAX_PATTERN:
        raise InvalidPattern(f"it is longer than {MAX_PATTERN} characters")
    # Checks and evaluators are loaded by every process; most search no pattern, and the import takes 1.5 MiB.
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        pattern: Pattern = re2.compile(text, options=options)
    except re2.error as error:
        raise InvalidPattern(_explain(error)) from None
    return pattern


def _explain(error: Exception) -> str:
    """The message of RE2, with a note on features that other engines have."""
    detail = error.args[0] if error.args else error
    text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
    if "(?=" in text or "(?!" in text or "(?<" in text:
        return f"{text}; look-around is not supported"
    if "invalid escape sequence: \\" in text and text[-1].isdigit():
        return f"{text}; back-references are not supported"
    return text
