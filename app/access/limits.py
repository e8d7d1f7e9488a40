"""How often an API key may ask, and how often an address may be wrong about one."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.access.models import RateWindow
from app.access.rules import network_of, whole_seconds
from app.core.db import Database
from app.core.errors import Unavailable

MINUTE_S = 60
SHARED_EVERY_S = 1.0
KEPT_MINUTES = 5
MOST_WINDOWS = 1024

FAILURES_AT_ONCE = 30
FAILURES_A_MINUTE = 30
MOST_ADDRESSES = 4096

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What an API key may still ask for: `remaining` requests within the next `resets_s`."""

    limit: int
    remaining: int
    resets_s: int
    exceeded: bool


@dataclass(slots=True, kw_only=True)
class _Minute:
    """`own` requests of this process, of which `shared` stand in the database; `others` asked the
    other processes.
    """

    number: int
    own: int = 0
    shared: int = 0
    others: int = 0
    shared_at: float


class RequestLimit:
    """So many requests a minute for each API key, over all processes.

    Each process counts by itself and tells the others once a second, so that together they let
    through at most what they are asked for within that second more.
    Cost: a look into a dictionary; one short write a second for a key in use.
    """

    def __init__(
        self, db: Database, per_minute: int, *, now: Callable[[], float] = time.time
    ) -> None:
        self._db = db
        self._per_minute = per_minute
        self._now = now
        self._lock = threading.Lock()
        self._minutes: dict[str, _Minute] = {}

    def take(self, key_id: str) -> Allowance:
        """Count one request; one that exceeds the limit counts for nothing."""
        now = self._now()
        with self._lock:
            minute = self._minute(key_id, now)
            used = minute.own + minute.others
            exceeded = used >= self._per_minute
            minute.own += not exceeded
        return Allowance(
            limit=self._per_minute,
            remaining=max(self._per_minute - used - 1, 0),
            resets_s=MINUTE_S - int(now % MINUTE_S),
            exceeded=exceeded,
        )

    def is_due(self, key_id: str) -> bool:
        """Whether the others have not heard of this key's requests for a second; says so to the
        first who asks, who is to tell them.
        """
        now = self._now()
        with self._lock:
            minute = self._minutes.get(key_id)
            if minute is None or now - minute.shared_at < SHARED_EVERY_S:
                return False
            minute.shared_at = now
            return True

    def share(self, key_id: str) -> None:
        """Tell the others and hear from them; without a database each counts for itself."""
        minute = self._minutes.get(key_id)
        if minute is None:
            return
        with self._lock:
            news, minute.shared = minute.own - minute.shared, minute.own
        try:
            with self._db.begin() as session:
                total = _add(session, key_id, minute.number, news)
        except (Unavailable, DBAPIError) as error:
            log.info("requests of an API key not shared", cause=type(error).__name__)
            with self._lock:
                minute.shared -= news
            return
        with self._lock:
            # Never less: what a thread beside this one has just told is not in its total yet.
            minute.others = max(total - minute.shared, minute.others)

    def _minute(self, key_id: str, now: float) -> _Minute:
        number = int(now // MINUTE_S)
        minute = self._minutes.get(key_id)
        if minute is None or minute.number != number:
            if len(self._minutes) >= MOST_WINDOWS:
                self._minutes.clear()
            minute = self._minutes[key_id] = _Minute(number=number, shared_at=now)
        return minute


class FailureLimit:
    """So many wrong keys a minute from one address; a bucket for each that fills up again."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, address: str | None) -> int:
        """Whole seconds until an address may be wrong again; 0 when it may be now."""
        full_at = self._full_at.get(network_of(address), 0.0)
        room = (FAILURES_AT_ONCE - 1) * MINUTE_S / FAILURES_A_MINUTE
        return whole_seconds(full_at - self._now() - room)

    def note(self, address: str | None) -> None:
        """An address was wrong."""
        network, now = network_of(address), self._now()
        with self._lock:
            full_at = max(self._full_at.pop(network, now), now)
            self._full_at[network] = full_at + MINUTE_S / FAILURES_A_MINUTE
            if len(self._full_at) > MOST_ADDRESSES:
                self._full_at.popitem(last=False)


def purge_windows(session: Session, now: float) -> None:
    """Forget what was asked in minutes that are over."""
    oldest = int(now // MINUTE_S) - KEPT_MINUTES
    session.execute(delete(RateWindow).where(RateWindow.minute < oldest))


def _add(session: Session, key_id: str, minute: int, news: int) -> int:
    row = insert(RateWindow).values(api_key_id=key_id, minute=minute, used=news)
    total = row.on_conflict_do_update(
        index_elements=[RateWindow.api_key_id, RateWindow.minute],
        set_={"used": RateWindow.used + row.excluded.used},
    ).returning(RateWindow.used)
    return session.scalars(total).one()
