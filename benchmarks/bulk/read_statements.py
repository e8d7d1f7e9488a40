"""Every statement without a limit of its own: why it reads few rows, or that it does not.

`tests/contracts/test_bounded_reads.py` fails when one is in none of these tables.
"""

from collections.abc import Mapping
from typing import Final

_PAGE: Final = "the rows with the keys of a page, a batch or a request"
_NAMES: Final = "the newest page of a list; `list_newest_names` limits what it counts"
_COUNTED: Final = "`count_rows` limits what it counts"
_RULES: Final = "the rules of one benchmark that judge a run, and what belongs to them"
_RUN: Final = "the shards, metrics, KPIs or models of one run"
_HISTORY: Final = "the runs that a comparison or a rule reads, whose number it limits"
_ITEMS: Final = "the traces of the items of a page"
_RANGE: Final = "the traces of a shard, a window or a range of positions"

# Rows that a caller names by their keys, of which it has few.
OF_KEYS: Final[Mapping[str, str]] = {
    "mosaico.access.queries.find_key": "two keys",
    "mosaico.access.queries.list_key_identities": "the keys of the open streams of a process, which limits them",
    "mosaico.access.sessions.list_open_sessions": "the sessions of the open streams of a process, which limits them",
    "mosaico.agents.queries.lock_existing_agents": _PAGE,
    "mosaico.access.queries.list_key_names": _NAMES,
    "mosaico.agents.queries._select_agents": "the page of its callers, or its agents",
    "mosaico.agents.queries.add_agent_names": _PAGE,
    "mosaico.alerts.event_queries.list_silenced_events": "the incidents that a run resolves: one of each rule",
    "mosaico.alerts.queries.list_rule_names": _NAMES,
    "mosaico.alerts.queries.lock_states": _RULES,
    "mosaico.alerts.rule_records.read_false_alarms": _PAGE,
    "mosaico.benchmarks.queries.add_benchmark_names": _PAGE,
    "mosaico.benchmarks.queries.find_kpis_by_id": "the KPIs of a filter",
    "mosaico.benchmarks.queries.list_benchmark_names": _NAMES,
    "mosaico.comparison.compared_items._MEANS": _ITEMS,
    "mosaico.comparison.compared_items._read_errors": _ITEMS,
    "mosaico.items.queries.list_trace_links": _ITEMS,
    "mosaico.items.queries.read_item_inputs": _ITEMS,
    "mosaico.notifications.queries.get_endpoints_by_id": _PAGE,
    "mosaico.notifications.queries.list_titles": _PAGE,
    "mosaico.overview.queries._missed_schedules": _PAGE,
    "mosaico.overview.queries._CELL_RUNS": _PAGE,
    "mosaico.reporting.csv_tables._read_origins": _PAGE,
    "mosaico.run_store.queries._fit_page": _PAGE,
    "mosaico.run_store.run_history.RunHistory.kpi_values": _HISTORY,
    "mosaico.run_store.run_history.RunHistory.load_metrics": _HISTORY,
    "mosaico.run_store.run_history.find_runs": _HISTORY,
    "mosaico.run_store.run_names.read_names": _PAGE,
    "mosaico.run_store.run_series.find_series_states": _HISTORY,
    "mosaico.run_store.run_series.list_item_indexes": _HISTORY,
    "mosaico.run_store.run_series.list_points": _HISTORY,
    "mosaico.run_store.run_series.list_series_values": _HISTORY,
    "mosaico.run_store.trace_list.get_traces_of_item": "the trials of one item",
    "mosaico.run_store.trace_list.list_trials_of_item": "the trials of one item",
    "mosaico.runs.metric_cache._read_columns": _RANGE,
    "mosaico.runs.metric_cache._read_summaries": _RANGE,
    "mosaico.runs.metric_cache._trace_ids": _RANGE,
    "mosaico.runs.pages.run_view._list_runs": _PAGE,
    "mosaico.runs.source_runs.find_evaluated_runs": _PAGE,
    "mosaico.schedules.queries.list_plans": _PAGE,
    "mosaico.traces.queries.find_collected_trace": "one trace, by its ID in a collection",
    "mosaico.traces.uploads.queries.find_same_upload": "one upload, by its names",
    "mosaico.traces.uploads.service._lock_upload": "one upload, by its names",
    "mosaico.traces.sources.langfuse.v3_runs.ItemStore.find": "one item in each statement, in a file of the worker",
    "mosaico.traces.stored_traces._SELECT": _RANGE,
    "mosaico.traces.trial_numbers.TrialCounts._iter_next_numbers": "the trials of one item, in a file of the worker",
    "mosaico.traces.trial_numbers._READ": _RANGE,
    "mosaico.triggers.service._find_earlier_event": "one event, by its key",
    "mosaico.access.idempotency._lock_claim": "one response, by its key",
    "mosaico.alerts.publishing._is_published": "one alert, by its key",
}

# Rows of one run, agent, schedule or rule, of which an index has few.
OF_ONE_OWNER: Final[Mapping[str, str]] = {
    "mosaico.alerts.confirmations.find_waiting": "the states that wait for the repetition of one run; measured",
    "mosaico.alerts.incident_queries.excluded_runs": _RULES,
    "mosaico.alerts.incident_queries.list_open_incidents_of_run": "the open incidents of one agent: one of each rule",
    "mosaico.alerts.queries.list_watched_runs": _RULES,
    "mosaico.benchmarks.queries.find_kpis_by_name": "the KPIs of the benchmarks of a filter, which people create",
    "mosaico.benchmarks.queries.get_agent_of_benchmark": "one agent, and whether another one exists",
    "mosaico.items.label_counts._iter_shards": _RUN,
    "mosaico.kpis.queries.get_kpis_of_run": _RUN,
    "mosaico.run_store.queries.list_run_metrics": _RUN,
    "mosaico.run_store.queries.lock_shards": _RUN,
    "mosaico.run_store.run_history.has_unfinished_runs": "whether a row exists, by an index",
    "mosaico.runs.llm_cache.list_llm_usage": _RUN,
    "mosaico.runs.metric_cache._source_runs": "the runs that score one collection",
    "mosaico.schedules.queries.list_active_runs": "the runs in progress of one schedule; measured",
    "mosaico.schedules.queries.list_unsettled_ends": "the ends of runs of one schedule that are not counted yet; measured",
    "mosaico.schedules.queries.seconds_until_due": "the first row of an index",
    "mosaico.schedules.service.delete_schedule": "the last row of a key",
    "mosaico.triggers.queries.find_benchmarks_for_agent": "the benchmarks that list one agent",
    "mosaico.triggers.queries._select_benchmarks": "the benchmarks of one agent or of one dataset; measured",
    "mosaico.alerts.queries.count_acknowledged": "what people have acknowledged, by an index of its own",
}

# They compute with the traces of whole runs, in a worker or for a comparison: their cost is that of the run, whose
# size `benchmarks large` measures.
COMPUTATIONS: Final[Mapping[str, str]] = {
    "mosaico.comparison.fingerprint.ITEMS_DIGEST": "the items of one run",
    "mosaico.comparison.fingerprint.SHARED_ITEMS": "the items of two runs",
    "mosaico.items.queries.ATTRIBUTE_ROWS": "the items of some runs",
    "mosaico.items.queries.HAS_TAG_FIELD": "the traces of one run until one has the field",
    "mosaico.items.queries.ITEM_COUNT": "the items of some runs",
    "mosaico.items.queries.LARGEST_RUN": "the compared runs, by their keys",
    "mosaico.run_store.kpi_trend._BUCKETS": "the values of one KPI of an agent, in buckets; measured as B5",
    "mosaico.run_store.run_history.RunHistory.item_sums": "the items of some runs",
    "mosaico.run_store.run_history._item_means": "the items of one run",
    "mosaico.run_store.run_history.list_changed_traces": "the traces of one run",
    "mosaico.traces.queries.count_items": "the items of one collection",
    "mosaico.traces.otel.queries.read_spans_by_trace": "the spans of the traces of a page, a stream that is read in parts",
}

# Parts of statements, whose callers limit them.
PARTS: Final[Mapping[str, str]] = {
    "mosaico.access.queries._select_active": "with the limit of its callers; measured",
    "mosaico.alerts.inbox_view.InboxFilter.conditions": "a condition of a page",
    "mosaico.alerts.inbox_view.find_all_alerts": _COUNTED,
    "mosaico.alerts.incident_queries.count_incidents_of_kpi": _COUNTED,
    "mosaico.alerts.queries.count_states": _COUNTED,
    "mosaico.benchmarks.queries.current_kpis": "of one benchmark, or of a page of them",
    "mosaico.comparison.baselines._is_held": "a condition",
    "mosaico.comparison.baselines._valid_runs_before": "with the limit of the baseline; measured as B7",
    "mosaico.items.queries.ALL_TAGS": "an expression",
    "mosaico.items.queries.REVISION": "an expression",
    "mosaico.doctor.list_langfuse_agents": "of a window of rows; measured",
    "mosaico.core.row_counts.count_selected": "of a statement with a limit, of a batch, or the items of one collection",
    "mosaico.core.keyset.find_whole_list": _COUNTED,
    "mosaico.core.list_filters._find_few": "counts, each up to `FEW_ROWS`",
    "mosaico.traces.uploads.service._next_collection_id": "a value of a sequence",
    "mosaico.kpis.queries.ALL_COLUMNS": "columns",
    "mosaico.reporting.csv_tables.EXPORTED_RUNS": "columns",
    "mosaico.reporting.csv_tables.EXPORTED_VALUES": "columns",
    "mosaico.run_store.queries.RUN_COLUMNS": "columns",
    "mosaico.run_store.run_list.LISTED_COLUMNS": "columns",
    "mosaico.run_store.run_list._match_owners": "the IDs of two subqueries, each with its limit",
    "mosaico.run_store.run_history._select_ended": "with the limit of the history",
    "mosaico.run_store.trace_list._select_traces": "of a page",
    "mosaico.runs.retention._PURGEABLE": "conditions of a batch",
    "mosaico.runs.retention.count_runs_before": "of a window of rows; measured as `purge --dry-run`",
    "mosaico.overview.system_checks.read_stored_state": "each list up to `MAX_COUNTED`; measured",
    "mosaico.schedules.daily_summary._count_day_runs": "a count for each status; its request is measured as B1",
    "mosaico.schedules.daily_summary.send_summary": "one notification, by its key",
    "mosaico.traces.otel.queries._count_traces": "counts, each with its limit or its window",
    "mosaico.traces.otel.queries._some_span": "a condition",
    "mosaico.triggers.queries._select_subscriptions": "with a limit, or of the keys of a batch; measured as polls",
    "mosaico.core.key_rotation._rotate_window": "of a window of rows; measured as B4",
    "mosaico.core.console.examples.EXAMPLES": "texts of the help",
}

# Of the server, its processes and locks, and calls of its functions.
SERVER_STATE: Final[Mapping[str, str]] = {
    "mosaico.access.queries.lock_all_keys": "a lock",
    "mosaico.triggers.secrets._lock_langfuse_secrets": "a lock",
    "mosaico.access.audit.delete_old_entries": "a function that deletes a batch; measured as B3",
    "mosaico.core.batch_delete.trusted_now": "the clock",
    "mosaico.core.database_clock.DatabaseClock._read": "the clock",
    "mosaico.core.db.Database.ping": "a constant",
    "mosaico.core.migrations._COLUMNS": "the columns of the schema",
    "mosaico.core.migrations.current_revision": "the revision of the schema",
    "mosaico.core.postgres_notify.notify_streams": "a notification",
    "mosaico.doctor._COUNT_WORKERS": "the locks of processes",
    "mosaico.doctor.check_clock": "the clock",
    "mosaico.jobs.outcomes._FINISH_JOB": "one job",
    "mosaico.jobs.outcomes._RETRY_JOB": "one job",
    "mosaico.jobs.rescue._RETRY_JOB": "one job",
    "mosaico.jobs.rescue._SELECT_STALLED": "the jobs of dead workers; measured as rescue",
    "mosaico.jobs.rescue.rescue_jobs": "the jobs of dead workers; measured as rescue",
    "mosaico.jobs.silent_sessions._SELECT_WAITING": "the sessions of the server",
    "mosaico.jobs.silent_sessions._TERMINATE": "one session",
    "mosaico.jobs.worker_process._HOLD": "a lock",
    "mosaico.overview.system._DATABASE": "sizes of the server",
    "mosaico.overview.system_checks._COUNT_SCHEDULERS": "the sessions of the server",
    "mosaico.overview.system_checks._HAS_SCHEMA": "the schema",
    "mosaico.overview.system_checks._SCHEMA": "the schema",
    "mosaico.postgres.server.EmbeddedPostgres.count_sessions": "the sessions of the server",
    "mosaico.runs.source_runs._lock_runs_of_agent": "a lock",
    "mosaico.schedules.queries.database_now": "the clock",
    "mosaico.traces.circuit_breaker._OPEN_FOR": "one circuit breaker",
}

# A constant limits the rows that can exist.
LIMITED: Final[Mapping[str, str]] = {
    "mosaico.alerts.silence_queries.list_active_silences": "mosaico.alerts.silences.MAX_SILENCES",
    "mosaico.alerts.silence_queries.count_lasting_silences": "mosaico.alerts.silences.MAX_SILENCES",
    "mosaico.benchmarks.queries.get_agent_ids_by_benchmark": "mosaico.benchmarks.schemas.MAX_AGENTS",
    # Twice: the rules about the agent of a run, and those about every agent.
    "mosaico.alerts.queries.list_enabled_rules": "mosaico.alerts.rule_service.MAX_RULES",
    "mosaico.triggers.queries.list_active_secrets": "mosaico.triggers.rules.MAX_SECRETS",
    "mosaico.triggers.queries.list_evaluated_agents": "mosaico.benchmarks.schemas.MAX_AGENTS",
}
