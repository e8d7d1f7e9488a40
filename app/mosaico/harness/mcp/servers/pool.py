"""Starts the servers of attempts: own servers, or servers that the attempts of a scenario share."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mosaico.harness.mcp.plan import PlannedAttempt, PlannedServer
from mosaico.harness.mcp.servers.server import (
    McpServer,
    ServerEnvironment,
    ServerError,
    running_servers,
)
from mosaico.harness.mcp.types import ServerFacts, ServerSeen

ServerListener = Callable[[ServerSeen], None]


class SharedServerKey(NamedTuple):
    """Identifies a shared server; with a `trial` it is shared within that trial only."""

    file: str
    scenario: str
    server: str
    trial: int | None


class ServerTracker:
    """Notifies the listener of every new server, and of every server that changed since its last start.

    `known_servers` are those of an interrupted run that this run resumes.
    """

    def __init__(self, notify: ServerListener, known_servers: Iterable[ServerFacts] = ()) -> None:
        self._notify = notify
        self._known = {(facts.file, facts.name): facts for facts in known_servers}

    def record(self, facts: ServerFacts) -> None:
        """Compare a server that has just started with its previous start."""
        key = (facts.file, facts.name)
        previous = self._known.get(key)
        if previous is None:
            self._known[key] = facts
            self._notify(ServerSeen(facts=facts))
        # Without the start time, which differs at every start.
        elif replace(previous, start_ms=0.0) != replace(facts, start_ms=0.0):
            self._known[key] = facts
            self._notify(ServerSeen(facts=facts, changed=True))

    def facts(self) -> tuple[ServerFacts, ...]:
        """The facts of the last start of each server, in the order of their first start."""
        return tuple(self._known.values())


@dataclass(slots=True)
class _SharedServer:
    """A shared server, the number of attempts that have not ended, and the users of each process.

    A server that failed to start is not retried: every attempt would wait for its timeout again.
    """

    remaining_attempts: int
    server: McpServer | None = None
    failure: ServerError | None = None
    user_counts: Counter[McpServer] = field(default_factory=Counter)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ServerPool:
    """Starts servers for attempts. A shared server is stopped after its last attempt."""

    def __init__(
        self,
        attempts: Iterable[PlannedAttempt],
        environment: ServerEnvironment,
        tracker: ServerTracker,
    ) -> None:
        self._environment = environment
        self._tracker = tracker
        attempt_counts = Counter(key for attempt in attempts for key in _shared_keys(attempt))
        self._shared_servers = {key: _SharedServer(count) for key, count in attempt_counts.items()}

    @asynccontextmanager
    async def servers_for(self, attempt: PlannedAttempt) -> AsyncIterator[list[McpServer]]:
        """The servers of an attempt in the order of its task. Raises ServerError."""
        if attempt.task.share_servers:
            borrowed: list[McpServer] = []
            try:
                for planned in attempt.task.all_servers():
                    borrowed += [await self._borrow(attempt, planned)]
                yield borrowed
            except TimeoutError:
                # A server that hangs must not slow down the next attempt that shares it.
                await self._discard_hanging(attempt, borrowed)
                raise
            finally:
                await self._release(attempt, borrowed)
            return
        task = attempt.task
        async with running_servers(task.all_servers(), task.file, self._environment) as servers:
            for server in servers:
                self._tracker.record(server.facts)
            yield servers

    async def close(self) -> None:
        """Kill the shared servers that still run."""
        for shared in self._shared_servers.values():
            if shared.server is not None:
                await shared.server.stop(immediately=True)

    async def _borrow(self, attempt: PlannedAttempt, planned: PlannedServer) -> McpServer:
        shared = self._shared_servers[_shared_key(attempt, planned)]
        # Attempts run concurrently: only one of them starts the server, the others wait for it.
        async with shared.lock:
            if shared.failure is not None:
                raise shared.failure
            if (
                shared.server is not None
                and shared.server.is_lost
                and not shared.user_counts[shared.server]
            ):
                # The connection is lost but the process may live on; nothing else would end it.
                await shared.server.stop(immediately=True)
            if shared.server is None or shared.server.is_lost:
                shared.server = McpServer(planned, attempt.task.file, self._environment)
                try:
                    await shared.server.start()
                except ServerError as failure:
                    shared.failure = failure
                    raise
                self._tracker.record(shared.server.facts)
            shared.user_counts[shared.server] += 1
            return shared.server

    async def _discard_hanging(
        self, attempt: PlannedAttempt, borrowed: Sequence[McpServer]
    ) -> None:
        """Stop handing out a server that does not respond; attempts that already use it continue."""
        for key, server in zip(_shared_keys(attempt), borrowed, strict=True):
            shared = self._shared_servers[key]
            if await server.is_hanging() and shared.server is server:
                shared.server = None

    async def _release(self, attempt: PlannedAttempt, borrowed: Sequence[McpServer]) -> None:
        for key, server in zip(_shared_keys(attempt), borrowed, strict=False):
            shared = self._shared_servers[key]
            shared.user_counts[server] -= 1
            # A server that was replaced ends with the last attempt that still uses it.
            if not shared.user_counts[server] and server is not shared.server:
                await server.stop(immediately=True)
        for key in _shared_keys(attempt):
            shared = self._shared_servers[key]
            shared.remaining_attempts -= 1
            if shared.remaining_attempts == 0 and shared.server is not None:
                await shared.server.stop()


def _shared_keys(attempt: PlannedAttempt) -> list[SharedServerKey]:
    task = attempt.task
    servers = task.all_servers() if task.share_servers else ()
    return [_shared_key(attempt, server) for server in servers]


def _shared_key(attempt: PlannedAttempt, server: PlannedServer) -> SharedServerKey:
    task = attempt.task
    trial = attempt.trial if task.in_order else None
    return SharedServerKey(task.file, task.scenario, server.name, trial)
