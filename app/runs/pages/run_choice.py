"""The choice of the other run of a comparison: the recent runs of the benchmark."""

from fastapi import Request
from sqlalchemy.orm import Session

from app.agents.queries import list_agent_names
from app.core.keyset import PageQuery
from app.core.resources import Resources
from app.core.web.page_text import format_instant
from app.core.web.pages import reader_zone
from app.results.models import BenchmarkRun
from app.results.rules import RunStatus
from app.results.run_list import DEFAULT_SORT, RunListFilter, list_runs_by_id, search_runs

RECENT_RUNS = 30
# Completed runs are the most: those of a benchmark are found at once.
RECENT_TIME_S = 0.1


def list_choices(
    session: Session, request: Request, res: Resources, *page_runs: BenchmarkRun
) -> list[tuple[str, str]]:
    """The IDs of the recent completed runs of a benchmark with their time and agent, and of the runs that
    the page shows.
    """
    recent = search_runs(
        session,
        RunListFilter.unchecked(
            benchmark_ids=[page_runs[0].benchmark_id], statuses=[RunStatus.COMPLETED]
        ),
        DEFAULT_SORT,
        PageQuery(RECENT_RUNS),
        search_time_s=RECENT_TIME_S,
    ).rows
    listed = {row["id"] for row in recent}
    other_runs = list_runs_by_id(session, [run.id for run in page_runs if run.id not in listed])
    names = list_agent_names(session)
    zone, now = reader_zone(request), res.clock()
    return [
        (
            row["id"],
            f"{format_instant(row['created_at'], zone, now)} · {names.get(row['agent_id'])}",
        )
        for row in (*recent, *other_runs)
    ]
