"""The statements that Postgres executes in one database, from the log of the server."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import sql

# A line of the log begins with a time; a statement of several lines has one such line only.
_STATEMENT = re.compile(
    r"^\d{4}-\S+ \S+ \S+ \[(?P<pid>\d+)\] LOG:  (?:duration: (?P<ms>[\d.]+) ms  )?"
    r"(?P<phase>statement|(?:parse|bind|execute) [^:]+): ?(?P<sql>.*)$"
)


class LoggedStatement(NamedTuple):
    """A line of the log: one statement, or its parsing or planning (`is_executed` false).

    `session` is the process of the server, `milliseconds` its time there (0 where it is not logged).
    """

    session: int
    sql: str
    milliseconds: float
    is_executed: bool


class LoggedTransaction(NamedTuple):
    """What one session executed from BEGIN to COMMIT or ROLLBACK, both included."""

    statements: list[LoggedStatement]

    @property
    def milliseconds(self) -> float:
        return sum(statement.milliseconds for statement in self.statements)


class StatementLog:
    """The statements of a database since the last reading; sessions opened before are not logged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offset = 0
        self.read_statements()

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
def timed_statements(superuser_url: str, database: str, folder: Path) -> Iterator[StatementLog]:
    """Log every statement of sessions that are opened in the block, with its time on the server.

    `folder` has the log of the server.
    """
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
