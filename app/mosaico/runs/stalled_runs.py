"""Fails stalled runs: runs without progress that have no job left."""

from datetime import datetime, timedelta

from sqlalchemy import bindparam, text
from sqlalchemy.orm import Session

from mosaico.core.errors import AppError
from mosaico.runs.service import fail_run

BATCH = 50


class Stale(AppError):
    """The run made no progress for MOSAICO_STALE_RUN_S and had no job left; retry it."""

    code = "STALE"


# A run with a queued or running job is not stalled, however long it takes: the job of a dead worker
# is given to another worker. Nor is one that waits until its baseline is measured again.
STALLED_RUNS = text(
    """
    SELECT run.id FROM benchmark_runs AS run
    WHERE run.status IN ('PENDING', 'RUNNING')
      AND greatest(run.created_at, run.started_at,
                   (SELECT max(shard.done_at) FROM run_shards AS shard
                    WHERE shard.run_seq = run.seq)) < :before
      AND NOT EXISTS (SELECT FROM procrastinate_jobs AS job
                      WHERE job.status IN ('todo', 'doing') AND job.args ->> 'run_id' = run.id)
      AND NOT EXISTS (SELECT FROM benchmark_runs AS again
                      WHERE again.status IN ('PENDING', 'RUNNING') AND again.rescore_of IS NOT NULL
                        AND again.benchmark_id = run.benchmark_id AND again.agent_id = run.agent_id
                        AND again.seq > run.seq)
    ORDER BY run.seq LIMIT :batch
    """
).bindparams(bindparam("batch", BATCH))


def fail_runs_without_progress(session: Session, now: datetime, after: timedelta) -> None:
    """Fail runs that made no progress for the time `after` and have no job."""
    run_ids = list(session.scalars(STALLED_RUNS, {"before": now - after}))
    minutes = after.total_seconds() / 60
    message = f"the run made no progress for {minutes:g} min and has no job left; retry it"
    for run_id in run_ids:
        fail_run(session, run_id, Stale.code, message, now)
