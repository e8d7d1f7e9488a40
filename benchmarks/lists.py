"""L1: every list and bulk statement of the API at a million rows, each page within 50 ms.

The rows are made with SQL. A page is requested from the service over HTTP, one request after the other,
and the fastest of some repetitions counts: the others contain what else the machine did. A search, which no
index serves, and two filters that few rows pass, read rows in batches; of their statements the slowest counts,
by the clock of the database, in the fastest of some repetitions.
Set `MOSAICO_BENCH_LIST_ROWS` for another number of rows.
"""

import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import psycopg
from sqlalchemy.orm import Session

from benchmarks.api import open_server
from benchmarks.list_rows import ROWS, fill
from benchmarks.result_rows import BenchRow
from mosaico.alerts import event_queries, incident_queries
from mosaico.alerts.inbox_view import InboxFilter, list_entries
from mosaico.core.db import Database
from mosaico.core.keyset import PageQuery
from mosaico.kpis import queries as kpi_queries
from mosaico.notifications.inbox import READ_BATCH
from mosaico.overview.schemas import SearchKind
from mosaico.postgres.server import EmbeddedPostgres
from mosaico.run_store import run_list
from mosaico.run_store.rules import RunStatus
from mosaico.run_store.run_list import RunListFilter
from tests.support.postgres import cluster, drop_database, make_database, server_below

PAGE_GOAL_MS: Final = 50.0
REPEATS: Final = 7
SEARCH_REPEATS: Final = 2
SEARCH_PAGES: Final = 10
# A single request of the API ends after ten seconds; the whole of a bulk request may take longer.
BULK_TIMEOUT_S: Final = 900

# The rows are a second apart: 86,400 of them are older.
SECOND_DAY: Final = "2026-01-02T00:00:00Z"

LISTS: Final = (
    "/agents",
    "/agents?archived=true",
    "/benchmarks",
    "/benchmarks?archived=true",
    "/keys",
    "/local-datasets",
    "/local-datasets?name=name-7",
    "/local-datasets?agentId=a",
    "/local-datasets/set-1/items",
    "/benchmark-runs",
    "/benchmark-runs?status=FAILED",
    "/benchmark-runs?status=RUNNING",
    "/benchmark-runs?benchmarkId=b&agentId=agent-1",
    f"/benchmark-runs?to={SECOND_DAY}",
    *(f"/benchmark-runs?sort={key}" for key in run_list.SORT_KEYS),
    "/benchmark-runs?scheduleId=schedule-1",
    "/benchmark-runs?verdict=REGRESSED",
    "/audit",
    "/audit?actorId=key-7",
    "/audit?action=delete_agent",
    "/audit?resourceType=agents",
    "/audit?resourceType=agents&resourceId=run-7",
    "/audit?outcome=refused",
    "/audit?requestId=request-7",
    f"/audit?to={SECOND_DAY}",
    f"/audit?from={SECOND_DAY}",
    f"/audit?action=create_agent&to={SECOND_DAY}",
    "/trigger-events",
    "/trigger-events?status=WAITING",
    "/trigger-events?type=agent-updated",
    "/notifications",
    "/notifications?unread=true",
    "/notifications?unread=false",
    "/endpoints",
    "/deliveries",
    "/deliveries?status=FAILED",
    "/deliveries?endpointId=endpoint-1",
    "/deliveries?notificationId=message-7",
    "/kpi-history",
    "/kpi-history?kpi=quality",
    "/kpi-history?kpi=nothing",
    "/kpi-history?agentId=a",
    f"/kpi-history?to={SECOND_DAY}",
    f"/kpi-history?from={SECOND_DAY}",
    "/kpi-history?benchmarkId=b",
    *(f"/kpi-history?sort={key}" for key in kpi_queries.SORT_KEYS),
    "/alerts",
    "/alerts?state=FIRING",
    "/alerts?benchmarkId=b",
    "/alerts?agentId=a&state=RESOLVED",
    "/alerts?state=RUN_INVALID",
    "/alerts?runId=run-7",
    "/alerts?silenceId=silence-7",
    f"/alerts?to={SECOND_DAY}",
    f"/alerts?from={SECOND_DAY}",
    *(f"/alerts?sort={key}" for key in event_queries.SORT_KEYS),
    "/alerts?alertConfigId=rule-1",
    "/schedule-configs",
    "/schedule-configs?enabled=false",
    "/schedule-configs?benchmarkId=bench-7",
    "/schedule-configs?agentId=agent-7",
    "/schedule-configs/schedule-1/fires",
    "/benchmarks/b/webhook-secrets",
    "/benchmarks/bench-2/webhook-secrets",
    "/langfuse-secrets",
    "/benchmarks/bench-1/kpis",
    "/benchmarks/b/revisions",
    "/inbox",
    "/inbox?state=open",
    "/alert-configs",
    "/alert-configs?enabled=false",
    "/alert-configs?benchmarkId=bench-7",
    "/alert-configs?agentId=agent-7",
    "/incidents",
    "/incidents?state=OPEN",
    "/incidents?benchmarkId=b&agentId=agent-1",
    "/incidents?alertConfigId=rule-7",
    f"/incidents?from={SECOND_DAY}",
    f"/incidents?to={SECOND_DAY}",
    *(f"/incidents?sort={key}" for key in incident_queries.SORT_KEYS),
    "/silences",
    "/silences?active=true",
    "/silences?ended=true",
    "/silences?ended=false",
    "/benchmark-runs/run-1/results",
)

# Filters that no index serves: each search reads every row, page by page.
SEARCHES: Final = (
    "/benchmark-runs?triggeredBy=WEBHOOK",
    "/benchmark-runs?validity=INVALID",
    "/benchmark-runs?text=name-7",
    "/benchmark-runs?text=nothing",
    # The name of every agent.
    "/benchmark-runs?text=agent-",
    "/benchmark-runs?text=nothing&sort=-agent",
    "/benchmark-runs?text=nothing&sort=benchmark",
    "/benchmark-runs?status=RUNNING&sort=agent",
    "/benchmark-runs?text=nothing&sort=completed",
    "/notifications?severity=CRITICAL",
    "/inbox?severity=CRITICAL",
    "/inbox?state=acknowledged",
    "/inbox?agentId=agent-7",
    "/inbox?benchmarkId=bench-7",
    "/endpoints?channel=EMAIL",
    "/endpoints?disabled=true",
    "/alerts?severity=CRITICAL",
    "/alerts?acknowledged=true",
    "/alerts?text=alert-7",
    "/alerts?text=nothing",
    "/incidents?severity=CRITICAL",
    "/incidents?kpi=nothing",
    "/incidents?text=nothing",
    "/benchmark-runs/run-1/results?itemId=item-7",
    "/benchmark-runs/run-1/results?state=failed",
    "/benchmark-runs/run-1/results?metric=ROUGE&below=0.2",
    "/benchmark-runs/run-1/results?metric=ROUGE&state=missing",
    "/benchmark-runs/run-1/results?text=nothing",
    "/overview/search?text=nothing",
    # The ID of every agent.
    "/overview/search?text=agent-",
    *(f"/overview/search?text=nothing&kind={kind}" for kind in SearchKind),
)

# Two values of a filter, whose rows no index has in the order of the list, and two filters, each with half of
# the rows, which three rows pass.
PAIRS: Final = (
    "/benchmark-runs?status=FAILED&status=RUNNING",
    f"/benchmark-runs?from={SECOND_DAY}&status=COMPLETED",
    "/kpi-history?agentId=a&agentId=agent-7",
    "/kpi-history?kpi=quality&kpi=nothing",
    "/alerts?benchmarkId=b&benchmarkId=bench-7",
    "/benchmark-runs?agentId=agent-1&status=CANCELLED",
    "/benchmark-runs?agentId=agent-1&status=CANCELLED&status=RUNNING",
    "/benchmark-runs?benchmarkId=bench-1&agentId=agent-1",
    "/benchmark-runs?agentId=agent-1&status=CANCELLED&sort=-agent",
    "/benchmark-runs?agentId=agent-1&status=CANCELLED&sort=verdict",
    f"/benchmark-runs?agentId=agent-1&status=CANCELLED&from={SECOND_DAY}",
    "/kpi-history?benchmarkId=bench-1&agentId=agent-1",
    "/kpi-history?benchmarkId=bench-1&agentId=agent-1&kpi=quality&sort=kpi",
    "/alerts?benchmarkId=bench-1&agentId=agent-1",
    "/alerts?benchmarkId=bench-1&agentId=agent-1&state=FIRING&sort=name",
    "/incidents?benchmarkId=bench-1&agentId=agent-1&sort=state",
    "/audit?action=update_agent&resourceType=endpoints",
    "/trigger-events?type=webhook&status=IGNORED",
    "/deliveries?endpointId=endpoint-1&status=HELD",
    "/schedule-configs?benchmarkId=bench-1&agentId=agent-1",
    "/alert-configs?benchmarkId=bench-1&agentId=agent-1&enabled=true",
    "/local-datasets?name=name-0&agentId=agent-1",
)

# What only the pages ask: their counts, and the messages about an agent.
PAGE_READS: Final[Mapping[str, Callable[[Session], object]]] = {
    "count of runs": lambda session: run_list.count_runs(session, RunListFilter()),
    "count of runs with two filters": lambda session: run_list.count_runs(
        session, RunListFilter(agent_ids=["agent-1"], statuses=[RunStatus.CANCELLED])
    ),
    "count of runs with a text": lambda session: run_list.count_runs(
        session, RunListFilter(text="nothing")
    ),
    "messages about an agent": lambda session: list_entries(
        session, PageQuery(), InboxFilter(agent_id="agent-7")
    ),
}


class PageTime(NamedTuple):
    """A list and the milliseconds of its fastest page."""

    path: str
    milliseconds: float


class SearchTime(NamedTuple):
    """A search: the milliseconds of its slowest statement, its statements and its seconds."""

    name: str
    milliseconds: float
    statement_count: int
    seconds: float


def measure() -> Iterator[BenchRow]:
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as running:
        drop_database(running.url, "bench_lists")
        url = make_database(running.url, "bench_lists")
        token = fill(url)
        with (
            open_server("service", url) as server,
            httpx.Client(
                base_url=f"http://127.0.0.1:{server.port}/api/v1",
                headers={"Authorization": f"Bearer {token}"},
                timeout=BULK_TIMEOUT_S,
            ) as client,
        ):
            times = sorted(
                (_time_page(client, path) for path in LISTS), key=lambda page: -page.milliseconds
            )
            yield _pages_row(times)
            yield _searches_row(_time_searches(client, url, server_below(Path(folder))))
            yield _bulk_row(client)


def _pages_row(times: list[PageTime]) -> BenchRow:
    slowest = times[0].milliseconds
    named = ", ".join(f"{page.path} {page.milliseconds:.1f}" for page in times)
    return BenchRow(
        "L1 lists",
        f"every list ≤ {PAGE_GOAL_MS:g} ms per page of 50",
        slowest / PAGE_GOAL_MS,
        slowest <= PAGE_GOAL_MS,
        f"{ROWS:,} rows in each table; milliseconds: {named}",
    )


def _searches_row(times: list[SearchTime]) -> BenchRow:
    slowest_first = sorted(times, key=lambda search: -search.milliseconds)
    slowest = slowest_first[0].milliseconds
    named = ", ".join(
        f"{search.name} {search.milliseconds:.1f} ({search.statement_count} in {search.seconds:.1f} s)"
        for search in slowest_first
    )
    return BenchRow(
        "L3 searches",
        f"each statement ≤ {PAGE_GOAL_MS:g} ms",
        slowest / PAGE_GOAL_MS,
        slowest <= PAGE_GOAL_MS,
        f"{ROWS:,} rows in each table; milliseconds of the slowest statement: {named}",
    )


def _time_searches(client: httpx.Client, url: str, server: EmbeddedPostgres) -> list[SearchTime]:
    """The searches of the API and the reads of pages, each by the log of the database."""
    log_folder = server.status().log_dir
    with psycopg.connect(server.superuser_url(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET log_min_duration_statement = 0")
        connection.execute("SELECT pg_reload_conf()")
    db = Database(url, pool_size=1, name="bench")

    def read(page_read: Callable[[Session], object]) -> None:
        with db.read() as session:
            page_read(session)

    times = [
        *(
            _time_search(path, partial(_search, client, path), log_folder)
            for path in (*SEARCHES, *PAIRS)
        ),
        *(
            _time_search(name, partial(read, page_read), log_folder)
            for name, page_read in PAGE_READS.items()
        ),
    ]
    db.dispose()
    return times


def _time_search(name: str, search: Callable[[], None], log_folder: Path) -> SearchTime:
    repetitions = []
    for _ in range(SEARCH_REPEATS):
        before = _log_size(log_folder)
        started = time.perf_counter()
        search()
        seconds = time.perf_counter() - started
        # The server writes its log with a delay.
        time.sleep(0.5)
        statements = _read_durations(log_folder, before)
        repetitions.append(SearchTime(name, max(statements), len(statements), seconds))
    return min(repetitions, key=lambda search: search.milliseconds)


def _search(client: httpx.Client, path: str) -> None:
    """Read a search to its end; of one that finds most rows, its first pages."""
    parameters = httpx.URL(path).params
    for _ in range(SEARCH_PAGES):
        response = client.get(path.partition("?")[0], params=parameters)
        response.raise_for_status()
        next_cursor = _find_next_cursor(response.json())
        if next_cursor is None:
            return
        parameters = parameters.set("cursor", next_cursor)


def _find_next_cursor(body: Mapping[str, Any]) -> str | None:
    """The cursor of a list, or of the search of one kind of names."""
    groups = body.get("groups", [body])
    cursor: str | None = groups[0]["nextCursor"] if len(groups) == 1 else None
    return cursor


def _log_size(log_folder: Path) -> int:
    return sum(path.stat().st_size for path in log_folder.glob("postgres-*.log"))


def _read_durations(log_folder: Path, offset: int) -> list[float]:
    """The milliseconds of the statements that the server has logged since a size of its log."""
    [path] = log_folder.glob("postgres-*.log")
    logged = path.read_bytes()[offset:].decode(errors="replace")
    return [float(duration) for duration in re.findall(r"duration: ([0-9.]+) ms  execute", logged)]


def _bulk_row(client: httpx.Client) -> BenchRow:
    """Mark every message as read; the mean of a batch, which is a transaction, counts."""
    started = time.perf_counter()
    response = client.post("/notifications/read-all")
    seconds = time.perf_counter() - started
    response.raise_for_status()
    batch_ms = seconds * 1000 / max(1, ROWS / READ_BATCH)
    return BenchRow(
        "L2 read-all",
        f"batches of {READ_BATCH} messages ≤ {PAGE_GOAL_MS:g} ms each",
        batch_ms / PAGE_GOAL_MS,
        batch_ms <= PAGE_GOAL_MS and response.json()["unread"] == 0,
        f"{ROWS:,} unread messages in {seconds:.1f} s, {batch_ms:.1f} ms per batch",
    )


def _time_page(client: httpx.Client, path: str) -> PageTime:
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        response = client.get(path)
        times.append((time.perf_counter() - started) * 1000)
        response.raise_for_status()
    return PageTime(path, min(times))
