"""Texts of Langfuse traces as metrics compare them: the answer of a chat, and no references to media."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import jmespath
from jmespath.exceptions import JMESPathError

from app.core.strict_json import parse_finite_json
from app.traces.otel.messages import last_text, parse_value, read_messages
from app.traces.registry import TraceQuery
from app.traces.sources.langfuse.json_fields import normalize_json_value
from app.traces.types import Trace

ANSWER_ROLES: Final = ("assistant", "ai", "model")
MEDIA_ATTRIBUTE: Final = "media"
_MEDIA: Final = re.compile(r"@@@langfuseMedia:type=([^|@]*)\|id=([^|@]*)\|source=[^@]*@@@")


def clean_texts(trace: Trace, query: TraceQuery) -> Trace:
    """The trace with the texts that the paths of the query select, and with its media named. Without
    a path, the last answer takes the place of a list of chat messages.

    References to media are not compared as text: they leave the output and the expected output, and
    are named in the attribute `media` and in the input. An output of nothing but media is missing.
    """
    output = _select(trace.output, query.output_path, otherwise=_answer_text)
    if output is None and trace.output is not None:
        # The agent was asked, and its answer lacks the text: an empty answer, not a missing one.
        output = ""
    expected = _select(trace.expected_output, query.expected_path, otherwise=_answer_text)
    input_text = _select(trace.input, query.input_path, otherwise=lambda text: text)
    media = [*_names_of_media(trace.output), *_names_of_media(trace.expected_output)]
    attributes = {**trace.attributes, MEDIA_ATTRIBUTE: ", ".join(media)} if media else None
    return replace(
        trace,
        input=input_text and _MEDIA.sub(lambda match: f"[{match[1]} {match[2]}]", input_text),
        output=_without_media(output),
        expected_output=_without_media(expected),
        attributes=attributes or trace.attributes,
    )


def _select(
    text: str | None, path: str | None, *, otherwise: Callable[[str | None], str | None]
) -> str | None:
    """What a path selects in the JSON text of an object or a list: a text, or the canonical JSON text
    of any other value. None if it selects nothing. A text that is no such JSON stays as it is.
    """
    if path is None:
        return otherwise(text)
    if text is None or text[:1] not in ("{", "["):
        return text
    try:
        value = parse_finite_json(text)
    except (ValueError, RecursionError):
        return text
    try:
        return normalize_json_value(jmespath.search(path, value))
    # A function that does not accept the type or the size of a value selects nothing.
    except (JMESPathError, ArithmeticError):
        return None


def _answer_text(text: str | None) -> str | None:
    """The last answer in the JSON text of chat messages; any other text unchanged."""
    if text is None or text[:1] not in ("{", "["):
        return text
    answer = last_text(read_messages(parse_value(text)), ANSWER_ROLES)
    return text if answer is None else answer


def _without_media(text: str | None) -> str | None:
    if text is None or not _MEDIA.search(text):
        return text
    return _MEDIA.sub("", text).strip() or None


def _names_of_media(text: str | None) -> Iterator[str]:
    return (f"{match[1]} {match[2]}" for match in _MEDIA.finditer(text or ""))
