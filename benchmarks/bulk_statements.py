"""Every statement of the service that may change many rows: measured by `benchmarks bulk`, or its bound.

`tests/contracts/test_measured_bulk_statements.py` fails when one is in neither table.
"""

from collections.abc import Mapping
from typing import Final

from benchmarks import bulk

PURGE: Final = "{} (old)"

# The timing of `benchmarks bulk`, or the row of another benchmark, that contains the statement.
MEASURED: Final[Mapping[str, str]] = {
    "app.access.service.delete_expired_responses": PURGE.format("idempotency_keys"),
    "app.access.sessions.delete_expired_sessions": PURGE.format("browser_sessions"),
    "app.core.key_rotation._drop_lost_texts": bulk.DROP_LOST,
    "app.core.key_rotation._reencrypt": bulk.ROTATION,
    "app.jobs.deaths.PLACE_SUSPECTS": bulk.RESCUE,
    "app.jobs.rescue._DELETE_FINISHED": PURGE.format("finished_jobs"),
    "app.notifications.delivery_jobs._enqueue": bulk.DUE_DELIVERIES,
    "app.notifications.delivery_jobs.hold_or_restart": bulk.HOLD_OR_RESTART,
    "app.notifications.delivery_jobs.restart_deliveries": bulk.HOLD_OR_RESTART,
    "app.notifications.inbox._mark_some_read": "L2 read-all",
    "app.notifications.inbox.delete_old_notifications": PURGE.format("notifications"),
    "app.runs.llm_cache.evict_expired_answers": PURGE.format("llm_cache"),
    "app.runs.retention.end_link_batch": bulk.END_LINKS,
    "app.runs.retention.restore_purged_batch": bulk.RESTORE_PURGED,
    "app.schedules.firing.ADVANCE": "S1",
    "app.schedules.firing.INSERT_FIRES": "S1",
    "app.schedules.firing.delete_old_fires": PURGE.format("schedule_fires"),
    "app.schedules.missed_schedules.REPORT_MISSES": bulk.MISSED_SCHEDULES,
    "app.traces.trial_numbers._WRITE": bulk.WRITE_TRIALS,
    "app.traces.otel.service.delete_expired_traces": PURGE.format("received_spans"),
    "app.triggers.service.delete_expired_events": PURGE.format("trigger_events"),
}

ONE_ROW: Final = "one row, by its key"
BATCH: Final = "a batch of `delete_batch`, measured as notifications.drop_deliveries"
# Why a statement cannot change many rows, or the part of the work that bounds it.
BOUNDED: Final[Mapping[str, str]] = {
    "app.access.rate_limits.delete_old_windows": f"{BATCH}; at most the keys of some minutes",
    "app.access.service._delete_configured_key": ONE_ROW,
    "app.access.service._revoke_first_keys": "keys with the name of the first key",
    "app.access.service.record_use": ONE_ROW,
    "app.access.sessions.log_in_with_link": ONE_ROW,
    "app.access.sessions.log_out": ONE_ROW,
    "app.alerts.service.reset_states": "the agents of one rule",
    "app.alerts.stored_series.store_step": ONE_ROW,
    "app.benchmarks.service._set_agents": "the agents of one benchmark, which a request lists",
    "app.comparison.acceptance.hold_incident": "the runs of one incident at its end",
    "app.comparison.acceptance.release_incident": "the runs of one incident at its end",
    "app.comparison.baselines.unpin_baseline": ONE_ROW,
    "app.core.batch_delete.delete_batch": "1,000 rows; each caller is listed",
    "app.core.batch_delete.purge_in_batches": ONE_ROW,
    "app.jobs.job_manager._HEARTBEAT": ONE_ROW,
    "app.jobs.job_manager._REGISTER_PROCESS": ONE_ROW,
    "app.jobs.outcomes._BECOME": ONE_ROW,
    "app.jobs.outcomes._RELEASE_JOB": ONE_ROW,
    "app.jobs.rescue._SET_COUNTS": ONE_ROW,
    "app.jobs.row_deletion.delete_rows": BATCH,
    "app.results.run_series.replace_points": "the series of one run",
    "app.runs.leases._ACQUIRE_RUN": ONE_ROW,
    "app.runs.leases._ACQUIRE_SHARD": ONE_ROW,
    "app.runs.leases.complete_shard": ONE_ROW,
    "app.runs.llm_cache._ADD_USAGE": ONE_ROW,
    "app.runs.llm_cache.evict_answers": "the answers of one shard, by their keys",
    "app.runs.retention.drop_purged": "the shards of one run",
    "app.runs.retention.drop_results": "2,000 positions of one run, by key",
    "app.runs.retention.drop_traces": ONE_ROW,
    "app.runs.shards.create_shards": ONE_ROW,
    "app.runs.shards.store_shard": ONE_ROW,
    "app.traces.circuit_breaker._HOLD": ONE_ROW,
    "app.traces.circuit_breaker._RECORD_FAILURE": ONE_ROW,
    "app.traces.circuit_breaker._RECORD_SUCCESS": ONE_ROW,
    "app.traces.otel.service._MERGE_SPANS": "the spans of one request of 20 MB",
    "app.traces.otel.service._MERGE_TRACES": "the traces of one request of 20 MB",
    "app.traces.service._delete_upload": f"{ONE_ROW}; its traces: {BATCH}",
    "app.traces.service.delete_positions": "2,000 positions of one collection, by key",
    "app.triggers.polling._delete_processed": "the source runs of one agent and benchmark",
}
