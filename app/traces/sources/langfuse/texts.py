"""Texts of Langfuse traces as metrics compare them: the answer of a chat, and no references to media."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from app.traces.otel.messages import last_text, parse_value, read_messages
from app.traces.types import Trace

ANSWER_ROLES: Final = ("assistant", "ai", "model")
MEDIA_ATTRIBUTE: Final = "media"
_MEDIA: Final = re.compile(r"@@@langfuseMedia:type=([^|@]*)\|id=([^|@]*)\|source=[^@]*@@@")


def clean_texts(trace: Trace) -> Trace:
    """The trace with the last answer in place of a list of chat messages, and with its media named.

    References to media are not compared as text: they leave the output and the expected output, and
    are named in the attribute `media` and in the input. An output of nothing but media is missing.
    """
    output, expected = _answer_text(trace.output), _answer_text(trace.expected_output)
    media = [*_names_of_media(trace.output), *_names_of_media(trace.expected_output)]
    attributes = {**trace.attributes, MEDIA_ATTRIBUTE: ", ".join(media)} if media else None
    return replace(
        trace,
        input=trace.input and _MEDIA.sub(lambda match: f"[{match[1]} {match[2]}]", trace.input),
        output=_without_media(output),
        expected_output=_without_media(expected),
        attributes=attributes or trace.attributes,
    )


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
