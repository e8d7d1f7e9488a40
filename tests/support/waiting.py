"""How long tests wait for what must happen: one limit for all, far beyond a busy machine."""

import time
from collections.abc import Callable

LIVENESS_S = 300
LIVENESS_MS = LIVENESS_S * 1000


def until(condition: Callable[[], bool], *, what: str = "", within_s: float = LIVENESS_S) -> None:
    """Wait until the condition is true."""
    started = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - started
        assert waited_s < within_s, (
            f"the condition did not become true within {within_s:g} s: {what}"
        )
        # A check may open a database session or list all processes, so the pauses grow.
        time.sleep(min(max(0.01, waited_s / 20), 0.5))
