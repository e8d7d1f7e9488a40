"""A2: page 10,000 of the list of runs, compared with page 1 and with OFFSET.

Set `MOSAICO_BENCH_LIST_ROWS=1000000` for a list of the promised length; the default takes seconds, and measures the
last full page of fewer rows.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from benchmarks.result_rows import BenchRow, interleave
from benchmarks.table_rows import insert_rows
from mosaico.core.db import Database
from mosaico.core.keyset import PageQuery, encode_cursor
from mosaico.core.migrations import upgrade
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.queries import RUN_COLUMNS
from mosaico.run_store.run_list import DEFAULT_SORT, RunListFilter, search_runs
from tests.support.postgres import cluster, drop_database, make_database

GOAL: Final = 1.5
ROWS: Final = int(os.environ.get("MOSAICO_BENCH_LIST_ROWS", "100000"))
PAGE: Final = 50
PAGE_NUMBER: Final = min(10_000, ROWS // PAGE - 1)
SKIPPED_ROWS: Final = (PAGE_NUMBER - 1) * PAGE
# Pages of one timing.
PAGES: Final = 20
ROUNDS: Final = 11


def measure() -> Iterator[BenchRow]:
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as running:
        drop_database(running.url, "bench_lists")
        url = make_database(running.url, "bench_lists")
        upgrade(url)
        with Database(url, pool_size=1, name="bench") as db:
            fill(db)
            with db.read() as session:
                yield compare_pages(session)


def fill(db: Database) -> None:
    with db.begin() as session:
        session.execute(text("SET LOCAL statement_timeout = 0"))
        insert_rows(session, "agents", {"id": "'a'"})
        insert_rows(session, "benchmarks", {"id": "'b'", "metrics": "'[]'"})
        runs = {
            "id": "'run-' || n",
            "benchmark_id": "'b'",
            "agent_id": "'a'",
            "status": "'COMPLETED'",
            "triggered_by": "'MANUAL'",
        }
        insert_rows(session, "benchmark_runs", runs, ROWS)
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text("VACUUM ANALYZE"))


def compare_pages(session: Session) -> BenchRow:
    newest = session.scalar(select(func.max(BenchmarkRun.seq))) or 0
    cursor = encode_cursor([newest - SKIPPED_ROWS])
    newest_first = RUN_COLUMNS.order_by(BenchmarkRun.seq.desc()).limit(PAGE)

    def read_page(after: str | None) -> None:
        for _ in range(PAGES):
            search_runs(session, RunListFilter(), DEFAULT_SORT, PageQuery(PAGE, after))

    def read_offset() -> None:
        session.execute(newest_first.offset(SKIPPED_ROWS)).all()

    last = interleave(lambda: read_page(cursor), lambda: read_page(None), ROUNDS)
    offset = interleave(read_offset, lambda: read_page(None), ROUNDS)
    ratio = last.ours_seconds / last.peer_seconds
    page_ms, first_ms = (
        seconds / PAGES * 1000 for seconds in (last.ours_seconds, last.peer_seconds)
    )
    return BenchRow(
        "A2 lists",
        f"page {PAGE_NUMBER:,} of a list ≤ {GOAL:g}× page 1",
        ratio,
        ratio <= GOAL,
        f"{page_ms:.2f} ms compared with {first_ms:.2f} ms per page of {PAGE} runs; with OFFSET"
        f" {offset.ours_seconds * 1000:.1f} ms, {offset.ours_seconds / offset.peer_seconds * PAGES:.0f}×;"
        f" {ROWS:,} runs",
    )
