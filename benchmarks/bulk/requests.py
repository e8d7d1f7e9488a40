"""B1: requests over HTTP that read or change many rows."""

import time
from collections.abc import Iterator
from typing import Final

import httpx

from benchmarks.api import open_server
from benchmarks.bulk.timings import REPEATS, Timing, milliseconds_since

DAY: Final = "2026-01-05"
REQUEST_TIMEOUT_S: Final = 60
# The first write of a process compiles its statements; this one changes nothing.
WARM_UP: Final = ("POST", "/api/v1/endpoints/endpoint-1/enable")
REQUESTS: Final = (
    ("POST", "/api/v1/endpoints/endpoint-2/enable"),
    ("DELETE", "/api/v1/endpoints/endpoint-1"),
    # The deliveries of the deleted endpoint are still stored.
    ("GET", "/api/v1/deliveries"),
    ("GET", "/api/v1/deliveries?status=DELIVERED"),
    ("GET", "/api/v1/deliveries?endpointId=endpoint-1"),
    ("DELETE", "/api/v1/alert-configs/rule-1"),
    ("DELETE", "/api/v1/benchmark-runs/run-7"),
    ("DELETE", "/api/v1/benchmark-runs/run-8"),
)


def time_requests(url: str, token: str) -> Iterator[Timing]:
    """Reads count with their fastest repetition; what changes rows is sent once."""
    with (
        open_server("service", url) as server,
        httpx.Client(
            base_url=f"http://127.0.0.1:{server.port}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=REQUEST_TIMEOUT_S,
        ) as client,
    ):
        for path in (f"/api/v1/daily-summary?date={DAY}", "/metrics", "/api/v1/alert-configs"):
            yield Timing(f"GET {path}", min(_time(client, "GET", path) for _ in range(REPEATS)))
        _time(client, *WARM_UP)
        for method, path in REQUESTS:
            yield Timing(f"{method} {path}", _time(client, method, path))


def _time(client: httpx.Client, method: str, path: str) -> float:
    started = time.perf_counter()
    response = client.request(method, path)
    milliseconds = milliseconds_since(started)
    assert response.is_success, (path, response.text)
    return milliseconds
