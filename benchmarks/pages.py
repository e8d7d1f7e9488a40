"""P: the budgets of the web pages at 10,000 runs and 1,000,000 trace results, in a real browser.

The rows are made with SQL. Server times are of the service over HTTP, one request after the other; the
95th percentile of `REPEATS` counts. Paints, nodes and the heap are Chromium's, the median of `LOADS`; the paint is
that of the whole page.
Set `MOSAICO_BENCH_PAGE_TRACES` for another number of trace results of a run, and `MOSAICO_BENCH_PAGE_MONTHS` for another
number of months of 210 runs.
"""

import os
import statistics
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.result_rows import BenchRow
from mosaico.agents.queries import AgentLabel
from mosaico.benchmarks.queries import get_kpi
from mosaico.reporting.trend import load_trends
from tests.support.chromium import COMPLETE_PAINT, INSTALL_ADVICE, find_chromium, launch_chromium
from tests.support.many_runs import MONTHS, write_many_runs
from tests.support.page_pictures import served
from tests.support.service import Service

TRACES_OF_RUN: Final = int(os.environ.get("MOSAICO_BENCH_PAGE_TRACES", "100"))
MONTHS_OF_RUNS: Final = int(os.environ.get("MOSAICO_BENCH_PAGE_MONTHS", str(MONTHS)))
REPEATS: Final = 40
LOADS: Final = 5
PATHS: Final = (
    "/",
    "/runs",
    "/runs?text=support-7&agent=billing",
    "/runs?sort=verdict",
    # Of the earliest month; the runs of the last one have no number of a month.
    f"/runs/run-billing-support-0{f'-{MONTHS_OF_RUNS - 1}' if MONTHS_OF_RUNS > 1 else ''}",
    "/runs/run-billing-support-0/traces",
    "/benchmarks/support/kpis/support-pass?agent=billing&days=3660",
    "/inbox",
    "/alerts",
    "/incidents",
    "/agents",
    "/benchmarks",
    "/schedules",
    "/search?text=support",
    "/search?text=support-7",
    "/runs/run-billing-support-0/traces/run-billing-support-0%2Ft-0",
    "/alerts/rule-1",
    "/alerts/events/alert-0",
    "/incidents/alert-0",
    "/agents/billing",
    "/benchmarks/support",
    "/formulas",
    "/formulas?formula=AVERAGE(EXACT_MATCH,ROUGE)&run=run-billing-support-0",
    "/endpoints",
    "/triggers",
    "/providers",
    "/keys",
    "/system",
    "/audit",
    "/datasets",
    "/help",
)
# A comparison and a backtest compute: they have the budgets of nodes and heap, and none of time.
COMPUTED_PATHS: Final = (
    "/compare?base=run-billing-support-1&run=run-billing-support-0",
    "/alerts/rule-1?days=90&agent=billing",
)  # fmt: skip
# Of 50 rows each.
LIST_PAGES: Final = (
    "/runs", "/runs?text=support-7&agent=billing", "/runs?sort=verdict", "/runs/run-billing-support-0/traces",
)  # fmt: skip
METRICS: Final = """() => ({nodes: document.getElementsByTagName("*").length,
  points: Math.max(0, ...[...document.querySelectorAll("svg.chart")].map(
    chart => chart.querySelectorAll("[data-point]").length))})"""
PREVIEW_IS_SHOWN: Final = """words => document.querySelector("#preview").textContent.includes(words)
  && document.querySelectorAll("#preview .times li").length === 5"""


class BrowserFigures(NamedTuple):
    """What Chromium measured on one page."""

    paint_ms: float
    nodes: int
    heap_mb: float


def measure() -> Iterator[BenchRow]:
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit(INSTALL_ADVICE)
    with (
        served(
            lambda session: write_many_runs(
                session, months=MONTHS_OF_RUNS, traces_of_run=TRACES_OF_RUN
            )
        ) as service,
        sync_playwright() as playwright,
    ):
        _analyze(service)
        counts = _count_rows(service)
        times = {path: _server_times(service, path) for path in PATHS}
        yield _time_row(times, counts)
        browser = launch_chromium(playwright, chromium)
        yield from _browser_rows(service, browser)
        yield _filter_row(service, browser)
        yield _preview_row(service, browser)
        yield _event_row(service, browser)
        yield _trend_row(service)


def _analyze(service: Service) -> None:
    connection = service.resources.db.engine.connect()
    with connection.execution_options(isolation_level="AUTOCOMMIT") as session:
        session.exec_driver_sql("SET statement_timeout = 0")
        session.exec_driver_sql("VACUUM ANALYZE")


def _count_rows(service: Service) -> str:
    with service.resources.db.read() as session:
        connection = session.connection()
        runs, results = (
            connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
            for table in ("benchmark_runs", "trace_results")
        )
    return f"{runs:,} runs, {results:,} trace results"


def _server_times(service: Service, path: str) -> list[float]:
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        response = service.client.get(path, headers={"Accept": "text/html"})
        times.append((time.perf_counter() - started) * 1000)
        response.raise_for_status()
    # The first request compiles the template of the page.
    return times[1:]


def _percentile(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def _time_row(times: dict[str, list[float]], counts: str) -> BenchRow:
    slowest = {path: _percentile(values) for path, values in times.items()}
    worst = max(slowest.values())
    worst_list = max(slowest[path] for path in LIST_PAGES)
    holds = worst <= 100 and worst_list <= 50
    named = ", ".join(
        f"{path} {statistics.median(times[path]):.0f}/{ms:.0f}" for path, ms in slowest.items()
    )
    return BenchRow(
        "P1 server", "p95 ≤ 100 ms, a list ≤ 50 ms", max(worst / 100, worst_list / 50), holds,
        f"{counts}; median/p95 in ms: {named}",
    )  # fmt: skip


def _browser_rows(service: Service, browser: Browser) -> Iterator[BenchRow]:
    cold, warm, points = {}, {}, 0
    for path in (*PATHS, *COMPUTED_PATHS):
        first = [_load(service, browser, path) for _ in range(LOADS)]
        cold[path] = _median_figures([figures for figures, _, _ in first])
        warm[path] = statistics.median(paint for _, paint, _ in first)
        points = max(points, *(count for _, _, count in first))
    yield _figures_row("P2 cold paint", "≤ 600 ms", 600, {p: cold[p].paint_ms for p in PATHS})
    yield _figures_row("P3 warm paint", "≤ 350 ms", 350, {p: warm[p] for p in PATHS})
    yield _figures_row("P4 nodes", "≤ 2,000", 2000, {p: f.nodes for p, f in cold.items()})
    yield _figures_row("P5 heap", "≤ 6 MB", 6, {p: f.heap_mb for p, f in cold.items()})
    yield _figures_row("P6 points", "≤ 180 in a chart", 180, {"trend": points})


def _load(service: Service, browser: Browser, path: str) -> tuple[BrowserFigures, float, int]:
    """A page loaded by a new browser, then again; the second paint, and the points drawn."""
    page = _open(service, browser)
    page.goto(f"{_url(service)}{path}", wait_until="load")
    cold_ms = page.evaluate(COMPLETE_PAINT)
    figures = page.evaluate(METRICS)
    session = page.context.new_cdp_session(page)
    # Only what the page holds counts, not what waits for the next collection.
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    page.reload(wait_until="load")
    warm_ms = page.evaluate(COMPLETE_PAINT)
    page.context.close()
    return BrowserFigures(cold_ms, figures["nodes"], heap), warm_ms, figures["points"]


def _median_figures(figures: Sequence[BrowserFigures]) -> BrowserFigures:
    paint, nodes, heap = (statistics.median(values) for values in zip(*figures, strict=True))
    return BrowserFigures(paint, int(nodes), heap)


def _figures_row(name: str, goal: str, limit: float, figures: dict[str, float]) -> BenchRow:
    worst = max(figures.values())
    named = ", ".join(f"{path} {figure:.4g}" for path, figure in figures.items())
    return BenchRow(name, goal, worst / limit, worst <= limit, named)


def _filter_row(service: Service, browser: Browser) -> BenchRow:
    """From the last key of a filter to the new count on the page."""
    times = []
    for _ in range(LOADS):
        page = _open(service, browser)
        page.goto(f"{_url(service)}/runs", wait_until="load")
        before = page.locator("#run-count").inner_text()
        page.locator("form.filter input[name=text]").fill("support-7")
        started = time.perf_counter()
        page.wait_for_function(
            "text => document.querySelector('#run-count').textContent.trim() !== text", arg=before
        )
        times.append((time.perf_counter() - started) * 1000)
        page.context.close()
    median = statistics.median(times)
    return BenchRow(
        "P7 filter", "≤ 400 ms after the last key", median / 400, median <= 400, f"{median:.0f} ms"
    )


def _preview_row(service: Service, browser: Browser) -> BenchRow:
    """From the last key of a cron expression to its words and its five next times."""
    page = _open(service, browser)
    page.goto(f"{_url(service)}/new/schedule", wait_until="load")
    times = []
    for minute in range(LOADS):
        started = time.perf_counter()
        page.get_by_label("Cron expression").fill(f"0 {minute} 2 * * *")
        page.wait_for_function(PREVIEW_IS_SHOWN, arg=f"at 02:{minute:02}, every day")
        times.append((time.perf_counter() - started) * 1000)
    page.context.close()
    median = statistics.median(times)
    return BenchRow(
        "P8 preview", "≤ 500 ms after the last key", median / 500, median <= 500,
        f"{median:.0f} ms",
    )  # fmt: skip


def _event_row(service: Service, browser: Browser) -> BenchRow:
    """From a change of a run to its words on the open page."""
    times = []
    for _ in range(LOADS):
        run_id = service.post("/benchmark-runs", {"benchmarkId": "support", "agentId": "sql"})["id"]
        page = _open(service, browser)
        with page.expect_response("**/events"):
            page.goto(f"{_url(service)}/runs/{run_id}", wait_until="load")
        started = time.perf_counter()
        service.post(f"/benchmark-runs/{run_id}/cancel")
        page.wait_for_function(
            "() => document.querySelector('#state').textContent.includes('CANCELLED')"
        )
        times.append((time.perf_counter() - started) * 1000)
        page.context.close()
    median = statistics.median(times)
    return BenchRow(
        "P10 event to pixel", "≤ 1,000 ms", median / 1000, median <= 1000, f"{median:.0f} ms"
    )


def _trend_row(service: Service) -> BenchRow:
    """The queries of a trend of ten years: those of its chart and of its table."""
    since = service.resources.clock() - timedelta(days=3660)
    times = []
    for _ in range(REPEATS):
        with service.resources.db.read() as session:
            started = time.perf_counter()
            kpi = get_kpi(session, "support", "support-pass")
            load_trends(session, kpi, {"billing": AgentLabel("Billing bot")}, since)
            times.append((time.perf_counter() - started) * 1000)
    worst = _percentile(times[1:])
    return BenchRow(
        "P11 trend query", "≤ 30 ms", worst / 30, worst <= 30,
        f"median {statistics.median(times):.1f} ms, p95 {worst:.1f} ms",
    )  # fmt: skip


def _open(service: Service, browser: Browser) -> Page:
    """A page of a new browser that is logged in."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    key = service.client.headers["Authorization"].removeprefix("Bearer ")
    origin = {"Origin": _url(service)}
    context.request.post(f"{_url(service)}/login", form={"key": key}, headers=origin)
    return context.new_page()


def _url(service: Service) -> str:
    return str(service.client.base_url).rstrip("/")
