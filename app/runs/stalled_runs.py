"""Runs that stand still: not ended, without progress, and nobody will go on with them."""

from datetime import datetime, timedelta

from sqlalchemy import bindparam, text
from sqlalchemy.orm import Session

from app.runs.service import fail_run

BATCH = 50

# A run with a job in the queue or in a worker's hands is alive, however long it takes: what a
# dead worker held is given to another one.
STALLED_RUNS = text(
    """
    SELECT run.id FROM benchmark_runs AS run
    WHERE run.status IN ('PENDING', 'RUNNING')
      AND greatest(run.created_at, run.started_at,
                   (SELECT max(shard.done_at) FROM run_shards AS shard
                    WHERE shard.run_seq = run.seq)) < :before
      AND NOT EXISTS (SELECT FROM procrastinate_jobs AS job
                      WHERE job.status IN ('todo', 'doing') AND job.args ->> 'run_id' = run.id)
    ORDER BY run.seq LIMIT :batch
    """
).bindparams(bindparam("batch", BATCH))


def fail_runs_without_progress(session: Session, now: datetime, after: timedelta) -> list[str]:
    """Fail runs that made no progress for so long and have no job left; returns their ids."""
    stale = list(session.scalars(STALLED_RUNS, {"before": now - after}))
    minutes = after.total_seconds() / 60
    message = f"no progress for {minutes:g} min, and no job to go on with it; retry the run"
    return [run_id for run_id in stale if fail_run(session, run_id, "STALE", message, now)]
