"""Strict JSON: only documents that Postgres, browsers and other parsers read the same way.

Refused, each with a JSON pointer: NaN and Infinity, numbers beyond a double or a
64-bit integer, duplicate keys, NUL and lone surrogates in texts, more than `MAX_DEPTH` levels.
"""

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard

from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.text import shorten, unstorable_reason

MAX_DEPTH = 64
MAX_INTEGER = 2**63 - 1
MIN_INTEGER = -(2**63)

_LONGEST_INTEGER = len(str(MIN_INTEGER))
_SHOWN_TEXT = 60


class UnacceptableJson(Invalid):
    """The JSON document contains something that cannot be stored; correct the places in `errors`."""


class MalformedJson(Invalid):
    """The request body is not valid JSON; send one JSON value in UTF-8."""

    status = 400


@dataclass(frozen=True, slots=True)
class _UnacceptableValue:
    """Placeholder in a parsed document for an unacceptable value."""

    detail: str


class _UnacceptableJson(Exception):
    """Carries the reason to the root of the document and collects the path on its way."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.path: list[str] = []


def parse_json(raw: bytes | str) -> Any:
    """Parse a JSON text strictly.

    Raises: `MalformedJson` with line and column when it is not JSON, caused by the error of the
    decoder; `Invalid` with a pointer when it contains something that the service does not accept.
    """
    value = _parse(_decode(raw))
    reject_unacceptable(value)
    return value


def reject_unacceptable(value: Any) -> None:
    """Raise `Invalid`, with a pointer, when a parsed value contains something unacceptable."""
    try:
        _check(value, MAX_DEPTH)
    except _UnacceptableJson as error:
        pointer = "".join(f"/{step}" for step in reversed(error.path))
        raise UnacceptableJson(
            "The JSON document contains something that cannot be stored;"
            " correct the places in `errors` and send it again.",
            errors=[ErrorItem(pointer=pointer, detail=error.detail)],
        ) from None


def escape_pointer_step(step: str) -> str:
    """Return one step of a JSON pointer, escaped (RFC 6901 §3) and truncated for a message."""
    shortened = shorten(step, _SHOWN_TEXT)
    return shortened.replace("~", "~0").replace("/", "~1")


def parse_finite_json(text: bytes | str) -> Any:
    """The value of a JSON text; raises `ValueError` for NaN, Infinity and numbers beyond a double.

    `json.loads` accepts all three, although they are not JSON and no other parser reads them back.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    return _FINITE.decode(text)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a parsed value is a number: in Python, true and false are integers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def float_of(number: float) -> float:
    """The number as a double; infinite when it is beyond the range of one."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def text_of_json(value: Any) -> str | None:
    """A text as it is, any other JSON value as canonical JSON; None for null and an empty text."""
    if value is None or isinstance(value, str):
        return value or None
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def refuse_constant(name: str) -> NoReturn:
    """A `parse_constant` of `json` that refuses NaN and Infinity."""
    raise ValueError(f"{name} is not valid JSON")


def _finite_float(token: str) -> float:
    number = float(token)
    if not math.isfinite(number):
        raise ValueError(f"the number {token[:_SHOWN_TEXT]} is beyond the range of a double")
    return number


def _decode(raw: bytes | str) -> str:
    try:
        return raw if isinstance(raw, str) else raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedJson(
            f"The body is not UTF-8: byte {error.start} cannot be decoded; encode it as UTF-8."
        ) from error


def _parse(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise MalformedJson(
            f"The body is not valid JSON: {error.msg.lower()} at line {error.lineno}, column"
            f" {error.colno}; send one JSON value."
        ) from error
    except RecursionError:
        raise UnacceptableJson(
            f"The JSON document is nested deeper than {MAX_DEPTH} levels; send it flatter."
        ) from None


def _check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict):
        _check_members(value.items(), depth)
    elif isinstance(value, list | tuple):
        _check_members(enumerate(value), depth)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _UnacceptableJson(f"{value} is not a JSON number; leave the field out or send null")
    elif isinstance(value, _UnacceptableValue):
        raise _UnacceptableJson(value.detail)
    elif isinstance(value, int) and not MIN_INTEGER <= value <= MAX_INTEGER:
        raise _UnacceptableJson("is an integer beyond 64 bits; send a smaller one, or a text")


def _check_members(members: Any, depth: int) -> None:
    if depth == 0:
        raise _UnacceptableJson(f"is nested deeper than {MAX_DEPTH} levels; send it flatter")
    for key, member in members:
        try:
            if isinstance(key, str):
                _check_text(key)
            # Fast path: most values of a document are null, true or false, or handled by the parser.
            if member is not None and member is not True and member is not False:
                _check(member, depth - 1)
        except _UnacceptableJson as error:
            error.path.append(escape_pointer_step(_printable(str(key))))
            raise


def _check_text(text: str) -> None:
    flaw = unstorable_reason(text)
    if flaw is not None:
        raise _UnacceptableJson(flaw)


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "?")


def _integer(token: str) -> int | _UnacceptableValue:
    # Before int(), which takes quadratic time for long digit strings.
    if len(token) > _LONGEST_INTEGER:
        return _UnacceptableValue("is an integer beyond 64 bits; send a smaller one, or a text")
    return int(token)


def _float(token: str) -> float | _UnacceptableValue:
    value = float(token)
    if math.isfinite(value):
        return value
    return _UnacceptableValue(
        "is a number beyond the range of a double; send a smaller one, or a text"
    )


def _constant(token: str) -> _UnacceptableValue:
    return _UnacceptableValue(f"{token} is not a JSON number; leave the field out or send null")


def _object(pairs: list[tuple[str, Any]]) -> Any:
    # Parsers disagree on which of two equal keys counts, so an attacker could show one and store
    # the other.
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    seen_keys: set[str] = set()
    duplicate_key = next(key for key, _ in pairs if key in seen_keys or seen_keys.add(key))  # type: ignore[func-returns-value]
    return _UnacceptableValue(
        f"has the key {_printable(escape_pointer_step(duplicate_key))!r} twice; send it once"
    )


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)

# Made once: `json.loads` makes one for each call with other readers of numbers.
_FINITE = json.JSONDecoder(parse_float=_finite_float, parse_constant=refuse_constant)
