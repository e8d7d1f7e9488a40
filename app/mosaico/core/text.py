"""Text that a target can hold: Postgres and UTF-8 (storable text), HTML and XML."""

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from html import escape
from typing import Any, Final

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

# Characters outside of XML 1.0: an escape does not make them legal either.
_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

_NEGATIVE: Final = re.compile("\N{MINUS SIGN}(?=[0-9.])")
# They make a text read in another order than it is stored. Source: CVE-2021-42574.
_DIRECTION_CONTROL: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
# Those, and the marks that belong to them. Source: the property Bidi_Control of Unicode.
_DIRECTION_CHARACTER: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# ZWNJ and ZWJ: letters of Persian and Hindi, and parts of joined emoji, are written with them.
JOINERS: Final = frozenset("\u200c\u200d")
_LINE_BREAKS: Final = ("Cc", "Zl", "Zp")


MINUS: Final = "\N{MINUS SIGN}"
# Without decimals from here on; with an exponent below; nobody counts so many digits.
_LARGE_NUMBER, _SMALL_NUMBER, _UNREADABLE_NUMBER = 1000, 1e-9, 1e15
_TIME_UNITS = ((86_400, "d", "day"), (3600, "h", "hour"), (60, "min", "minute"))
# Up to so many units, a whole number of them is off by too much.
_FEW_UNITS = 3
_FEW_SECONDS = 10  # a tenth still matters


def format_decimal(value: float, spec: str) -> str:
    """A number in one of Python's formats, for readers: a minus sign is as wide as a digit, and no line
    breaks after it, as it may after a hyphen. What is rounded to zero has no minus sign.
    """
    sign = spec[:1] if spec.startswith("+") else ""
    text = f"{value:{sign}z{spec.removeprefix('+')}}"
    return MINUS + text[1:] if text.startswith("-") else text


def format_number(value: float) -> str:
    """A number with four significant digits, without an exponent from 10^-9 to 10^15."""
    if abs(value) >= _UNREADABLE_NUMBER:
        return format_decimal(value, ".4g")
    if abs(value) >= _LARGE_NUMBER:
        return format_decimal(value, ",.0f")
    text = format_decimal(value, ".4g")
    # Costs of one request are such numbers: 0.0000123 USD.
    return (
        format_decimal(value, f".{3 - math.floor(math.log10(abs(value)))}f").rstrip("0")
        if "e" in text and abs(value) >= _SMALL_NUMBER
        else text
    )


def format_duration(duration: timedelta, *, has_tenths: bool = True) -> str:
    """A short duration: "0.4 s", "41 s", "12 min", "3 h", "47 h", "3 d"; without tenths "5 s"."""
    seconds = duration.total_seconds()
    for size, abbreviation, _ in _TIME_UNITS:
        if _is_counted_in(size, seconds):
            return f"{seconds // size:.0f} {abbreviation}"
    return f"{seconds:.1f} s" if has_tenths and seconds < _FEW_SECONDS else f"{int(seconds)} s"


def format_utc(at: datetime) -> str:
    """An instant in UTC to the minute."""
    return format_in_zone(at, UTC)


def format_in_zone(at: datetime, zone: tzinfo, *, has_seconds: bool = False) -> str:
    """An instant in a zone, with its name: "2026-11-22 03:00 Europe/Rome"."""
    return (
        f"{at.astimezone(zone):{'%Y-%m-%d %H:%M:%S' if has_seconds else '%Y-%m-%d %H:%M'}} {zone}"
    )


def _is_counted_in(unit_s: int, seconds: float) -> bool:
    """Return whether a whole number of units says the duration well enough."""
    is_nearly_whole = seconds % unit_s < unit_s / 20
    return seconds >= _FEW_UNITS * unit_s or (seconds >= unit_s and is_nearly_whole)


def describe_duration(duration: timedelta) -> str:
    """A duration for sentences: "3 days". Of few units a smaller one is counted: "47 hours", and not "1 day"."""
    seconds = int(duration.total_seconds())
    for size, _, noun in _TIME_UNITS:
        if _is_counted_in(size, seconds):
            return count_noun(seconds // size, noun)
    return "1 minute" if seconds >= _TIME_UNITS[-1][0] else "less than a minute"


def use_hyphens(text: str) -> str:
    """A text that programs read: a hyphen before negative numbers."""
    return _NEGATIVE.sub("-", text) if MINUS in text else text


def show_direction_controls(text: str) -> str:
    """The text with `[U+202E]` for a character that reverses the text after it, and the like."""
    if text.isascii():
        return text
    return _DIRECTION_CONTROL.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def find_line_flaw(text: str) -> str | None:
    """Why a text is not a name on one line, as a predicate for an error; None when it is one."""
    if text.isprintable():
        return None
    if any(unicodedata.category(char) in _LINE_BREAKS for char in text):
        return "contains a line break or another control character; send one line"
    if match := _DIRECTION_CHARACTER.search(text):
        return f"contains U+{ord(match[0]):04X}, which changes the direction of reading; remove it"
    if not any(char.isprintable() and not char.isspace() for char in text):
        return "contains no visible character; send a name"
    return None


def unstorable_reason(text: str) -> str | None:
    """Return the reason why Postgres cannot store a text, as a predicate for an error; None when it
    can.
    """
    if "\x00" in text:
        return "contains the character NUL (\\u0000); remove it"
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            return f"contains a lone surrogate at character {error.start}; send the whole pair"
    return None


def replace_unstorable(text: str) -> str:
    """The text with U+FFFD for NUL and lone surrogates; the same object when nothing changes."""
    if text.isascii() and "\0" not in text:
        return text
    without_nul = text.replace("\0", _REPLACEMENT)
    try:
        without_nul.encode()
    except UnicodeEncodeError:
        # UTF-16 joins two surrogates that form a pair; only lone ones are replaced.
        return without_nul.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return without_nul


def replace_unstorable_in_json(
    value: Any, replace_in_text: Callable[[str], str] = replace_unstorable
) -> Any:
    """A JSON value with storable texts and keys; NaN and infinite numbers become None."""
    match value:
        case str():
            return replace_in_text(value)
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {
                replace_in_text(str(key)): replace_unstorable_in_json(member, replace_in_text)
                for key, member in value.items()
            }
        case list() | tuple():
            return [replace_unstorable_in_json(member, replace_in_text) for member in value]
        case _:
            return value


def map_json_texts(document: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every text in it changed; the keys stay."""
    match document:
        case str():
            return change(document)
        case Mapping():
            return {key: map_json_texts(member, change) for key, member in document.items()}
        case list() | tuple():
            return [map_json_texts(member, change) for member in document]
        case _:
            return document


def shorten(text: str, limit: int) -> str:
    """The text; a longer one is its first `limit` characters and an ellipsis."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def join_words(words: Sequence[str], conjunction: str) -> str:
    """The words as a list in a sentence: `a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def count_noun(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun, such as "1 run" or "1,200 runs"; the plural adds "s" unless it is given."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def cut_middle(text: str, limit: int) -> str:
    """The text; one of more than `limit` characters without its middle, with the omitted number."""
    omitted = len(text) - limit
    if omitted <= 0:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{omitted} characters omitted]\n{text[len(text) - half :]}"


def aligned_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows of a table of plain text, its columns of equal width; nothing for no rows."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def html_text(text: str) -> str:
    """The text escaped for HTML content and quoted attributes."""
    return escape(show_direction_controls(text).replace("\x00", _REPLACEMENT))


def xml_text(text: str) -> str:
    """The text with U+FFFD for characters that XML 1.0 does not allow; it is not escaped."""
    return _NOT_XML.sub(_REPLACEMENT, show_direction_controls(text))


def capitalized(clause: str) -> str:
    """The clause with a capital letter at its beginning; the others stay as they are."""
    return clause[:1].upper() + clause[1:]


def sentence_of(clause: str) -> str:
    """The clause as a sentence, with its full stop."""
    return f"{capitalized(clause)}."
