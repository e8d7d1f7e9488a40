"""Requests of metrics to a model, and the responses: values without effects."""

import hashlib
import json
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from mosaico.llm.conversation import Usage


class ModelKind(StrEnum):
    """The task of a model: write an answer, or compute the embedding of a text."""

    CHAT = "CHAT"
    EMBEDDING = "EMBEDDING"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMessage:
    """One message of a prompt; `role` is `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A prompt for one answer; `json_object` requests a JSON object."""

    model: str
    messages: tuple[PromptMessage, ...]
    temperature: float = 0.0
    json_object: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """A text of which the model computes a vector."""

    model: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """The text of the model; `refusal` is the reason of the model for a refusal, if any."""

    content: str | None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingAnswer:
    """The vector of a text, in the single precision that models compute in."""

    vector: "array[float]"


ModelRequest: TypeAlias = ChatRequest | EmbeddingRequest
ModelAnswer: TypeAlias = ChatAnswer | EmbeddingAnswer

# One ChatRequest, or several EmbeddingRequests for the same model.
RequestBatch: TypeAlias = Sequence[ModelRequest]


class BatchResponse(NamedTuple):
    """One answer for each request of a batch, and the tokens and the cost of the batch.

    `cost_usd` is None when the server does not report it.
    """

    answers: tuple[ModelAnswer, ...]
    usage: Usage
    cost_usd: float | None = None


class RequestUsage(NamedTuple):
    """The model, tokens and cost of one HTTP request; `cost_usd` is None when unknown."""

    model: str
    usage: Usage
    cost_usd: float | None


def request_key(server: str, request: ModelRequest) -> bytes:
    """SHA-256 of a server and all fields of a request: equal for equal requests."""
    document = [server, type(request).__name__, asdict(request)]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).digest()
