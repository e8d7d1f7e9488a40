"""Which providers there are, and where their keys come from: the environment, nowhere else."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from app.core.errors import AppError
from app.llm.conversation import Llm, Provider, TurnSettings

if TYPE_CHECKING:
    import httpx2

    from app.llm.sdk import ProviderAccess


KEYS: Final = {
    Provider.ANTHROPIC: "ANTHROPIC_API_KEY",
    Provider.OPENAI: "OPENAI_API_KEY",
    Provider.OPENAI_RESPONSES: "OPENAI_API_KEY",
}


class MissingKey(AppError):
    """A provider wants a key; put it into the environment variable that is named."""

    code = "missing-key"
    status = 400
    exit_code = 2


class BadBaseUrl(AppError):
    """A server is named by an address that begins with http:// or https:// and a host."""

    code = "bad-base-url"
    status = 400
    exit_code = 2


def open_llm(
    provider: Provider,
    model: str,
    *,
    base_url: str | None,
    settings: TurnSettings,
    environment: Mapping[str, str],
    http: "httpx2.AsyncClient | None" = None,
) -> Llm:
    """A model of a provider. A server of one's own may want no key. Raises MissingKey, BadBaseUrl.

    Without a client the address is called as it was given: on a command line it is the choice of
    its user. `http` is what a service goes out through.
    """
    if base_url is not None:
        _require_address(base_url)
    key = environment.get(KEYS[provider]) or ("none" if base_url else None)
    if key is None:
        raise MissingKey(
            f"{provider} wants a key, and {KEYS[provider]} is not set",
            hint=f"set {KEYS[provider]}, or name a server of your own with --base-url",
        )
    from app.llm.sdk import ProviderAccess

    return _opener(provider)(model, ProviderAccess(key, base_url, http), settings)


def _opener(provider: Provider) -> "Callable[[str, ProviderAccess, TurnSettings], Llm]":
    """Each SDK takes long to import, so that only the one that is used is."""
    match provider:
        case Provider.ANTHROPIC:
            from app.llm.anthropic_messages import open_messages

            return open_messages
        case Provider.OPENAI:
            from app.llm.openai_chat import open_chat

            return open_chat
        case Provider.OPENAI_RESPONSES:
            from app.llm.openai_responses import open_responses

            return open_responses
        case Provider.SCRIPTED:
            raise AssertionError("a script is opened by whoever knows the tasks")


def _require_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_http_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_http_url = False
    if not is_http_url:
        raise BadBaseUrl(
            f"{url!r} is no address of a server", hint="write it as http://localhost:8000/v1"
        )
