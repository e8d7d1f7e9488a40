"""Connection pools of SQLAlchemy: addresses, limits of a connection, checks of idle connections."""

import logging
import os
import select
import time
from typing import Any, TypeAlias, cast

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, InterfaceError, InvalidatePoolError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from mosaico.core.errors import Misconfigured

# Limits of the server, per connection: they also hold when this process hangs.
STATEMENT_TIMEOUT_MS = 10_000
LOCK_TIMEOUT_MS = 2_000
IDLE_IN_TRANSACTION_TIMEOUT_MS = 15_000
LIMITS_MS = {
    "statement_timeout": STATEMENT_TIMEOUT_MS,
    "lock_timeout": LOCK_TIMEOUT_MS,
    "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_TIMEOUT_MS,
    # Not for a slow reader: only for one that takes no row at all for so long, frozen or unreachable.
    "tcp_user_timeout": IDLE_IN_TRANSACTION_TIMEOUT_MS,
}
# An exhausted pool answers 503 after this time instead of letting all requests wait.
POOL_TIMEOUT_S = 2.0
CONNECT_TIMEOUT_S = 5
# A connection that was idle for longer is asked for an answer before its use.
TRUSTED_IDLE_S = 1.0
# A server that takes no data for so long is given up; the default of Linux is a quarter of an hour.
UNACKNOWLEDGED_MS = 60_000
# A command of an operator, who waits longer for a busy database than a client of the API. Times the limits.
COMMAND_TIMEOUT_FACTOR = 6

# COPY and single-statement reads bypass SQLAlchemy and raise the errors of the driver.
CONNECTION_ERRORS = (
    InterfaceError,
    OperationalError,
    psycopg.InterfaceError,
    psycopg.OperationalError,
)


Driver: TypeAlias = "psycopg.Connection[Any]"


class BadDatabaseUrl(Misconfigured):
    """DATABASE_URL is not the address of a Postgres server; write
    postgresql://user:password@host/name.
    """


class ClosingPool(QueuePool):
    """A pool that also closes the connections that come back after its end.

    SQLAlchemy would keep a connection that a thread still used when the engine was disposed of, open
    until the pool itself is collected as garbage.
    """

    _is_disposed = False

    def dispose(self) -> None:
        self._is_disposed = True
        super().dispose()

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        super()._do_return_conn(record)
        if self._is_disposed:
            super().dispose()


# SQLAlchemy names the log of a pool after its class: each step of a pool would be a line of this service.
logging.getLogger(f"{__name__}.{ClosingPool.__qualname__}").setLevel(logging.WARNING)


def sqlalchemy_url(url: str) -> str:
    """The URL with the psycopg 3 driver; also accepts libpq's `postgres://`.

    Raises: `BadDatabaseUrl`.
    """
    return _with_driver(url, "postgresql+psycopg")


def libpq_url(url: str) -> str:
    """The URL in the form of libpq and psycopg. Raises `BadDatabaseUrl`."""
    return _with_driver(url, "postgresql")


def _with_driver(url: str, driver: str) -> str:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise BadDatabaseUrl from None
    if parsed.get_backend_name() not in ("postgresql", "postgres"):
        raise BadDatabaseUrl
    return parsed.set(drivername=driver).render_as_string(hide_password=False)


def create_direct_engine(url: str, *, pool_size: int, name: str, timeout_factor: int = 1) -> Engine:
    """The engine of a server; all its limits are multiplied by `timeout_factor`."""
    limits = " ".join(
        f"-c {setting}={value * timeout_factor}" for setting, value in LIMITS_MS.items()
    )
    options = f"{limits} -c timezone=UTC"
    return _build_engine(
        url,
        pool_size=pool_size,
        timeout_factor=timeout_factor,
        application_name=name,
        options=options,
    )


def create_pooled_engine(url: str, *, pool_size: int, name: str, timeout_factor: int = 1) -> Engine:
    """The engine for a pooler, which refuses `options` and may answer each transaction on another
    connection of the server.
    """
    # The one setting besides the name that every pooler sets per client; libpq has no parameter for it.
    os.environ["PGTZ"] = "UTC"
    engine = _build_engine(
        url,
        pool_size=pool_size,
        timeout_factor=timeout_factor,
        application_name=name,
        prepare_threshold=None,
    )
    limits = "; ".join(
        f"SET LOCAL {setting} = {value * timeout_factor}" for setting, value in LIMITS_MS.items()
    )

    @event.listens_for(engine, "begin")
    def limit(connection: Connection) -> None:
        driver = cast("Driver", connection.connection.driver_connection)
        if not driver.autocommit:
            driver.execute(limits.encode())

    return engine


def _build_engine(
    url: str, *, pool_size: int, timeout_factor: int, **connect_args: object
) -> Engine:
    engine = create_engine(
        sqlalchemy_url(url),
        poolclass=ClosingPool,
        pool_size=pool_size,
        # More connections than planned would exceed the server's limit when all processes are busy.
        max_overflow=0,
        pool_timeout=POOL_TIMEOUT_S * timeout_factor,
        # The last one used first: its session of the server has the tables and statements in memory.
        pool_use_lifo=True,
        skip_autocommit_rollback=True,
        # Errors with parameters would write secrets and texts of users into logs.
        hide_parameters=True,
        connect_args={
            "connect_timeout": CONNECT_TIMEOUT_S * timeout_factor,
            "tcp_user_timeout": UNACKNOWLEDGED_MS,
            **connect_args,
        },
    )
    # Several rows in one statement, also without RETURNING; the driver would send one for each row.
    engine.dialect.use_insertmanyvalues_wo_returning = True
    _replace_dead_connections(engine)
    return engine


def _replace_dead_connections(engine: Engine) -> None:
    """As `pool_pre_ping`, without a statement before each use of a busy connection."""

    @event.listens_for(engine, "checkin")
    def note_use(_driver: object, entry: ConnectionPoolEntry) -> None:
        entry.info["used_at"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def check(driver: Driver, entry: ConnectionPoolEntry, _proxy: object) -> None:
        used_at = entry.info.get("used_at")
        if used_at is None:  # a new connection
            return
        try:
            # A server that ends closes its connections; firewalls drop idle ones, and neither end notices.
            if _is_readable(driver) or time.monotonic() - used_at > TRUSTED_IDLE_S:
                engine.dialect.do_ping(cast("Any", driver))
        except psycopg.Error as error:
            # The other connections have hardly survived: each would be asked in vain.
            raise InvalidatePoolError from error


def _is_readable(driver: Driver) -> bool:
    """Whether something arrived without a request: the end of the connection, or a notice."""
    poll = select.poll()
    poll.register(driver.fileno(), select.POLLIN)
    return bool(poll.poll(0))
