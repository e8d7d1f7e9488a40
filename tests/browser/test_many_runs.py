"""Acceptance criterion 15 of issue 20: pages at 10,000 runs. `python -m benchmarks pages` measures times."""

import gzip
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from tests.browser.conftest import Site
from tests.support.many_runs import write_many_runs

MAX_NODES, MAX_REQUESTS, MAX_POINTS, MAX_LIST_BYTES = 2000, 6, 180, 60_000
MAX_COMPRESSED_BYTES, MAX_HEAP_BYTES = 12_000, 6_000_000
MAX_ANSWER_MS, MAX_FILTER_ANSWER_MS, ANSWERS = 100, 200, 100
TREND = "/benchmarks/support/kpis/support-pass?agent=billing&days=3660"
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def many_runs(module_site: Site) -> Site:
    """Made in the database, which takes seconds: fewer runs would not show what grows with them."""
    with module_site.service.resources.db.begin() as session:
        write_many_runs(session)
        session.execute(text("ANALYZE"))
    return module_site


@pytest.mark.parametrize("path", ["/", "/runs", TREND])
def test_page__of_ten_thousand_runs_stays_small(path: str, many_runs: Site, site: Site) -> None:
    """Criterion 15: requests, nodes, heap, points and bytes of 6.6, and the time of the server, of which one
    of several answers is not delayed by other programs of the machine. The benchmark measures paints, and the 50 ms of
    a list."""
    assert any(took_ms <= MAX_ANSWER_MS for took_ms in answer_times(site, path))
    page = site.open(path)
    page.wait_for_load_state("load")
    assert page.evaluate("document.getElementsByTagName('*').length") <= MAX_NODES
    assert page.evaluate("performance.getEntriesByType('resource').length") + 1 <= MAX_REQUESTS
    assert page.evaluate("performance.memory.usedJSHeapSize") <= MAX_HEAP_BYTES
    assert page.locator("svg.chart [data-point]").count() <= MAX_POINTS
    if path != TREND:
        html = site.service.client.get(path, headers={"Accept": "text/html"}).content
        assert len(html) <= MAX_LIST_BYTES
        assert len(gzip.compress(html)) <= MAX_COMPRESSED_BYTES


def answer_times(site: Site, path: str) -> Iterator[float]:
    """The milliseconds of the server for a page."""
    for _ in range(ANSWERS):
        started = time.perf_counter()
        site.service.client.get(path, headers={"Accept": "text/html"}).raise_for_status()
        yield (time.perf_counter() - started) * 1000


def test_filter__of_ten_thousand_runs_is_answered_in_time(many_runs: Site, site: Site) -> None:
    """Criterion 15: of the 400 ms after the last key the page waits 150 ms for another one; the service has
    answered after 200 ms, and the rest is drawing."""
    times = answer_times(site, "/runs?text=support-7&agent=billing")
    assert any(took_ms <= MAX_FILTER_ANSWER_MS for took_ms in times)
