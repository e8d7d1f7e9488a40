"""Settings from the environment, read once by the process entry points."""

import os
from pathlib import Path
from typing import Annotated

import platformdirs
from pydantic import (
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from mosaico.core.clock import zone_names
from mosaico.core.defaults import KEEP_RECEIVED_SPANS
from mosaico.core.environment import load
from mosaico.core.import_settings import ImportSettings
from mosaico.core.login_settings import RULE_FORM, parse_role_rules
from mosaico.core.network_policy import parse_networks
from mosaico.core.public_url import PublicUrl
from mosaico.core.smtp import parse_smtp_url
from mosaico.core.url_syntax import find_url_flaw


def default_data_dir() -> Path:
    """`/var/lib/mosaico` for root, otherwise the user data directory of the platform."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/mosaico")
    return Path(platformdirs.user_data_dir("mosaico"))


def _require_login_roles(value: str | None, info: ValidationInfo) -> str | None:
    if value is not None and not info.data.get("login_roles"):
        raise ValueError(f"needs MOSAICO_LOGIN_ROLES, or nobody could log in; {RULE_FORM}")
    return value


class Settings(ImportSettings):
    """One field per environment variable; the descriptions are the text of `.env.example`."""

    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="Directory of the embedded database, the first admin key and the master key.",
    )
    host: Annotated[
        str, Field(description="Address that the API listens on; 0.0.0.0 for every interface.")
    ] = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535, description="Port of the API.")] = 8080
    api_processes: Annotated[
        int,
        Field(
            ge=1,
            le=64,
            description="API processes of `mosaico serve`. They share the port, and forty connections"
            " to the database (at least ten each).",
        ),
    ] = 1
    database_url: Annotated[
        SecretStr | None,
        Field(
            validation_alias="DATABASE_URL",
            description="An external Postgres (16 or newer), as postgresql://user:password@host/name."
            " Empty: the embedded database in the data directory.",
        ),
    ] = None
    database_direct_url: Annotated[
        SecretStr | None,
        Field(
            description="URL of the Postgres server itself, if DATABASE_URL is a pooler in"
            " transaction mode, such as PgBouncer. Empty: DATABASE_URL is the server.",
        ),
    ] = None
    admin_key: Annotated[
        SecretStr | None,
        Field(
            description="An API key with the role admin, at least 24 characters."
            " Empty: a key is created at the first start and written to the data directory.",
        ),
    ] = None
    master_key: Annotated[
        SecretStr | None,
        Field(
            description="32 bytes in base64 that encrypt stored secrets"
            " (`openssl rand -base64 32`). Empty: created once in the data directory"
            " (embedded database only).",
        ),
    ] = None
    master_key_file: Annotated[
        Path | None,
        Field(
            description="File with the master key, mode 0600 or 0400, for example a mounted secret.",
        ),
    ] = None
    master_keys_old: Annotated[
        SecretStr | None,
        Field(
            description="Earlier master keys, comma-separated, until `mosaico secrets rotate` has"
            " re-encrypted everything with the new key.",
        ),
    ] = None
    env: Annotated[
        str,
        Field(
            pattern="^(development|production)$",
            description="`production` refuses to start with insecure settings; see docs/security.md.",
        ),
    ] = "development"
    show_docs: Annotated[
        bool | None,
        Field(
            description="Whether /docs and /openapi.json are public."
            " Empty: yes, except in production.",
        ),
    ] = None
    outbound_allow: Annotated[
        str | None,
        Field(
            description=(
                "Networks that may be called in addition to public servers, comma-separated: "
                "10.0.0.0/8,192.168.1.5. Empty: none; with `mosaico serve` on loopback, this "
                "machine and private networks."
            ),
        ),
    ] = None
    chat_hosts: Annotated[
        str | None,
        Field(
            description="Host names of your own servers that accept webhooks in the format of Slack or"
            " Teams (Mattermost, relays), comma-separated.",
        ),
    ] = None
    allowed_hosts: Annotated[
        str | None,
        Field(
            description=(
                "Additional host names of the API (`Host` header), comma-separated; "
                "`*.example.org` for all below a domain, `*` for any. Always allowed: loopback, "
                "MOSAICO_HOST, the host of MOSAICO_PUBLIC_URL, and any IP address if "
                "MOSAICO_HOST is every address (0.0.0.0)."
            ),
        ),
    ] = None
    trusted_proxies: Annotated[
        str | None,
        Field(
            description=(
                "Networks of the proxies in front of the API, comma-separated: 10.0.0.0/8,192.168.1.5."
                " Only these may name the client of a request, in X-Forwarded-For or Forwarded."
                " Empty: none."
            ),
        ),
    ] = None
    rate_limit: Annotated[
        int,
        Field(
            ge=0,
            le=1_000_000,
            description="Maximum requests per minute of one API key; 0 for no limit.",
        ),
    ] = 6000
    login_roles: Annotated[
        str | None,
        Field(
            description="Who gets which role when they log in with a provider or through a proxy; the highest one counts:"
            " ana@example.org=admin, @example.org=read, group:developers=run, *=read.",
        ),
    ] = None
    login_header: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z0-9-]+$",
            description="Header in which a proxy of MOSAICO_TRUSTED_PROXIES sends the address of the person who is"
            " logged in there: X-Forwarded-Email. Empty: none.",
        ),
    ] = None
    oidc_client_id: Annotated[
        str | None, Field(description="ID of this service as a client of the provider.")
    ] = None
    oidc_client_secret: Annotated[
        SecretStr | None, Field(description="Secret of this client, if it has one.")
    ] = None
    oidc_issuer: Annotated[
        str | None,
        Field(
            pattern=r"^https?://\S+$",
            description="OpenID Connect provider with which people log in, as it calls itself:"
            " https://accounts.google.com. Empty: none.",
        ),
    ] = None
    oidc_scopes: Annotated[
        str,
        Field(pattern=r"(^|.* )openid($| .*)", description="What is requested from the provider."),
    ] = "openid email profile"
    oidc_groups_claim: Annotated[
        str, Field(description="Claim with the groups of a person, for rules such as group:admins.")
    ] = "groups"
    langfuse_default_url: Annotated[
        str,
        Field(
            pattern=r"^https?://\S+$",
            description="Langfuse server of agents without a langfuseUrl.",
        ),
    ] = "https://cloud.langfuse.com"
    llm_base_url: Annotated[
        str | None,
        Field(
            pattern=r"^https?://\S+$",
            description="OpenAI-compatible API of a model server: https://api.openai.com/v1."
            " Required by LLM_JUDGE and SEMANTIC_SIMILARITY.",
        ),
    ] = None
    llm_api_key: Annotated[
        SecretStr | None, Field(description="API key of the model server, if it needs one.")
    ] = None
    llm_model: Annotated[str | None, Field(description="Default model of LLM_JUDGE.")] = None
    embeddings_model: Annotated[
        str | None,
        Field(description="Default model of SEMANTIC_SIMILARITY."),
    ] = None
    harness_dir: Annotated[
        Path | None,
        Field(description="Directory of the datasets of benchmarks with the source `harness`."),
    ] = None
    agent_commands: Annotated[
        Path | None,
        Field(
            description="JSON file of the commands that benchmarks may run on the workers:"
            ' {"support-bot": {"command": "/opt/bot/run {input}"}}. Empty: none.',
        ),
    ] = None
    anthropic_api_key: Annotated[
        SecretStr | None,
        Field(
            validation_alias="ANTHROPIC_API_KEY",
            description="API key of Anthropic, for benchmarks with the source `harness`.",
        ),
    ] = None
    openai_api_key: Annotated[
        SecretStr | None,
        Field(
            validation_alias="OPENAI_API_KEY",
            description="API key of OpenAI, for benchmarks with the source `harness`.",
        ),
    ] = None
    public_url: PublicUrl = None
    smtp_url: Annotated[
        SecretStr | None,
        Field(
            description="Mail server of the channel EMAIL: smtp://user:password@host:587 (STARTTLS), or"
            " smtps://user:password@host:465 (TLS from the start).",
        ),
    ] = None
    smtp_from: Annotated[
        str,
        Field(pattern=r"^[^\r\n]+@[^\r\n]+$", description="Sender of mails."),
    ] = "MOSAICO <mosaico@localhost>"
    smtp_require_tls: Annotated[
        bool, Field(description="Whether mails are sent over encrypted connections only.")
    ] = True
    heartbeat_url: Annotated[
        SecretStr | None,
        Field(
            description="URL of a dead man's switch, which is called each minute while runs can be done:"
            " https://hc-ping.com/UUID. Empty: nobody is told when MOSAICO itself is down."
        ),
    ] = None
    summary_at: Annotated[
        str,
        Field(
            pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9] \S+$",
            description="Time of the daily summary, with the time zone: 07:30 Europe/Rome.",
        ),
    ] = "06:00 UTC"
    false_pages_per_month: Annotated[
        float | None,
        Field(
            ge=0.001,
            le=0.33,
            description="Maximum number of false alarms in 30 runs of one series, for REGRESSED alert rules that"
            " set none. Empty: 0.25.",
        ),
    ] = None
    worker_concurrency: Annotated[
        int, Field(ge=1, le=64, description="Concurrent jobs per worker.")
    ] = 4
    metric_processes: Annotated[
        int, Field(ge=1, le=64, description="Metric processes per worker.")
    ] = 2
    metric_timeout_s: Annotated[
        float,
        Field(gt=0, le=3600, description="Time limit in seconds of a metric for up to 64 traces."),
    ] = 60.0
    stale_run_s: Annotated[
        float,
        Field(
            ge=60,
            description="Seconds without progress and without a job after which a run fails as stalled.",
        ),
    ] = 900.0
    otel_keep_days: Annotated[
        int,
        Field(
            ge=1,
            le=3650,
            description="Days after which received OpenTelemetry spans are deleted. Runs keep their"
            " copies of the traces.",
        ),
    ] = KEEP_RECEIVED_SPANS.days
    log_format: Annotated[
        str, Field(pattern="^(console|json)$", description="`console` or `json`.")
    ] = "console"

    @field_validator("database_direct_url")
    @classmethod
    def _check_pooler(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if value is not None and info.data.get("database_url") is None:
            raise ValueError("needs DATABASE_URL, the address of the pooler")
        return value

    @field_validator("outbound_allow", "trusted_proxies")
    @classmethod
    def _check_networks(cls, value: str | None) -> str | None:
        parse_networks(value or "")
        return value

    @field_validator("login_roles")
    @classmethod
    def _check_login_roles(cls, value: str | None) -> str | None:
        parse_role_rules(value or "")
        return value

    @field_validator("login_header")
    @classmethod
    def _check_login_header(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and not info.data.get("trusted_proxies"):
            raise ValueError("needs MOSAICO_TRUSTED_PROXIES: anybody could send that header")
        return _require_login_roles(value, info)

    @field_validator("oidc_issuer")
    @classmethod
    def _check_provider(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and not info.data.get("oidc_client_id"):
            raise ValueError("needs MOSAICO_OIDC_CLIENT_ID")
        return _require_login_roles(value, info)

    @field_validator("summary_at")
    @classmethod
    def _check_zone(cls, value: str) -> str:
        if value.partition(" ")[2] not in zone_names():
            raise ValueError("has no valid time zone; write it as 07:30 Europe/Rome")
        return value

    @field_validator("heartbeat_url")
    @classmethod
    def _check_heartbeat_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and (flaw := find_url_flaw(value.get_secret_value())):
            raise ValueError(f"{flaw}; write it as https://server.example/path")
        return value

    @field_validator("smtp_url")
    @classmethod
    def _check_mail_server(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parse_smtp_url(value.get_secret_value(), "", require_tls=True)
        return value

    @property
    def in_production(self) -> bool:
        return self.env == "production"

    @property
    def shows_docs(self) -> bool:
        return not self.in_production if self.show_docs is None else self.show_docs


def load_settings() -> Settings:
    """Read the environment.

    Raises: `Misconfigured`, which names each wrong variable and never its value.
    """
    return load(Settings)


def base_url(settings: Settings) -> str:
    """The URL of the API for a client on this machine, without a slash at its end."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
