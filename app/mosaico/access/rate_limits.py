"""Rate limits: requests per API key, and invalid API keys per client address."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from mosaico.access.models import RateWindow
from mosaico.access.rules import ceil_seconds
from mosaico.core.batch_delete import delete_batch
from mosaico.core.db import Database
from mosaico.core.errors import Unavailable
from mosaico.core.web.client_network import client_network

MINUTE_S = 60
SYNC_INTERVAL_S = 1.0
RETENTION_MINUTES = 5
# Bounds the memory; clearing loses at most the requests since the last synchronization.
MAX_COUNTERS = 1024

FAILURE_BURST = 30
FAILURES_PER_MINUTE = 30
MAX_ADDRESSES = 4096

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitStatus:
    """Rate limit of an API key: `remaining` requests within the next `resets_s` seconds."""

    limit: int
    remaining: int
    resets_s: int
    exceeded: bool


@dataclass(slots=True, kw_only=True)
class _MinuteCount:
    """Requests of one key in one minute: `own` of this process, `synced` of them to the database,
    `elsewhere` those of the other processes.
    """

    number: int
    own: int = 0
    synced: int = 0
    elsewhere: int = 0
    synced_at: float


class RequestLimiter:
    """Limits the requests per minute of each API key, over all processes.

    Each process counts in memory and synchronizes once a second. Together they exceed the limit by
    at most the requests of that second.
    Cost: a dictionary lookup; one short write per second for a key in use.
    """

    def __init__(
        self, db: Database, per_minute: int, *, now: Callable[[], float] = time.time
    ) -> None:
        self._db = db
        self._per_minute = per_minute
        self._now = now
        self._lock = threading.Lock()
        self._minutes: dict[str, _MinuteCount] = {}

    def count_request(self, key_id: str) -> RateLimitStatus:
        """Count one request. A refused request is not counted, so that retries do not prolong it."""
        now = self._now()
        with self._lock:
            minute = self._minute(key_id, now)
            request_count = minute.own + minute.elsewhere
            exceeded = request_count >= self._per_minute
            minute.own += not exceeded
        return RateLimitStatus(
            limit=self._per_minute,
            remaining=max(self._per_minute - request_count - 1, 0),
            resets_s=MINUTE_S - int(now % MINUTE_S),
            exceeded=exceeded,
        )

    def is_sync_due(self, key_id: str) -> bool:
        """Return whether a synchronization is due; True for one caller per second, who must call
        `sync`.
        """
        now = self._now()
        with self._lock:
            minute = self._minutes.get(key_id)
            if minute is None or now - minute.synced_at < SYNC_INTERVAL_S:
                return False
            # Set before the synchronization, so that no second thread starts one.
            minute.synced_at = now
            return True

    def sync(self, key_id: str) -> None:
        """Add the own requests to the database and read the total of all processes.

        Without a database each process counts alone.
        """
        minute = self._minutes.get(key_id)
        if minute is None:
            return
        with self._lock:
            unsynced, minute.synced = minute.own - minute.synced, minute.own
        try:
            with self._db.begin() as session:
                total = _add_requests(session, key_id, minute.number, unsynced)
        # The limit protects the service; it must not fail requests when the database is away.
        except (Unavailable, DBAPIError) as error:
            log.info(
                "the request count of an API key could not be synchronized",
                cause=type(error).__name__,
            )
            with self._lock:
                # The requests are added with the next synchronization.
                minute.synced -= unsynced
            return
        with self._lock:
            # Never decrease: another thread may have synchronized after this total was read.
            minute.elsewhere = max(total - minute.synced, minute.elsewhere)

    def _minute(self, key_id: str, now: float) -> _MinuteCount:
        number = int(now // MINUTE_S)
        minute = self._minutes.get(key_id)
        if minute is None or minute.number != number:
            if len(self._minutes) >= MAX_COUNTERS:
                self._minutes.clear()
            minute = self._minutes[key_id] = _MinuteCount(number=number, synced_at=now)
        return minute


class FailureLimiter:
    """Limits the invalid keys per minute from one client network, by a leaky bucket for each."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._empty_at: OrderedDict[str, float] = OrderedDict()

    def retry_after_s(self, address: str | None) -> int:
        """Whole seconds until the next invalid key is accepted for checking; 0 when it is now."""
        # The bucket as one number, the time at which it is empty: nothing has to run in between.
        empty_at = self._empty_at.get(client_network(address), 0.0)
        burst_s = (FAILURE_BURST - 1) * MINUTE_S / FAILURES_PER_MINUTE
        return ceil_seconds(empty_at - self._now() - burst_s)

    def record_failure(self, address: str | None) -> None:
        """Count an invalid key of a client address."""
        network, now = client_network(address), self._now()
        with self._lock:
            # Removed and added again: the order of the dictionary is that of use, and the oldest is
            # dropped.
            empty_at = max(self._empty_at.pop(network, now), now)
            self._empty_at[network] = empty_at + MINUTE_S / FAILURES_PER_MINUTE
            if len(self._empty_at) > MAX_ADDRESSES:
                self._empty_at.popitem(last=False)


def delete_old_windows(session: Session, now: datetime) -> int:
    """Delete one batch of the request counts of past minutes; see `delete_batch`."""
    oldest = int(now.timestamp() // MINUTE_S) - RETENTION_MINUTES
    return delete_batch(session, RateWindow, RateWindow.minute < oldest)


def _add_requests(session: Session, key_id: str, minute: int, request_count: int) -> int:
    row = insert(RateWindow).values(api_key_id=key_id, minute=minute, request_count=request_count)
    total = row.on_conflict_do_update(
        index_elements=[RateWindow.api_key_id, RateWindow.minute],
        set_={"request_count": RateWindow.request_count + row.excluded.request_count},
    ).returning(RateWindow.request_count)
    return session.scalars(total).one()
