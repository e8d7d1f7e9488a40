"""How long a server is not to be asked, known to all processes that would ask it."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from sqlalchemy import text

from app.core.db import Database
from app.core.errors import Unavailable

# A server that was given up so many times in a row is left alone: for a minute, then longer.
FAILURES_TO_OPEN: Final = 3
FIRST_OPEN_S: Final = 60
MAX_OPEN_S: Final = 600

_OPEN_FOR = text(
    "SELECT extract(epoch FROM open_until - clock_timestamp())::float8"
    " FROM circuit_breakers WHERE name = :name"
)
_HOLD = text(
    """
    INSERT INTO circuit_breakers AS old (name, open_until, failures)
    VALUES (:name, clock_timestamp() + make_interval(secs => :seconds), 0)
    ON CONFLICT (name) DO UPDATE SET open_until = greatest(old.open_until, excluded.open_until)
    """
)
_RECORD_FAILURE = text(
    """
    INSERT INTO circuit_breakers AS old (name, failures) VALUES (:name, 1)
    ON CONFLICT (name) DO UPDATE SET
        failures = old.failures + 1,
        open_until = CASE WHEN old.failures + 1 >= :often THEN clock_timestamp() + make_interval(
            secs => least(:closed * 2 ^ least(old.failures + 1 - :often, 10), :longest)
        ) ELSE old.open_until END
    """
)
_RECORD_SUCCESS = text(
    "UPDATE circuit_breakers SET failures = 0, open_until = NULL WHERE name = :name AND failures > 0"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitBreaker:
    """One server, as one of its users sees it. The clock is the database's.

    While the database is away, each process knows only what it was told itself.
    """

    db: Database
    name: str

    def open_for_s(self) -> float:
        """The seconds until the server may be asked again; 0 when it may be now."""
        with suppress(Unavailable), self.db.read() as session:
            return max(session.scalar(_OPEN_FOR, {"name": self.name}) or 0.0, 0.0)
        return 0.0

    def hold_requests(self, seconds: float) -> None:
        """The server asked everybody to wait."""
        with suppress(Unavailable), self.db.begin() as session:
            session.execute(_HOLD, {"name": self.name, "seconds": seconds})

    def record_failure(self) -> None:
        """The server did not answer however often it was asked; it is left alone if that is usual."""
        given = {"often": FAILURES_TO_OPEN, "closed": FIRST_OPEN_S, "longest": MAX_OPEN_S}
        with suppress(Unavailable), self.db.begin() as session:
            session.execute(_RECORD_FAILURE, {"name": self.name, **given})

    def record_success(self) -> None:
        """The server answers: what it did before is forgotten."""
        with suppress(Unavailable), self.db.begin() as session:
            session.execute(_RECORD_SUCCESS, {"name": self.name})
