"""The statements that Postgres executes in one database, from the log of the server."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import sql

# A line of the log begins with a time; a statement of several lines has one such line only.
_STATEMENT = re.compile(
    r"^\d{4}-\S+ \S+ \S+ \[(?P<pid>\d+)\] LOG:  (?:duration: (?P<ms>[\d.]+) ms  )?"
    r"(?P<phase>statement|(?:parse|bind|execute) [^:]+): ?(?P<sql>.*)$"
)
# What belongs to no run: transactions and cursors, checks of idle connections, settings.
_CONTROL = re.compile(
    r"(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|SET |DEALLOCATE|DISCARD|CLOSE)", re.IGNORECASE
)


class LoggedStatement(NamedTuple):
    """A line of the log: one statement, or its parsing or planning (`is_executed` false).

    `session` is the process of the server, `milliseconds` its time there (0 where it is not logged).
    """

    session: int
    sql: str
    milliseconds: float
    is_executed: bool

    @property
    def is_control(self) -> bool:
        """Whether it begins or ends a transaction, or sets something."""
        return not self.sql or _CONTROL.match(self.sql) is not None


class LoggedTransaction(NamedTuple):
    """What one session executed from BEGIN to COMMIT or ROLLBACK, both included."""

    statements: list[LoggedStatement]

    @property
    def milliseconds(self) -> float:
        return sum(statement.milliseconds for statement in self.statements)


@dataclass(slots=True)
class StatementCount:
    """Statements of one measurement; `control` are those that begin or end a transaction and such."""

    statements: list[str] = field(default_factory=list)
    control: int = 0

    def add(self, statement: LoggedStatement) -> None:
        if statement.is_control:
            self.control += 1
        else:
            self.statements.append(statement.sql)


class StatementLog:
    """The statements of a database since the last `read`; sessions opened before are not logged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offset = 0
        self.read()

    def read(self) -> StatementCount:
        """The number of statements since the last call."""
        count = StatementCount()
        for statement in self.read_statements():
            if statement.is_executed:
                count.add(statement)
        return count

    def read_statements(self) -> list[LoggedStatement]:
        """The statements since the last call, oldest first."""
        log = max(self._folder.glob("postgres-*.log"), key=lambda path: path.stat().st_mtime)
        with log.open("rb") as file:
            file.seek(self._offset)
            content = file.read()
        self._offset += len(content)
        lines = content.decode("utf-8", errors="replace").splitlines()
        return list(_parse(lines))


def _parse(lines: list[str]) -> Iterator[LoggedStatement]:
    for number, line in enumerate(lines):
        if match := _STATEMENT.match(line):
            # A statement may begin with an empty line.
            following = lines[number + 1] if number + 1 < len(lines) else ""
            # Postgres begins every further line of a message with a tab.
            continued = following.strip() if following.startswith("\t") else ""
            yield LoggedStatement(
                session=int(match["pid"]),
                sql=match["sql"].strip() or continued,
                milliseconds=float(match["ms"] or 0),
                is_executed=match["phase"].startswith(("statement", "execute")),
            )


def group_transactions(statements: list[LoggedStatement]) -> list[LoggedTransaction]:
    """The complete transactions among some statements, in the order of their ends."""
    open_ones: dict[int, list[LoggedStatement]] = {}
    transactions = []
    for statement in statements:
        if statement.is_executed and statement.sql.startswith("BEGIN"):
            open_ones[statement.session] = []
        if statement.session not in open_ones:
            continue
        open_ones[statement.session].append(statement)
        if statement.is_executed and statement.sql.startswith(("COMMIT", "ROLLBACK")):
            transactions.append(LoggedTransaction(open_ones.pop(statement.session)))
    return transactions


@contextmanager
def logged_statements(superuser_url: str, database: str, folder: Path) -> Iterator[StatementLog]:
    """Log every statement of sessions that are opened in the block; `folder` has the server's log."""
    with _logging(superuser_url, database, "log_statement", "all"):
        yield StatementLog(folder)


@contextmanager
def timed_statements(superuser_url: str, database: str, folder: Path) -> Iterator[StatementLog]:
    """Log every statement with its time on the server: see `logged_statements`."""
    with _logging(superuser_url, database, "log_min_duration_statement", "0"):
        yield StatementLog(folder)


@contextmanager
def _logging(superuser_url: str, database: str, setting: str, value: str) -> Iterator[None]:
    name = sql.Identifier(setting)
    _alter(superuser_url, database, sql.SQL("SET {} = {}").format(name, sql.Literal(value)))
    try:
        yield
    finally:
        _alter(superuser_url, database, sql.SQL("RESET {}").format(name))


def _alter(superuser_url: str, database: str, change: sql.Composed) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        alter = sql.SQL("ALTER DATABASE {} {}")
        connection.execute(alter.format(sql.Identifier(database), change))
        # Open sessions keep their settings; the service opens others.
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [database]
        )
