"""Ends the database sessions of suspended processes, whose row locks would otherwise stay for ever.

Postgres has a timeout of its own for idle transactions, but not in the middle of a COPY or of a
pipeline. A reader that takes none of its rows any more is ended by `tcp_user_timeout`, see `mosaico.core.engine`.
"""

import time
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.core.engine import IDLE_IN_TRANSACTION_TIMEOUT_MS

# `state_change` of a COPY is the time at which the statement began, however much it has copied
# since; `bytes_processed` is null for every other statement.
_SELECT_WAITING = text(
    """
    SELECT activity.pid, activity.xact_start::text, copy.bytes_processed
    FROM pg_stat_activity AS activity
    LEFT JOIN pg_stat_progress_copy AS copy ON copy.pid = activity.pid
    WHERE activity.datname = current_database() AND activity.usename = current_user
      AND activity.pid <> pg_backend_pid() AND activity.application_name LIKE 'mosaico%'
      AND activity.wait_event_type = 'Client' AND activity.xact_start IS NOT NULL
      -- A query that sends its rows changes no state either, however many its reader takes. Unless it has
      -- written, it has no row locks.
      AND (activity.wait_event = 'ClientRead' OR copy.pid IS NOT NULL OR activity.backend_xid IS NOT NULL)
      -- A time in the future is older: the clock of the database was set back since.
      AND abs(extract(epoch FROM now() - activity.state_change)) > :silent
    """
)
_TERMINATE = text("SELECT pg_terminate_backend(:pid)")

CopyPosition: TypeAlias = tuple[int, str, int]


@dataclass(slots=True)
class SilentSessions:
    """Ends our sessions that have an open transaction and whose client has sent nothing for a while.

    A transaction that only reads is left alone while its rows are sent.
    A COPY is silent when it has not progressed between two calls that are `silent_s` apart, so it
    takes two calls of one instance to end it.
    """

    silent_s: float = IDLE_IN_TRANSACTION_TIMEOUT_MS / 1000
    _first_seen: dict[CopyPosition, float] = field(default_factory=dict)

    def terminate(self, session: Session) -> int:
        """End the silent sessions, which releases their locks; returns how many."""
        waiting = session.execute(_SELECT_WAITING, {"silent": self.silent_s}).all()
        positions = {(pid, began, copied) for pid, began, copied in waiting if copied is not None}
        now = time.monotonic()
        # Positions that are no longer seen are forgotten: that COPY progressed or ended.
        self._first_seen = {position: self._first_seen.get(position, now) for position in positions}
        silent = [pid for pid, began, copied in waiting if self._is_silent(pid, began, copied, now)]
        for pid in silent:
            session.execute(_TERMINATE, {"pid": pid})
        return len(silent)

    def _is_silent(self, pid: int, began: str, copied: int | None, now: float) -> bool:
        if copied is None:
            return True
        seen_s = now - self._first_seen[pid, began, copied]
        return seen_s > 0 and seen_s >= self.silent_s
