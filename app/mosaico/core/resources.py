"""Resources of a process (database, secrets, clock, …); built by entry points, passed as one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mosaico.core.clock import Clock, utc_now
from mosaico.core.db import Database
from mosaico.core.encryption import Secret, SecretBox
from mosaico.core.llm_server import LlmServer
from mosaico.core.login_settings import KEYS_ONLY, LoginSettings
from mosaico.core.network_policy import PUBLIC_ONLY, OutboundPolicy
from mosaico.core.smtp import SmtpServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """`options` are settings that a domain reads by name; `outbound` is the network policy of
    `outbound_client`; `model_keys` are the API keys of model providers by environment variable.
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
    heartbeat_url: Secret | None = None
    login: LoginSettings = KEYS_ONLY

    @property
    def public_url(self) -> str:
        """The base of links that leave the service, such as those of messages."""
        return self.options.get("public_url") or self.options.get("own_url", "")
