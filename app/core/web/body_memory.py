"""The memory that request bodies of one kind take in this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.core.errors import Unavailable

RETRY_AFTER_S = 10


class BodyMemory:
    """Counts the bytes of bodies that are held at the same time, and refuses those beyond `max_bytes`.

    Used on the event loop only, so that nothing has to be locked.
    """

    def __init__(self, max_bytes: int) -> None:
        self.held_bytes = 0
        self._max_bytes = max_bytes

    @contextmanager
    def hold(self) -> Iterator[Callable[[int], None]]:
        """A function that takes bytes until the block ends; it raises `Unavailable` if too many are held."""
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            if self.held_bytes + count > self._max_bytes:
                raise Unavailable(
                    "The service holds too many request bodies at once; try again in a few seconds.",
                    headers={"Retry-After": str(RETRY_AFTER_S), "Connection": "close"},
                )
            self.held_bytes += count
            taken += count

        try:
            yield take
        finally:
            self.held_bytes -= taken
