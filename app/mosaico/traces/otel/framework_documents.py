"""Reads the documents that single frameworks write: their messages in a common form, and the usage inside; pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mosaico.traces.messages import parse_arguments, parse_value, read_nested
from mosaico.traces.otel.encodings import inside, usage_document
from mosaico.traces.otel.places import Place, Where
from mosaico.traces.otel.spans import Span
from mosaico.traces.reported_usage import TokenCounts
from mosaico.traces.value_text import parse_encoded

_AMOUNT: Final = re.compile(r"(\w+)=(\d+)")


# --- CrewAI


def crew_usage(value: Any) -> TokenCounts | None:
    """The tokens of a crew: JSON, a dictionary of Python or `prompt_tokens=30 completion_tokens=9`. Those of caches are
    inside.
    """
    document = parse_encoded(value)
    amounts = document if isinstance(document, Mapping) else dict(_AMOUNT.findall(str(value)))
    return _sum_usage([amounts])


# --- LlamaIndex


def llama_event(name: str, path: str) -> Place:
    """A member of an event of LlamaIndex, which is named by its class and whose objects are flattened by dots."""
    *parents, last = path.split(".")
    prefix = "".join(f"{parent}." for parent in parents)

    def find(span: Span) -> Any:
        bodies = (event.attributes for event in reversed(span.events) if event.name == name)
        found = (read_nested(body, prefix).get(last) for body in bodies)
        return _llama_value(next((value for value in found if value is not None), None))

    return Place(name, find, Where.EVENT)


def llama_usage(name: str) -> Place:
    """The tokens in the raw response of a provider, in an event of LlamaIndex."""

    def find(span: Span) -> TokenCounts | None:
        bodies = (event.attributes for event in span.events if event.name == name)
        responses = (parse_arguments(read_nested(body).get("response")) or {} for body in bodies)
        return _sum_usage([inside("raw", "usage")(response) for response in responses])

    return Place(name, find, Where.EVENT)


def _llama_value(value: Any) -> Any:
    match parse_value(value):
        case [*members]:
            return [_llama_value(member) for member in members]
        case {"message": message}:
            return _llama_value(message)
        case {"role": str() as role} as message:
            return _llama_message(role, message)
    return value


def _llama_message(role: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    blocks = parse_value(fields.get("blocks"))
    more = parse_arguments(fields.get("additional_kwargs")) or {}
    is_list = isinstance(blocks, list)
    return {
        # An enumeration can be written with the name of its class.
        "role": role.rpartition(".")[2].lower(),
        "content": list(map(_llama_block, blocks)) if is_list else fields.get("content"),
        "tool_calls": parse_value(more.get("tool_calls")),
    }


def _llama_block(block: Any) -> Any:
    match block:
        case {"block_type": "tool_call"}:
            names = {"id": "tool_call_id", "name": "tool_name", "arguments": "tool_kwargs"}
            return {"type": "tool_call", **{new: block.get(old) for new, old in names.items()}}
        case {"block_type": str() as kind}:
            return {"type": kind, **block}
    return block


# --- Haystack


def component_kind(value: Any) -> str | None:
    """What a component of Haystack calls, by the end of the name of its class."""
    name = value if isinstance(value, str) else ""
    return next((end for end in ("Generator", "Embedder") if name.endswith(end)), None)


def haystack_replies(value: Any) -> Any:
    """The replies of a generator, texts or messages; any other value unchanged."""
    match parse_value(value):
        case {"replies": [str() as text, *_]}:
            return text
        case {"replies": [*replies]}:
            return replies
    return value


def haystack_usage(value: Any) -> TokenCounts | None:
    """The tokens of a generator's replies: in each reply, or for replies that are texts beside them."""
    output = parse_arguments(value) or {}
    metas = [inside("meta")(reply) for reply in _members(output, "replies")]
    return _sum_usage([inside("usage")(meta) for meta in (*metas, *_members(output, "meta"))])


def haystack_agent_usage() -> Place:
    """The tokens of an agent's answers: those of the messages of its output that its input does not have."""
    name = "haystack.agent.output"

    def find(span: Span) -> TokenCounts | None:
        asked = _members(parse_arguments(span.attributes.get("haystack.agent.input")), "messages")
        messages = _members(parse_arguments(span.attributes.get(name)), "messages")
        answers = messages[len(asked) :]
        return _sum_usage([inside("meta", "usage")(message) for message in answers])

    return Place(name, find)


def pipeline_question(value: Any) -> Any:
    """The input of a pipeline: the one that all its components get; None where they get several."""
    inputs = _component_values(value)
    texts = [text for members in inputs for text in members.values() if isinstance(text, str)]
    chats = [members["messages"] for members in inputs if "messages" in members]
    return _only(chats or texts)


def pipeline_answer(value: Any) -> Any:
    """The output of a pipeline: the replies of its one generator; None where several answer."""
    replies = [m for m in _component_values(value) if m.get("replies")]
    return haystack_replies(replies[0]) if len(replies) == 1 else None


def _component_values(value: Any) -> list[Mapping[str, Any]]:
    components = parse_arguments(value) or {}
    return [members for members in components.values() if isinstance(members, Mapping)]


def _only(values: Sequence[Any]) -> Any:
    return values[0] if values and all(value == values[0] for value in values) else None


# --- all


def _members(document: Mapping[str, Any] | None, name: str) -> list[Any]:
    value = (document or {}).get(name)
    return value if isinstance(value, list) else []


def _sum_usage(documents: Iterable[Any]) -> TokenCounts | None:
    """The sum of the usages of several calls; None if there is none."""
    usages = [usage for document in documents if (usage := usage_document(document))]
    sides = [[count for count in side if count is not None] for side in zip(*usages, strict=True)]
    return TokenCounts(*(sum(side) if side else None for side in sides)) if usages else None
