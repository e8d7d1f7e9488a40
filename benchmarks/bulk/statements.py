"""Every statement of the service that may change many rows: measured, for one row, of a limited number of
rows, or sent in batches.

`tests/contracts/test_measured_bulk_statements.py` fails when one is in none of these tables, and checks each of them.
"""

from collections.abc import Mapping
from typing import Final

from benchmarks.bulk import batches, stores, trials

PURGE: Final = "{} (old)"

# The timing of `benchmarks bulk`, or the row of another benchmark, that contains the statement.
MEASURED: Final[Mapping[str, str]] = {
    "mosaico.access.service.delete_expired_responses": PURGE.format("idempotency_keys"),
    "mosaico.access.sessions.delete_expired_sessions": PURGE.format("browser_sessions"),
    "mosaico.core.key_rotation._drop_lost_texts": batches.DROP_LOST,
    "mosaico.core.key_rotation._reencrypt": batches.ROTATION,
    "mosaico.jobs.rescue._DELETE_FINISHED": PURGE.format("finished_jobs"),
    "mosaico.jobs.job_manager._REGISTER_PROCESS": "1,000 ended processes",
    "mosaico.notifications.delivery_jobs._enqueue": batches.DUE_DELIVERIES,
    "mosaico.notifications.delivery_jobs.hold_or_restart": batches.HOLD_OR_RESTART,
    "mosaico.notifications.delivery_jobs.restart_deliveries": batches.HOLD_OR_RESTART,
    "mosaico.notifications.inbox._mark_some_read": "L2 read-all",
    "mosaico.notifications.inbox.delete_old_notifications": PURGE.format("notifications"),
    "mosaico.runs.llm_cache.evict_expired_answers": PURGE.format("llm_cache"),
    "mosaico.runs.retention.end_link_batch": batches.END_LINKS,
    "mosaico.runs.retention.restore_purged_batch": batches.RESTORE_PURGED,
    "mosaico.schedules.firing.ADVANCE": "S1",
    "mosaico.schedules.firing.INSERT_FIRES": "S1",
    "mosaico.schedules.firing.delete_old_fires": PURGE.format("schedule_fires"),
    "mosaico.schedules.missed_schedules.REPORT_MISSES": batches.MISSED_SCHEDULES,
    # A stream of COPY: the statement lasts as long as the upload.
    "mosaico.traces.uploads.service.copy_traces": stores.COPY_UPLOAD,
    # Files of SQLite on the disk of the worker.
    "mosaico.traces.sources.langfuse.source.TraceCounter.add": stores.COUNT_TRACES,
    "mosaico.traces.sources.langfuse.v3_runs.ItemStore.add": stores.STORE_ITEMS,
    "mosaico.traces.trial_numbers.TrialCounts.add": trials.ADD_COUNTS,
    "mosaico.traces.trial_numbers.TrialCounts.number": trials.NUMBER_COUNTED,
    "mosaico.traces.trial_numbers._WRITE": trials.WRITE_TRIALS,
    "mosaico.traces.otel.service.delete_expired_traces": PURGE.format("received_spans"),
    "mosaico.triggers.polling.enqueue_due_polls": "polls of many pairs",
    "mosaico.triggers.service.delete_expired_events": PURGE.format("trigger_events"),
}

# The table of whose rows a key selects one.
ONE_ROW: Final[Mapping[str, str]] = {
    "mosaico.access.rate_limits._add_requests": "rate_windows",
    "mosaico.access.service._delete_configured_key": "api_keys",
    "mosaico.access.service._register_configured_key": "api_keys",
    "mosaico.access.service.record_use": "api_keys",
    "mosaico.access.sessions.log_in_with_link": "login_links",
    "mosaico.access.sessions.log_out": "browser_sessions",
    "mosaico.alerts.stored_series.store_step": "run_series",
    "mosaico.comparison.baselines.pin_baseline": "benchmark_baselines",
    "mosaico.core.batch_delete._valid_mark": "purge_marks",
    "mosaico.core.batch_delete.purge_in_batches": "purge_marks",
    "mosaico.jobs.job_manager._HEARTBEAT": "procrastinate_workers",
    "mosaico.jobs.job_manager._SIGN_OFF": "worker_processes",
    "mosaico.jobs.outcomes._BECOME": "procrastinate_jobs",
    "mosaico.jobs.outcomes._FORGET_DEATHS": "procrastinate_jobs",
    "mosaico.jobs.outcomes._RELEASE_JOB": "procrastinate_jobs",
    "mosaico.jobs.rescue._SET_COUNTS": "procrastinate_jobs",
    "mosaico.notifications.service._insert_notification": "notifications",
    # The points of a run one after the other.
    "mosaico.run_store.run_series.replace_points": "run_series",
    "mosaico.run_store.run_series.store_points": "run_items",
    "mosaico.runs.leases._ACQUIRE_RUN": "benchmark_runs",
    "mosaico.runs.leases._ACQUIRE_SHARD": "run_shards",
    "mosaico.runs.leases.complete_shard": "run_shards",
    "mosaico.runs.llm_cache._ADD_USAGE": "benchmark_runs",
    "mosaico.runs.retention.drop_traces": "collections",
    "mosaico.runs.shards.create_shards": "benchmark_runs",
    "mosaico.traces.circuit_breaker._HOLD": "circuit_breakers",
    "mosaico.traces.circuit_breaker._RECORD_FAILURE": "circuit_breakers",
    "mosaico.traces.circuit_breaker._RECORD_SUCCESS": "circuit_breakers",
    "mosaico.traces.uploads.service._delete_upload": "local_datasets",
    "mosaico.triggers.remote_experiments.await_runs": "awaited_runs",
    "mosaico.triggers.service._insert_event": "trigger_events",
    "mosaico.triggers.service.record_change": "trigger_events",
    "mosaico.triggers.service.record_poll_failure": "trigger_events",
}

_BATCH: Final = "mosaico.core.batch_delete.BATCH_ROWS"
_EXPORT: Final = "mosaico.traces.otel.export_body.MAX_EXPORT_BYTES"
# The constant that limits the rows of a statement, or the bytes of its request.
LIMITED: Final[Mapping[str, str]] = {
    "mosaico.access.rate_limits.delete_old_windows": _BATCH,
    "mosaico.benchmarks.service._set_agents": "mosaico.benchmarks.schemas.MAX_AGENTS",
    "mosaico.jobs.row_deletion.delete_rows": _BATCH,
    "mosaico.notifications.endpoints.ensure_endpoints": "mosaico.alerts.schemas.MAX_RECIPIENTS",
    "mosaico.runs.finish._store_metrics": "mosaico.benchmarks.schemas.MAX_METRICS",
    "mosaico.runs.finish.finish_run": "mosaico.benchmarks.schemas.MAX_KPIS",
    "mosaico.runs.retention.drop_results": "mosaico.runs.retention.ROWS_PER_BATCH",
    "mosaico.runs.shards.store_shard": "mosaico.runs.shards.SHARD_TRACES",
    "mosaico.traces.otel.service._MERGE_SPANS": _EXPORT,
    "mosaico.traces.otel.service._MERGE_TRACES": _EXPORT,
    "mosaico.traces.otel.service.store_spans": _EXPORT,
    "mosaico.traces.service.delete_positions": "mosaico.runs.retention.ROWS_PER_BATCH",
}

# The timing of a statement that is sent in batches of `mosaico.core.batches`, however many rows its input has.
BATCHED: Final[Mapping[str, str]] = {
    "mosaico.access.service._revoke_first_keys": "1,000 first keys",
    "mosaico.alerts.publishing.store_and_publish": "1,000 alerts to 20 endpoints",
    "mosaico.alerts.service._CREATE_STATES": "states of 1,000 rules",
    "mosaico.alerts.service.reset_states": "reset of 1,000 states",
    "mosaico.comparison.acceptance._set_hold": "hold of 1,000 runs",
    "mosaico.comparison.baselines.unpin_baseline": "1,000 pinned baselines",
    "mosaico.jobs.queue.enqueue_jobs": "5,000 shards",
    "mosaico.notifications.service._STORE_DELIVERIES": "message to 1,000 endpoints",
    "mosaico.run_store.run_series._insert_series": "200 series of 10,000 items",
    "mosaico.runs.llm_cache._STORE_ANSWERS": "2,000 LLM answers",
    "mosaico.runs.llm_cache.evict_answers": "eviction of 2,000 LLM answers",
    "mosaico.runs.retention.drop_purged": "5,000 purged shards",
    "mosaico.runs.shards._STORE_SHARDS": "5,000 shards",
    "mosaico.traces.service._append_traces": "page of 2,000 traces",
    "mosaico.triggers.polling._STORE_PROCESSED": "10,000 processed source runs",
    "mosaico.triggers.polling._delete_processed": "10,000 forgotten source runs",
}
