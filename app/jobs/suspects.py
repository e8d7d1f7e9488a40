"""The place of suspects in the queue: at most one of them runs; see `app.jobs.deaths`."""

# The lock of jobs (`enqueue`) that all suspects get instead of their own.
SUSPECTS_LOCK = "suspects"
# Waiting jobs of one lock run in their order: one that no worker can start would hold up the others.
UNSERVED_LOCK = "suspects of no worker"

# Between the end of the last worker of a queue and its absence, its suspects hold up the others.
_ABSENT_AFTER = "interval '15 seconds'"

# With the predicate of an index, because millions of other jobs may wait.
PLACE_SUSPECTS = f"""
    WITH placed AS (
        SELECT job.id, CASE WHEN EXISTS (
                SELECT FROM worker_processes AS process
                JOIN procrastinate_workers AS worker ON worker.id = process.worker_id
                WHERE worker.last_heartbeat > now() - {_ABSENT_AFTER}
                  AND (process.queues IS NULL OR job.queue_name = ANY (process.queues))
            ) THEN '{SUSPECTS_LOCK}' ELSE '{UNSERVED_LOCK}' END AS lock
        FROM procrastinate_jobs AS job
        WHERE job.status = 'todo' AND job.lock IN ('{SUSPECTS_LOCK}', '{UNSERVED_LOCK}')
        FOR UPDATE OF job SKIP LOCKED
    )
    UPDATE procrastinate_jobs AS job SET lock = placed.lock
    FROM placed WHERE job.id = placed.id AND job.lock <> placed.lock
"""  # noqa: S608 - constants only
