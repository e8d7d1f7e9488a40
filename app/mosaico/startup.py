"""Opens the database, the secrets and the resources of a process."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.alerts.schedule_zones import provide_zone_names
from mosaico.core.database_clock import DatabaseClock
from mosaico.core.db import Database
from mosaico.core.encryption import (
    KEY_HINT,
    MASTER_KEY_FILE,
    Secret,
    SecretBox,
    load_secret_box,
    require_random_key,
)
from mosaico.core.errors import Misconfigured
from mosaico.core.import_settings import import_options
from mosaico.core.key_rotation import list_encrypted_columns, require_known_keys
from mosaico.core.llm_server import configured_llm_server
from mosaico.core.logging import LogFormat, configure_logging
from mosaico.core.login_settings import LoginSettings, OpenIdSettings, parse_role_rules
from mosaico.core.migrations import require_current_schema
from mosaico.core.network_policy import HTTPS_PORT, WEB_PORTS, OutboundPolicy, parse_networks
from mosaico.core.resources import Resources
from mosaico.core.row_limits import LIMITED_ROLE, inherits_limits
from mosaico.core.secret_files import read_secret_file
from mosaico.core.settings import Settings, base_url
from mosaico.core.smtp import SmtpServer, parse_smtp_url
from mosaico.notifications.registry import allow_chat_hosts
from mosaico.postgres.server import EmbeddedPostgres
from mosaico.schedules.queries import find_zone_name
from mosaico.table_list import METADATA

# Messages about runs are written below the domain of schedules, in every process.
provide_zone_names(find_zone_name)


def set_up_logs(settings: Settings) -> None:
    log_format: LogFormat = "json" if settings.log_format == "json" else "console"
    configure_logging(log_format)


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stopping = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stopping.set())
    return stopping


@contextmanager
def owned_database(settings: Settings, *, on_move: Callable[[], None]) -> Iterator[str]:
    """The database of the settings: an external one, or the embedded one, which this process owns: it
    runs until the block ends and is started again when it dies.

    `on_move` is called in another thread when the embedded one has another URL, because another program
    took its port meanwhile.
    """
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    database, leaving = EmbeddedPostgres(settings.data_dir), threading.Event()
    with database.own() as url:
        keeper = threading.Thread(
            target=database.keep_alive,
            args=(url, leaving),
            kwargs={"on_move": on_move},
            name="keep database",
        )
        keeper.start()
        try:
            yield url
        finally:
            leaving.set()
            # Before the database is stopped: the thread must not start it again.
            keeper.join()


def database_url(settings: Settings) -> str:
    """The database of the settings: an external one, or the embedded one that another process owns.

    Raises: `DatabaseNotRunning`.
    """
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    return EmbeddedPostgres(settings.data_dir).url()


@contextmanager
def reachable_database(settings: Settings, *, create: bool) -> Iterator[str]:
    """The database of the settings, past a pooler; an embedded one that does not run is started for the block.

    Without `create`, a folder without a database is an error. Raises: `DatabaseNotRunning`.
    """
    if settings.database_url is not None:
        yield direct_database_url(settings) or database_url(settings)
        return
    with EmbeddedPostgres(settings.data_dir).running(create=create) as url:
        yield url


def direct_database_url(settings: Settings) -> str | None:
    """The server behind the pooler of DATABASE_URL; None without a pooler."""
    url = settings.database_direct_url
    return url.get_secret_value() if url else None


@contextmanager
def opened_database(
    settings: Settings, *, name: str, pool_size: int, timeout_factor: int = 1
) -> Iterator[Database]:
    """The database of the settings, closed when the block ends; see `Database` for `timeout_factor`.

    Raises: `DatabaseNotRunning`; `SchemaMismatch` unless it is at the schema of this program.
    """
    url, direct_url = database_url(settings), direct_database_url(settings)
    # Before anything else uses the database: a program of another version could read or write it wrongly.
    require_current_schema(direct_url or url)
    with Database(
        url, direct_url=direct_url, pool_size=pool_size, name=name, timeout_factor=timeout_factor
    ) as db:
        yield db


@contextmanager
def opened_resources(
    settings: Settings, *, name: str, pool_size: int, timeout_factor: int = 1
) -> Iterator[Resources]:
    """The resources of a process, opened from its settings and closed when the block ends.

    Raises: as `opened_database`; `UnknownMasterKey`; `Misconfigured` for a wrong master key, and in production
    for a privileged role.
    """
    master_key(settings)
    allow_chat_hosts(settings.chat_hosts or "")
    heartbeat = settings.heartbeat_url
    with opened_database(
        settings, name=name, pool_size=pool_size, timeout_factor=timeout_factor
    ) as db:
        resources = Resources(
            db=db,
            clock=DatabaseClock(db),
            secrets=secret_box(settings),
            data_dir=settings.data_dir,
            outbound=outbound_policy(settings),
            options={
                "langfuse_default_url": settings.langfuse_default_url,
                "public_url": settings.public_url or "",
                "own_url": base_url(settings),
                "harness_dir": str(settings.harness_dir or ""),
                "agent_commands": str(settings.agent_commands or ""),
                "rate_limit": str(settings.rate_limit),
                "summary_at": settings.summary_at,
                "false_pages_per_month": str(settings.false_pages_per_month or ""),
                **import_options(settings),
            },
            llm_server=configured_llm_server(settings),
            model_keys=model_keys(settings),
            smtp=mail_access(settings),
            heartbeat_url=Secret(heartbeat.get_secret_value()) if heartbeat else None,
            login=login_settings(settings),
        )
        require_fit(settings, resources)
        yield resources


def master_key(settings: Settings) -> str | None:
    """The master key that the operator gave, if any; in production one that is fit for it.

    Raises: `Misconfigured`, `UnsafeSecretFile`.
    """
    key = _configured_master_key(settings)
    if settings.in_production:
        if key is None:
            raise Misconfigured(
                "MOSAICO_ENV=production needs MOSAICO_MASTER_KEY or MOSAICO_MASTER_KEY_FILE;"
                f" {KEY_HINT} and keep a copy"
            )
        require_random_key(key)
    return key


def secret_box(settings: Settings) -> SecretBox:
    """The master keys of this process. Raises: `Misconfigured`, `UnsafeSecretFile`."""
    old = settings.master_keys_old
    return load_secret_box(
        settings.data_dir,
        master_key(settings),
        embedded=settings.database_url is None,
        old=[key for key in (old.get_secret_value() if old else "").split(",") if key.strip()],
    )


def key_at_hand(settings: Settings) -> SecretBox | None:
    """The master keys of this process, without creating one. Raises: `Misconfigured`, `UnsafeSecretFile`."""
    if master_key(settings) is None:
        path = settings.data_dir / MASTER_KEY_FILE
        if settings.database_url is not None or read_secret_file(path) is None:
            return None
    return secret_box(settings)


def require_fit(settings: Settings, resources: Resources) -> None:
    """Raises: `UnknownMasterKey`; `Misconfigured` for a role that sees no rows, in production for a privileged one."""
    with resources.db.read() as session:
        if settings.in_production:
            require_restricted_role(session)
        require_all_rows(session)
        require_known_keys(session, list_encrypted_columns(METADATA), resources.secrets)


def outbound_policy(settings: Settings) -> OutboundPolicy:
    """The outbound policy of this process; in production, public servers are called over HTTPS only."""
    return OutboundPolicy(
        allowed=parse_networks(settings.outbound_allow or ""),
        public_ports=frozenset({HTTPS_PORT}) if settings.in_production else WEB_PORTS,
    )


def model_keys(settings: Settings) -> dict[str, Secret]:
    """The keys of providers of models that are set, by the names of their variables."""
    keys = {
        "ANTHROPIC_API_KEY": settings.anthropic_api_key,
        "OPENAI_API_KEY": settings.openai_api_key,
    }
    return {name: Secret(key.get_secret_value()) for name, key in keys.items() if key}


def mail_access(settings: Settings) -> SmtpServer | None:
    """The mail server of the operator; None when there is none."""
    if settings.smtp_url is None:
        return None
    url, sender = settings.smtp_url.get_secret_value(), settings.smtp_from
    return parse_smtp_url(url, sender, require_tls=settings.smtp_require_tls)


def login_settings(settings: Settings) -> LoginSettings:
    """How people log in, besides API keys."""
    secret = settings.oidc_client_secret
    provider = (
        OpenIdSettings(
            issuer=settings.oidc_issuer,
            client_id=settings.oidc_client_id or "",
            client_secret=Secret(secret.get_secret_value()) if secret else None,
            scopes=settings.oidc_scopes,
            groups_claim=settings.oidc_groups_claim,
        )
        if settings.oidc_issuer
        else None
    )
    return LoginSettings(
        provider=provider,
        header=settings.login_header,
        rules=parse_role_rules(settings.login_roles or ""),
    )


def _configured_master_key(settings: Settings) -> str | None:
    key, path = settings.master_key, settings.master_key_file
    if path is None:
        return key.get_secret_value().strip() or None if key else None
    if key is not None:
        raise Misconfigured(
            "both MOSAICO_MASTER_KEY and MOSAICO_MASTER_KEY_FILE are set; unset one"
        )
    key_text = read_secret_file(path, mounted=True)
    if not key_text:
        raise Misconfigured(
            f"{path}, the file in MOSAICO_MASTER_KEY_FILE, contains no key; {KEY_HINT}"
        )
    return key_text


# A member of a privileged role can become it; a superuser counts as a member of every role.
_PRIVILEGED_ROLE = """
    SELECT rolname FROM pg_roles
    WHERE (rolsuper OR rolbypassrls) AND pg_has_role(session_user, oid, 'MEMBER')
    ORDER BY rolname = session_user DESC LIMIT 1
"""


def require_restricted_role(session: Session) -> None:
    """Raise `Misconfigured` when the role has SUPERUSER or BYPASSRLS, or can get them."""
    role = session.scalar(text(_PRIVILEGED_ROLE))
    if role is not None:
        raise Misconfigured(
            f"the role of DATABASE_URL is, or can become, {role}, which bypasses all access rules of"
            " the database; production requires a role without SUPERUSER and BYPASSRLS,"
            " see docs/security.md"
        )


def require_all_rows(session: Session) -> None:
    """Raise `Misconfigured` when the policies of limited callers apply to the role itself."""
    if inherits_limits(session):
        role = session.scalar(text("SELECT quote_ident(session_user)"))
        raise Misconfigured(
            f"the role of DATABASE_URL inherits {LIMITED_ROLE}, and would see no benchmark;"
            f" run GRANT {LIMITED_ROLE} TO {role} WITH INHERIT FALSE, SET TRUE, see docs/access.md"
        )
