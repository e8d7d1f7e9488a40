"""Every statement of the service that may change many rows: measured, for one row, of a limited number of
rows, or growing with something that is named.

`tests/contracts/test_measured_bulk_statements.py` fails when one is in none of these tables, and checks all but the
last one.
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
    "app.jobs.rescue._END_LONG_WAITS": bulk.RESCUE,
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
    "app.runs.leases._ACQUIRE_RUN": "benchmark_runs",
    "app.runs.leases._ACQUIRE_SHARD": "run_shards",
    "app.runs.leases.complete_shard": "run_shards",
    "app.runs.llm_cache._ADD_USAGE": "benchmark_runs",
    "app.runs.retention.drop_traces": "collections",
    "app.traces.circuit_breaker._HOLD": "circuit_breakers",
    "app.traces.circuit_breaker._RECORD_FAILURE": "circuit_breakers",
    "app.traces.circuit_breaker._RECORD_SUCCESS": "circuit_breakers",
    "app.traces.service._delete_upload": "local_datasets",
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
    "app.runs.finish._store_metrics": "app.benchmarks.schemas.MAX_METRICS",
    "app.runs.finish.finish_run": "app.benchmarks.schemas.MAX_KPIS",
    "app.runs.retention.drop_results": "app.runs.retention.ROWS_PER_BATCH",
    "app.runs.shards.store_shard": "app.runs.shards.SHARD_TRACES",
    "app.traces.otel.service._MERGE_SPANS": _EXPORT,
    "app.traces.otel.service._MERGE_TRACES": _EXPORT,
    "app.traces.otel.service.store_spans": _EXPORT,
    "app.traces.trial_numbers.TrialCounts.add": "app.traces.trial_numbers.READ_POSITIONS",
    "app.traces.trial_numbers.TrialCounts.number": "app.traces.trial_numbers.READ_POSITIONS",
    "app.traces.service.delete_positions": "app.runs.retention.ROWS_PER_BATCH",
}

_RULES: Final = "alert rules of a benchmark"
_SHARDS: Final = "shards of a run: one for up to 2,000 traces"
_REQUESTS: Final = "model calls of the traces of a shard"
# Neither measured nor limited by a constant: what the number of rows grows with.
GROWING: Final[Mapping[str, str]] = {
    "app.access.service._revoke_first_keys": "API keys with the name of the first key",
    "app.alerts.publishing.store_and_publish": _RULES,
    "app.alerts.service._lock_states": _RULES,
    "app.alerts.service.reset_states": "agents of an alert rule",
    "app.comparison.acceptance.hold_incident": "runs of an incident",
    "app.comparison.acceptance.release_incident": "runs of an incident",
    "app.comparison.baselines.unpin_baseline": "agents with a pinned baseline of a benchmark",
    "app.jobs.job_manager._REGISTER_PROCESS": "worker processes that ended since another one began",
    "app.notifications.endpoints.ensure_endpoints": "recipients of an alert rule",
    "app.notifications.service.publish": "endpoints of a message",
    "app.results.run_series.store_points": "KPIs and metrics of a benchmark, at most 100 of each",
    "app.runs.llm_cache.evict_answers": _REQUESTS,
    "app.runs.llm_cache.put_answers": _REQUESTS,
    "app.runs.retention.drop_purged": _SHARDS,
    "app.runs.shards.create_shards": _SHARDS,
    "app.traces.service._append_traces": "traces of a page of a source",
    # A stream of COPY: the statement lasts as long as the upload.
    "app.traces.service._copy_traces": "traces of an upload",
    # Files of SQLite on the disk of the worker.
    "app.traces.sources.langfuse.source.TraceCounter.add": "traces of a page of a source",
    "app.traces.sources.langfuse.v3_runs.ItemStore.add": "traces of a page of a source",
    "app.triggers.polling._delete_processed": "source runs of an agent and benchmark",
    "app.triggers.polling._insert_processed": "listed source runs of an agent and benchmark",
    "app.triggers.polling.enqueue_due_polls": "pairs of agent and benchmark that new runs trigger",
}
