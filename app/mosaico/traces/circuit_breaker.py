"""Circuit breaker per server, shared by all processes through the database."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from sqlalchemy import text

from mosaico.core.db import Database
from mosaico.core.errors import Unavailable

# After this many failures in a row the breaker opens, first for a minute, then doubling.
# Each of them is a failure after all retries, so three are minutes of outage.
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
# The exponent is capped at 10, so that the power does not overflow after many failures.
_RECORD_FAILURE = text(
    """
    INSERT INTO circuit_breakers AS old (name, failures) VALUES (:name, 1)
    ON CONFLICT (name) DO UPDATE SET
        failures = old.failures + 1,
        open_until = CASE WHEN old.failures + 1 >= :threshold
            THEN clock_timestamp() + make_interval(
                secs => least(:first * 2 ^ least(old.failures + 1 - :threshold, 10), :longest)
            ) ELSE old.open_until END
    """
)
_RECORD_SUCCESS = text(
    "UPDATE circuit_breakers SET failures = 0, open_until = NULL"
    " WHERE name = :name AND failures > 0"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitBreaker:
    """The breaker of one server and key. Times are those of the database clock.

    While the database is unavailable nothing is shared, and each process acts on its own.
    """

    db: Database
    name: str

    def open_for_s(self) -> float:
        """Seconds until requests are allowed again; 0 while the breaker is closed."""
        with suppress(Unavailable), self.db.read() as session:
            # A breaker that is open delays requests and refuses none.
            return max(session.scalar(_OPEN_FOR, {"name": self.name}) or 0.0, 0.0)
        return 0.0

    def hold_requests(self, seconds: float) -> None:
        """Delay the requests of all processes, after a Retry-After of the server."""
        with suppress(Unavailable), self.db.begin() as session:
            session.execute(_HOLD, {"name": self.name, "seconds": seconds})

    def record_failure(self) -> None:
        """Count a failure after all retries; the breaker opens when there are enough in a row."""
        parameters = {
            "name": self.name,
            "threshold": FAILURES_TO_OPEN,
            "first": FIRST_OPEN_S,
            "longest": MAX_OPEN_S,
        }
        with suppress(Unavailable), self.db.begin() as session:
            session.execute(_RECORD_FAILURE, parameters)

    def record_success(self) -> None:
        """Close the breaker and reset its failures."""
        with suppress(Unavailable), self.db.begin() as session:
            session.execute(_RECORD_SUCCESS, {"name": self.name})
