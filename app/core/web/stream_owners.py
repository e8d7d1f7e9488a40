"""Owners of event streams, and how long they may hold a stream open."""

from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from fastapi import Request


class StreamOwner(NamedTuple):
    """The owner of a stream: an API key, or the browser session `session` of one.

    The limit of streams of a key counts those of its sessions, too.
    """

    key_id: str
    session: bytes | None = None


class StreamOwners(Protocol):
    """Decides which owners may hold a stream open."""

    def owner_of(self, request: Request) -> StreamOwner:
        """The owner of the stream that a request opens."""
        ...

    def find_unusable(self, owners: AbstractSet[StreamOwner]) -> AbstractSet[StreamOwner]:
        """The owners whose streams must be closed; runs in a thread."""
        ...


class OpenToAll:
    """Streams without owners, which are never closed."""

    def owner_of(self, request: Request) -> StreamOwner:  # noqa: ARG002 - the protocol
        return StreamOwner("")

    def find_unusable(
        self,
        owners: AbstractSet[StreamOwner],  # noqa: ARG002 - the protocol
    ) -> AbstractSet[StreamOwner]:
        return set()
