"""Messages in events: each message is one, of the span or in one attribute. Sources: conventions 1.28 to 1.36, Strands,
Azure, logfire, format 1 of pydantic-ai.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, TypeAlias

from mosaico.traces.messages import parse_arguments, parse_value
from mosaico.traces.otel.encodings import inside, objects
from mosaico.traces.otel.places import Place, Where
from mosaico.traces.otel.spans import EVENT_CONTENT, Span

# The name of an event, and its attributes.
Event: TypeAlias = tuple[str, Mapping[str, Any]]

_MESSAGE: Final = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
_CHOICE: Final = "gen_ai.choice"
_ASSISTANT: Final = "gen_ai.assistant.message"
_OPENAI_AGENTS: Final = "openai_agents"


def asked_messages() -> Place:
    """Events of the span: what the model was asked."""
    return Place("gen_ai.user.message", lambda span: _asked(_of_span(span)), Where.EVENT)


def answered_messages() -> Place:
    """Events of the span: what the model answered."""
    return Place(_CHOICE, lambda span: _answered(list(_of_span(span))), Where.EVENT)


def asked_in_events(value: Any) -> Any:
    """What the model was asked, in one attribute with all events."""
    return _asked(_of_attribute(value))


def answered_in_events(value: Any) -> Any:
    """What the model answered, in one attribute with all events."""
    return _answered(list(_of_attribute(value)))


def conversation_in_events(value: Any) -> Any:
    """All messages of a run of an agent, in one attribute with their events."""
    return [*(_asked(_of_attribute(value)) or ()), *(_choices(list(_of_attribute(value))))] or None


def _of_span(span: Span) -> Iterator[Event]:
    return ((event.name, event.attributes) for event in span.events)


def _of_attribute(value: Any) -> Iterator[Event]:
    return ((str(body.get("event.name")), body) for body in objects(parse_value(value)))


def _asked(events: Iterable[Event]) -> list[Any] | None:
    messages = ((_MESSAGE.fullmatch(name), body) for name, body in events)
    return [_message(match[1], body) for match, body in messages if match] or None


def _answered(events: Sequence[Event]) -> list[Any] | None:
    """The first choice; without one the last messages of the assistant."""
    last = takewhile(lambda event: event[0] == _ASSISTANT, reversed(events))
    return _choices(events) or [_message("assistant", body) for _, body in last][::-1] or None


def _choices(events: Sequence[Event]) -> list[Any]:
    bodies = [{**body, **_content(body)} for name, body in events if name == _CHOICE]
    first = [body for body in bodies if body.get("index") == bodies[0].get("index")]
    return [_message("assistant", body) for body in first]


def _content(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return parse_arguments(body.get(EVENT_CONTENT)) or {}


def _message(role: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message in the body of an event, which may be a JSON text of its own."""
    fields = {**body, **_content(body)}
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


def answer_in_request() -> Place:
    """The last messages of the assistant where one list has the input and the output: logfire for the Agents SDK of OpenAI."""
    name = "request_data"

    def find(span: Span) -> Any:
        if not span.scope.endswith(_OPENAI_AGENTS):
            return None
        messages = inside("messages")(span.attributes.get(name))
        members = messages if isinstance(messages, list) else []
        last = takewhile(lambda message: inside("role")(message) == "assistant", reversed(members))
        return list(last)[::-1] or None

    return Place(name, find)
