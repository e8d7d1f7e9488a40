"""Reads the JSON responses of model servers leniently, with a clear error when that fails.

The SDKs' own models accept everything as a response, also the error page of a gateway.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from mosaico.core.strict_json import parse_finite_json
from mosaico.core.text import replace_unstorable_in_json
from mosaico.llm.conversation import Turn, Usage, known_usage
from mosaico.llm.errors import LlmError, LlmErrorKind, kind_of_status

JSON = dict[str, Any]
T = TypeVar("T")

MAX_TOKENS = 2**53  # a greater count is an error of the server
EXCERPT_CHARS = 100
MAX_ERROR_CHARS = 300  # of an error that a response reports
MAX_WIRE_DEPTH = 80  # levels of a message, with arguments in it
MAX_DEPTH = 64  # levels of arguments; JSON readers and writers fail at a few hundred


_KIND_OF_CODE: Final = {
    "rate_limit_exceeded": LlmErrorKind.RATE_LIMITED,
    "insufficient_quota": LlmErrorKind.QUOTA,
    "invalid_api_key": LlmErrorKind.AUTH,
    "model_not_found": LlmErrorKind.NOT_FOUND,
    "context_length_exceeded": LlmErrorKind.CONTEXT_LENGTH,
    **dict.fromkeys(
        (
            "bio_policy",
            "content_filter",
            "content_policy_violation",
            "image_content_policy_violation",
            "invalid_prompt",
            "misalignment_policy_violation",
        ),
        LlmErrorKind.CONTENT_FILTER,
    ),
}


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
        failure = reported_error(document.get("error"))
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


def reported_error(error: Any) -> LlmError | None:
    """The error that a server reports in a response with status 200; None when it reports none.

    Gateways such as OpenRouter answer so when the provider behind them fails.
    """
    if not error:
        return None
    details = error if isinstance(error, dict) else {"message": error}
    code, message = details.get("code"), str(details.get("message") or "no message")
    status = code if type(code) is int and 400 <= code < 600 else None  # noqa: PLR2004 - HTTP
    reason = f"200 with an error: {f'{code}: ' if code else ''}{message}"[:MAX_ERROR_CHARS]
    return LlmError(reason, kind=_kind_of_code(code), status=status)


def _kind_of_code(code: Any) -> LlmErrorKind:
    """The kind of a reported error; one without a known code is worth a retry."""
    if type(code) is int:
        return kind_of_status(code)
    return _KIND_OF_CODE.get(str(code).lower(), LlmErrorKind.SERVER)


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
