"""Places of a field in a span, and the encodings in which libraries write there; pure.

A place finds a value in a span: a text, messages in a form that `mosaico.traces.messages` reads, a document or a
number. None means that the span has nothing at this place.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import takewhile
from typing import Any, Final, NamedTuple

from mosaico.traces.messages import parse_arguments, parse_value, read_indexed
from mosaico.traces.otel.spans import Span
from mosaico.traces.reported_usage import TokenCounts, read_usage_details

Decode = Callable[[Any], Any]

DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"
_MESSAGE_EVENT: Final = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
_CHOICE_EVENT: Final = "gen_ai.choice"
_ASSISTANT_EVENT: Final = "gen_ai.assistant.message"
_UNQUOTED: Final = re.compile(r'\{"role:" (\w+), "content:" (.*?)\}(?=\]|, \{"role:"|$)', re.DOTALL)
_EVENT_CONTENT: Final = "gen_ai.event.content"
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
        return decode(rows) if rows and decode is not None else rows or None

    return Place(prefix, find, Where.INDEXED)


def event_attribute(event: str, name: str, decode: Decode | None = None) -> Place:
    """An attribute of an event; of several events of this name the last that has it."""

    def find(span: Span) -> Any:
        values = (e.attributes.get(name) for e in reversed(span.events) if e.name == event)
        value = next((value for value in values if value is not None), None)
        return value if decode is None or value is None else decode(value)

    return Place(event, find, Where.EVENT)


def asked_messages() -> Place:
    """Events of single messages: what the model was asked. Sources: conventions 1.28 to 1.36, Strands, Azure."""
    return Place("gen_ai.user.message", _asked, Where.EVENT)


def answered_messages() -> Place:
    """Events of the choices of a model."""
    return Place(_CHOICE_EVENT, _answered, Where.EVENT)


def _asked(span: Span) -> list[Any] | None:
    events = ((_MESSAGE_EVENT.fullmatch(e.name), e.attributes) for e in span.events)
    return [_event_message(match[1], body) for match, body in events if match] or None


def _answered(span: Span) -> list[Any] | None:
    bodies = (event.attributes for event in span.events if event.name == _CHOICE_EVENT)
    return [_event_message("assistant", body) for body in bodies] or None


def _event_message(role: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message in the body of an event, which may be a JSON text of its own."""
    fields = {**body, **(parse_arguments(body.get(_EVENT_CONTENT)) or {})}
    dotted = {n.removeprefix("message."): v for n, v in fields.items() if n.startswith("message.")}
    message = parse_value(fields.get("message", dotted or None))
    if isinstance(message, Mapping):
        fields |= message
    elif message is not None:
        fields["content"] = message
    own_role = fields.get("role")
    return {
        "role": own_role if isinstance(own_role, str) else role,
        "content": parse_value(fields.get("content")),
        "tool_calls": parse_value(fields.get("tool_calls")),
    }


def new_messages(name: str, start: str) -> Place:
    """The messages of an agent's run in its whole conversation, from the index in the attribute `start`."""

    def find(span: Span) -> Any:
        messages = parse_value(span.attributes.get(name))
        index = read_number(span.attributes.get(start))
        is_part = isinstance(messages, list) and index is not None and index < len(messages)
        return messages[int(index or 0) :] if is_part else messages

    return Place(name, find)


def asked_in_events(value: Any) -> Any:
    """The messages in one attribute with all events: logfire, and format 1 of pydantic-ai."""
    events = _objects(parse_value(value))
    found = [(_MESSAGE_EVENT.fullmatch(str(body.get("event.name"))), body) for body in events]
    return [_event_message(match[1], body) for match, body in found if match] or None


def answered_in_events(value: Any) -> Any:
    """The choices in one attribute with all events; without one the last messages of the assistant."""
    bodies = list(_objects(parse_value(value)))
    choices = [body for body in bodies if body.get("event.name") == _CHOICE_EVENT]
    last = takewhile(lambda b: b.get("event.name") == _ASSISTANT_EVENT, reversed(bodies))
    answers = choices or list(last)[::-1]
    return [_event_message("assistant", body) for body in answers] or None


def gemini_contents(value: Any) -> Any:
    """The contents of a request to Gemini: without a role they are those of the user."""
    contents = inside("contents")(value)
    if isinstance(contents, list):
        return [
            {"role": "user", **part} if isinstance(part, Mapping) else part for part in contents
        ]
    return contents


def unquoted_messages(value: Any) -> Any:
    """The messages that the first versions of Semantic Kernel wrote without quotes around the texts."""
    text = value if isinstance(value, str) else ""
    found = _UNQUOTED.findall(text)
    return [{"role": role, "content": content} for role, content in found] or value


def inside(*path: str, of: Decode = lambda value: value) -> Decode:
    """A member of a JSON document, by the names of the objects around it."""

    def decode(value: Any) -> Any:
        for name in path:
            document = parse_value(value)
            value = document.get(name) if isinstance(document, Mapping) else None
        return None if value is None else of(value)

    return decode


def arguments_of_call(value: Any) -> Any:
    """The one argument of a recorded call of a function, or the task of an agent of smolagents; any other value unchanged."""
    match parse_value(value):
        case {"args": [*positional], "kwargs": Mapping() as named, **others} if _are_switches(
            others
        ):
            if positional and not named:
                return positional[0] if len(positional) == 1 else value
            return named if named and not positional else value
        # Agents of smolagents and of LlamaIndex, and LangChain by traceloop.
        case (
            {"task": str() as asked, "reset": _}
            | {"user_msg": str() as asked}
            | {"inputs": asked, "kwargs": Mapping()}
        ):
            return asked
        case {"new_message": {"parts": [*_]} as message}:  # Google ADK
            return {"role": "user", **message}
    return value


def result_of_call(value: Any) -> Any:
    """The result of a recorded call of a framework; any other value unchanged."""
    match parse_value(value):
        case {"outputs": outputs, "kwargs": Mapping()}:  # LangChain by traceloop
            return outputs
        case {"response": {"role": str() as role, "blocks": [*blocks]}}:  # LlamaIndex
            return {"role": role, "content": blocks}
        case {"content": {"parts": [*_]} as content}:  # Google ADK
            return {"role": "model", **content}
        case {"raw": str() as text, "tasks_output": _}:  # CrewAI
            return text
    return value


def _are_switches(members: Mapping[Any, Any]) -> bool:
    return all(member is None or isinstance(member, bool) for member in members.values())


def prompt_document(value: Any) -> Any:
    """The prompt of the AI SDK: a text or messages, beside the instructions."""
    match parse_value(value):
        case {"messages": [*messages]} if messages:
            return messages
        case {"prompt": prompt} if prompt:
            return prompt
    return value


def tool_calls(value: Any) -> Any:
    """A list of tool calls as the message that asks for them."""
    calls = list(_objects(parse_value(value)))
    return [{"role": "assistant", "content": "", "tool_calls": calls}] if calls else None


def completion(value: Any) -> Any:
    """One completion, or the text of each candidate."""
    document = parse_value(value)
    match document:
        case {"role": _} | [*_] | {"choices": _} | {"generations": _}:
            return document
        case {"text": str() as text}:
            return text
    return value


def total_or_sum(value: Any) -> float | None:
    """A cost: the total, or without one the sum of its parts, such as input and output."""
    details = parse_arguments(value) or {}
    total = read_number(details.get("total"))
    parts = [p for name, part in details.items() if (p := read_number(part)) is not None]
    return total if total is not None else (sum(parts) if parts else None)


def usage_document(value: Any) -> TokenCounts | None:
    """The tokens in a document of usage."""
    details = parse_arguments(value)
    return None if details is None else read_usage_details(details)


def usage_of_tokens(value: Any) -> TokenCounts | None:
    """The tokens in a document that counts characters and images, too."""
    details = parse_arguments(value) or {}
    return read_usage_details({n: v for n, v in details.items() if n.lower().endswith("tokens")})


def gemini_usage(value: Any) -> TokenCounts | None:
    """The tokens in a response of Gemini, whose output count lacks the thoughts."""
    counts = parse_arguments(value) or {}
    asked = read_number(counts.get("prompt_token_count"))
    said = read_number(counts.get("candidates_token_count"))
    thought = read_number(counts.get("thoughts_token_count")) or 0
    if asked is None and said is None:
        return None
    return TokenCounts(
        None if asked is None else int(asked), None if said is None else int(said + thought)
    )


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
                value = float(value)
            except ValueError:
                return None
        case bool():
            return None
    if not isinstance(value, int | float) or not 0 <= value < 2**63:
        # A larger integer of a hostile span would not fit into its column.
        return None
    return float(value) if math.isfinite(value) else None


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    members: Sequence[Any] = value if isinstance(value, list) else ()
    yield from (member for member in members if isinstance(member, Mapping))
