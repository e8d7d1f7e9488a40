"""What every process of the service does first: its database, its secrets, its resources."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.core.addresses import HTTPS_PORT, WEB_PORTS, OutboundPolicy, networks_of
from app.core.db import Database
from app.core.logging import LogFormat, configure
from app.core.migrations import require_current
from app.core.resources import LlmAccess, Resources
from app.core.secrets import Secret, load_or_create_master_key
from app.core.settings import Settings
from app.postgres.server import EmbeddedPostgres


def set_up_logs(settings: Settings) -> None:
    log_format: LogFormat = "json" if settings.log_format == "json" else "console"
    configure(log_format)


@contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """The database of the settings: an external one, or the embedded one, kept running until the
    block ends and started again when it dies.
    """
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    leaving = threading.Event()
    with EmbeddedPostgres(settings.data_dir).acquire() as lease:
        keeper = threading.Thread(target=lease.keep_alive, args=(leaving,), name="keep database")
        keeper.start()
        try:
            yield lease.url
        finally:
            leaving.set()
            keeper.join()


@contextmanager
def opened_resources(settings: Settings, *, name: str, pool_size: int) -> Iterator[Resources]:
    """What a process holds, opened from its settings and closed when the block ends.

    Raises: `UnknownSchema` unless the database is at the schema of this program.
    """
    with database_url(settings) as url:
        require_current(url)
        key = settings.master_key
        resources = Resources(
            db=Database(url, pool_size=pool_size, name=name),
            secrets=load_or_create_master_key(
                settings.data_dir,
                key.get_secret_value() if key else None,
                embedded=settings.database_url is None,
            ),
            data_dir=settings.data_dir,
            outbound=outbound_policy(settings),
            options={"langfuse_default_url": settings.langfuse_default_url},
            llm=llm_access(settings),
        )
        try:
            yield resources
        finally:
            resources.db.dispose()


def outbound_policy(settings: Settings) -> OutboundPolicy:
    """What this process may call: in production, public servers are called encrypted only."""
    return OutboundPolicy(
        allowed=networks_of(settings.outbound_allow or ""),
        public_ports=frozenset({HTTPS_PORT}) if settings.in_production else WEB_PORTS,
    )


def llm_access(settings: Settings) -> LlmAccess | None:
    """The server of models that metrics ask; None when there is none."""
    if settings.llm_base_url is None:
        return None
    key = settings.llm_api_key
    return LlmAccess(
        base_url=settings.llm_base_url.rstrip("/"),
        api_key=Secret(key.get_secret_value()) if key else None,
        model=settings.llm_model,
        embeddings_model=settings.embeddings_model,
    )
