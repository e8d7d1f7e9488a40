"""Model providers. Their API keys come from the environment only."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mosaico.core.errors import BadUsage
from mosaico.llm.conversation import Llm, Provider, TurnSettings
from mosaico.llm.model_families import api_for, unsupported_reason

if TYPE_CHECKING:
    import httpx2

    from mosaico.llm.sdk import ProviderAccess


KEYS: Final = {
    Provider.ANTHROPIC: "ANTHROPIC_API_KEY",
    Provider.OPENAI: "OPENAI_API_KEY",
    Provider.OPENAI_RESPONSES: "OPENAI_API_KEY",
}


class MissingKey(BadUsage):
    """A provider requires an API key; set the environment variable in the message."""


class UnsupportedSetting(BadUsage):
    """The model does not take this option; omit it, or use another model."""


def require_supported(provider: Provider, model: str, settings: TurnSettings) -> None:
    """Raises: UnsupportedSetting when the model does not take one of the options."""
    reason = unsupported_reason(provider, model, settings)
    if reason is not None:
        raise UnsupportedSetting(reason, hint="docs/models.md lists what each model takes")


def open_llm(
    provider: Provider,
    model: str,
    *,
    base_url: str | None,
    settings: TurnSettings,
    environment: Mapping[str, str],
    http: "httpx2.AsyncClient | None" = None,
) -> Llm:
    """Open a model of a provider. Raises: MissingKey, BadUsage, UnsupportedSetting.

    No key is required for a server with a `base_url`. A service passes `http`, the HTTP client
    with its network policy; without it every address is allowed, as on the command line. Models of
    OpenAI that take tools with reasoning only in the Responses API are called there.
    """
    if base_url is not None:
        _require_address(base_url)
    require_supported(provider, model, settings)
    # The SDKs refuse to start without a key; local servers ignore it.
    key = environment.get(KEYS[provider]) or ("none" if base_url else None)
    if key is None:
        raise MissingKey(
            f"{provider} requires an API key, and {KEYS[provider]} is not set",
            hint=f"set {KEYS[provider]}, or use another server with --base-url",
        )
    # Here and not at the top: importing an SDK takes half a second, which no other command should
    # pay.
    from mosaico.llm.sdk import ProviderAccess

    return _opener(api_for(provider, model, settings))(
        model, ProviderAccess(key, base_url, http), settings
    )


def _opener(provider: Provider) -> "Callable[[str, ProviderAccess, TurnSettings], Llm]":
    """The function that opens a provider. Each SDK takes long to import, so only one is."""
    match provider:
        case Provider.ANTHROPIC:
            from mosaico.llm.anthropic_messages import open_messages

            return open_messages
        case Provider.OPENAI:
            from mosaico.llm.openai_chat import open_chat

            return open_chat
        case Provider.OPENAI_RESPONSES:
            from mosaico.llm.openai_responses import open_responses

            return open_responses
        case Provider.SCRIPTED:
            raise AssertionError("the harness opens scripted models")


def _require_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_http_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_http_url = False
    if not is_http_url:
        raise BadUsage(
            f"{url!r} is not the address of a server", hint="write it as http://localhost:8000/v1"
        )
