"""Every foreign key that deletes or changes other rows touches a bounded number of them.

PostgreSQL does so within the statement of a request, however many rows there are. What grows with use is
deleted in batches by a job before or after its parent: `app/mosaico/jobs/row_deletion.py`.
"""

from mosaico.table_list import METADATA

PER_RUN = "a few rows per metric, KPI or model of the run's plan"
PEOPLE = "people create them one by one"
SETTINGS = "a row per agent of the benchmark"
AFTER_ITS_ROWS = "the job that deletes the parent deletes these rows first, in batches"
COMPARISONS = "the newest 100 of a run are kept"
WAITING = "a row per run that an event still waits for"

# By table and columns: why few rows refer to one row of the other table.
BOUNDED = {
    "agent_revisions.agent_id": PEOPLE,
    "alert_rule_revisions.rule_id": PEOPLE,
    "alert_rules.agent_id": PEOPLE,
    "alert_rules.benchmark_id": PEOPLE,
    "alert_states.agent_id": "a row per rule",
    "alert_states.rule_id": "a row per agent",
    "annotations.benchmark_id": PEOPLE,
    "annotations.run_id": PEOPLE,
    "api_keys.person_id": PEOPLE,
    "awaited_runs.agent_id": WAITING,
    "awaited_runs.benchmark_id": WAITING,
    "awaited_runs.event_id": WAITING,
    "benchmark_agents.benchmark_id": SETTINGS,
    "benchmark_baselines.agent_id": "a row per benchmark",
    "benchmark_baselines.benchmark_id": SETTINGS,
    "benchmark_revisions.benchmark_id": PEOPLE,
    "benchmark_runs.rescore_of": PEOPLE,
    "benchmark_runs.retry_of": PEOPLE,
    "browser_sessions.api_key_id": "people log in; expired sessions are purged",
    "browser_sessions.person_id": "people log in; expired sessions are purged",
    "deliveries.notification_id": AFTER_ITS_ROWS,
    "kpi_definitions.benchmark_id": PEOPLE,
    "kpi_history.run_seq": PER_RUN,
    "login_links.api_key_id": "people log in; expired links are purged",
    "notes.benchmark_id": PEOPLE,
    "notes.incident_id": PEOPLE,
    "notes.run_id": PEOPLE,
    "processed_source_runs.benchmark_id,agent_id": "the runs of a dataset in its source",
    "run_attributes.run_seq": "one row",
    "run_evaluations.run_seq": "a row per rule, at most 1,000",
    "run_items.run_seq": "one row",
    "run_llm_usage.run_seq": PER_RUN,
    "run_metrics.run_seq": PER_RUN,
    "run_series.run_seq": PER_RUN,
    "run_shards.run_seq": "a row per 2,000 traces or 8 MiB of texts",
    "schedule_fires.run_id": "one fire starts a run",
    "source_subscriptions.agent_id": "a row per benchmark",
    "source_subscriptions.benchmark_id": SETTINGS,
    "stored_comparisons.baseline_seq": COMPARISONS,
    "stored_comparisons.candidate_seq": COMPARISONS,
    "webhook_secrets.benchmark_id": PEOPLE,
}


def test_cascades__each_is_bounded() -> None:
    cascades = {
        f"{table.name}.{','.join(column.name for column in key.columns)}"
        for table in METADATA.sorted_tables
        for key in table.foreign_key_constraints
        if key.ondelete in {"CASCADE", "SET NULL"}
    }
    assert cascades == BOUNDED.keys()
