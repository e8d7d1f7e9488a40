"""A model behind the SDK of its provider: all that is the same whatever the wire format is."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import httpx2

from app.core.http.transport import tls_context
from app.llm.answers import JSON, read_answer
from app.llm.calling import ATTEMPT_TIMEOUT_S, CONNECT_S, SdkErrors, call_with_retries
from app.llm.conversation import ChatMessage, Tool, Turn, TurnSettings


class ProviderAccess(NamedTuple):
    """A server of models, and the client that goes out to it; None for those of the SDK."""

    api_key: str
    base_url: str | None
    http: httpx2.AsyncClient | None

    def options(self) -> dict[str, Any]:
        """What both SDKs are opened with: no retries of theirs, and no redirects, which would take
        the key along.
        """
        return {
            "api_key": self.api_key,
            "base_url": self.base_url,
            "max_retries": 0,
            "timeout": httpx2.Timeout(ATTEMPT_TIMEOUT_S, connect=CONNECT_S),
            "http_client": self.http
            or httpx2.AsyncClient(follow_redirects=False, verify=tls_context()),
        }


class TurnRequest(NamedTuple):
    """What a model is asked for one turn, before it is put into a wire format."""

    model: str
    settings: TurnSettings
    system: str
    messages: Sequence[ChatMessage]
    tools: Sequence[Tool]


class RawAnswer(Protocol):
    """An answer of an SDK before it is read."""

    @property
    def http_response(self) -> httpx2.Response: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkLlm:
    """A model whose SDK is called by `ask`; `write` and `read` are those of its wire format."""

    provider: str
    model: str
    settings: TurnSettings
    ask: Callable[..., Awaitable[RawAnswer]]
    errors: SdkErrors
    write: Callable[[TurnRequest], dict[str, Any]]
    read: Callable[[JSON], Turn]
    close: Callable[[], Coroutine[Any, Any, None]]

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool]
    ) -> Turn:
        """The next turn of the model. Raises LlmFailure."""
        request = self.write(TurnRequest(self.model, self.settings, system, messages, tools))
        answer = await call_with_retries(lambda: self.ask(**request), self.errors)
        return read_answer(answer.http_response.content, self.read)
