"""The API of OpenAI as bodies: requests as they are sent, answers as they are read, leniently.

Source: OpenAI API reference, "Create chat completion" and "Create embeddings"; the `cost` of a
usage is an addition of OpenRouter.
"""

import base64
import binascii
import math
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

from app.core.text import replace_unstorable
from app.llm.types import (
    ChatAnswer,
    ChatRequest,
    EmbeddingAnswer,
    EmbeddingRequest,
    ModelAnswer,
    ModelRequest,
    Usage,
)

JSON = dict[str, Any]


class Sent(NamedTuple):
    """Where a request goes, below the address of the API, and its body."""

    path: str
    body: JSON


class Reply(NamedTuple):
    """One answer for each request of a batch, and what they took together."""

    answers: tuple[ModelAnswer, ...]
    usage: Usage


class Unreadable(Exception):
    """The document is no answer to the request; the message says why."""


def sent(batch: Sequence[ModelRequest]) -> Sent:
    """A batch as it is sent: one conversation, or any number of texts for one model."""
    first = batch[0]
    if isinstance(first, ChatRequest):
        return Sent("/chat/completions", _chat_body(first))
    texts = [request.text for request in batch if isinstance(request, EmbeddingRequest)]
    return Sent("/embeddings", {"model": first.model, "input": texts, "encoding_format": "float"})


def read_reply(batch: Sequence[ModelRequest], document: JSON) -> Reply:
    """The answers in the order of the batch. Raises: `Unreadable`."""
    answers: tuple[ModelAnswer, ...]
    if isinstance(batch[0], ChatRequest):
        answers = (_chat_answer(document),)
    else:
        answers = _embeddings(document, len(batch))
    return Reply(answers, _usage(document.get("usage")))


def _chat_body(request: ChatRequest) -> JSON:
    body: JSON = {
        "model": request.model,
        "messages": [
            {"role": message.role, "content": message.content} for message in request.messages
        ],
        "temperature": request.temperature,
    }
    if request.json_object:
        body["response_format"] = {"type": "json_object"}
    return body


def _chat_answer(document: JSON) -> ChatAnswer:
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise Unreadable("the answer has no choice with a message")
    refusal = message.get("refusal")
    if not refusal and choice.get("finish_reason") == "content_filter":
        refusal = "a filter of the server held the answer back"
    return ChatAnswer(
        content=replace_unstorable(_text_of(message.get("content"))) or None,
        refusal=replace_unstorable(str(refusal)) if refusal else None,
    )


def _text_of(content: object) -> str:
    """The text of a message, which some servers send in parts."""
    match content:
        case str():
            return content
        case list():
            return "".join(_text_of(part.get("text")) for part in content if isinstance(part, dict))
        case _:
            return ""


def _embeddings(document: JSON, count: int) -> tuple[ModelAnswer, ...]:
    rows = document.get("data")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unreadable("the answer has no list `data`")
    places = [row.get("index", place) for place, row in enumerate(rows)]
    if sorted(places, key=str) != sorted(range(count), key=str):
        raise Unreadable(f"{count} texts were asked for, and the answer holds {len(rows)} vectors")
    vectors = dict(zip(places, (_vector(row.get("embedding")) for row in rows), strict=True))
    return tuple(EmbeddingAnswer(vectors[place]) for place in range(count))


def _vector(values: object) -> "array[float]":
    vector = array("f")
    try:
        if isinstance(values, str):  # some servers send base64 whatever they were asked for
            vector.frombytes(base64.b64decode(values, validate=True))
        elif isinstance(values, list):
            vector.extend(values)
    except (TypeError, ValueError, OverflowError, binascii.Error):
        raise Unreadable("an embedding is no list of numbers") from None
    if not vector or not all(map(math.isfinite, vector)):
        raise Unreadable("an embedding is no list of numbers")
    return vector


def _usage(usage: object) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    cost = usage.get("cost")
    known = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < math.inf
    return Usage(
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        float(cost) if known and cost is not None else None,
    )


def _count(value: object) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and isinstance(value, int) and 0 <= value < 2**53 else 0
