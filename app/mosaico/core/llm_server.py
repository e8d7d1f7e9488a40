"""The model server of metrics, as the operator configures it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mosaico.core.encryption import Secret
    from mosaico.core.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmServer:
    """A model server with an OpenAI-compatible API, and the default models of metrics."""

    base_url: str
    api_key: "Secret | None" = None
    model: str | None = None
    embeddings_model: str | None = None


def configured_llm_server(settings: "Settings") -> LlmServer | None:
    """The model server of the settings; None without one."""
    # It takes long to import, and only a process with a model server needs it here.
    from mosaico.core.encryption import Secret

    if settings.llm_base_url is None:
        return None
    key = settings.llm_api_key
    return LlmServer(
        base_url=settings.llm_base_url.rstrip("/"),
        api_key=Secret(key.get_secret_value()) if key else None,
        model=settings.llm_model,
        embeddings_model=settings.embeddings_model,
    )


def load_llm_server() -> LlmServer | None:
    """The model server of the environment; None without one. Raises: `Misconfigured`."""
    # Most commands on files need no settings, and a wrong one must not stop them.
    from mosaico.core.settings import load_settings

    return configured_llm_server(load_settings())
