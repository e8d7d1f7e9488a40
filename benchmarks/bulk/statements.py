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
    "app.access.service.delete_expired_responses": PURGE.format("idempotency_keys"),
    "app.access.sessions.delete_expired_sessions": PURGE.format("browser_sessions"),
    "app.core.key_rotation._drop_lost_texts": batches.DROP_LOST,
    "app.core.key_rotation._reencrypt": batches.ROTATION,
    "app.jobs.deaths.PLACE_SUSPECTS": batches.RESCUE,
    "app.jobs.rescue._END_LONG_WAITS": batches.RESCUE,
    "app.jobs.rescue._DELETE_FINISHED": PURGE.format("finished_jobs"),
    "app.jobs.job_manager._REGISTER_PROCESS": "1,000 ended processes",
    "app.notifications.delivery_jobs._enqueue": batches.DUE_DELIVERIES,
    "app.notifications.delivery_jobs.hold_or_restart": batches.HOLD_OR_RESTART,
    "app.notifications.delivery_jobs.restart_deliveries": batches.HOLD_OR_RESTART,
    "app.notifications.inbox._mark_some_read": "L2 read-all",
    "app.notifications.inbox.delete_old_notifications": PURGE.format("notifications"),
    "app.runs.llm_cache.evict_expired_answers": PURGE.format("llm_cache"),
    "app.runs.retention.end_link_batch": batches.END_LINKS,
    "app.runs.retention.restore_purged_batch": batches.RESTORE_PURGED,
    "app.schedules.firing.ADVANCE": "S1",
    "app.schedules.firing.INSERT_FIRES": "S1",
    "app.schedules.firing.delete_old_fires": PURGE.format("schedule_fires"),
    "app.schedules.missed_schedules.REPORT_MISSES": batches.MISSED_SCHEDULES,
    # A stream of COPY: the statement lasts as long as the upload.
    "app.traces.uploads.service.copy_traces": stores.COPY_UPLOAD,
    # Files of SQLite on the disk of the worker.
    "app.traces.sources.langfuse.source.TraceCounter.add": stores.COUNT_TRACES,
    "app.traces.sources.langfuse.v3_runs.ItemStore.add": stores.STORE_ITEMS,
    "app.traces.trial_numbers.TrialCounts.add": trials.ADD_COUNTS,
    "app.traces.trial_numbers.TrialCounts.number": trials.NUMBER_COUNTED,
    "app.traces.trial_numbers._WRITE": trials.WRITE_TRIALS,
    "app.traces.otel.service.delete_expired_traces": PURGE.format("received_spans"),
    "app.triggers.polling.enqueue_due_polls": "polls of many pairs",
    "app.triggers.service.delete_expired_events": PURGE.format("trigger_events"),
}

# The table of whose rows a key selects one.
ONE_ROW: Final[Mapping[str, str]] = {
    "app.access.rate_limits._add_requests": "rate_windows",
    "app.access.service._delete_configured_key": "api_keys",
    "app.access.service._register_configured_key": "api_keys",
    "app.access.service.record_use": "api_keys",
    "app.access.sessions.log_in_with_link": "login_links",
    "app.access.sessions.log_out": "browser_sessions",
    "app.alerts.stored_series.store_step": "run_series",
    "app.comparison.baselines.pin_baseline": "benchmark_baselines",
    "app.core.batch_delete._valid_mark": "purge_marks",
    "app.core.batch_delete.purge_in_batches": "purge_marks",
    "app.jobs.job_manager._HEARTBEAT": "procrastinate_workers",
    "app.jobs.outcomes._BECOME": "procrastinate_jobs",
    "app.jobs.outcomes._RELEASE_JOB": "procrastinate_jobs",
    "app.jobs.rescue._SET_COUNTS": "procrastinate_jobs",
    "app.notifications.service._insert_notification": "notifications",
    # The points of a run one after the other.
    "app.results.run_series.replace_points": "run_series",
    "app.results.run_series.store_points": "run_items",
    "app.runs.leases._ACQUIRE_RUN": "benchmark_runs",
    "app.runs.leases._ACQUIRE_SHARD": "run_shards",
    "app.runs.leases.complete_shard": "run_shards",
    "app.runs.llm_cache._ADD_USAGE": "benchmark_runs",
    "app.runs.retention.drop_traces": "collections",
    "app.runs.shards.create_shards": "benchmark_runs",
    "app.traces.circuit_breaker._HOLD": "circuit_breakers",
    "app.traces.circuit_breaker._RECORD_FAILURE": "circuit_breakers",
    "app.traces.circuit_breaker._RECORD_SUCCESS": "circuit_breakers",
    "app.traces.uploads.service._delete_upload": "local_datasets",
    "app.triggers.remote_experiments.await_runs": "awaited_runs",
    "app.triggers.service._insert_event": "trigger_events",
    "app.triggers.service.record_change": "trigger_events",
    "app.triggers.service.record_poll_failure": "trigger_events",
}

_BATCH: Final = "app.core.batch_delete.BATCH_ROWS"
_EXPORT: Final = "app.traces.otel.export_body.MAX_EXPORT_BYTES"
# The constant that limits the rows of a statement, or the bytes of its request.
LIMITED: Final[Mapping[str, str]] = {
    "app.access.rate_limits.delete_old_windows": _BATCH,
    "app.benchmarks.service._set_agents": "app.benchmarks.schemas.MAX_AGENTS",
    "app.jobs.row_deletion.delete_rows": _BATCH,
    "app.notifications.endpoints.ensure_endpoints": "app.alerts.schemas.MAX_RECIPIENTS",
    "app.runs.finish._store_metrics": "app.benchmarks.schemas.MAX_METRICS",
    "app.runs.finish.finish_run": "app.benchmarks.schemas.MAX_KPIS",
    "app.runs.retention.drop_results": "app.runs.retention.ROWS_PER_BATCH",
    "app.runs.shards.store_shard": "app.runs.shards.SHARD_TRACES",
    "app.traces.otel.service._MERGE_SPANS": _EXPORT,
    "app.traces.otel.service._MERGE_TRACES": _EXPORT,
    "app.traces.otel.service.store_spans": _EXPORT,
    "app.traces.service.delete_positions": "app.runs.retention.ROWS_PER_BATCH",
}

# The timing of a statement that is sent in batches of `app.core.batches`, however many rows its input has.
BATCHED: Final[Mapping[str, str]] = {
    "app.access.service._revoke_first_keys": "1,000 first keys",
    "app.alerts.publishing.store_and_publish": "1,000 alerts to 20 endpoints",
    "app.alerts.service._CREATE_STATES": "states of 1,000 rules",
    "app.alerts.service.reset_states": "reset of 1,000 states",
    "app.comparison.acceptance._set_hold": "hold of 1,000 runs",
    "app.comparison.baselines.unpin_baseline": "1,000 pinned baselines",
    "app.jobs.queue.enqueue_jobs": "5,000 shards",
    "app.notifications.service._STORE_DELIVERIES": "message to 1,000 endpoints",
    "app.results.run_series._insert_series": "200 series of 10,000 items",
    "app.runs.llm_cache._STORE_ANSWERS": "2,000 LLM answers",
    "app.runs.llm_cache.evict_answers": "eviction of 2,000 LLM answers",
    "app.runs.retention.drop_purged": "5,000 purged shards",
    "app.runs.shards._STORE_SHARDS": "5,000 shards",
    "app.traces.service._append_traces": "page of 2,000 traces",
    "app.triggers.polling._STORE_PROCESSED": "10,000 processed source runs",
    "app.triggers.polling._delete_processed": "10,000 forgotten source runs",
}
