"""The encodings in which libraries write texts, messages and usage: each is decoded to a form that
`mosaico.traces.messages` reads; pure.

What a decoder does not know it returns unchanged.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mosaico.traces.messages import parse_arguments, parse_value
from mosaico.traces.otel.places import Decode, read_number
from mosaico.traces.reported_usage import TokenCounts, read_usage_details

# The first versions of Semantic Kernel wrote messages without quotes around the texts.
_UNQUOTED: Final = re.compile(r'\{"role:" (\w+), "content:" (.*?)\}(?=\]|, \{"role:"|$)', re.DOTALL)
# OpenLIT wrote messages as lines.
_ROLE_LINE: Final = re.compile(r"^(system|developer|user|assistant|tool): ", re.MULTILINE)
# `StopEvent(result=AgentOutput(response=…`, which its writer cuts off.
_PRINTED_OBJECT: Final = re.compile(r"[A-Z]\w+\(\w+=\S")
_CUT: Final = re.compile(r'\s*[\[{].{0,200}?"(?:role|parts|messages|contents?)"\s*:', re.DOTALL)


def inside(*path: str, of: Decode = lambda value: value) -> Decode:
    """A member of a JSON document, by the names of the objects around it."""

    def decode(value: Any) -> Any:
        for name in path:
            document = parse_value(value)
            value = document.get(name) if isinstance(document, Mapping) else None
        return None if value is None else of(value)

    return decode


def is_cut_off(value: Any) -> bool:
    """Return whether a limit of the SDK cut messages off, so that they are no JSON any more."""
    return isinstance(value, str) and parse_value(value) is value and bool(_CUT.match(value))


def prompt(value: Any) -> Any:
    """What a model was asked: messages in one of their older forms, or several texts, of which the last counts."""
    match parse_value(value):
        case [*members] if members and all(isinstance(member, str) for member in members):
            return members[-1]  # Spring AI
        case [{"role": _, "text": _}, *_] as messages:  # Dify
            return [
                {**m, "content": m.get("content") or m.get("text")} if isinstance(m, Mapping) else m
                for m in messages
            ]
        case str() as text:
            return _messages_in_text(text) or value
    return value


def completion(value: Any) -> Any:
    """What a model answered: one completion, or the first of several."""
    document = parse_value(value)
    match document:
        case [str() as text, *_] if all(isinstance(member, str) for member in document):
            return text  # Spring AI
        case {"role": _} | [*_] | {"choices": _} | {"generations": _}:
            return document
        case {"text": str() as text}:
            return text
        case str() as text:
            return _messages_in_text(text) or value
    return value


def _messages_in_text(text: str) -> list[Mapping[str, str]]:
    pairs = _UNQUOTED.findall(text)
    if not pairs and _ROLE_LINE.match(text):
        _, *pieces = _ROLE_LINE.split(text)
        pairs = [(role, said.strip()) for role, said in zip(pieces[::2], pieces[1::2], strict=True)]
    return [{"role": role, "content": content} for role, content in pairs]


def first_candidate(value: Any) -> Any:
    """The messages of an answer: those that end for the same reason are candidates, of which the first counts; the steps of an
    agent end for several.
    """
    match parse_value(value):
        case [{"finish_reason": str() as reason}, _, *_] as messages if all(
            isinstance(message, Mapping) and message.get("finish_reason") == reason
            for message in messages
        ):
            return messages[:1]
    return value


def completion_texts(member: str) -> Decode:
    """Decodes numbered prompts or completions, such as `llm.prompts.0.prompt.text`: the text of the first."""

    def decode(rows: Sequence[Any]) -> Any:
        texts = (inside(member, "text")(row) for row in rows)
        return next((text for text in texts if text is not None), None)

    return decode


def messages_alone(items: Any) -> Any:
    """The messages of a conversation of LiveKit, without the calls and changes of agents between them."""
    return [item for item in objects(items) if item.get("type") == "message"]


def gemini_contents(value: Any) -> Any:
    """The contents of a request to Gemini: without a role they are those of the user."""
    contents = inside("contents")(value)
    if isinstance(contents, list):
        return [
            {"role": "user", **part} if isinstance(part, Mapping) else part for part in contents
        ]
    return contents


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
    calls = list(objects(parse_value(value)))
    return [{"role": "assistant", "content": "", "tool_calls": calls}] if calls else None


def arguments_of_call(value: Any) -> Any:
    """The one argument of a recorded call of a function, or the task of an agent; None for the state of a workflow of LlamaIndex,
    and any other value unchanged.
    """
    document = parse_value(value)
    match document:
        case {"init_state": _, "start_event": _} | {"ctx": _, "ev": _}:
            return None
        case {"args": [*positional], "kwargs": Mapping() as named, **others} if _are_switches(
            others
        ):
            if len(positional) == 1 and not named:
                return positional[0]
            return named if named and not positional else value
    asked = _asked_of_framework(document)
    return value if asked is None else asked


def _asked_of_framework(document: Any) -> Any:
    match document:
        # Agents of smolagents and of LlamaIndex.
        case {"task": str() as asked, "reset": _} | {"user_msg": str() as asked}:
            return asked
        case {"inputs": asked, "kwargs": Mapping()}:  # LangChain by traceloop
            return arguments_of_call(asked)
        case {"messages": [[str(), _], *_] as pairs}:  # LangChain, each with its role
            return [_message_of_pair(pair) for pair in pairs]
        case {"contents": [*_] | str()}:  # Gemini
            return gemini_contents(document)
        case {"new_message": {"parts": [*_]} as message}:  # Google ADK
            return {"role": "user", **message}
    return None


def _message_of_pair(pair: Any) -> Any:
    match pair:
        case [str() as role, content]:
            return {"role": role, "content": content}
    return pair


def result_of_call(value: Any) -> Any:
    """The result of a recorded call of a framework; None for an object that Python printed, and any other value unchanged."""
    match parse_value(value):
        case str() as text if _PRINTED_OBJECT.match(text):
            return None
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


def total_or_sum(value: Any) -> float | None:
    """A cost: the total, or without one the sum of its parts, such as input and output."""
    details = parse_arguments(value) or {}
    total = read_number(details.get("total"))
    parts = [p for name, part in details.items() if (p := read_number(part)) is not None]
    return total if total is not None else (sum(parts) if parts else None)


def usage_document(value: Any) -> TokenCounts | None:
    """The tokens in a document of usage; None where it counts none."""
    details = parse_arguments(value)
    counts = None if details is None else read_usage_details(details)
    return None if counts == (None, None) else counts


def usage_of_tokens(value: Any) -> TokenCounts | None:
    """The tokens in a document that counts characters and images, too."""
    details = parse_arguments(value) or {}
    return read_usage_details({n: v for n, v in details.items() if n.lower().endswith("tokens")})


def objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """The objects in a list; none in any other value."""
    members: Sequence[Any] = value if isinstance(value, list) else ()
    yield from (member for member in members if isinstance(member, Mapping))
