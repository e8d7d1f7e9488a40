"""What the harnesses find in texts: patterns of users, searched by RE2 in linear time, and JSON objects.

Without look-around and back-references a pattern cannot cause exponential run time. RE2 also has the
dialect of Rust, for which the datasets were written: `$` matches only at the very end. The forms of Rust
that RE2 would read as other characters are refused.
"""

import json
import re
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from mosaico.core.batches import batched

MAX_PATTERN: Final = 10_000  # characters
JOINED_PATTERNS: Final = 50
# The processor time of all matches of a pattern in a set: a search takes linear time, but as many searches as there are
# matches, each to the end of the text, do not. Text that is nothing but short matches takes 3 microseconds a byte.
MATCHING_S: Final = 2.0
MATCHING_BYTE_S: Final = 10e-6


class InvalidPattern(ValueError):
    """The pattern is not valid."""


class SlowPattern(Exception):
    """All matches of a pattern take longer than texts of their size may take."""

    def __init__(self, pattern: str, seconds: float) -> None:
        super().__init__(pattern, seconds)
        self.pattern = pattern
        self.seconds = seconds


class Match(Protocol):
    """Where a pattern matches; of bytes the positions are those of bytes."""

    def start(self) -> int: ...
    def end(self) -> int: ...


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str | bytes) -> object | None: ...
    def finditer(self, text: bytes) -> Iterator[Match]: ...


@lru_cache(maxsize=1024)
def compile_pattern(text: str) -> Pattern:
    """The compiled pattern. Raises InvalidPattern."""
    if len(text) > MAX_PATTERN:
        raise InvalidPattern(f"it is longer than {MAX_PATTERN} characters")
    pattern = _compile(text)
    # Only of a valid pattern, whose sets all end: the search takes time in proportion to its length.
    misread_form = next(_misread_forms(text), None)
    if misread_form is not None:
        raise InvalidPattern(misread_form)
    return pattern


def _compile(text: str) -> Pattern:
    # Checks and evaluators are loaded by every process; most search no pattern, and the import takes 1.5 MiB.
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        pattern: Pattern = re2.compile(text, options=options)
    except re2.error as error:
        raise InvalidPattern(_explain(error)) from None
    return pattern


class PatternSet:
    """Several valid patterns. Most texts have no match of any: one search for all of them together says so."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [_TimedPattern(pattern) for pattern in patterns]
        self._searches = [
            search
            for batch in batched(patterns, JOINED_PATTERNS)
            for search in _join_patterns(tuple(batch))
        ]

    def matches(self, data: bytes) -> bool:
        """Return whether any pattern matches."""
        return any(search.search(data) is not None for search in self._searches)

    def find_spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """The begin and the end of each match of each pattern that is not empty. Raises: `SlowPattern`."""
        for pattern in self._patterns:
            yield from pattern.find_spans(data)


class _TimedPattern:
    """A pattern with the time that its matches took so far, and the bytes that they were looked for in."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pattern = compile_pattern(text)
        self._spent_s = 0.0
        self._byte_count = 0

    def find_spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        self._byte_count += len(data)
        limit_s = MATCHING_S + self._byte_count * MATCHING_BYTE_S
        left_s = limit_s - self._spent_s
        began_s, deadline_s = time.thread_time(), time.monotonic() + left_s
        for match in self._pattern.finditer(data):
            if match.start() < match.end():
                yield match.start(), match.end()
            # The clock of the thread, which other programs do not slow, takes longer to read than a match.
            if time.monotonic() > deadline_s and time.thread_time() - began_s > left_s:
                raise SlowPattern(self._text, limit_s)
        self._spent_s += time.thread_time() - began_s


@lru_cache(maxsize=64)
def _join_patterns(patterns: tuple[str, ...]) -> list[Pattern]:
    """One pattern that matches where one of the given ones does; these themselves if they cannot be joined."""
    each = [compile_pattern(pattern) for pattern in patterns]
    # The quote \Q goes on to the end of a pattern, and further when something follows.
    if any("\\Q" in pattern for pattern in patterns):
        return each
    try:
        return [_compile("|".join(f"(?:{pattern})" for pattern in patterns))]
    except InvalidPattern:  # too large together, or with groups of the same name
        return each


# An escaped character, a class of characters with its content, or any other character.
_PATTERN_PARTS: Final = re.compile(
    r"\\b\{|\\.|\[\^?\]?(?P<class>(?:\\.|\[:\^?\w+:\]|[^\]\\])*)\]|.", re.DOTALL
)
_WORD_ENDS: Final = ("\\<", "\\>", "\\b{")
# An escaped character, a named class, or what only Rust reads as a part of a set.
_CLASS_PARTS: Final = re.compile(
    r"\\.|\[:\^?\w+:\]|(?P<operation>&&|--|~~)|(?P<nested>\[)", re.DOTALL
)
_CLOSED: Final = re.compile(r"(?:\\.|[^\]\\])*\]", re.DOTALL)


def _misread_forms(text: str) -> Iterator[str]:
    """The forms that mean something in Rust and other characters in RE2."""
    for part in _PATTERN_PARTS.finditer(text):
        if part.group() in _WORD_ENDS:
            yield f"{part.group()} is no boundary of a word here; write \\b"
        for inner in _CLASS_PARTS.finditer(part["class"] or ""):
            if inner["operation"]:
                yield f"{inner['operation']} in [ ] is no operation here; write the characters themselves"
            # Without another ] the inner [ is an error in Rust, and the character here.
            if inner["nested"] and _CLOSED.match(text, part.end()):
                yield "[ in [ ] begins no set here; write \\[ for the character"


def _explain(error: Exception) -> str:
    """The message of RE2, with a note on features that other engines have."""
    detail = error.args[0] if error.args else error
    text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
    if "(?=" in text or "(?!" in text or "(?<" in text:
        return f"{text}; look-around is not supported"
    if "invalid escape sequence: \\" in text and text[-1].isdigit():
        return f"{text}; back-references are not supported"
    return text


MOST_TRIES: Final = 200


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a text from left to right, with prose and fences around them.

    After 200 braces that begin none the rest is left alone.
    """
    decoder = json.JSONDecoder()
    start = text.find("{")
    tries = 0
    while start >= 0 and tries < MOST_TRIES:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            tries, end = tries + 1, start + 1
        else:
            yield value
        start = text.find("{", end)
