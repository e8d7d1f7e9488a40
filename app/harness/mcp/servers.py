"""The servers of an attempt: its own, or those that the attempts of a scenario share."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from app.harness.mcp.plan import Attempt, PlannedServer
from app.harness.mcp.sessions import McpServer, ServerFailed, Surroundings, started_servers
from app.harness.mcp.types import ServerFacts, ServerSeen

Seen = Callable[[ServerSeen], None]


class Shared(NamedTuple):
    """A server that the attempts of a scenario use together; of `trial` only, unless that is None."""

    file: str
    scenario: str
    server: str
    trial: int | None


class Acquaintance:
    """Tells of every server that is met for the first time, or that has changed since.

    `known` are those of an earlier part of the run.
    """

    def __init__(self, tell: Seen, known: Iterable[ServerFacts] = ()) -> None:
        self._tell = tell
        self._known = {(facts.file, facts.name): facts for facts in known}

    def meet(self, facts: ServerFacts) -> None:
        """Compare a server that has just started with what it was before."""
        key = (facts.file, facts.name)
        before = self._known.get(key)
        if before is None:
            self._known[key] = facts
            self._tell(ServerSeen(facts=facts))
        elif replace(before, start_ms=0.0) != replace(facts, start_ms=0.0):
            self._known[key] = facts
            self._tell(ServerSeen(facts=facts, changed=True))

    def facts(self) -> tuple[ServerFacts, ...]:
        """The servers as they were last, in the order in which they were met."""
        return tuple(self._known.values())


@dataclass(slots=True)
class _Place:
    """A shared server, once it runs, how many attempts may still want it, and how many use which.

    One that does not start is not tried again: every attempt would wait for its timeout.
    """

    awaited: int
    server: McpServer | None = None
    failure: ServerFailed | None = None
    users: Counter[McpServer] = field(default_factory=Counter)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Servers:
    """Starts servers for attempts. Shared ones end when the last attempt that names them has."""

    def __init__(
        self, attempts: Iterable[Attempt], surroundings: Surroundings, acquaintance: Acquaintance
    ) -> None:
        self._surroundings = surroundings
        self._acquaintance = acquaintance
        awaited = Counter(key for attempt in attempts for key in _shared(attempt))
        self._places = {key: _Place(count) for key, count in awaited.items()}

    @asynccontextmanager
    async def of(self, attempt: Attempt) -> AsyncIterator[list[McpServer]]:
        """The servers of an attempt in the order of its task. Raises ServerFailed."""
        if attempt.task.share_servers:
            used: list[McpServer] = []
            try:
                for each in attempt.task.servers:
                    used += [await self._share(attempt, each)]
                yield used
            except TimeoutError:
                await self._replace_hanging(attempt, used)
                raise
            finally:
                await self._leave(attempt, used)
            return
        task = attempt.task
        async with started_servers(task.servers, task.file, self._surroundings) as started:
            for server in started:
                self._acquaintance.meet(server.facts)
            yield started

    async def close(self) -> None:
        """End what is still shared, at once."""
        for place in self._places.values():
            if place.server is not None:
                await place.server.stop(at_once=True)

    async def _share(self, attempt: Attempt, wanted: PlannedServer) -> McpServer:
        place = self._places[_key(attempt, wanted)]
        async with place.lock:
            if place.failure is not None:
                raise place.failure
            if place.server is not None and place.server.lost and not place.users[place.server]:
                await place.server.stop(at_once=True)  # it may still run, and nobody else would
            if place.server is None or place.server.lost:
                place.server = McpServer(wanted, attempt.task.file, self._surroundings)
                try:
                    await place.server.start()
                except ServerFailed as failure:
                    place.failure = failure
                    raise
                self._acquaintance.meet(place.server.facts)
            place.users[place.server] += 1
            return place.server

    async def _replace_hanging(self, attempt: Attempt, used: Sequence[McpServer]) -> None:
        """Give no other attempt a server that answers no more; those that use it may go on."""
        for key, server in zip(_shared(attempt), used, strict=True):
            place = self._places[key]
            if await server.hangs() and place.server is server:
                place.server = None

    async def _leave(self, attempt: Attempt, used: Sequence[McpServer]) -> None:
        for key, server in zip(_shared(attempt), used, strict=False):
            place = self._places[key]
            place.users[server] -= 1
            if not place.users[server] and server is not place.server:
                await server.stop(at_once=True)
        for key in _shared(attempt):
            place = self._places[key]
            place.awaited -= 1
            if place.awaited == 0 and place.server is not None:
                await place.server.stop()


def _shared(attempt: Attempt) -> list[Shared]:
    task = attempt.task
    return [_key(attempt, each) for each in task.servers] if task.share_servers else []


def _key(attempt: Attempt, server: PlannedServer) -> Shared:
    task = attempt.task
    trial = attempt.trial if task.in_order else None
    return Shared(task.file, task.scenario, server.name, trial)
