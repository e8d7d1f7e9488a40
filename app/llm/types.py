"""What a model is asked, and what it answers: values without effects."""

import hashlib
import json
from array import array
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class ModelKind(StrEnum):
    """What a model is for: it writes an answer, or turns a text into a vector."""

    CHAT = "CHAT"
    EMBEDDING = "EMBEDDING"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMessage:
    """One message of a conversation; `role` is `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A conversation that the model goes on with; `json_object` wants a JSON object of it."""

    model: str
    messages: tuple[PromptMessage, ...]
    temperature: float = 0.0
    json_object: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """A text that the model turns into a vector."""

    model: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """What the model wrote; `refusal` is why it wrote nothing, where it says so."""

    content: str | None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingAnswer:
    """The vector of a text, in single precision: what models compute in."""

    vector: "array[float]"


ModelRequest: TypeAlias = ChatRequest | EmbeddingRequest
ModelAnswer: TypeAlias = ChatAnswer | EmbeddingAnswer


class Usage(NamedTuple):
    """What some requests took; `cost_usd` is None where the server does not tell it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


def request_key(endpoint: str, request: ModelRequest) -> bytes:
    """The same for two requests that ask the same of the same server: SHA-256 of all they say."""
    document = [endpoint, type(request).__name__, asdict(request)]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).digest()
