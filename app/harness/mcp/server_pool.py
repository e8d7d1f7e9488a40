"""The servers of an attempt: its own, or those that the attempts of a scenario share."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from app.harness.mcp.mcp_server import McpServer, ServerEnvironment, ServerError, running_servers
from app.harness.mcp.plan import PlannedAttempt, PlannedServer
from app.harness.mcp.types import ServerFacts, ServerSeen

ServerListener = Callable[[ServerSeen], None]


class SharedServerKey(NamedTuple):
    """A server that the attempts of a scenario use together; of `trial` only, unless that is None."""

    file: str
    scenario: str
    server: str
    trial: int | None


class ServerTracker:
    """Tells of every server that is met for the first time, or that has changed since.

    `known` are those of an earlier part of the run.
    """

    def __init__(self, notify: ServerListener, known_servers: Iterable[ServerFacts] = ()) -> None:
        self._notify = notify
        self._known = {(facts.file, facts.name): facts for facts in known_servers}

    def record(self, facts: ServerFacts) -> None:
        """Compare a server that has just started with what it was before."""
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
        """The servers as they were last, in the order in which they were met."""
        return tuple(self._known.values())


@dataclass(slots=True)
class _SharedServer:
    """A shared server, once it runs, how many attempts may still want it, and how many use which.

    One that does not start is not tried again: every attempt would wait for its timeout.
    """

    remaining_attempts: int
    server: McpServer | None = None
    failure: ServerError | None = None
    user_counts: Counter[McpServer] = field(default_factory=Counter)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ServerPool:
    """Starts servers for attempts. Shared ones end when the last attempt that names them has."""

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
        """The servers of an attempt in the order of its task. Raises ServerFailed."""
        if attempt.task.share_servers:
            leased: list[McpServer] = []
            try:
                for planned in attempt.task.servers:
                    leased += [await self._lease(attempt, planned)]
                yield leased
            except TimeoutError:
                await self._discard_hanging(attempt, leased)
                raise
            finally:
                await self._release(attempt, leased)
            return
        task = attempt.task
        async with running_servers(task.servers, task.file, self._environment) as servers:
            for server in servers:
                self._tracker.record(server.facts)
            yield servers

    async def close(self) -> None:
        """End what is still shared, at once."""
        for shared in self._shared_servers.values():
            if shared.server is not None:
                await shared.server.stop(immediately=True)

    async def _lease(self, attempt: PlannedAttempt, planned: PlannedServer) -> McpServer:
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
                await shared.server.stop(
                    immediately=True
                )  # it may still run, and nobody else would
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

    async def _discard_hanging(self, attempt: PlannedAttempt, leased: Sequence[McpServer]) -> None:
        """Give no other attempt a server that answers no more; those that use it may go on."""
        for key, server in zip(_shared_keys(attempt), leased, strict=True):
            shared = self._shared_servers[key]
            if await server.is_hanging() and shared.server is server:
                shared.server = None

    async def _release(self, attempt: PlannedAttempt, leased: Sequence[McpServer]) -> None:
        for key, server in zip(_shared_keys(attempt), leased, strict=False):
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
    return [_shared_key(attempt, server) for server in task.servers] if task.share_servers else []


def _shared_key(attempt: PlannedAttempt, server: PlannedServer) -> SharedServerKey:
    task = attempt.task
    trial = attempt.trial if task.in_order else None
    return SharedServerKey(task.file, task.scenario, server.name, trial)
