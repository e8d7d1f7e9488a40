"""Counts the statements that Postgres executes in one database, from the log of the server."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

# A line of the log begins with a time; a statement of several lines has one such line only.
_STATEMENT = re.compile(r"^\d{4}-\S+ \S+ \S+ \[\d+\] LOG:  (?:statement|execute [^:]+): ?(.*)$")
# What belongs to no run: transactions and cursors, checks of idle connections, settings.
_CONTROL = re.compile(
    r"(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|SET |DEALLOCATE|DISCARD|CLOSE)", re.IGNORECASE
)


@dataclass(slots=True)
class StatementCount:
    """Statements of one measurement; `control` are those that begin or end a transaction and such."""

    statements: list[str] = field(default_factory=list)
    control: int = 0

    def add(self, statement: str) -> None:
        if not statement or _CONTROL.match(statement):
            self.control += 1
        else:
            self.statements.append(statement)


class StatementLog:
    """The statements of a database since the last `read`; sessions opened before are not logged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offset = 0
        self.read()

    def read(self) -> StatementCount:
        """The statements since the last call."""
        log = max(self._folder.glob("postgres-*.log"), key=lambda path: path.stat().st_mtime)
        text = log.read_bytes()[self._offset :].decode("utf-8", errors="replace")
        self._offset += len(text.encode())
        count, lines = StatementCount(), text.splitlines()
        for number, line in enumerate(lines):
            if match := _STATEMENT.match(line):
                # A statement may begin with an empty line.
                following = lines[number + 1] if number + 1 < len(lines) else ""
                continued = following.strip() if following.startswith("\t") else ""
                count.add(match[1].strip() or continued)
        return count


@contextmanager
def logged_statements(superuser_url: str, database: str, folder: Path) -> Iterator[StatementLog]:
    """Log every statement of sessions that are opened in the block; `folder` has the server's log."""
    _set_logging(superuser_url, database, sql.SQL("SET log_statement = 'all'"))
    try:
        yield StatementLog(folder)
    finally:
        _set_logging(superuser_url, database, sql.SQL("RESET log_statement"))


def _set_logging(superuser_url: str, database: str, setting: sql.SQL) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        alter = sql.SQL("ALTER DATABASE {} {}")
        connection.execute(alter.format(sql.Identifier(database), setting))
        # Open sessions keep their settings; the service opens others.
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [database]
        )
