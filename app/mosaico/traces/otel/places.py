"""Places of a field in a span; pure.

A place finds a value in a span: a text, messages in a form that `mosaico.traces.messages` reads, a document or a
number. None means that the span has nothing at this place.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from mosaico.traces.messages import parse_arguments, parse_value, read_indexed
from mosaico.traces.otel.spans import Span

Decode = Callable[[Any], Any]

_EMPTY: Final[tuple[Any, ...]] = ("", "{}", "[]", "null", {}, [])


class Where(Enum):
    """What the name of a place is that of."""

    ATTRIBUTE = "attribute"
    INDEXED = "the beginning of numbered attributes"
    EVENT = "event"
    SPAN = "span"


# Members of an enumeration are slow to look up in a loop.
_ATTRIBUTE: Final = Where.ATTRIBUTE
_EVENT: Final = Where.EVENT


class Place(NamedTuple):
    """Where a field stands."""

    name: str
    find: Callable[[Span], Any]
    where: Where = Where.ATTRIBUTE

    @property
    def is_event(self) -> bool:
        return self.where is Where.EVENT


def filled(places: Sequence[Place], span: Span) -> Iterator[Any]:
    """The values at the places that are filled, in their order. Most places of a span are not: they cost a look-up."""
    attributes, events = span.attributes, span.events
    for name, find, where in places:
        if where is _ATTRIBUTE:
            if name not in attributes:
                continue
        elif where is _EVENT and not events:
            continue
        value = find(span)
        if value is not None:
            yield value


def first_value(places: Sequence[Place], span: Span) -> Any:
    """The value at the first filled place; None without one."""
    return next(filled(places, span), None)


def attribute(name: str, decode: Decode | None = None) -> Place:
    """An attribute; writers that record nothing leave `{}` or `[]` there."""

    def find(span: Span) -> Any:
        value = span.attributes.get(name)
        if value is None or is_empty(value):
            return None
        return value if decode is None else decode(value)

    return Place(name, find)


def is_empty(value: Any) -> bool:
    """Return whether a writer wrote a value that says nothing."""
    return value in _EMPTY


def attributes(*names: str) -> tuple[Place, ...]:
    """Attributes that need no decoding."""
    return tuple(map(attribute, names))


def indexed(prefix: str, decode: Decode | None = None) -> Place:
    """Numbered attributes such as `gen_ai.prompt.0.content`."""

    def find(span: Span) -> Any:
        rows = read_indexed(span.attributes, prefix)
        return decode(rows) if rows and decode is not None else list(map(_with_parts, rows)) or None

    return Place(prefix, find, Where.INDEXED)


def _with_parts(row: Any) -> Any:
    """A numbered message; a content that has images is a JSON text with its parts, and a call may have its older name."""
    match row:
        case {"function_call": Mapping() as call}:
            return {**row, "tool_calls": [call]}
        case {"message": Mapping() as message}:
            return {**row, "message": _with_parts(message)}
        case {"content": str() as text} if text[:1] == "[":
            parts = parse_value(text)
            if isinstance(parts, list) and all(
                isinstance(p, Mapping) and "type" in p for p in parts
            ):
                return {**row, "content": parts}
    return row


def event_attribute(event: str, name: str, decode: Decode | None = None) -> Place:
    """An attribute of an event; of several events of this name the last that has it."""

    def find(span: Span) -> Any:
        values = (e.attributes.get(name) for e in reversed(span.events) if e.name == event)
        value = next((value for value in values if value is not None), None)
        return value if decode is None or value is None else decode(value)

    return Place(event, find, Where.EVENT)


def new_messages(name: str, start: str) -> Place:
    """The messages of an agent's run in its whole conversation, from the index in the attribute `start`."""

    def find(span: Span) -> Any:
        messages = parse_value(span.attributes.get(name))
        index = read_number(span.attributes.get(start))
        is_part = isinstance(messages, list) and index is not None and index < len(messages)
        return messages[int(index or 0) :] if is_part else messages

    return Place(name, find)


def event_presence(*names: str) -> Place:
    """Events that say by being there what a span is."""
    return Place(
        "",
        lambda span: "present" if any(e.name in names for e in span.events) else None,
        Where.SPAN,
    )


def presence(name: str) -> Place:
    """An attribute that says by being there what a span is."""
    return attribute(name, lambda _: "present")


def read_number(value: Any) -> float | None:
    """A finite number that is not negative, from a number, its text, or a JSON object of OTLP; None for others."""
    match value:
        case {"intValue": inner} | {"doubleValue": inner}:
            return read_number(inner)
        case str() if value[:1] == "{":
            return read_number(parse_arguments(value))
        case str():
            try:
                value = float(value.strip('"'))
            except ValueError:
                return None
        case bool():
            return None
    if not isinstance(value, int | float) or not 0 <= value < 2**63:
        # A larger integer of a hostile span would not fit into its column.
        return None
    return float(value) if math.isfinite(value) else None
