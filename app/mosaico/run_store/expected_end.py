"""The expected end of a run in progress, from its own progress or from the last runs of the same pair."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import RunStatus

RECENT_RUNS: Final = 5
# With less of its traces scored, the time spent so far says little about the rest of a run.
MIN_PROGRESS: Final = 0.1

# Runs that score stored traces again take less time than those that collect them.
_MEDIAN_SECONDS = text(
    """
    SELECT pair.benchmark_id, pair.agent_id,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY recent.seconds)
    FROM unnest(CAST(:benchmarks AS text[]), CAST(:agents AS text[])) AS pair (benchmark_id, agent_id)
    CROSS JOIN LATERAL (
        SELECT extract(epoch FROM run.completed_at - run.started_at) AS seconds
        FROM benchmark_runs AS run
        WHERE run.benchmark_id = pair.benchmark_id AND run.agent_id = pair.agent_id
          AND run.status = 'COMPLETED' AND run.started_at IS NOT NULL AND run.rescore_of IS NULL
        ORDER BY run.seq DESC LIMIT :limit
    ) AS recent
    GROUP BY pair.benchmark_id, pair.agent_id
    """
)


def expect_ends(
    session: Session, runs: Iterable[BenchmarkRun], now: datetime
) -> dict[str, datetime | None]:
    """The expected end of each run in progress, by ID; None where neither progress nor history tells."""
    started = [run for run in runs if run.status == RunStatus.RUNNING]
    if not started:
        return {}
    pairs = {(run.benchmark_id, run.agent_id) for run in started}
    benchmarks, agents = zip(*pairs, strict=True)
    parameters = {"benchmarks": list(benchmarks), "agents": list(agents), "limit": RECENT_RUNS}
    usual = {
        (benchmark_id, agent_id): timedelta(seconds=float(seconds))
        for benchmark_id, agent_id, seconds in session.execute(_MEDIAN_SECONDS, parameters)
    }
    return {
        run.id: estimate_end(
            run.started_at,
            now,
            scored=run.traces_processed,
            total=run.traces_total,
            usual=usual.get((run.benchmark_id, run.agent_id)),
        )
        for run in started
    }


def estimate_end(
    started_at: datetime | None,
    now: datetime,
    *,
    scored: int,
    total: int | None,
    usual: timedelta | None,
) -> datetime | None:
    """The end of a run that scores its traces as fast as until now; before a tenth is scored, the end of
    one that takes as long as usual. None for a run that takes longer already.
    """
    if started_at is None:
        return None
    if total and scored >= MIN_PROGRESS * total:
        return now + (now - started_at) * ((total - scored) / scored)
    end = started_at + usual if usual else None
    return end if end and end > now else None
