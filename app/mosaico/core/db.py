"""Postgres through SQLAlchemy: connection pool, transactions, errors."""

import copy
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, Self, TypeAlias, cast

import psycopg
from psycopg.rows import tuple_row
from pydantic import TypeAdapter
from sqlalchemy import (
    TIMESTAMP,
    BigInteger,
    Dialect,
    MetaData,
    Text,
    TextClause,
    TypeDecorator,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import (
    DBAPIError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import DeclarativeBase, Session, sessionmaker

from mosaico.core.engine import (
    CONNECTION_ERRORS,
    Driver,
    create_direct_engine,
    create_pooled_engine,
)
from mosaico.core.errors import Unavailable
from mosaico.core.row_limits import OutsideLimit, current_limit, limit_session

STREAMED_ROWS = 2_000

# Serialization failure, deadlock, lock timeout, statement timeout, and a server that is read-only, for
# example a standby before its promotion: nothing was written, and the same request may succeed later.
TRANSIENT_STATES = frozenset({"40001", "40P01", "55P03", "57014", "25006"})

# What a policy of rows refuses.
INSUFFICIENT_PRIVILEGE = "42501"

Row: TypeAlias = dict[str, Any]

# Names by convention, so that migrations can name what they drop.
NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Base of all tables. Times are `timestamptz`, texts `text`, documents `jsonb`."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: TIMESTAMP(timezone=True),
        str: Text,
        int: BigInteger,
        dict[str, Any]: JSONB(none_as_null=True),
        list[Any]: JSONB(none_as_null=True),
    }


@cache
def _adapter_of(model: Any) -> TypeAdapter[Any]:
    # At its first use: a process reads few of the tables that it imports.
    return TypeAdapter(model)


class ModelJson(TypeDecorator[Any]):
    """Pydantic models in a `jsonb` column: an ORM attribute is the model, not a dictionary.

    `model` is a model, or another type that pydantic validates, such as a list of models. The document
    has no empty fields, which reading fills in again, unless it is `complete`.
    """

    impl = JSONB
    cache_ok = True

    def __init__(self, model: Any, *, complete: bool = False) -> None:
        super().__init__(none_as_null=True)
        self.model = model
        self.complete = complete

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        del dialect
        if value is None:
            return None
        return _adapter_of(self.model).dump_python(
            value, mode="json", exclude_none=not self.complete
        )

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Raises: `ValidationError` for a document of another layout."""
        del dialect
        return None if value is None else _adapter_of(self.model).validate_python(value)


class DatabaseUnavailable(Unavailable):
    """The database cannot be reached or is too busy; try again in a few seconds."""


class Database:
    """The connection pool of one process.

    `begin` commits at the end of its block; `read` and `read_statement` never write. Inside of
    them nothing may wait for the network or compute for long. All raise `DatabaseUnavailable` when
    the server is unreachable or too busy, or aborted the transaction because of a deadlock; then
    nothing was written.

    `timeout_factor` multiplies the time limits of connections and statements. The end of a `with` block
    closes the pool.

    With a `direct_url`, `url` is a pooler that gives each transaction any connection, such as
    PgBouncer with `pool_mode = transaction`, and `direct_url` is the server behind it.
    """

    def __init__(
        self,
        url: str,
        *,
        direct_url: str | None = None,
        pool_size: int = 10,
        name: str = "mosaico",
        timeout_factor: int = 1,
    ) -> None:
        self.url = url
        self._direct_url = direct_url
        create_engine = create_direct_engine if direct_url is None else create_pooled_engine
        self.engine = create_engine(
            url, pool_size=pool_size, name=name, timeout_factor=timeout_factor
        )
        # No expiry: objects are read after the commit, where a reload would need a new transaction.
        # No autoflush: a query must not write, and where one has to see changes, the code says
        # flush().
        self._sessions = sessionmaker(self.engine, expire_on_commit=False, autoflush=False)
        self._commit_hook: Callable[[Session], None] | None = None

    @property
    def direct_url(self) -> str:
        """The server itself: for LISTEN, session locks and migrations, which need one session."""
        return self._direct_url or self.url

    def open_second_pool(self, name: str) -> "Database":
        """A pool of one connection to the same server; the caller closes it."""
        return Database(self.url, direct_url=self._direct_url, pool_size=1, name=name)

    def with_commit_hook(self, hook: Callable[[Session], None]) -> "Database":
        """The same database; `hook` runs before the commit of each transaction of `begin`."""
        hooked = copy.copy(self)
        hooked._commit_hook = hook  # noqa: SLF001 - an instance of this class
        return hooked

    @contextmanager
    def begin(self) -> Iterator[Session]:
        """Open a transaction, committed when the block ends and rolled back when it raises."""
        with database_errors(), self._sessions.begin() as session:
            limit_session(session)
            yield session
            if self._commit_hook is not None:
                # Before the commit, in the same transaction: what the hook writes exists exactly
                # when the rest does.
                self._commit_hook(session)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a read-only transaction with one snapshot of the data."""
        with database_errors(), self._sessions() as session:
            session.connection(
                execution_options={
                    # Several statements see one state: a list and its count agree.
                    "isolation_level": "REPEATABLE READ",
                    "postgresql_readonly": True,
                }
            )
            limit_session(session)
            yield session

    @contextmanager
    def read_statement(self) -> Iterator[Session]:
        """A session for a single read statement, without a transaction.

        Cost: one round trip to the server; `read` takes three (BEGIN, statement, COMMIT).
        """
        with database_errors(), self._sessions() as session:
            # A limit ends with its transaction.
            if current_limit() is None:
                session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
            limit_session(session)
            yield session

    def fetch_row(self, sql: str, parameters: Mapping[str, object]) -> Row | None:
        """The row of one statement in the syntax of the driver, by column, outside of a transaction."""
        with self.read_statement() as session:
            rows = session.connection().exec_driver_sql(sql, dict(parameters)).mappings()
            row = rows.one_or_none()
            return None if row is None else dict(row)

    def ping(self) -> None:
        """Raise `DatabaseUnavailable` unless the server answers a query."""
        with database_errors(), self.engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()

    def dispose(self) -> None:
        self.engine.dispose()


def stream_rows(
    session: Session, statement: TextClause, parameters: Mapping[str, object]
) -> Generator[tuple[Any, ...], None, None]:
    """The rows of a query with one statement and memory for `STREAMED_ROWS` of them.

    A cursor of the server would take a statement for every some rows. Read all rows, or close the
    iterator, before the session is used again.
    """
    driver = cast("Driver", session.connection().connection.driver_connection)
    with driver.cursor() as cursor:
        # Binary: numbers as texts take several times as long to read.
        yield from cursor.stream(
            str(statement.compile(dialect=session.get_bind().dialect)),
            parameters,
            binary=True,
            size=STREAMED_ROWS,
        )


def fetch_tuples(
    session: Session, sql: str, parameters: Sequence[object] | Mapping[str, object]
) -> list[tuple[Any, ...]]:
    """All rows of a query with parameters of the driver, in the transaction of the session.

    By the driver and in binary form: SQLAlchemy processes each value in Python, which takes several
    times longer where rows are many and wide.
    """
    driver = cast("Driver", session.connection().connection.driver_connection)
    with driver.cursor(row_factory=tuple_row, binary=True) as cursor:
        return cursor.execute(sql, parameters).fetchall()


@contextmanager
def database_errors() -> Iterator[None]:
    """Translate driver errors of an unavailable server into `DatabaseUnavailable`."""
    try:
        yield
    except (*CONNECTION_ERRORS, PoolTimeout, psycopg.errors.ReadOnlySqlTransaction) as error:
        raise DatabaseUnavailable from error
    except DBAPIError as error:
        if current_limit() is not None and _sqlstate(error) == INSUFFICIENT_PRIVILEGE:
            raise OutsideLimit from error
        # All other errors are defects, and must not look like an outage.
        if error.connection_invalidated or _sqlstate(error) in TRANSIENT_STATES:
            raise DatabaseUnavailable from error
        raise


def _sqlstate(error: DBAPIError) -> str | None:
    return getattr(error.orig, "sqlstate", None)
