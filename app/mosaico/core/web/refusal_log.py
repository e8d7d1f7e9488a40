"""Log of what clients do wrong: they must not fill it."""

import time
from collections import Counter

import structlog

log = structlog.stdlib.get_logger(__name__)

LOG_INTERVAL_S = 10.0


class RefusalLog:
    """One log record per reason and interval, with the number of refusals since the last one.

    `event` is the message of the records.
    """

    def __init__(self, event: str) -> None:
        self._event = event
        self._counts: Counter[str] = Counter()
        self._logged_at: dict[str, float] = {}

    def record(self, reason: str, address: str) -> None:
        self._counts[reason] += 1
        now = time.monotonic()
        if now - self._logged_at.get(reason, -LOG_INTERVAL_S) >= LOG_INTERVAL_S:
            self._logged_at[reason] = now
            log.warning(self._event, reason=reason, count=self._counts[reason], last=address)
            self._counts[reason] = 0
