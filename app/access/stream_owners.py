"""API keys as owners of event streams."""

from collections.abc import Set as AbstractSet

from fastapi import Request

from app.access import queries
from app.access.deps import get_caller
from app.access.rules import is_usable
from app.core.clock import Clock
from app.core.db import Database


class KeyStreamOwners:
    """The streams of a key end when it is revoked, expires or is deleted."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def owner_of(self, request: Request) -> str:
        """The ID of the API key of the request."""
        return get_caller(request).key_id

    def find_unusable(self, owners: AbstractSet[str]) -> AbstractSet[str]:
        """The IDs of keys that may no longer read. Raises `DatabaseUnavailable`."""
        with self._db.read_statement() as session:
            keys = queries.list_key_identities(session, owners)
        now = self._clock()
        return owners - {
            key.id
            for key in keys
            if is_usable(expires_at=key.expires_at, revoked_at=key.revoked_at, now=now)
        }
