"""Cache of API keys: keys used within the last second, and when their use was last recorded."""

import threading
import time
from collections.abc import Callable

import structlog
from sqlalchemy.exc import DBAPIError

from mosaico.access import queries, service
from mosaico.access.queries import KeyIdentity
from mosaico.access.rules import KeyFormat, classify_key, hash_token, is_usable
from mosaico.core.clock import Clock
from mosaico.core.db import Database
from mosaico.core.errors import Unavailable

# A revoked key must stop working within a second; a running request may take the rest of it.
CACHE_TTL_S = 0.8
MAX_ENTRIES = 1024
# As long as a query may take at most.
MAX_WAIT_S = 10.0
USE_INTERVAL_S = service.USE_INTERVAL.total_seconds()

log = structlog.stdlib.get_logger(__name__)


class KeyCache:
    """Finds the key of a token with at most one query, and caches it for less than a second."""

    def __init__(
        self, db: Database, clock: Clock, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._db = db
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._entries: dict[bytes, tuple[float, KeyIdentity]] = {}
        self._queries: dict[bytes, threading.Event] = {}
        self._recorded_at: dict[str, float] = {}

    def find_key(self, token: str) -> KeyIdentity | None:
        """The usable key of a token; None when there is none. Raises `DatabaseUnavailable`."""
        return self.get_cached(token) or self._if_usable(self._query_once(token))

    def get_cached(self, token: str) -> KeyIdentity | None:
        """The cached usable key of a token; None also when only the database knows."""
        entry = self._entries.get(hash_token(token))
        if entry is None or self._monotonic() >= entry[0]:
            return None
        return self._if_usable(entry[1])

    def is_not_guessed(self, token: str) -> bool:
        """Return whether a token cannot be a guess: a well-formed key of 256 random bits, or a
        cached one.
        """
        # The limit on invalid keys is meant for guesses; a valid key behind the same address as an
        # attacker must still work.
        return classify_key(token) is KeyFormat.VALID or hash_token(token) in self._entries

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

    def _if_usable(self, key: KeyIdentity | None) -> KeyIdentity | None:
        if key is None or not is_usable(
            expires_at=key.expires_at, revoked_at=key.revoked_at, now=self._clock()
        ):
            return None
        return key

    def _query_once(self, token: str) -> KeyIdentity | None:
        """Query the key; first wait for the query of another thread that has just asked for it.

        A burst of requests with one key, such as 200 streams that reconnect, would else take every
        connection of the pool.
        """
        fingerprint = hash_token(token)
        with self._lock:
            running = self._queries.get(fingerprint)
            # The other query may have ended since the cache was read.
            cached = None if running else self.get_cached(token)
            if cached is not None:
                return cached
            ended = running or threading.Event()
            self._queries[fingerprint] = ended
        if running is not None:
            running.wait(MAX_WAIT_S)
            # Without an answer in the cache the key does not exist, or the query failed.
            return self.get_cached(token) or self._query_key(token, fingerprint)
        try:
            return self._query_key(token, fingerprint)
        finally:
            with self._lock:
                del self._queries[fingerprint]
            ended.set()

    def _query_key(self, token: str, fingerprint: bytes) -> KeyIdentity | None:
        # From before the query: the answer may be as old as that.
        expires_at = self._monotonic() + CACHE_TTL_S
        with self._db.read_statement() as session:
            key = queries.find_key(session, token)
        # Only existing keys are cached, so that guesses cannot fill the memory.
        if key is not None:
            self._store(fingerprint, expires_at, key)
        return key

    def _store(self, fingerprint: bytes, expires_at: float, key: KeyIdentity) -> None:
        with self._lock:
            if len(self._entries) >= MAX_ENTRIES:
                # All at once: every entry is at most 0.8 s old, so the next requests fill it again.
                self._entries.clear()
            self._entries[fingerprint] = (expires_at, key)
