"""The keys that a process has seen in the last second, and when their use was last noted."""

import threading
import time
from collections.abc import Callable

import structlog
from sqlalchemy.exc import DBAPIError

from app.access import queries, service
from app.access.queries import KnownKey
from app.access.rules import Spelling, digest, is_usable, spelling
from app.core.clock import Clock
from app.core.db import Database
from app.core.errors import Unavailable

# A revoked key must stop within a second; the rest of it is left to the request under way.
REMEMBERED_S = 0.8
MOST_REMEMBERED = 1024
USE_NOTED_EVERY_S = service.USE_NOTED_EVERY.total_seconds()

log = structlog.stdlib.get_logger(__name__)


class KeyRing:
    """Finds the key behind a token with at most one query, and remembers it for under a second."""

    def __init__(
        self, db: Database, clock: Clock, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._db = db
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seen: dict[bytes, tuple[float, KnownKey]] = {}
        self._noted: dict[str, float] = {}

    def find(self, token: str) -> KnownKey | None:
        """The key with this text if it may be used now. Raises `DatabaseUnavailable`."""
        return self.remembered(token) or self._usable(self._looked_up(token, digest(token)))

    def remembered(self, token: str) -> KnownKey | None:
        """The same without asking the database: None also when it has to be asked."""
        entry = self._seen.get(digest(token))
        if entry is None or self._monotonic() >= entry[0]:
            return None
        return self._usable(entry[1])

    def is_no_guess(self, token: str) -> bool:
        """Whether nobody finds a text like this by trying: 256 random bits, or valid lately."""
        return spelling(token) is Spelling.OURS or digest(token) in self._seen

    def use_is_due(self, key_id: str) -> bool:
        """Whether the use of a key was not noted by this process in the last minute."""
        noted = self._noted.get(key_id)
        return noted is None or self._monotonic() - noted >= USE_NOTED_EVERY_S

    def note_use(self, key_id: str) -> None:
        """Note the use of a key; a database that cannot be written to is no reason to complain."""
        self._noted[key_id] = self._monotonic()
        try:
            with self._db.begin() as session:
                service.note_use(session, key_id, now=self._clock())
        except (Unavailable, DBAPIError) as error:
            log.info("use of an API key not noted", key_id=key_id, cause=type(error).__name__)

    def _usable(self, key: KnownKey | None) -> KnownKey | None:
        if key is None or not is_usable(
            expires_at=key.expires_at, revoked_at=key.revoked_at, now=self._clock()
        ):
            return None
        return key

    def _looked_up(self, token: str, fingerprint: bytes) -> KnownKey | None:
        forgotten_at = self._monotonic() + REMEMBERED_S
        with self._db.glance() as session:
            key = queries.find_key(session, token)
        # Only keys that exist are remembered: guessing must not fill the memory.
        if key is not None:
            self._remember(fingerprint, forgotten_at, key)
        return key

    def _remember(self, fingerprint: bytes, forgotten_at: float, key: KnownKey) -> None:
        with self._lock:
            if len(self._seen) >= MOST_REMEMBERED:
                self._seen.clear()
            self._seen[fingerprint] = (forgotten_at, key)
