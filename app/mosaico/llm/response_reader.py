"""Reads the JSON responses of model servers leniently, with a clear error when that fails.

The SDKs' own models accept everything as a response, also the error page of a gateway.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from mosaico.core.strict_json import parse_finite_json
from mosaico.core.text import replace_unstorable_in_json
from mosaico.llm.conversation import Turn, Usage, known_usage
from mosaico.llm.errors import LlmError, LlmErrorKind
from mosaico.llm.reported_error import error_in_response

JSON = dict[str, Any]
T = TypeVar("T")

MAX_TOKENS = 2**53  # a greater count is an error of the server
EXCERPT_CHARS = 100
MAX_WIRE_DEPTH = 80  # levels of a message, with arguments in it
MAX_DEPTH = 64  # levels of arguments; JSON readers and writers fail at a few hundred


class ToolArguments(NamedTuple):
    """Arguments of a tool call; `error` is the reason why the arguments of the model were
    discarded.
    """

    arguments: JSON
    error: str | None


def read_response(body: bytes, read: Callable[[JSON], T]) -> T:
    """Return the result of `read` for the JSON object of a response. Raises: LlmError."""
    try:
        document = parse_finite_json(body)
        failure = error_in_response(document.get("error"))
        if failure is not None:
            raise failure
        return read(document)
    # Everything that walking through JSON of an unexpected form can raise.
    except (ValueError, RecursionError, KeyError, IndexError, TypeError, AttributeError):
        raise unreadable(f"{body[:EXCERPT_CHARS].decode('utf-8', 'replace')!r}") from None


def read_turn(body: bytes, read: Callable[[JSON], Turn]) -> Turn:
    """The turn in a response, with storable texts. Raises: LlmError."""
    # NUL and lone surrogates are valid JSON, but PostgreSQL and the SDKs cannot store or send them.
    turn = read_response(body, lambda document: read(replace_unstorable_in_json(document)))
    if turn.message.wire is not None and _is_too_deep(
        list(turn.message.wire.items), MAX_WIRE_DEPTH
    ):
        raise unreadable(f"it is nested more than {MAX_WIRE_DEPTH} levels deep")
    return turn


def unreadable(detail: str) -> LlmError:
    """The error of a response that has an unexpected form."""
    return LlmError(f"unreadable response: {detail}", kind=LlmErrorKind.UNREADABLE)


def read_arguments(arguments: Any) -> ToolArguments:
    """The arguments of a tool call, which come as an object or as a JSON text."""
    if isinstance(arguments, str) and arguments.strip():
        try:
            arguments = replace_unstorable_in_json(parse_finite_json(arguments))
        except (ValueError, RecursionError) as error:
            return ToolArguments({}, f"the arguments are not valid JSON: {error}")
    elif not arguments:
        arguments = {}
    if not isinstance(arguments, dict):
        return ToolArguments({}, "the arguments are not a JSON object")
    if _is_too_deep(arguments):
        return ToolArguments({}, f"the arguments are nested more than {MAX_DEPTH} levels deep")
    return ToolArguments(arguments, None)


def _is_too_deep(document: Any, max_depth: int = MAX_DEPTH) -> bool:
    """Return whether lists and objects are nested more than `max_depth` levels deep.

    Level by level, because a recursive function fails at the depth that it has to find.
    """
    level = [document]
    for _ in range(max_depth):
        containers = (node for node in level if isinstance(node, dict | list))
        level = [
            child
            for node in containers
            for child in (node.values() if isinstance(node, dict) else node)
        ]
    return any(isinstance(node, dict | list) for node in level)


def read_text(content: Any) -> str:
    """A required text, which some servers send in parts. Raises TypeError."""
    if isinstance(content, list):
        return "".join(
            read_text(part["text"]) for part in content if part.get("type", "text") == "text"
        )
    if not isinstance(content, str):
        raise TypeError("the content is not text")
    return content


def read_token_count(usage: Any, name: str) -> int | None:
    """A number of tokens; None when the server does not report it or reports nonsense."""
    count = usage.get(name) if isinstance(usage, dict) else None
    # `type(...) is int`, because True is an int, too.
    return count if type(count) is int and 0 <= count < MAX_TOKENS else None


def read_usage(usage: Any, input_name: str, output_name: str) -> Usage | None:
    """The tokens of a response; None when the server does not report both numbers.

    OpenAI's APIs count cached tokens as input and report them as `{input_name}_details`. Some
    compatible servers leave thoughts out of the output, although they are billed: `total_tokens`
    shows them.
    """
    input_tokens = read_token_count(usage, input_name)
    output_tokens = read_token_count(usage, output_name)
    total = read_token_count(usage, "total_tokens")
    if input_tokens is not None and output_tokens is not None and total is not None:
        output_tokens = max(output_tokens, total - input_tokens)
    known = known_usage(input_tokens, output_tokens)
    return known and with_cached_tokens(known, *read_cached_tokens(usage, input_name))


def read_cached_tokens(usage: Any, input_name: str) -> tuple[int, int]:
    """The input tokens that OpenAI's APIs read from their cache and wrote to it; 0 if unreported."""
    details = usage.get(f"{input_name}_details") if isinstance(usage, dict) else None
    read = read_token_count(details, "cached_tokens") or 0
    return read, read_token_count(details, "cache_write_tokens") or 0


def with_cached_tokens(usage: Usage, read: int, written: int) -> Usage:
    """The usage with its cached tokens; more of them than input is nonsense and not counted."""
    if read + written > usage.input_tokens:
        return usage
    return replace(usage, cached_tokens=read, cache_write_tokens=written)
