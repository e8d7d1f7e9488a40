"""What this process has learnt about servers, so that it asks once for each agent and hour."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LASTS_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """`api` answers reads of the server; `project_id` is of the project that the key belongs to."""

    api: str
    project_id: str | None


class KnownServers:
    """By host and key, for an hour each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[tuple[str, str], tuple[float, Known]] = {}
        self._turn = threading.Lock()

    def find(self, host: str, key: str) -> Known | None:
        with self._turn:
            entry = self._entries.get((host, key))
            if entry is None or entry[0] <= self._clock():
                self._entries.pop((host, key), None)
                return None
            return entry[1]

    def keep(self, host: str, key: str, known: Known) -> None:
        with self._turn:
            self._entries[(host, key)] = (self._clock() + LASTS_S, known)

    def forget(self, host: str, key: str) -> None:
        with self._turn:
            self._entries.pop((host, key), None)


SERVERS = KnownServers()
