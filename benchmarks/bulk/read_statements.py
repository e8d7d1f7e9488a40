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
    "app.access.queries.find_key": "two keys",
    "app.access.queries.list_key_identities": "the keys of the open streams of a process, which limits them",
    "app.access.sessions.list_open_sessions": "the sessions of the open streams of a process, which limits them",
    "app.agents.queries.lock_existing_agents": _PAGE,
    "app.access.queries.list_key_names": _NAMES,
    "app.agents.queries._select_agents": "the page of its callers, or its agents",
    "app.agents.queries.add_agent_names": _PAGE,
    "app.alerts.event_queries.list_silenced_events": "the incidents that a run resolves: one of each rule",
    "app.alerts.queries.list_rule_names": _NAMES,
    "app.alerts.queries.lock_states": _RULES,
    "app.alerts.rule_records.read_false_alarms": _PAGE,
    "app.benchmarks.queries.add_benchmark_names": _PAGE,
    "app.benchmarks.queries.find_kpis_by_id": "the KPIs of a filter",
    "app.benchmarks.queries.list_benchmark_names": _NAMES,
    "app.comparison.compared_items._MEANS": _ITEMS,
    "app.comparison.compared_items._read_errors": _ITEMS,
    "app.items.queries.list_trace_links": _ITEMS,
    "app.items.queries.read_item_inputs": _ITEMS,
    "app.notifications.queries.get_endpoints_by_id": _PAGE,
    "app.notifications.queries.list_titles": _PAGE,
    "app.overview.queries._missed_schedules": _PAGE,
    "app.overview.queries._CELL_RUNS": _PAGE,
    "app.reporting.csv_tables._read_origins": _PAGE,
    "app.results.queries._fit_page": _PAGE,
    "app.results.run_history.RunHistory.kpi_values": _HISTORY,
    "app.results.run_history.RunHistory.load_metrics": _HISTORY,
    "app.results.run_history.find_runs": _HISTORY,
    "app.results.run_names.read_names": _PAGE,
    "app.results.run_series.find_series_states": _HISTORY,
    "app.results.run_series.list_item_indexes": _HISTORY,
    "app.results.run_series.list_points": _HISTORY,
    "app.results.run_series.list_series_values": _HISTORY,
    "app.results.trace_list.get_traces_of_item": "the trials of one item",
    "app.results.trace_list.list_trials_of_item": "the trials of one item",
    "app.runs.metric_cache._read_columns": _RANGE,
    "app.runs.metric_cache._read_summaries": _RANGE,
    "app.runs.metric_cache._trace_ids": _RANGE,
    "app.runs.pages.run_view._list_runs": _PAGE,
    "app.runs.source_runs.find_evaluated_runs": _PAGE,
    "app.schedules.queries.list_plans": _PAGE,
    "app.traces.queries.find_collected_trace": "one trace, by its ID in a collection",
    "app.traces.uploads.queries.find_same_upload": "one upload, by its names",
    "app.traces.uploads.service._lock_upload": "one upload, by its names",
    "app.traces.sources.langfuse.v3_runs.ItemStore.find": "one item in each statement, in a file of the worker",
    "app.traces.stored_traces._SELECT": _RANGE,
    "app.traces.trial_numbers.TrialCounts._iter_next_numbers": "the trials of one item, in a file of the worker",
    "app.traces.trial_numbers._READ": _RANGE,
    "app.triggers.service._find_earlier_event": "one event, by its key",
    "app.access.idempotency._lock_claim": "one response, by its key",
    "app.alerts.publishing._is_published": "one alert, by its key",
}

# Rows of one run, agent, schedule or rule, of which an index has few.
OF_ONE_OWNER: Final[Mapping[str, str]] = {
    "app.alerts.confirmations.find_waiting": "the states that wait for the repetition of one run; measured",
    "app.alerts.incident_queries.excluded_runs": _RULES,
    "app.alerts.incident_queries.list_open_incidents_of_run": "the open incidents of one agent: one of each rule",
    "app.alerts.queries.list_watched_runs": _RULES,
    "app.benchmarks.queries.find_kpis_by_name": "the KPIs of the benchmarks of a filter, which people create",
    "app.benchmarks.queries.get_agent_of_benchmark": "one agent, and whether another one exists",
    "app.items.label_counts._iter_shards": _RUN,
    "app.kpis.queries.get_kpis_of_run": _RUN,
    "app.results.queries.list_run_metrics": _RUN,
    "app.results.queries.lock_shards": _RUN,
    "app.results.run_history.has_unfinished_runs": "whether a row exists, by an index",
    "app.runs.llm_cache.list_llm_usage": _RUN,
    "app.runs.metric_cache._source_runs": "the runs that score one collection",
    "app.schedules.queries.list_active_runs": "the runs in progress of one schedule; measured",
    "app.schedules.queries.list_unsettled_ends": "the ends of runs of one schedule that are not counted yet; measured",
    "app.schedules.queries.seconds_until_due": "the first row of an index",
    "app.schedules.service.delete_schedule": "the last row of a key",
    "app.triggers.queries.find_benchmarks_for_agent": "the benchmarks that list one agent",
    "app.triggers.queries._select_benchmarks": "the benchmarks of one agent or of one dataset; measured",
    "app.alerts.queries.count_acknowledged": "what people have acknowledged, by an index of its own",
}

# They compute with the traces of whole runs, in a worker or for a comparison: their cost is that of the run, whose
# size `benchmarks large` measures.
COMPUTATIONS: Final[Mapping[str, str]] = {
    "app.comparison.fingerprint.ITEMS_DIGEST": "the items of one run",
    "app.comparison.fingerprint.SHARED_ITEMS": "the items of two runs",
    "app.items.queries.ATTRIBUTE_ROWS": "the items of some runs",
    "app.items.queries.HAS_TAG_FIELD": "the traces of one run until one has the field",
    "app.items.queries.ITEM_COUNT": "the items of some runs",
    "app.items.queries.LARGEST_RUN": "the compared runs, by their keys",
    "app.results.kpi_trend._BUCKETS": "the values of one KPI of an agent, in buckets; measured as B5",
    "app.results.run_history.RunHistory.item_sums": "the items of some runs",
    "app.results.run_history._item_means": "the items of one run",
    "app.results.run_history.list_changed_traces": "the traces of one run",
    "app.traces.queries.count_items": "the items of one collection",
    "app.traces.otel.queries.read_spans_by_trace": "the spans of the traces of a page, a stream that is read in parts",
}

# Parts of statements, whose callers limit them.
PARTS: Final[Mapping[str, str]] = {
    "app.access.queries._select_active": "with the limit of its callers; measured",
    "app.alerts.inbox_view.InboxFilter.conditions": "a condition of a page",
    "app.alerts.inbox_view.find_all_alerts": _COUNTED,
    "app.alerts.incident_queries.count_incidents_of_kpi": _COUNTED,
    "app.alerts.queries.count_states": _COUNTED,
    "app.benchmarks.queries.current_kpis": "of one benchmark, or of a page of them",
    "app.comparison.baselines._is_held": "a condition",
    "app.comparison.baselines._valid_runs_before": "with the limit of the baseline; measured as B7",
    "app.items.queries.ALL_TAGS": "an expression",
    "app.items.queries.REVISION": "an expression",
    "app.doctor.list_langfuse_agents": "of a window of rows; measured",
    "app.core.row_counts.count_selected": "of a statement with a limit, of a batch, or the items of one collection",
    "app.core.keyset.find_whole_list": _COUNTED,
    "app.core.list_filters._find_few": "counts, each up to `FEW_ROWS`",
    "app.traces.uploads.service._next_collection_id": "a value of a sequence",
    "app.kpis.queries.ALL_COLUMNS": "columns",
    "app.reporting.csv_tables.EXPORTED_RUNS": "columns",
    "app.reporting.csv_tables.EXPORTED_VALUES": "columns",
    "app.results.queries.RUN_COLUMNS": "columns",
    "app.results.run_list.LISTED_COLUMNS": "columns",
    "app.results.run_list._match_owners": "the IDs of two subqueries, each with its limit",
    "app.results.run_history._select_ended": "with the limit of the history",
    "app.results.trace_list._select_traces": "of a page",
    "app.runs.retention._PURGEABLE": "conditions of a batch",
    "app.runs.retention.count_runs_before": "of a window of rows; measured as `purge --dry-run`",
    "app.overview.system_checks.read_stored_state": "each list up to `MAX_COUNTED`; measured",
    "app.schedules.daily_summary._count_day_runs": "a count for each status; its request is measured as B1",
    "app.schedules.daily_summary.send_summary": "one notification, by its key",
    "app.traces.otel.queries._count_traces": "counts, each with its limit or its window",
    "app.traces.otel.queries._some_span": "a condition",
    "app.triggers.queries._select_subscriptions": "with a limit, or of the keys of a batch; measured as polls",
    "app.core.key_rotation._rotate_window": "of a window of rows; measured as B4",
    "app.core.console.examples.EXAMPLES": "texts of the help",
}

# Of the server, its processes and locks, and calls of its functions.
SERVER_STATE: Final[Mapping[str, str]] = {
    "app.access.queries.lock_all_keys": "a lock",
    "app.triggers.secrets._lock_langfuse_secrets": "a lock",
    "app.access.audit.delete_old_entries": "a function that deletes a batch; measured as B3",
    "app.core.batch_delete.trusted_now": "the clock",
    "app.core.database_clock.DatabaseClock._read": "the clock",
    "app.core.db.Database.ping": "a constant",
    "app.core.migrations._COLUMNS": "the columns of the schema",
    "app.core.migrations.current_revision": "the revision of the schema",
    "app.core.postgres_notify.notify_streams": "a notification",
    "app.doctor._COUNT_WORKERS": "the locks of processes",
    "app.doctor.check_clock": "the clock",
    "app.jobs.clock_watch.DatabaseClockWatch.find_jump": "the clock",
    "app.jobs.outcomes._FINISH_JOB": "one job",
    "app.jobs.outcomes._RETRY_JOB": "one job",
    "app.jobs.rescue._RETRY_JOB": "one job",
    "app.jobs.rescue._SELECT_STALLED": "the jobs of dead workers; measured as rescue",
    "app.jobs.rescue._SIGHTINGS": "the processes of workers; measured as rescue",
    "app.jobs.rescue._read_sightings": "the processes of workers; measured as rescue",
    "app.jobs.rescue.rescue_jobs": "the jobs of dead workers; measured as rescue",
    "app.jobs.silent_sessions._SELECT_WAITING": "the sessions of the server",
    "app.jobs.silent_sessions._TERMINATE": "one session",
    "app.jobs.worker_process._HOLD": "a lock",
    "app.overview.system._DATABASE": "sizes of the server",
    "app.overview.system_checks._COUNT_SCHEDULERS": "the sessions of the server",
    "app.overview.system_checks._HAS_SCHEMA": "the schema",
    "app.overview.system_checks._SCHEMA": "the schema",
    "app.postgres.server.EmbeddedPostgres._prepare": "one role or database",
    "app.runs.source_runs._lock_runs_of_agent": "a lock",
    "app.schedules.queries.database_now": "the clock",
    "app.traces.circuit_breaker._OPEN_FOR": "one circuit breaker",
}

# A constant limits the rows that can exist.
LIMITED: Final[Mapping[str, str]] = {
    "app.alerts.silence_queries.list_active_silences": "app.alerts.silences.MAX_SILENCES",
    "app.alerts.silence_queries.count_lasting_silences": "app.alerts.silences.MAX_SILENCES",
    "app.benchmarks.queries.get_agent_ids_by_benchmark": "app.benchmarks.schemas.MAX_AGENTS",
    # Twice: the rules about the agent of a run, and those about every agent.
    "app.alerts.queries.list_enabled_rules": "app.alerts.rule_service.MAX_RULES",
    "app.triggers.queries.list_active_secrets": "app.triggers.rules.MAX_SECRETS",
    "app.triggers.queries.list_evaluated_agents": "app.benchmarks.schemas.MAX_AGENTS",
}
