"""Every statement of the service that may change many rows: of one row, of a limited number of rows, or sent in batches.

`tests/contracts/test_bulk_statements.py` fails when one is in none of these tables, and checks each of them.
"""

from collections.abc import Mapping
from typing import Final

# The table of whose rows a key selects one.
ONE_ROW: Final[Mapping[str, str]] = {
    "mosaico.access.rate_limits._add_requests": "rate_windows",
    "mosaico.access.service._delete_configured_key": "api_keys",
    "mosaico.access.service._register_configured_key": "api_keys",
    "mosaico.access.people.log_in_person": "people",
    "mosaico.access.service.record_use": "api_keys",
    "mosaico.access.sessions.log_in_with_link": "login_links",
    "mosaico.access.sessions.log_out": "browser_sessions",
    "mosaico.core.migrations.take_over_last_schema": "alembic_version",
    "mosaico.annotations.service.save_annotation": "annotations",
    "mosaico.comparison.baselines.pin_baseline": "benchmark_baselines",
    "mosaico.comparison.comparison_store._store": "stored_comparisons",
    "mosaico.core.batch_delete._valid_mark": "purge_marks",
    "mosaico.core.batch_delete.purge_in_batches": "purge_marks",
    "mosaico.jobs.job_manager._HEARTBEAT": "procrastinate_workers",
    "mosaico.jobs.outcomes._RELEASE_JOB": "procrastinate_jobs",
    "mosaico.jobs.job_manager._SIGN_OFF": "worker_processes",
    "mosaico.jobs.outcomes._FORGET_DEATHS": "procrastinate_jobs",
    "mosaico.jobs.rescue._SET_COUNTS": "procrastinate_jobs",
    "mosaico.notifications.service._insert_notification": "notifications",
    # The points of a run one after the other.
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
_WINDOW: Final = "mosaico.core.row_windows.WINDOW_ROWS"
_EXPORT: Final = "mosaico.traces.otel.export_body.MAX_EXPORT_BYTES"
# The constant that limits the rows of a statement, or the bytes of its request.
LIMITED: Final[Mapping[str, str]] = {
    "mosaico.access.rate_limits.delete_old_windows": _BATCH,
    "mosaico.access.service.delete_expired_responses": _BATCH,
    "mosaico.access.sessions.delete_expired_sessions": _BATCH,
    # The annotations of a batch of traces.
    "mosaico.annotations.service.remove_texts": "mosaico.runs.retention.ROWS_PER_BATCH",
    "mosaico.annotations.service.remove_texts_of_run": _BATCH,
    "mosaico.benchmarks.service._set_agents": "mosaico.benchmarks.schemas.MAX_AGENTS",
    "mosaico.comparison.comparison_store._evict_old": "mosaico.comparison.comparison_store.MAX_STORED",
    "mosaico.comparison.comparison_store.delete_comparisons_of": "mosaico.comparison.comparison_store.MAX_STORED",
    "mosaico.core.key_rotation._drop_lost_texts": _WINDOW,
    "mosaico.core.key_rotation._reencrypt": "mosaico.core.key_rotation.BATCH_ROWS",
    "mosaico.jobs.rescue._DELETE_FINISHED": _BATCH,
    "mosaico.jobs.row_deletion.delete_rows": _BATCH,
    "mosaico.notifications.delivery_jobs._enqueue": "mosaico.notifications.queries.MAX_DUE",
    "mosaico.notifications.delivery_jobs.hold_or_restart": "mosaico.notifications.delivery_jobs.STATE_BATCH",
    "mosaico.notifications.delivery_jobs.restart_deliveries": "mosaico.notifications.delivery_jobs.STATE_BATCH",
    "mosaico.notifications.endpoints.ensure_endpoints": "mosaico.alerts.schemas.MAX_RECIPIENTS",
    "mosaico.notifications.inbox._mark_some_read": "mosaico.notifications.inbox.READ_BATCH",
    "mosaico.notifications.inbox.delete_old_notifications": "mosaico.notifications.inbox.PURGE_BATCH",
    "mosaico.runs.erasure._delete_notes": _BATCH,
    "mosaico.runs.erasure._delete_spans": "mosaico.core.batches.STATEMENT_ROWS",
    "mosaico.runs.erasure.remove_texts_at": "mosaico.runs.retention.ROWS_PER_BATCH",
    "mosaico.runs.finish._store_metrics": "mosaico.benchmarks.schemas.MAX_METRICS",
    "mosaico.runs.finish.finish_run": "mosaico.benchmarks.schemas.MAX_KPIS",
    "mosaico.runs.llm_cache.evict_expired_answers": _BATCH,
    "mosaico.runs.retention.drop_results": "mosaico.runs.retention.ROWS_PER_BATCH",
    "mosaico.runs.retention.end_link_batch": "mosaico.runs.retention.LINKS_PER_BATCH",
    "mosaico.runs.retention.restore_purged_batch": "mosaico.runs.retention.RUNS_PER_UNDO",
    "mosaico.runs.text_retention.mark_runs": "mosaico.runs.text_retention.RUNS_PER_MARK",
    "mosaico.runs.shards.store_shard": "mosaico.runs.shards.SHARD_TRACES",
    "mosaico.schedules.firing.ADVANCE": "mosaico.schedules.firing.MAX_FIRES_PER_TRANSACTION",
    "mosaico.schedules.firing.INSERT_FIRES": "mosaico.schedules.firing.MAX_FIRES_PER_TRANSACTION",
    "mosaico.schedules.firing.delete_old_fires": "mosaico.schedules.firing.DELETE_BATCH",
    "mosaico.schedules.missed_schedules.REPORT_MISSES": "mosaico.schedules.missed_schedules.BATCH_SIZE",
    "mosaico.schedules.nonexistent_times._RECORD": "mosaico.schedules.nonexistent_times.BATCH_SIZE",
    "mosaico.traces.otel.service._MERGE_SPANS": _EXPORT,
    "mosaico.traces.otel.service._MERGE_TRACES": _EXPORT,
    "mosaico.traces.otel.service.delete_expired_traces": "mosaico.traces.otel.service.TRACES_PER_BATCH",
    "mosaico.traces.otel.service.store_spans": _EXPORT,
    "mosaico.traces.service.delete_positions": "mosaico.runs.retention.ROWS_PER_BATCH",
    "mosaico.traces.trial_numbers._WRITE": "mosaico.traces.trial_numbers.WRITTEN_POSITIONS",
    "mosaico.triggers.polling.enqueue_due_polls": "mosaico.triggers.polling.POLL_BATCH",
    "mosaico.triggers.service.delete_expired_events": _BATCH,
}

# Sent in batches of `mosaico.core.batches`, however many rows their input has.
BATCHED: Final = frozenset(
    {
        "mosaico.access.service._replace_first_key",
        "mosaico.access.sessions.end_sessions",
        "mosaico.alerts.publishing.store_and_publish",
        "mosaico.alerts.service._CREATE_STATES",
        "mosaico.alerts.service.reset_states",
        "mosaico.comparison.acceptance._set_hold",
        "mosaico.comparison.baselines.unpin_baseline",
        "mosaico.jobs.queue.enqueue_jobs",
        "mosaico.notifications.service._STORE_DELIVERIES",
        "mosaico.run_store.evaluations.store_evaluations",
        "mosaico.run_store.run_series._insert_series",
        "mosaico.runs.llm_cache._STORE_ANSWERS",
        "mosaico.runs.llm_cache.evict_answers",
        "mosaico.runs.retention.drop_purged",
        "mosaico.runs.shards._STORE_SHARDS",
        "mosaico.traces.datasets.erasure.erase_items",
        "mosaico.traces.datasets.service._store_version",
        "mosaico.traces.service._append_traces",
        "mosaico.triggers.polling._STORE_PROCESSED",
        "mosaico.triggers.polling._delete_processed",
    }
)

# Statements whose rows nothing limits, and the reason why they hold up nobody.
UNLIMITED: Final[Mapping[str, str]] = {
    "mosaico.backups.restore._copy_rows": "a stream of COPY into a database that nobody uses before its end",
    "mosaico.core.bulk_copy._COPY": "a stream of COPY, which lasts as long as its rows and locks them only",
    "mosaico.core.bulk_copy._INSERT_COPIED": "the rows of a stream of COPY, which it locks only",
    "mosaico.jobs.job_manager._REGISTER_PROCESS": "its own row, and those of processes that have ended",
    "mosaico.traces.sources.langfuse.source.TraceCounter.add": "a file of SQLite on the disk of the worker",
    "mosaico.traces.sources.langfuse.v3_runs.ItemStore.add": "a file of SQLite on the disk of the worker",
    "mosaico.traces.trial_numbers.TrialCounts.add": "a file of SQLite on the disk of the worker",
    "mosaico.traces.trial_numbers.TrialCounts.number": "a file of SQLite on the disk of the worker",
    "mosaico.traces.uploads.service.copy_traces": "a stream of COPY, which lasts as long as the upload and locks its rows only",
}
