"""Database time in a long history: every list and page, verdicts, backtests, the end of a run.

The rows are those of `benchmarks.history_rows`: 100,000 runs of 200 benchmarks, 20 KPIs and 100 traces
each. Times are those of the server for each statement, from its log: parsing, planning and execution. Each
request is repeated after a first one that does not count.

`MOSAICO_BENCH_HISTORY_RUNS` and `MOSAICO_BENCH_HISTORY_BENCHMARKS` set another size.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Final, NamedTuple

from benchmarks.history_rows import (
    AGENT,
    BENCHMARK,
    HistorySize,
    new_run,
    require_space,
    seed,
    write_events,
    write_history,
)
from benchmarks.result_rows import BenchRow
from mosaico.api import PREFIX, ROUTERS
from tests.support.every_page import fill_path, is_form, iter_page_routes
from tests.support.page_pictures import served
from tests.support.postgres import server_below, superuser_url_of, url_of
from tests.support.service import JSON, Service
from tests.support.statement_log import (
    LoggedStatement,
    StatementLog,
    group_transactions,
    timed_statements,
)

SIZE: Final = HistorySize(
    runs=int(os.environ.get("MOSAICO_BENCH_HISTORY_RUNS", "100000")),
    benchmarks=int(os.environ.get("MOSAICO_BENCH_HISTORY_BENCHMARKS", "200")),
)
GOAL_MS: Final = 100.0
REPEATS: Final = 7
REPEAT_S: Final = 3.0
NEW_RUNS: Final = 4
NEW_TRACES: Final = 50
SHOWN: Final = 8

# Streams do not end.
EXCLUDED: Final = frozenset(
    {"/benchmark-runs/{runId}/events", "/notifications/events", "/overview/events"}
)
_SERIES: Final = f"benchmarkId={BENCHMARK}&agentId={AGENT}&kpi={{kpi}}"
# Queries that a route needs.
QUERIES: Final = {
    "/benchmark-runs/compare": "baseline=run-{before}&candidate=run-{last}",
    "/benchmark-runs/compare/items": "baseline=run-{before}&candidate=run-{last}",
    "/kpi-history.svg": _SERIES,
    "/kpi-history/trend": _SERIES,
    "/overview/search": f"text={BENCHMARK}",
    "/search": f"text={BENCHMARK}",
    "/benchmarks/{benchmarkId}/power": "drop=0.05",
    "/compare": "base=run-{before}&run=run-{last}",
    "/runs/{runId}/items": "item=case-000&base=run-{before}",
    "/benchmarks/{benchmarkId}/kpis/{kpi}": f"agent={AGENT}",
    "/alerts/{ruleId}": f"days=90&agent={AGENT}",
    "/new/alert-rule": f"benchmark={BENCHMARK}",
    "/formulas": "formula=AVERAGE(ROUGE,BLEU)&run=run-{last}",
}
FILTERED: Final = (
    f"{PREFIX}/benchmark-runs?benchmarkId={BENCHMARK}&agentId={AGENT}&limit=200",
    f"{PREFIX}/benchmark-runs?status=FAILED",
    f"{PREFIX}/kpi-history?benchmarkId={BENCHMARK}&agentId={AGENT}&kpi={{kpi}}&limit=200",
    f"{PREFIX}/kpi-history?kpi=quality%203",
    # A benchmark that has few of all runs.
    f"{PREFIX}/kpi-history?benchmarkId=bench-7&agentId=agent-3&kpi=quality%203&to=2099-01-01T00:00:00Z",
    f"{PREFIX}/benchmark-runs?benchmarkId=bench-7&agentId=agent-3",
    f"{PREFIX}/alerts?benchmarkId={BENCHMARK}",
    f"{PREFIX}/incidents?state=OPEN",
    f"/benchmarks/{BENCHMARK}/kpis/{{kpi}}?agent={AGENT}&days=3660",
    f"/runs?text=run-777&agent={AGENT}",
    "/runs?sort=verdict",
    "/runs?sort=benchmark",
)


class RequestTime(NamedTuple):
    """The database milliseconds of a request: the median and the worst of its repetitions."""

    name: str
    median_ms: float
    worst_ms: float
    slowest: LoggedStatement | None


def measure() -> Iterator[BenchRow]:
    require_space(tempfile.gettempdir(), SIZE)
    with served(lambda _: None) as service:
        server = server_below(service.resources.data_dir)
        database = service.resources.db.engine.url.database
        assert database is not None
        superuser_url = url_of(superuser_url_of(server), database)
        ids = seed(service)
        started = time.perf_counter()
        with service.resources.db.begin() as session:
            session.connection().exec_driver_sql("SET LOCAL statement_timeout = 0")
            write_events(session, SIZE, ids)
        write_history(superuser_url, SIZE)
        yield _fill_row(time.perf_counter() - started)
        yield from _storage_rows(service)
        service.resources.db.dispose()
        with timed_statements(superuser_url_of(server), database, server.status().log_dir) as log:
            yield from _measure_statements(service, log, ids)


def _fill_row(seconds: float) -> BenchRow:
    return BenchRow(
        "H0 rows", "the time to write them is printed", seconds, True,
        f"{SIZE.runs:,} runs of {SIZE.benchmarks} benchmarks, {SIZE.traces:,} traces: {seconds:.0f} s",
    )  # fmt: skip


def _storage_rows(service: Service) -> Iterator[BenchRow]:
    """What a stored trace takes with its indexes; the goal of the values is that of `storage`."""
    sizes = {
        name: _relation_bytes(service, name) / SIZE.traces
        for name in ("collected_traces", "trace_results")
    }
    history = sum(
        _relation_bytes(service, name)
        for name in ("benchmark_runs", "kpi_history", "run_metrics", "run_series", "run_items")
    )
    texts, values = sizes["collected_traces"], sizes["trace_results"]
    yield BenchRow(
        "H1 bytes", "values of 6 metrics ≤ 200 bytes per trace", values / 200, values <= 200,
        f"{texts:.0f} bytes per trace with its texts, {texts + values:.0f} with the values of 6 metrics;"
        f" {history / SIZE.runs / 1000:.1f} kB per run for its 20 KPIs and its history",
    )  # fmt: skip


def _relation_bytes(service: Service, table: str) -> int:
    with service.resources.db.read() as session:
        size = session.connection().exec_driver_sql(f"SELECT pg_total_relation_size('{table}')")
        return int(size.scalar_one())


def _measure_statements(service: Service, log: StatementLog, ids: JSON) -> Iterator[BenchRow]:
    lists = [f"{PREFIX}{path}" for path in _api_paths(ids)]
    for name, paths in (("H2 API", lists), ("H3 pages", _page_paths(ids))):
        yield _requests_row(name, [_time_request(service, log, path) for path in paths])
    filtered = [path.format(**ids) for path in FILTERED]
    yield _requests_row("H4 filters", [_time_request(service, log, path) for path in filtered])
    yield _requests_row("H5 backtest", list(_time_backtests(service, log, ids)))
    yield from _run_rows(service, log)


def _api_paths(ids: JSON) -> list[str]:
    """Each GET route of the API that answers with JSON."""
    paths = sorted(
        f"{router.prefix}{route.path}"
        for router in ROUTERS
        for route in router.routes
        if route.method == "GET"
    )
    return [_filled(path, ids) for path in paths if path not in EXCLUDED]


def _page_paths(ids: JSON) -> list[str]:
    routes = (route.path for route in iter_page_routes())
    return [_filled(path, ids) for path in routes if not is_form(path)]


def _filled(path: str, ids: JSON) -> str:
    # Every tenth run belongs to the first benchmark: these are its last two.
    runs = {"last": SIZE.runs - SIZE.runs % 10, "before": SIZE.runs - SIZE.runs % 10 - 10}
    examples = ids | {"runId": f"run-{runs['last']}"}
    if "{traceId" in path:
        examples |= {"runId": ids["runId"]}
    query = QUERIES.get(path, "").format(**ids, **runs)
    return fill_path(path, examples) + (f"?{query}" if query else "")


def _time_request(service: Service, log: StatementLog, path: str) -> RequestTime:
    headers = {"Accept": "application/json" if path.startswith(PREFIX) else "text/html"}

    def request() -> None:
        response = service.client.get(path, headers=headers)
        assert response.is_success, f"{path}: {response.status_code} {response.text[:300]}"

    return _time(log, path.removeprefix(PREFIX), request)


def _time_backtests(service: Service, log: StatementLog, ids: JSON) -> Iterator[RequestTime]:
    for days in (90, 3660):
        body = {"alertConfigId": ids["alertConfigId"], "agentId": AGENT, "days": days}
        yield _time(log, f"{days} days", partial(service.post, "/alert-configs/backtest", body))


def _time(log: StatementLog, name: str, request: Callable[[], object]) -> RequestTime:
    request()
    log.read_statements()
    times, slowest = list[float](), None
    started = time.monotonic()
    # What computes in a process of its own takes seconds each time.
    while len(times) < 2 or (len(times) < REPEATS and time.monotonic() - started < REPEAT_S):
        request()
        statements = log.read_statements()
        times.append(sum(statement.milliseconds for statement in statements))
        slowest = max(
            [*statements, *([slowest] if slowest else [])],
            key=lambda statement: statement.milliseconds,
            default=None,
        )
    return RequestTime(name, median(times), max(times), slowest)


def _requests_row(name: str, times: list[RequestTime]) -> BenchRow:
    """The median of the slowest request counts: single repetitions contain what else the machine did."""
    times = sorted(times, key=lambda request: -request.median_ms)
    slowest = times[0]
    named = ", ".join(
        f"{request.name} {request.median_ms:.1f}/{request.worst_ms:.1f}"
        for request in times[:SHOWN]
    )
    statement = f"; its slowest statement: {slowest.slowest.sql[:200]}" if slowest.slowest else ""
    return BenchRow(
        name,
        f"each ≤ {GOAL_MS:g} ms of database time",
        slowest.median_ms / GOAL_MS,
        slowest.median_ms <= GOAL_MS,
        f"{len(times)} requests; median/worst ms: {named}"
        + (statement if slowest.median_ms > GOAL_MS / 2 else ""),
    )


def _run_rows(service: Service, log: StatementLog) -> Iterator[BenchRow]:
    """New runs of the first benchmark, each compared with the mean of the last runs."""
    wholes, finishes = [], []
    for number in range(NEW_RUNS):
        log.read_statements()
        new_run(service, f"new-{number}", NEW_TRACES)
        statements = log.read_statements()
        wholes.append(sum(statement.milliseconds for statement in statements))
        finishes.append(_finishing_ms(statements))
        slowest = max(statements, key=lambda statement: statement.milliseconds)
    for name, goal, times in (
        # The first new run reads pages of the database that nobody
        # has read since they were written.
        ("H6 finish", "the finishing transaction", finishes[1:]),
        ("H7 run", "all statements of a run with MEAN_OF_LAST", wholes[1:]),
    ):
        yield BenchRow(
            name,
            f"{goal} ≤ {GOAL_MS:g} ms of database time",
            median(times) / GOAL_MS,
            median(times) <= GOAL_MS,
            f"{NEW_TRACES} traces; median {median(times):.1f}, worst {max(times):.1f} ms of {len(times)};"
            f" slowest statement {slowest.milliseconds:.1f} ms: {slowest.sql[:160]}",
        )


def _finishing_ms(statements: list[LoggedStatement]) -> float:
    """The milliseconds of the transaction that writes the KPIs of a run."""
    [finish] = [
        transaction
        for transaction in group_transactions(statements)
        if any(s.sql.startswith("INSERT INTO kpi_history") for s in transaction.statements)
    ]
    return finish.milliseconds
