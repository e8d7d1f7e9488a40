"""What a process holds while it runs; built by entry points, handed down as one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.core.clock import Clock, utc_now
from app.core.db import Database
from app.core.encryption import Secret, SecretBox
from app.core.http.network_policy import PUBLIC_ONLY, OutboundPolicy
from app.core.smtp import SmtpServer


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmServer:
    """A server of models that speaks the API of OpenAI, and the models that metrics ask when they
    name none.
    """

    base_url: str
    api_key: Secret | None = None
    model: str | None = None
    embeddings_model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """`options` are the operator's defaults that a domain may ask for, by name; `outbound` is what
    `outbound_client` is given; `model_keys` are keys of providers of models by the names of their
    environment variables.
    """

    db: Database
    secrets: SecretBox
    data_dir: Path
    clock: Clock = utc_now
    outbound: OutboundPolicy = PUBLIC_ONLY
    options: Mapping[str, str] = field(default_factory=dict)
    llm_server: LlmServer | None = None
    model_keys: Mapping[str, Secret] = field(default_factory=dict)
    smtp: SmtpServer | None = None
