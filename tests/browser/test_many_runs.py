"""Criterion 15 of `docs/page-criteria.md`: pages at 10,000 runs, the median of five. Times are processor times, which are
the same on a busy machine; `python -m benchmarks pages` measures those on a clock.
"""

import gzip
import statistics
from collections.abc import Callable
from typing import Final

import pytest
from playwright.sync_api import CDPSession, Page
from sqlalchemy import text

from tests.browser.conftest import Site
from tests.support.many_runs import write_many_runs
from tests.support.processor_time import ProcessorClock

MAX_NODES, MAX_REQUESTS, MAX_POINTS, MAX_LIST_BYTES = 2000, 6, 180, 60_000
MAX_COMPRESSED_BYTES, MAX_HEAP_BYTES = 12_000, 6_000_000
MAX_ANSWER_MS, MAX_LIST_ANSWER_MS = 100, 50
# In 6.6, of a browser whose cache is empty, and of the next load.
MAX_COLD_PAINT_MS, MAX_WARM_PAINT_MS = 600, 350
# From the last key to the rows; the page waits for the next key first.
MAX_FILTER_MS, DEBOUNCE_MS = 400, 150
REPEATS = 5
PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
# Changes a field, until the table of the answer is shown.
FILTER: Final = """text => new Promise(resolve => {
  const field = document.querySelector("form.filter input[name=text]");
  new MutationObserver((_, observer) => {
    observer.disconnect();
    requestAnimationFrame(resolve);
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


def median_ms(measure_ms: Callable[[], float]) -> float:
    return statistics.median(measure_ms() for _ in range(REPEATS))


@pytest.mark.parametrize("path", ["/", "/runs", TREND])
def test_page__of_ten_thousand_runs_stays_small(path: str, many_runs: Site, site: Site) -> None:
    """Criterion 15: requests, nodes, heap, points and bytes of 6.6."""
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


@pytest.mark.parametrize(
    ("path", "max_ms"),
    [
        ("/", MAX_ANSWER_MS),
        ("/runs", MAX_LIST_ANSWER_MS),
        ("/runs?text=support-7&agent=billing", MAX_ANSWER_MS),
        (TREND, MAX_ANSWER_MS),
    ],
)
def test_page__of_ten_thousand_runs_is_answered_in_time(
    path: str, max_ms: int, many_runs: Site
) -> None:
    """Criterion 15: the time of the service and its database for a page."""

    def answer_ms() -> float:
        clock = ProcessorClock(many_runs.service.resources.db)
        many_runs.service.client.get(path, headers={"Accept": "text/html"}).raise_for_status()
        return clock.elapsed_ms()

    assert median_ms(answer_ms) <= max_ms


@pytest.mark.parametrize("path", ["/", "/runs", TREND])
def test_page__of_ten_thousand_runs_is_painted_in_time(
    path: str, many_runs: Site, site: Site
) -> None:
    """Criterion 15: the first paint, which is complete, of a browser that has no file of the service, and of
    the second load."""
    paints = [paint_ms(site, path) for _ in range(REPEATS)]
    cold_ms, warm_ms = (statistics.median(times) for times in zip(*paints, strict=True))
    assert cold_ms <= MAX_COLD_PAINT_MS, paints
    assert warm_ms <= MAX_WARM_PAINT_MS, paints


def paint_ms(site: Site, path: str) -> tuple[float, float]:
    """Milliseconds to the first paint of a new browser, and of its second load."""
    context = site.context()
    page = context.new_page()
    # Its process is there, and has no file of the pages.
    page.goto(f"{site.url}/healthz")
    thread = start_metrics(page)
    cold_ms = used_ms(site, thread, lambda: load(page, f"{site.url}{path}"))
    warm_ms = used_ms(site, thread, lambda: load(page, f"{site.url}{path}"))
    context.close()
    site.contexts.remove(context)
    return cold_ms, warm_ms


def load(page: Page, url: str) -> None:
    """Open a page and wait for its paint, in the page: `wait_for_function` evaluates a text again at each look, which
    the policy of the pages forbids when the first look came too early.
    """
    page.goto(url)
    page.evaluate(
        f"() => new Promise((done) => {{ const look = () => ({PAINT} > 0 ? done() : setTimeout(look, 5)); look(); }})"
    )


def test_filter__of_ten_thousand_runs_is_shown_in_time(many_runs: Site, site: Site) -> None:
    """Criterion 15: 400 ms from the last key to the rows."""
    page = site.open("/runs")
    page.wait_for_load_state()
    thread, texts = start_metrics(page), iter(range(REPEATS))
    shown_ms = median_ms(
        lambda: used_ms(site, thread, lambda: page.evaluate(FILTER, f"support-{next(texts)}"))
    )
    assert DEBOUNCE_MS + shown_ms <= MAX_FILTER_MS


def start_metrics(page: Page) -> CDPSession:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    return session


def used_ms(site: Site, thread: CDPSession, act: Callable[[], object]) -> float:
    """The processor time of the service, its database and the thread that shows the page."""
    clock, started_ms = ProcessorClock(site.service.resources.db), thread_ms(thread)
    act()
    return clock.elapsed_ms() + thread_ms(thread) - started_ms


def thread_ms(session: CDPSession) -> float:
    metrics = {
        row["name"]: row["value"] for row in session.send("Performance.getMetrics")["metrics"]
    }
    return 1000 * float(metrics["ThreadTime"])
