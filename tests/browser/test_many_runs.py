"""Criterion 15 of `docs/page-criteria.md`: pages at 10,000 runs. `python -m benchmarks pages` measures times."""

import gzip
import time
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Page
from sqlalchemy import text

from tests.browser.conftest import Site
from tests.support.many_runs import write_many_runs

MAX_NODES, MAX_REQUESTS, MAX_POINTS, MAX_LIST_BYTES = 2000, 6, 180, 60_000
MAX_COMPRESSED_BYTES, MAX_HEAP_BYTES = 12_000, 6_000_000
MAX_ANSWER_MS, MAX_FILTER_ANSWER_MS, ANSWERS = 100, 200, 100
# In 6.6, of a browser whose cache is empty, and of the next load; one of `LOADS` is not delayed by other programs.
MAX_COLD_PAINT_MS, MAX_WARM_PAINT_MS, MAX_FILTER_MS, LOADS = 600, 350, 400, 20
PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
# From the change of a field to the table of the answer.
FILTER_TIME: Final = """text => new Promise(resolve => {
  const field = document.querySelector("form.filter input[name=text]"), started = performance.now();
  new MutationObserver((_, observer) => {
    observer.disconnect();
    requestAnimationFrame(() => resolve(performance.now() - started));
  }).observe(document.querySelector("main"), { childList: true, subtree: true });
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
})"""
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
    of several answers is not delayed by other programs of the machine. The benchmark measures the 50 ms of a list."""
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


@pytest.mark.parametrize("path", ["/", "/runs", TREND])
def test_page__of_ten_thousand_runs_is_painted_in_time(
    path: str, many_runs: Site, site: Site
) -> None:
    """Criterion 15: the first paint, which is complete, of a browser that has no file of the service, and of
    the second load."""
    paints = [paint_times(site, path)]
    while len(paints) < LOADS and not is_painted_in_time(paints):
        paints.append(paint_times(site, path))
    assert is_painted_in_time(paints), paints


def is_painted_in_time(paints: list[tuple[float, float]]) -> bool:
    cold_ms, warm_ms = (min(times) for times in zip(*paints, strict=True))
    return bool(cold_ms <= MAX_COLD_PAINT_MS and warm_ms <= MAX_WARM_PAINT_MS)


def wait_for_paint(page: Page) -> None:
    """Wait in the page: `wait_for_function` evaluates a text again at each look, which the policy of the pages forbids
    when the first look came too early.
    """
    page.evaluate(
        f"() => new Promise((done) => {{ const look = () => ({PAINT} > 0 ? done() : setTimeout(look, 5)); look(); }})"
    )


def paint_times(site: Site, path: str) -> tuple[float, float]:
    """The milliseconds to the first paint of a new browser, and of its second load."""
    context = site.context()
    page = context.new_page()
    page.goto(f"{site.url}{path}")
    wait_for_paint(page)
    cold_ms = page.evaluate(PAINT)
    page.reload()
    wait_for_paint(page)
    warm_ms = page.evaluate(PAINT)
    context.close()
    site.contexts.remove(context)
    return cold_ms, warm_ms


def test_filter__of_ten_thousand_runs_is_shown_in_time(many_runs: Site, site: Site) -> None:
    """Criterion 15: 400 ms from the last key to the rows; one of several changes is not delayed by other
    programs."""
    page = site.open("/runs")
    page.wait_for_load_state()
    times_ms: list[float] = []
    while len(times_ms) < LOADS and min(times_ms, default=MAX_FILTER_MS + 1) > MAX_FILTER_MS:
        times_ms.append(page.evaluate(FILTER_TIME, f"support-{len(times_ms)}"))
    assert min(times_ms) <= MAX_FILTER_MS, times_ms


def test_filter__of_ten_thousand_runs_is_answered_in_time(many_runs: Site, site: Site) -> None:
    """Criterion 15: of the 400 ms after the last key the page waits 150 ms for another one; the service has
    answered after 200 ms, and the rest is drawing."""
    times = answer_times(site, "/runs?text=support-7&agent=billing")
    assert any(took_ms <= MAX_FILTER_ANSWER_MS for took_ms in times)
