"""Chat messages in the forms in which instrumentation libraries write them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mosaico.core.strict_json import parse_finite_json

ASSISTANT_ROLES: Final = frozenset({"assistant", "ai", "model", "gpt", "bot"})
USER_ROLES: Final = frozenset({"user", "human"})
# Messages of these types name no other role: those of LangChain, as its classes write themselves.
_ROLE_TYPES: Final = frozenset({*ASSISTANT_ROLES, *USER_ROLES, "system", "developer", "tool"})
REDACTED: Final = "__REDACTED__"

# Classes of LangChain, whose serialized messages name no role.
_LANGCHAIN_ROLES: Final = {
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
}
_TOOL_CALL_PARTS: Final = frozenset(
    {"tool_call", "tool_use", "function_call", "tool-call", "server_tool_call"}
)
# Parts of one member, which says what they are: those of Bedrock, Gemini and Genkit have no type.
_CALL_MEMBERS: Final = ("tool_call", "toolUse", "functionCall", "function_call", "toolRequest")
_CALL_IDS: Final = ("call_id", "id", "toolCallId", "toolUseId", "ref")
_CALL_NAMES: Final = ("name", "toolName", "tool_name")
# Items of a response of OpenAI that are steps of the agent and no messages.
_CALL_ITEMS: Final = frozenset({"function_call", "custom_tool_call", "mcp_call"})
_STEP_ITEMS: Final = frozenset(
    {"reasoning", "function_call_output", "web_search_call", "file_search_call", "computer_call"}
)
_TEXT_MEMBERS: Final = ("content", "text", "refusal")
TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})


class RequestedCall(NamedTuple):
    """A tool call that a model requested; `arguments` is None when they are not an object."""

    id: str | None
    name: str
    arguments: Mapping[str, Any] | None


class Message(NamedTuple):
    """A chat message; `text` is None when the writer left the content out."""

    role: str
    text: str | None
    tool_calls: tuple[RequestedCall, ...] = ()


def read_messages(value: Any) -> tuple[Message, ...]:
    """The messages in a value; empty when it holds none.

    Reads lists of messages, objects with `messages`, single messages, and responses with `choices`.
    """
    match value:
        case {"messages": members} | [[*members]]:
            return read_messages(members)
        case (
            {"choices": [{"message": member}, *_]}
            | {"generations": [[{"message": member}, *_], *_]}
            | (Mapping() as member)
        ):
            message = _read_message(member)
            return () if message is None else (message,)
        case [Mapping(), *_]:
            messages = [_read_message(member) for member in value]
            # A list with one other object is data that happens to contain messages, not a
            # conversation.
            return () if None in messages else tuple(filter(None, messages))
    return ()


def has_calls(parts: Sequence[Any]) -> bool:
    """Return whether a list holds tool calls, and beside them only parts of a message with a type."""
    is_typed = all(
        isinstance(part, Mapping) and isinstance(part.get("type"), str) for part in parts
    )
    return is_typed and any(map(_is_requested, parts))


def read_calls(parts: Sequence[Any]) -> tuple[Message, ...]:
    """The message of the assistant whose content, or whose tool calls, are these parts."""
    is_of_functions = all(isinstance(part.get("function"), Mapping) for part in parts)
    member = "tool_calls" if is_of_functions else "content"
    return (_build_message("assistant", {member: list(parts)}),)


def _is_requested(part: Mapping[str, Any]) -> bool:
    is_function = part["type"] == "function" and isinstance(part.get("function"), Mapping)
    return _is_call(part) or (is_function and "name" in part["function"])


def last_text(messages: Sequence[Message], roles: Iterable[str]) -> str | None:
    """Return the last non-empty text of a message of a role; "" when all are empty, and
    None without a recorded message of the role.
    """
    texts = [message.text for message in messages if message.role in roles]
    recorded = [text for text in texts if text is not None]
    return next((text for text in reversed(recorded) if text), "") if recorded else None


def read_indexed(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """The list that attributes such as `llm.input_messages.0.message.role` describe."""
    members = _to_lists(read_nested(attributes, prefix))
    return members if isinstance(members, list) else []


def read_nested(attributes: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The object that attributes with this prefix describe; a dot in a name separates the levels."""
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            *path, last = name[len(prefix) :].split(".")
            node = tree
            for step in path:
                child = node.setdefault(step, {})
                # A name that is both a value and an object: the value loses.
                node = child if isinstance(child, dict) else node
            node[last] = value
    return tree


def parse_value(value: Any) -> Any:
    """The value of a JSON text; any other text and value unchanged."""
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        try:
            return parse_finite_json(value)
        except (ValueError, RecursionError):
            return value
    return value


def canonical_text(value: Any) -> str:
    """A value as text; equal objects and lists give equal texts."""
    value = parse_value(value)
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def parse_arguments(value: Any) -> Mapping[str, Any] | None:
    """The arguments of a tool call, from an object or its JSON text."""
    arguments = parse_value(value)
    return arguments if isinstance(arguments, Mapping) else None


def _read_message(value: Any) -> Message | None:
    match value:
        case {"message": Mapping() as message}:
            return _read_message(message)
        case {"type": str() as role, "data": Mapping() as data}:
            return _build_message(role, data)
        case {"lc": _, "id": [*_, str() as class_name], "kwargs": Mapping() as fields}:
            return _build_message(_LANGCHAIN_ROLES.get(class_name, ""), fields)
        case {"role": str() as role}:
            return _build_message(role, value)
        case {"from": str() as role, "value": content}:  # ShareGPT
            return _build_message(role, {"content": content})
    return _read_typed(value) if isinstance(value, Mapping) else None


def _read_typed(value: Mapping[str, Any]) -> Message | None:
    """A message that names its role as its type, or a step of OpenAI's response between its messages."""
    item_type = str(value.get("type"))
    if "content" in value and item_type.lower() in _ROLE_TYPES:
        return _build_message(item_type, value)
    if item_type in _CALL_ITEMS:
        return Message("assistant", "", (_read_call(value),))
    return Message(item_type, None) if item_type in _STEP_ITEMS else None


def _build_message(role: str, fields: Mapping[str, Any]) -> Message:
    content = next(
        (fields[name] for name in ("content", "parts", "contents") if fields.get(name)),
        fields.get("content", ""),
    )
    parts = [_unwrap_part(part) for part in _mappings(content)]
    # A model that refuses says so in place of its content.
    refusal = fields.get("refusal")
    if not content and isinstance(refusal, str):
        content = refusal
    return Message(
        role.lower(),
        _content_text(content),
        (
            *map(_read_call, _mappings(fields.get("tool_calls"))),
            *(_read_call(part) for part in parts if _is_call(part)),
        ),
    )


# The members of a content part; another object is a structured answer, such as `{"answer": "42"}`.
_PART_KEYS: Final = frozenset({"type", "text", "content", "refusal", "message_content"})


def _content_text(content: Any) -> str | None:
    """The text of a message; None when its parts are recorded without their text.

    Texts of several parts follow each other without a sign in between, as in the SDKs of the providers:
    a citation splits a sentence.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return None if content == REDACTED else content
    if isinstance(content, Mapping):
        if _PART_KEYS.isdisjoint(content):
            only = next(iter(content.values())) if len(content) == 1 else None
            return only if isinstance(only, str) else canonical_text(content)
        content = [content]
    if not isinstance(content, list):
        return canonical_text(content)
    texts = [
        part if isinstance(part, str) else _part_text(part)
        for part in map(_unwrap_part, content)
        if isinstance(part, str) or (isinstance(part, Mapping) and _is_text(part))
    ]
    if None in texts:
        return None
    return "".join(filter(None, texts))


def _unwrap_part(part: Any) -> Any:
    """The part itself of a numbered part of OpenInference."""
    inner = part.get("message_content") if isinstance(part, Mapping) else None
    return inner if isinstance(inner, Mapping) else part


def _is_text(part: Mapping[str, Any]) -> bool:
    if "type" not in part:
        return not part.get("thought") and any(name in part for name in _TEXT_MEMBERS)
    return str(part["type"]) in TEXT_PARTS


def _is_call(part: Mapping[str, Any]) -> bool:
    if "type" not in part:
        return any(isinstance(part.get(name), Mapping) for name in _CALL_MEMBERS)
    return str(part["type"]) in _TOOL_CALL_PARTS


def _part_text(part: Mapping[str, Any]) -> str | None:
    text = next((part[name] for name in _TEXT_MEMBERS if name in part), None)
    if isinstance(text, Mapping):  # of the Assistants API: {"value": …, "annotations": […]}
        text = text.get("value")
    return text if isinstance(text, str) and text != REDACTED else None


def _read_call(call: Mapping[str, Any]) -> RequestedCall:
    inners = (call.get(name) for name in _CALL_MEMBERS)
    fields: Mapping[str, Any] = next((i for i in inners if isinstance(i, Mapping)), call)
    function = fields.get("function")
    source: Mapping[str, Any] = function if isinstance(function, Mapping) else fields
    arguments = next(
        (source[name] for name in ("arguments", "args", "input") if name in source), None
    )
    return RequestedCall(
        _first_text(fields, _CALL_IDS),
        _first_text(source, _CALL_NAMES) or "unknown",
        parse_arguments(arguments),
    )


def _first_text(fields: Mapping[str, Any], names: Iterable[str]) -> str | None:
    texts = (fields.get(name) for name in names)
    return next((text for text in texts if isinstance(text, str)), None)


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        yield from (member for member in value if isinstance(member, Mapping))


def _to_lists(node: Any) -> Any:
    """The tree with a list for each object whose keys are numbers."""
    if not isinstance(node, dict):
        return node
    members = {key: _to_lists(child) for key, child in node.items()}
    # Attributes have no lists of objects, so writers number the members in their names.
    if members and all(key.isdecimal() for key in members):
        return [members[key] for key in sorted(members, key=int)]
    return members
