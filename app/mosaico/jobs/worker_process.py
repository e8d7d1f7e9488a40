"""The presence of a worker process: an advisory lock on a connection of its own.

The kernel closes the connection when the process dies, and Postgres then releases the lock. So other workers notice a
death at once, and a worker that is only slow is never taken for dead.
"""

import psycopg

# The first half of the key; any constant that nothing else uses. The second half is the worker's ID.
PRESENCE_LOCK = 0x4D57

# Shared: after a lost connection the session on the server may live on for a while, and must not block
# the next one.
_HOLD = "SELECT pg_advisory_lock_shared(%s, %s::int)"


class WorkerPresence:
    """Holds the lock of one worker and sends its heartbeats."""

    def __init__(self, conninfo: str, *, connect_timeout_s: int) -> None:
        self._conninfo = conninfo
        self._connect_timeout_s = connect_timeout_s
        self._connection: psycopg.AsyncConnection | None = None

    @property
    def is_held(self) -> bool:
        """Return whether this process holds the lock, by its last check."""
        return self._connection is not None and not self._connection.closed

    async def execute(self, worker_id: int, query: str) -> None:
        """Execute a statement with `%(worker_id)s` while holding the lock; reconnects once.

        Raises: the errors of the driver; then the lock is not held.
        """
        if self._connection is not None:
            try:
                await self._connection.execute(query.encode(), {"worker_id": worker_id})
            except psycopg.OperationalError:
                await self.release()
            else:
                return
        self._connection = await self._connect()
        try:
            await self._connection.execute(_HOLD, (PRESENCE_LOCK, worker_id))
            await self._connection.execute(query.encode(), {"worker_id": worker_id})
        except psycopg.Error:
            await self.release()
            raise

    async def release(self) -> None:
        """Close the connection, which releases the lock."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _connect(self) -> psycopg.AsyncConnection:
        return await psycopg.AsyncConnection.connect(
            self._conninfo,
            autocommit=True,
            application_name="mosaico-presence",
            connect_timeout=self._connect_timeout_s,
        )
