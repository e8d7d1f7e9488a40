"""The list of runs as CSV."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from app.agents.models import Agent
from app.benchmarks.models import Benchmark
from app.core.db import Database
from app.core.keyset import MAX_LIMIT, PageQuery
from app.core.spreadsheet import csv_text
from app.results.run_list import RunListFilter, search_runs

MAX_ROWS: Final = 10_000
COLUMNS: Final = (
    "runId", "benchmarkId", "benchmark", "agentId", "agent", "runName", "status", "validity",
    "verdict", "triggeredBy", "tracesProcessed", "tracesTotal", "createdAt", "startedAt",
    "completedAt", "errorCode",
)  # fmt: skip


def iter_csv(db: Database, run_filter: RunListFilter, sort: str) -> Iterator[str]:
    """The header, then pages of runs. Each page is a read of its own: a slow reader holds no transaction."""
    yield csv_text(COLUMNS, ())
    cursor: str | None = None
    for _ in range(MAX_ROWS // MAX_LIMIT):
        with db.read() as session:
            page = search_runs(session, run_filter, sort, PageQuery(MAX_LIMIT, cursor))
            benchmarks = {
                id_: benchmark.display_name
                for id_ in {run["benchmark_id"] for run in page.rows}
                if (benchmark := session.get(Benchmark, id_))
            }
            agents = {
                id_: agent.name
                for id_ in {run["agent_id"] for run in page.rows}
                if (agent := session.get(Agent, id_))
            }
        yield "".join(_line(run, benchmarks, agents) for run in page.rows)
        cursor = page.next_cursor
        if cursor is None:
            return


def _line(run: Mapping[str, Any], benchmarks: Mapping[str, str], agents: Mapping[str, str]) -> str:
    verdict = run["verdict"]
    cells = [
        run["id"],
        run["benchmark_id"],
        benchmarks.get(run["benchmark_id"]),
        run["agent_id"],
        agents.get(run["agent_id"]),
        run["run_name"],
        run["status"],
        run["validity"],
        verdict.verdict if verdict else None,
        run["triggered_by"],
        run["traces_processed"],
        run["traces_total"],
        *(_instant(run[name]) for name in ("created_at", "started_at", "completed_at")),
        run["error_code"],
    ]
    return csv_text(cells, ())


def _instant(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
