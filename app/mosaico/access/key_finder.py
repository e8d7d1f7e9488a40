"""Finds the API keys of requests, and records when a key was used last."""

import time
from collections.abc import Callable

import structlog
from sqlalchemy.exc import DBAPIError

from mosaico.access import queries, service
from mosaico.access.queries import CallerIdentity
from mosaico.access.rules import KeyFormat, classify_key, hash_token, is_usable
from mosaico.core.clock import Clock
from mosaico.core.db import Database
from mosaico.core.errors import Unavailable

# A revoked key must stop working within a second; a running request may take the rest of it.
CACHE_TTL_S = 0.8
MAX_ACCEPTED = 1024
USE_INTERVAL_S = service.USE_INTERVAL.total_seconds()

log = structlog.stdlib.get_logger(__name__)


class KeyFinder:
    """Finds the key of a token with at most one query, and knows the keys that this process has accepted,
    each with the time until which it is used without a query.
    """

    def __init__(
        self, db: Database, clock: Clock, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._db = db
        self._clock = clock
        self._monotonic = monotonic
        self._accepted: dict[bytes, tuple[float, CallerIdentity]] = {}
        self._recorded_at: dict[str, float] = {}

    def get_cached(self, token: str) -> CallerIdentity | None:
        """The usable key of a token that was found a moment ago; None also when only the database knows."""
        expires_at, key = self._accepted.get(hash_token(token), (0.0, None))
        return self._if_usable(key) if self._monotonic() < expires_at else None

    def find_key(self, token: str) -> CallerIdentity | None:
        """The usable key of a token; None when there is none. Raises `DatabaseUnavailable`."""
        # From before the query: the answer may be as old as that.
        expires_at = self._monotonic() + CACHE_TTL_S
        with self._db.read_statement() as session:
            key = self._if_usable(queries.find_key(session, token))
        fingerprint = hash_token(token)
        # Only existing keys, so that guesses cannot fill the memory.
        if key is not None and (
            fingerprint in self._accepted or len(self._accepted) < MAX_ACCEPTED
        ):
            self._accepted[fingerprint] = (expires_at, key)
        return key

    def is_not_guessed(self, token: str) -> bool:
        """Return whether a token cannot be a guess: a well-formed key of 256 random bits, or one that
        this process has accepted.
        """
        # The limit on invalid keys is meant for guesses; a valid key behind the same address as an
        # attacker must still work.
        return classify_key(token) is KeyFormat.VALID or hash_token(token) in self._accepted

    def is_use_due(self, key_id: str) -> bool:
        """Return whether this process has not recorded the use of the key within the last
        minute.
        """
        recorded_at = self._recorded_at.get(key_id)
        return recorded_at is None or self._monotonic() - recorded_at >= USE_INTERVAL_S

    def record_use(self, key_id: str) -> None:
        """Record the use of a key; a failure is logged only, because the request does not need it."""
        # Also when recording fails, so that an unavailable database is not tried with every
        # request.
        self._recorded_at[key_id] = self._monotonic()
        try:
            with self._db.begin() as session:
                service.record_use(session, key_id, now=self._clock())
        except (Unavailable, DBAPIError) as error:
            log.info(
                "the use of an API key could not be recorded",
                key_id=key_id,
                cause=type(error).__name__,
            )

    def _if_usable(self, key: CallerIdentity | None) -> CallerIdentity | None:
        if key is None or not is_usable(
            expires_at=key.expires_at, revoked_at=key.revoked_at, now=self._clock()
        ):
            return None
        return key
