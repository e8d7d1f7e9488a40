"""The dollars that budgets keep for model requests in flight."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


def _new_event() -> "asyncio.Event":
    # Commands on files know the limits of a budget, and have no event loop.
    import asyncio

    return asyncio.Event()


@dataclass(slots=True)
class Reservations:
    """The dollars that are kept for requests in flight."""

    amounts: list[float] = field(default_factory=list)
    _released: "asyncio.Event" = field(default_factory=_new_event)

    def take(self, usd: float) -> None:
        self.amounts.append(usd)

    def release(self, usd: float) -> None:
        self.amounts.remove(usd)
        # Those that wait run after the caller has delivered its answer.
        self._released.set()
        self._released = _new_event()

    async def wait(self) -> None:
        """Wait until a request ends."""
        await self._released.wait()
