"""Ends the event streams of API keys and browser sessions that are revoked, expired or deleted."""

from collections.abc import Set as AbstractSet
from typing import Final

from fastapi import Request

from mosaico.access import queries, sessions
from mosaico.access.deps import get_caller
from mosaico.access.rules import is_usable
from mosaico.core.clock import Clock
from mosaico.core.db import Database
from mosaico.core.web.event_feeds import StreamOwner

REVOKED: Final = object()


class KeyStreamOwners:
    """The streams of a key or a browser session end when it is revoked, expires, is deleted or gets another limit."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def owner_of(self, request: Request) -> StreamOwner:
        """The API key of the request, with the session of its browser."""
        caller = get_caller(request)
        return StreamOwner(caller.key_id, caller.session, caller.only)

    def find_unusable(self, owners: AbstractSet[StreamOwner]) -> AbstractSet[StreamOwner]:
        """The keys and sessions that may no longer read. Raises `DatabaseUnavailable`."""
        now = self._clock()
        digests = {owner.session for owner in owners if owner.session is not None}
        with self._db.read_statement() as session:
            callers = queries.list_caller_identities(session, {owner.key_id for owner in owners})
            open_sessions = sessions.list_open_sessions(session, digests, now) if digests else set()
        limits = {
            key.id: key.only
            for key in callers
            if is_usable(expires_at=key.expires_at, revoked_at=key.revoked_at, now=now)
        }
        return {
            owner
            for owner in owners
            # A stream goes on with the limit that it began with.
            if limits.get(owner.key_id, REVOKED) != owner.only
            or (owner.session is not None and owner.session not in open_sessions)
        }
