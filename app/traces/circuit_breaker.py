"""How long a server is not to be asked, known to all processes that would ask it."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from sqlalchemy import text

from app.core.db import Database
from app.core.errors import Unavailable

# A server that was given up so many times in a row is left alone: for a minute, then longer.
GIVEN_UP_OFTEN: Final = 3
CLOSED_S: Final = 60
LONGEST_S: Final = 600

_CLOSED = text(
    "SELECT extract(epoch FROM closed_until - clock_timestamp())::float8"
    " FROM source_limits WHERE name = :name"
)
_HOLD = text(
    """
    INSERT INTO source_limits AS old (name, closed_until, failures)
    VALUES (:name, clock_timestamp() + make_interval(secs => :seconds), 0)
    ON CONFLICT (name) DO UPDATE SET closed_until = greatest(old.closed_until, excluded.closed_until)
    """
)
_GAVE_UP = text(
    """
    INSERT INTO source_limits AS old (name, failures) VALUES (:name, 1)
    ON CONFLICT (name) DO UPDATE SET
        failures = old.failures + 1,
        closed_until = CASE WHEN old.failures + 1 >= :often THEN clock_timestamp() + make_interval(
            secs => least(:closed * 2 ^ least(old.failures + 1 - :often, 10), :longest)
        ) ELSE old.closed_until END
    """
)
_ANSWERED = text(
    "UPDATE source_limits SET failures = 0, closed_until = NULL WHERE name = :name AND failures > 0"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLimit:
    """One server, as one of its users sees it. The clock is the database's.

    While the database is away, each process knows only what it was told itself.
    """

    db: Database
    name: str

    def closed_s(self) -> float:
        """The seconds until the server may be asked again; 0 when it may be now."""
        with suppress(Unavailable), self.db.read() as session:
            return max(session.scalar(_CLOSED, {"name": self.name}) or 0.0, 0.0)
        return 0.0

    def hold(self, seconds: float) -> None:
        """The server asked everybody to wait."""
        with suppress(Unavailable), self.db.begin() as session:
            session.execute(_HOLD, {"name": self.name, "seconds": seconds})

    def gave_up(self) -> None:
        """The server did not answer however often it was asked; it is left alone if that is usual."""
        given = {"often": GIVEN_UP_OFTEN, "closed": CLOSED_S, "longest": LONGEST_S}
        with suppress(Unavailable), self.db.begin() as session:
            session.execute(_GAVE_UP, {"name": self.name, **given})

    def answered(self) -> None:
        """The server answers: what it did before is forgotten."""
        with suppress(Unavailable), self.db.begin() as session:
            session.execute(_ANSWERED, {"name": self.name})
