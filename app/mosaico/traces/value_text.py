"""The text of an answer, a question or a reference in any value: the one reader of all sources.

Files, uploads, importers, Langfuse, OpenTelemetry and executed agents hold texts in the forms of many
libraries: chat messages, responses of model servers, objects with one answer. Whatever is not such a
form is compared as JSON text, and its reader says so.
"""

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from mosaico.traces.messages import (
    ASSISTANT_ROLES,
    TEXT_PARTS,
    USER_ROLES,
    Message,
    RequestedCall,
    has_calls,
    last_text,
    parse_value,
    read_calls,
    read_messages,
)
from mosaico.traces.model_responses import BAD_STATUS, ValueForm, response_of
from mosaico.traces.object_text import (
    ANSWER_NAMES,
    DETAILS,
    QUESTION_NAMES,
    REFERENCE_NAMES,
    find_error,
    find_one_text,
    normalize_name,
)

# A form inside of a form, such as a message in a choice of a body of a line of a batch.
MAX_FORMS: Final = 8
# Python notation: {'role': …, [{'a': …, ['x', …
_PYTHON: Final = re.compile(r"\s*[\[{]+\s*['(]")
MAX_PYTHON_CHARS: Final = 1_000_000
_PRINTED_MESSAGE: Final = re.compile(
    r"content=('(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\") additional_kwargs=\{"
)


class TextRole(StrEnum):
    """Whose text is read."""

    QUESTION = "question"
    ANSWER = "answer"
    REFERENCE = "reference"


class NoText(StrEnum):
    """Why a value has no text."""

    NOTHING = "nothing is recorded"
    TOOL_CALLS = "tool calls without a text"
    NO_TEXT = "no part of it is a text"
    HIDDEN = "the writer left the text out"
    ERROR = "an error in place of an answer"
    NOT_A_NUMBER = "not a number"
    BINARY = "binary data"
    NOT_JSON = "not a JSON value"
    TOO_DEEP = "nested too deep"


class ValueText(NamedTuple):
    """The text of a value.

    Either `text` or `reason` is None. `form` is what the text was taken out of. `error` is the message
    of a response that failed, `tool_calls` are those of the last messages, and `left_out` are members of an object beside
    its text.
    """

    text: str | None
    form: ValueForm = ValueForm.TEXT
    reason: NoText | None = None
    error: str | None = None
    tool_calls: tuple[RequestedCall, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def is_unwrapped(self) -> bool:
        """Return whether the text is a part of the value."""
        return self.form not in _WHOLE


_WHOLE: Final = frozenset({ValueForm.TEXT, ValueForm.NUMBER, ValueForm.JSON, ValueForm.NOTHING})

_NAMES: Final = {
    TextRole.QUESTION: QUESTION_NAMES,
    TextRole.ANSWER: ANSWER_NAMES,
    TextRole.REFERENCE: REFERENCE_NAMES | ANSWER_NAMES,
}
# Names of another role are details.
_DETAILS: Final = {
    TextRole.QUESTION: DETAILS,
    TextRole.ANSWER: DETAILS | QUESTION_NAMES,
    TextRole.REFERENCE: DETAILS,
}


def read_text(
    value: Any, role: TextRole = TextRole.ANSWER, *, is_encoded: bool = False
) -> ValueText:
    """The text of a value, the first one where a response has several; never raises.

    `is_encoded` is true where the source writes objects and lists as JSON text, such as the cells of a CSV
    file; a JSON text that is not a known form stays as it is.
    """
    return read_texts(value, role, is_encoded=is_encoded)[0]


def read_texts(
    value: Any, role: TextRole = TextRole.ANSWER, *, is_encoded: bool = False
) -> tuple[ValueText, ...]:
    """The texts of a value, at least one: the choices of a completion are several answers."""
    if value is None:
        return (NOTHING,)
    printed = _printed_content(value) if isinstance(value, str) else None
    if printed is not None:
        return (ValueText(text=printed, form=ValueForm.MESSAGE),)
    # Most values are texts: without a bracket nothing is encoded in them.
    if isinstance(value, str) and not (is_encoded and value.lstrip()[:1] in ("{", "[")):
        return (ValueText(text=value),)
    try:
        if is_encoded and isinstance(value, str):
            return _read_encoded(value, role)
        return tuple(_read(value, role, MAX_FORMS)) or (NOTHING,)
    except RecursionError:
        return (_no_text(NoText.TOO_DEEP),)


def _printed_content(text: str) -> str | None:
    """The content of a message of LangChain that was printed with `str`; None for another text."""
    message = _PRINTED_MESSAGE.match(text)
    try:
        return None if message is None else str(ast.literal_eval(message[1]))
    except (ValueError, SyntaxError):
        return None


def read_error(value: Any) -> str | None:
    """The message of an error, which is a text or an object of a model server; None without one."""
    if not value:
        return None
    match value:
        case str():
            return value
        case {"error": dict() as inner}:
            return read_error(inner)
        case {"message": str() as message, **others}:
            # The kind says whose fault it is: `rate_limit_error`, `server_error`, 429.
            kinds = (others.get(name) for name in ("type", "code", "status"))
            kind = next((str(kind) for kind in kinds if isinstance(kind, str | int)), "")
            return f"{kind}: {message}" if kind and kind not in message else message
    return _dump(value).text


def parse_encoded(value: Any) -> Any:
    """The list or object in a text of JSON, or in the notation of Python, which `str` and data frames write; any
    other value unchanged.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    parsed = parse_value(value.strip())
    if isinstance(parsed, str) and _PYTHON.match(value) and len(value) <= MAX_PYTHON_CHARS:
        try:
            parsed = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            return value
    return parsed if isinstance(parsed, Mapping | list) else value


def _read_encoded(text: str, role: TextRole) -> tuple[ValueText, ...]:
    parsed = parse_encoded(text)
    if isinstance(parsed, str):
        return (ValueText(text=text),)
    texts = tuple(_read(parsed, role, MAX_FORMS))
    # An answer that is JSON is its own text: only a form that wraps a text is opened.
    is_form = bool(texts) and texts[0].is_unwrapped and texts[0].form is not ValueForm.ONE_TEXT
    return texts if is_form else (ValueText(text=text),)


def _read(value: Any, role: TextRole, depth: int) -> Iterator[ValueText]:
    """The texts of a value; `depth` forms may be inside of each other."""
    match value:
        case None:
            yield NOTHING
        case str():
            yield ValueText(text=value)
        case bool() | int() | float():
            yield _read_number(value)
        case bytes() | bytearray():
            yield _no_text(NoText.BINARY)
        case Mapping() if depth:
            yield from _read_object(value, role, depth - 1)
        case list() | tuple() if depth:
            yield from _read_list(list(value), role, depth - 1)
        case _:
            yield _dump(value)


def _read_object(value: Mapping[Any, Any], role: TextRole, depth: int) -> Iterator[ValueText]:
    response = response_of(value)
    if response is not None:
        form, members = response
        for member in members:
            for text in _read(member, role, depth):
                yield text._replace(form=form)
        return
    failure = _failure_of(value)
    if failure is not None:
        yield _no_text(NoText.ERROR, form=ValueForm.RESPONSE, error=failure)
        return
    error = read_error(find_error(value)) if role is TextRole.ANSWER else None
    if error is not None:
        yield _no_text(NoText.ERROR, form=ValueForm.ERROR, error=error)
        return
    name = find_one_text(value, _NAMES[role], _DETAILS[role])
    messages = read_messages(value)
    # An answer beside the messages says more exactly what the answer is.
    if messages and not (name is not None and "messages" in value):
        form = ValueForm.CHAT if "messages" in value else ValueForm.MESSAGE
        yield _of_messages(messages, role, form)
        return
    if _is_content(value.get("content")) and set(value) <= {
        "content", "isError", "structuredContent", "_meta", "type"
    }:  # fmt: skip
        yield from _read_list(value["content"], role, depth)
        return
    if name is None:
        yield _dump(value)
        return
    others = tuple(str(other) for other in value if other != name and value[other] is not None)
    for text in _read(value[name], role, depth):
        is_json = text.form is ValueForm.JSON
        form = text.form if text.is_unwrapped else ValueForm.ONE_MEMBER
        # JSON in an object with one member is still compared as JSON.
        yield text._replace(form=text.form if is_json else form, left_out=others + text.left_out)


def _read_list(value: Sequence[Any], role: TextRole, depth: int) -> Iterator[ValueText]:
    messages = read_messages(value)
    if messages:
        yield _of_messages(messages, role, ValueForm.CHAT)
    elif role is TextRole.ANSWER and has_calls(value):
        yield _of_messages(read_calls(value), role, ValueForm.PARTS)
    elif _is_content(value):
        texts = [_text_of_part(part) for part in value if part["type"] in TEXT_PARTS]
        if texts:
            yield ValueText(text="".join(texts), form=ValueForm.PARTS)
        else:
            yield _no_text(NoText.NO_TEXT, form=ValueForm.PARTS)
    elif len(value) == 1 and isinstance(value[0], Mapping) and depth:
        texts_of_one = tuple(_read_object(value[0], role, depth - 1))
        yield from texts_of_one if texts_of_one[0].is_unwrapped else (_dump(value),)
    elif len(value) == 1 and isinstance(value[0], str) and role is not TextRole.ANSWER:
        # An agent that answers with a list has a list as its answer.
        yield ValueText(text=value[0], form=ValueForm.ONE_TEXT)
    else:
        yield _dump(value)


_PART_TYPES: Final = TEXT_PARTS | {
    *("image", "image_url", "input_image", "audio", "input_audio", "file", "input_file", "video"),
    *("resource", "resource_link", "thinking", "redacted_thinking", "reasoning", "document"),
}


def _is_content(value: Any) -> bool:
    """Return whether a value is a list of content parts, such as `{"type": "text", "text": …}`."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(part, Mapping) and str(part.get("type")) in _PART_TYPES for part in value
        )
        and all(isinstance(_text_of_part(p), str) for p in value if p["type"] in TEXT_PARTS)
    )


def _text_of_part(part: Mapping[Any, Any]) -> Any:
    text = part.get("text", part.get("refusal", part.get("content")))
    return text.get("value") if isinstance(text, Mapping) else text


def _failure_of(value: Mapping[Any, Any]) -> str | None:
    """The error of a response that failed, None for another object."""
    match value:
        case {"status_code": int(status), "body": body} if status >= BAD_STATUS:
            return f"status {status}: {read_error(body) or 'no message'}"
        case {"custom_id": _, "error": Mapping() as error} if error:
            return read_error(error)
        case {"type": "errored", "error": error}:
            return read_error(error) or "errored"
        case {"type": "expired" | "canceled" as kind, **others} if not others:
            return f"the request of the batch is {kind}"
        case {"error": Mapping() as error, **others} if "message" in error and not any(
            normalize_name(name) in ANSWER_NAMES for name in others
        ):
            return read_error(error)
    return None


_ASKING: Final = USER_ROLES | {"system", "developer", "tool", "function", "reasoning"}


def _of_messages(messages: Sequence[Message], role: TextRole, form: ValueForm) -> ValueText:
    roles = USER_ROLES if role is TextRole.QUESTION else ASSISTANT_ROLES
    text = last_text(messages, roles)
    calls = tuple(call for message in messages for call in message.tool_calls)
    if text is None:
        # Other words for the roles: the last text, of an answer not one of those who ask, of a question not an answer.
        others = {message.role for message in messages} - roles
        strangers = _ASKING if role is TextRole.ANSWER else ASSISTANT_ROLES
        text = last_text(messages, others - strangers)
    if text is None:
        is_hidden = any(message.role in roles for message in messages)
        return _no_text(NoText.HIDDEN if is_hidden else NoText.NO_TEXT, form=form)
    if not text and calls and role is not TextRole.QUESTION:
        return _no_text(NoText.TOOL_CALLS, form=form, calls=calls)
    return ValueText(text=text, form=form, tool_calls=calls)


def _read_number(value: float) -> ValueText:
    if isinstance(value, float):
        if not math.isfinite(value):
            return _no_text(NoText.NOT_A_NUMBER)
        if value.is_integer():
            value = int(value)
    return ValueText(text=json.dumps(value), form=ValueForm.NUMBER)


def _dump(value: Any) -> ValueText:
    """A value as JSON text: equal values give equal texts."""
    if not isinstance(value, Mapping | list | tuple):
        # Dates, decimals and the like of data frames and Parquet tables.
        return ValueText(text=str(value))
    try:
        text = json.dumps(
            _with_text_keys(value), ensure_ascii=False, sort_keys=True, allow_nan=True, default=str
        )
    except (TypeError, ValueError):
        return _no_text(NoText.NOT_JSON)
    return ValueText(text=text, form=ValueForm.JSON)


def _with_text_keys(value: Any) -> Any:
    """A value whose keys are texts, because keys of several types cannot be sorted."""
    if isinstance(value, Mapping):
        return {str(name): _with_text_keys(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_with_text_keys(member) for member in value]
    return value


def _no_text(
    reason: NoText,
    *,
    form: ValueForm = ValueForm.NOTHING,
    error: str | None = None,
    calls: tuple[RequestedCall, ...] = (),
) -> ValueText:
    return ValueText(text=None, form=form, reason=reason, error=error, tool_calls=calls)


NOTHING: Final = _no_text(NoText.NOTHING)
