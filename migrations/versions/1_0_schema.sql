-- Every table of version 1.0 with its indexes, in the order in which they refer to one another.
-- A released migration is never edited: docs/releases.md.

CREATE TABLE agents (
    id text NOT NULL,
    name text NOT NULL,
    description text,
    langfuse_project_name text,
    langfuse_url text,
    langfuse_public_key text,
    langfuse_secret_key text,
    otel_service_name text,
    run_url text,
    run_address text,
    credentials_refused_at timestamptz,
    archived boolean NOT NULL,
    revision bigint NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    color_number bigint GENERATED ALWAYS AS IDENTITY,
    source_kind text,
    owners text[] DEFAULT '{}' NOT NULL,
    CONSTRAINT pk_agents PRIMARY KEY (id),
    CONSTRAINT uq_agents_color_number UNIQUE (color_number)
);
CREATE INDEX ix_agents_archived_created_at_id ON agents (archived, created_at, id);
CREATE INDEX ix_agents_name_id ON agents (lower(name), id);
CREATE INDEX ix_agents_owners ON agents USING gin (owners);

CREATE TABLE alert_silences (
    id text NOT NULL,
    matchers jsonb NOT NULL,
    comment text,
    starts_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    created_by text,
    CONSTRAINT pk_alert_silences PRIMARY KEY (id)
);
CREATE INDEX ix_alert_silences_created_at_id ON alert_silences (created_at, id);
CREATE INDEX ix_alert_silences_ends_at ON alert_silences (ends_at);

CREATE TABLE people (
    id text NOT NULL,
    issuer text NOT NULL,
    subject text NOT NULL,
    name text NOT NULL,
    email text,
    role text NOT NULL,
    created_at timestamptz NOT NULL,
    last_login_at timestamptz NOT NULL,
    blocked_at timestamptz,
    "only" text[],
    CONSTRAINT pk_people PRIMARY KEY (id),
    CONSTRAINT uq_people_issuer_subject UNIQUE (issuer, subject),
    CONSTRAINT ck_people_role CHECK (role IN ('read', 'run', 'admin'))
);
CREATE INDEX ix_people_created_at_id ON people (created_at, id);

CREATE TABLE api_keys (
    id text NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    digest bytea NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    person_id text,
    "only" text[],
    CONSTRAINT pk_api_keys PRIMARY KEY (id),
    CONSTRAINT ck_api_keys_role CHECK (role IN ('read', 'run', 'admin')),
    CONSTRAINT fk_api_keys_person_id_people FOREIGN KEY (person_id) REFERENCES people(id) ON DELETE CASCADE
);
CREATE INDEX ix_api_keys_created_at_id ON api_keys (created_at, id);
CREATE INDEX ix_api_keys_active_role_expires_at ON api_keys (role, expires_at) WHERE revoked_at IS NULL;
CREATE INDEX ix_api_keys_active_admins ON api_keys (name) WHERE role = 'admin' AND revoked_at IS NULL;
CREATE INDEX ix_api_keys_person_id ON api_keys (person_id);

CREATE TABLE browser_sessions (
    digest bytea NOT NULL,
    api_key_id text,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    person_id text,
    provider_session text,
    CONSTRAINT pk_browser_sessions PRIMARY KEY (digest),
    CONSTRAINT ck_browser_sessions_one_owner CHECK (num_nonnulls(api_key_id, person_id) = 1),
    CONSTRAINT fk_browser_sessions_api_key_id_api_keys FOREIGN KEY (api_key_id)
        REFERENCES api_keys(id) ON DELETE CASCADE,
    CONSTRAINT fk_browser_sessions_person_id_people FOREIGN KEY (person_id) REFERENCES people(id) ON DELETE CASCADE
);
CREATE INDEX ix_browser_sessions_api_key_id ON browser_sessions (api_key_id);
CREATE INDEX ix_browser_sessions_expires_at ON browser_sessions (expires_at);
CREATE INDEX ix_browser_sessions_person_id ON browser_sessions (person_id);
CREATE INDEX ix_browser_sessions_provider_session ON browser_sessions (provider_session);

CREATE TABLE login_links (
    digest bytea NOT NULL,
    api_key_id text NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT pk_login_links PRIMARY KEY (digest),
    CONSTRAINT fk_login_links_api_key_id_api_keys FOREIGN KEY (api_key_id) REFERENCES api_keys(id) ON DELETE CASCADE
);
CREATE INDEX ix_login_links_api_key_id ON login_links (api_key_id);
CREATE INDEX ix_login_links_expires_at ON login_links (expires_at);

CREATE TABLE audit_log (
    seq bigint GENERATED ALWAYS AS IDENTITY,
    at timestamptz DEFAULT now() NOT NULL,
    actor_type text NOT NULL,
    actor_id text NOT NULL,
    action text NOT NULL,
    resource_type text NOT NULL,
    resource_id text,
    outcome text NOT NULL,
    fields text[] NOT NULL,
    method text,
    path text,
    request_id text,
    CONSTRAINT pk_audit_log PRIMARY KEY (seq)
);
CREATE INDEX ix_audit_log_at_seq ON audit_log (at, seq);
CREATE INDEX ix_audit_log_actor_id_at_seq ON audit_log (actor_id, at, seq);
CREATE INDEX ix_audit_log_action_at_seq ON audit_log (action, at, seq);
CREATE INDEX ix_audit_log_resource_type_at_seq ON audit_log (resource_type, at, seq);
CREATE INDEX ix_audit_log_resource_id_at_seq ON audit_log (resource_id, at, seq);
CREATE INDEX ix_audit_log_request_id ON audit_log (request_id);
CREATE INDEX ix_audit_log_refused ON audit_log (at, seq) WHERE outcome = 'refused';

CREATE TABLE benchmarks (
    id text NOT NULL,
    metadata jsonb NOT NULL,
    dataset_ref text,
    run_name text,
    task_def text,
    features jsonb,
    source text,
    metrics jsonb NOT NULL,
    min_coverage double precision NOT NULL,
    max_error_share double precision NOT NULL,
    keep_days bigint,
    triggers jsonb DEFAULT '{}' NOT NULL,
    late_scores boolean NOT NULL,
    expect_items jsonb,
    settle_for text,
    input_path text,
    output_path text,
    expected_path text,
    write_back jsonb NOT NULL,
    harness jsonb,
    production jsonb,
    cluster_field text,
    baseline jsonb DEFAULT '{}' NOT NULL,
    judge_calibration jsonb,
    archived boolean NOT NULL,
    revision bigint NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    infra_errors text[] DEFAULT '{}' NOT NULL,
    redact jsonb,
    keep_text_days bigint,
    min_agreement double precision,
    CONSTRAINT pk_benchmarks PRIMARY KEY (id)
);
CREATE INDEX ix_benchmarks_archived_created_at_id ON benchmarks (archived, created_at, id);
CREATE INDEX ix_benchmarks_name_id
    ON benchmarks ("left"(lower(COALESCE(NULLIF(TRIM(BOTH FROM jsonb_extract_path_text(metadata, VARIADIC ARRAY['name'])), ''), id)), 200), id);
CREATE INDEX ix_benchmarks_langfuse_rules ON benchmarks (id)
    WHERE NOT archived AND (((triggers -> 'langfuse') -> 0) IS NOT NULL);
CREATE INDEX ix_benchmarks_dataset_ref ON benchmarks (dataset_ref);
CREATE INDEX ix_benchmarks_redact ON benchmarks (id) WHERE redact IS NOT NULL AND NOT archived;

CREATE TABLE collections (
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    source text NOT NULL,
    query jsonb NOT NULL,
    cursor text,
    trace_count bigint NOT NULL,
    expected_count bigint,
    dataset_items bigint,
    created_at timestamptz DEFAULT now() NOT NULL,
    completed_at timestamptz,
    as_of timestamptz,
    source_run_id text,
    source_run_at timestamptz,
    source_warning text,
    digest bytea,
    revision text,
    reader jsonb,
    redaction jsonb,
    redacted_texts bigint DEFAULT 0 NOT NULL,
    texts_removed_at timestamptz,
    retired_traces bigint DEFAULT 0 NOT NULL,
    CONSTRAINT pk_collections PRIMARY KEY (id)
);
CREATE INDEX ix_collections_digest ON collections (digest);
CREATE INDEX ix_collections_revision ON collections (revision);

CREATE TABLE endpoints (
    id text NOT NULL,
    channel text NOT NULL,
    recipient text NOT NULL,
    address text,
    recipient_hash text NOT NULL,
    host text NOT NULL,
    secret text,
    previous_secret text,
    previous_expires_at timestamptz,
    daily_summary boolean DEFAULT false NOT NULL,
    slow_count integer DEFAULT 0 NOT NULL,
    paused_until timestamptz,
    first_failed_at timestamptz,
    delivered_at timestamptz,
    disabled_at timestamptz,
    disabled_reason text,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT pk_endpoints PRIMARY KEY (id),
    CONSTRAINT uq_endpoints_channel_recipient_hash UNIQUE (channel, recipient_hash)
);
CREATE INDEX ix_endpoints_created_at_id ON endpoints (created_at, id);
CREATE INDEX ix_endpoints_disabled ON endpoints (id) WHERE disabled_at IS NOT NULL;
CREATE INDEX ix_endpoints_failing ON endpoints (id) WHERE first_failed_at IS NOT NULL;
CREATE INDEX ix_endpoints_daily_summary ON endpoints (id) WHERE daily_summary;

CREATE TABLE idempotency_keys (
    id text NOT NULL,
    api_key_id text NOT NULL,
    method text NOT NULL,
    path text NOT NULL,
    fingerprint bytea NOT NULL,
    status bigint NOT NULL,
    location text,
    response text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT pk_idempotency_keys PRIMARY KEY (id)
);
CREATE INDEX ix_idempotency_keys_expires_at ON idempotency_keys (expires_at);

CREATE TABLE llm_cache (
    key bytea NOT NULL,
    content text,
    vector bytea,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_llm_cache PRIMARY KEY (key)
);
CREATE INDEX ix_llm_cache_created_at ON llm_cache (created_at);

CREATE TABLE local_datasets (
    id text NOT NULL,
    name text NOT NULL,
    run_name text NOT NULL,
    agent_id text,
    collection_id bigint NOT NULL,
    trace_count bigint NOT NULL,
    size_bytes bigint NOT NULL,
    ignored_keys text[] DEFAULT '{}' NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    columns jsonb DEFAULT '{}' NOT NULL,
    CONSTRAINT pk_local_datasets PRIMARY KEY (id),
    CONSTRAINT uq_local_datasets_name_run_name_agent_id UNIQUE NULLS NOT DISTINCT (name, run_name, agent_id),
    CONSTRAINT fk_local_datasets_agent_id FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE RESTRICT,
    CONSTRAINT fk_local_datasets_collection_id FOREIGN KEY (collection_id) REFERENCES collections(id) ON DELETE RESTRICT
);
CREATE INDEX ix_local_datasets_agent_id_created_at_id ON local_datasets (agent_id, created_at, id);
CREATE INDEX ix_local_datasets_collection_id ON local_datasets (collection_id);
CREATE INDEX ix_local_datasets_created_at_id ON local_datasets (created_at, id);
CREATE INDEX ix_local_datasets_name_created_at_id ON local_datasets (name, created_at, id);

CREATE TABLE notifications (
    id text NOT NULL,
    topic text NOT NULL,
    severity text NOT NULL,
    title text NOT NULL,
    message jsonb NOT NULL,
    dedup_key text,
    in_inbox boolean DEFAULT true NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    read_at timestamptz,
    CONSTRAINT pk_notifications PRIMARY KEY (id),
    CONSTRAINT uq_notifications_dedup_key UNIQUE (dedup_key)
);
CREATE INDEX ix_notifications_created_at_id ON notifications (created_at, id);
CREATE INDEX ix_notifications_unread ON notifications (created_at, id) WHERE read_at IS NULL AND in_inbox;
CREATE INDEX ix_notifications_read ON notifications (created_at, id) WHERE read_at IS NOT NULL AND in_inbox;

CREATE TABLE purge_marks (
    kind text NOT NULL,
    marked_at timestamptz NOT NULL,
    CONSTRAINT pk_purge_marks PRIMARY KEY (kind)
);

CREATE UNLOGGED TABLE rate_windows (
    api_key_id text NOT NULL,
    minute bigint NOT NULL,
    request_count bigint NOT NULL,
    CONSTRAINT pk_rate_windows PRIMARY KEY (api_key_id, minute)
);

CREATE TABLE otel_traces (
    trace_id text NOT NULL,
    occurred_at timestamptz NOT NULL,
    has_root boolean NOT NULL,
    first_received_at timestamptz NOT NULL,
    last_received_at timestamptz NOT NULL,
    CONSTRAINT pk_otel_traces PRIMARY KEY (trace_id)
);
CREATE INDEX ix_otel_traces_occurred_at_trace_id ON otel_traces (occurred_at, trace_id);
CREATE INDEX ix_otel_traces_last_received_at ON otel_traces (last_received_at);

CREATE TABLE otel_spans (
    trace_id text NOT NULL,
    span_id text NOT NULL,
    parent_id text,
    name text NOT NULL,
    start_ns bigint NOT NULL,
    end_ns bigint NOT NULL,
    dataset text,
    run_name text,
    item_id text,
    facts jsonb,
    content text NOT NULL,
    CONSTRAINT pk_otel_spans PRIMARY KEY (trace_id, span_id)
);
CREATE INDEX ix_otel_spans_dataset_run_name_trace_id ON otel_spans (dataset, run_name, trace_id)
    WHERE item_id IS NOT NULL;

CREATE TABLE circuit_breakers (
    name text NOT NULL,
    open_until timestamptz,
    failures bigint NOT NULL,
    CONSTRAINT pk_circuit_breakers PRIMARY KEY (name)
);

CREATE TABLE worker_processes (
    worker_id bigint NOT NULL,
    machine text NOT NULL,
    CONSTRAINT pk_worker_processes PRIMARY KEY (worker_id)
);

CREATE TABLE trace_results (
    run_seq bigint NOT NULL,
    "position" integer NOT NULL,
    "values" double precision[] NOT NULL,
    notes jsonb,
    CONSTRAINT pk_trace_results PRIMARY KEY (run_seq, "position")
);

CREATE TABLE trigger_events (
    id text NOT NULL,
    type text NOT NULL,
    subject text,
    dedup_key text,
    fingerprint text,
    secret_id text,
    details jsonb NOT NULL,
    occurrences integer NOT NULL,
    status text NOT NULL,
    reason text,
    benchmark_ids jsonb NOT NULL,
    run_ids jsonb NOT NULL,
    received_at timestamptz NOT NULL,
    due_at timestamptz,
    settled_at timestamptz,
    CONSTRAINT pk_trigger_events PRIMARY KEY (id),
    CONSTRAINT uq_trigger_events_dedup_key UNIQUE (dedup_key)
);
CREATE INDEX ix_trigger_events_due_at ON trigger_events (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_trigger_events_received_at_id ON trigger_events (received_at, id);
CREATE INDEX ix_trigger_events_status_received_at_id ON trigger_events (status, received_at, id);
CREATE INDEX ix_trigger_events_type_received_at_id ON trigger_events (type, received_at, id);

CREATE TABLE alert_rules (
    id text NOT NULL,
    name text NOT NULL,
    benchmark_id text NOT NULL,
    agent_id text,
    metric text,
    kpi text,
    condition text NOT NULL,
    threshold double precision,
    severity text NOT NULL,
    channels jsonb NOT NULL,
    endpoints jsonb NOT NULL,
    enabled boolean NOT NULL,
    cooldown_minutes integer NOT NULL,
    for_runs integer NOT NULL,
    keep_firing_for_runs integer NOT NULL,
    no_data text NOT NULL,
    baseline_runs integer NOT NULL,
    minimum_effect double precision,
    false_pages_per_month double precision,
    max_hours_without_run integer,
    revision bigint NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT pk_alert_rules PRIMARY KEY (id),
    CONSTRAINT fk_alert_rules_agent_id FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE,
    CONSTRAINT fk_alert_rules_benchmark_id FOREIGN KEY (benchmark_id) REFERENCES benchmarks(id) ON DELETE CASCADE
);
CREATE INDEX ix_alert_rules_agent_id_created_at_id ON alert_rules (agent_id, created_at, id);
CREATE INDEX ix_alert_rules_benchmark_id_created_at_id ON alert_rules (benchmark_id, created_at, id);
CREATE INDEX ix_alert_rules_disabled ON alert_rules (created_at, id) WHERE enabled IS FALSE;
CREATE INDEX ix_alert_rules_created_at_id ON alert_rules (created_at, id);
CREATE INDEX ix_alert_rules_benchmark_id_agent_id ON alert_rules (benchmark_id, agent_id);
CREATE INDEX ix_alert_rules_benchmark_id_kpi_condition ON alert_rules (benchmark_id, kpi, condition);
CREATE INDEX ix_alert_rules_name_id ON alert_rules (lower(name), id);
CREATE INDEX ix_alert_rules_endpoints ON alert_rules USING gin (endpoints jsonb_path_ops);
CREATE INDEX ix_alert_rules_max_hours ON alert_rules (id) WHERE enabled AND max_hours_without_run IS NOT NULL;

CREATE TABLE benchmark_agents (
    benchmark_id text NOT NULL,
    agent_id text NOT NULL,
    CONSTRAINT pk_benchmark_agents PRIMARY KEY (benchmark_id, agent_id),
    CONSTRAINT fk_benchmark_agents_agent_id FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE RESTRICT,
    CONSTRAINT fk_benchmark_agents_benchmark_id FOREIGN KEY (benchmark_id) REFERENCES benchmarks(id) ON DELETE CASCADE
);
CREATE INDEX ix_benchmark_agents_agent_id ON benchmark_agents (agent_id);

CREATE TABLE benchmark_revisions (
    benchmark_id text NOT NULL,
    revision bigint NOT NULL,
    changes text[] NOT NULL,
    revision_note text,
    changed_at timestamptz NOT NULL,
    changed_by text,
    CONSTRAINT pk_benchmark_revisions PRIMARY KEY (benchmark_id, revision),
    CONSTRAINT fk_benchmark_revisions_benchmark_id FOREIGN KEY (benchmark_id)
        REFERENCES benchmarks(id) ON DELETE CASCADE
);

CREATE TABLE benchmark_runs (
    id text NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    benchmark_id text NOT NULL,
    agent_id text NOT NULL,
    status text NOT NULL,
    triggered_by text NOT NULL,
    trigger_event_id text,
    schedule_id text,
    run_name text,
    trace_window jsonb,
    retry_count integer NOT NULL,
    retry_of text,
    rescore_of text,
    collection_id bigint,
    source_key text,
    source_seq bigint,
    source_run_id text,
    source_run_at timestamptz,
    source_warning text,
    same_source_as text,
    plan jsonb,
    metric_keys text[],
    fencing_token bigint NOT NULL,
    shards_total integer,
    shards_done integer NOT NULL,
    traces_total bigint,
    traces_collected bigint NOT NULL,
    traces_processed bigint NOT NULL,
    metrics_computed bigint NOT NULL,
    metrics_reused bigint DEFAULT 0 NOT NULL,
    error_code text,
    error_message text,
    validity text,
    validity_reasons jsonb,
    coverage double precision,
    error_share double precision,
    fingerprint text,
    verdict jsonb,
    baseline_hold text,
    accepted_at timestamptz,
    accepted_by text,
    acceptance_note text,
    write_back jsonb,
    created_at timestamptz DEFAULT now() NOT NULL,
    started_at timestamptz,
    completed_at timestamptz,
    purged_at timestamptz,
    metric_warning text,
    data_digest text,
    same_data_as text,
    has_new_data boolean DEFAULT false NOT NULL,
    is_late boolean DEFAULT false NOT NULL,
    waiting_for text,
    redacted_texts bigint DEFAULT 0 NOT NULL,
    texts_removed_at timestamptz,
    dataset_name text,
    dataset_version bigint,
    CONSTRAINT pk_benchmark_runs PRIMARY KEY (id),
    CONSTRAINT uq_benchmark_runs_seq UNIQUE (seq),
    CONSTRAINT fk_benchmark_runs_agent_id FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE RESTRICT,
    CONSTRAINT fk_benchmark_runs_benchmark_id FOREIGN KEY (benchmark_id) REFERENCES benchmarks(id) ON DELETE RESTRICT,
    CONSTRAINT fk_benchmark_runs_collection_id FOREIGN KEY (collection_id)
        REFERENCES collections(id) ON DELETE RESTRICT,
    CONSTRAINT fk_benchmark_runs_rescore_of FOREIGN KEY (rescore_of) REFERENCES benchmark_runs(id) ON DELETE SET NULL,
    CONSTRAINT fk_benchmark_runs_retry_of FOREIGN KEY (retry_of) REFERENCES benchmark_runs(id) ON DELETE SET NULL
);
CREATE INDEX ix_benchmark_runs_agent_id_seq ON benchmark_runs (agent_id, seq);
CREATE INDEX ix_benchmark_runs_benchmark_id_agent_id_seq ON benchmark_runs (benchmark_id, agent_id, seq);
CREATE INDEX ix_benchmark_runs_schedule_id_seq ON benchmark_runs (schedule_id, seq) WHERE schedule_id IS NOT NULL;
CREATE INDEX ix_benchmark_runs_benchmark_id_seq ON benchmark_runs (benchmark_id, seq);
CREATE INDEX ix_benchmark_runs_collection_id ON benchmark_runs (collection_id);
CREATE INDEX ix_benchmark_runs_created_at_seq ON benchmark_runs (created_at, seq);
CREATE INDEX ix_benchmark_runs_status_created_at ON benchmark_runs (status, created_at) INCLUDE (validity);
CREATE INDEX ix_benchmark_runs_same_source_as ON benchmark_runs (same_source_as) WHERE same_source_as IS NOT NULL;
CREATE INDEX ix_benchmark_runs_rescore_of ON benchmark_runs (rescore_of) WHERE rescore_of IS NOT NULL;
CREATE INDEX ix_benchmark_runs_unpurged ON benchmark_runs (benchmark_id, completed_at) WHERE purged_at IS NULL;
CREATE INDEX ix_benchmark_runs_restorable ON benchmark_runs (seq)
    WHERE purged_at IS NOT NULL AND collection_id IS NOT NULL;
CREATE INDEX ix_benchmark_runs_retry_of ON benchmark_runs (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX ix_benchmark_runs_accepted
    ON benchmark_runs (benchmark_id, agent_id, fingerprint, COALESCE(source_seq, seq)) WHERE accepted_at IS NOT NULL;
CREATE INDEX ix_benchmark_runs_position ON benchmark_runs (benchmark_id, agent_id, COALESCE(source_seq, seq), seq);
CREATE INDEX ix_benchmark_runs_series
    ON benchmark_runs (benchmark_id, agent_id, fingerprint, COALESCE(source_seq, seq), seq);
CREATE INDEX ix_benchmark_runs_held ON benchmark_runs (source_seq) WHERE baseline_hold IS NOT NULL;
CREATE INDEX ix_benchmark_runs_source_key ON benchmark_runs (benchmark_id, agent_id, source_key, source_seq, seq);
CREATE INDEX ix_benchmark_runs_source_seq ON benchmark_runs (source_seq);
CREATE INDEX ix_benchmark_runs_verdict_seq
    ON benchmark_runs (COALESCE(NULLIF(validity, 'VALID'), (verdict ->> 'verdict'), ''), seq);
CREATE INDEX ix_benchmark_runs_completed_at_seq
    ON benchmark_runs (COALESCE(completed_at, '1970-01-01 00:00:00+00'::timestamptz), seq);
CREATE INDEX ix_benchmark_runs_traces_total_seq ON benchmark_runs (COALESCE(traces_total, '0'), seq);
CREATE INDEX ix_benchmark_runs_status_seq ON benchmark_runs (status, seq);
CREATE INDEX ix_benchmark_runs_new_data ON benchmark_runs (benchmark_id, agent_id, completed_at) WHERE has_new_data;
CREATE INDEX ix_benchmark_runs_data_digest ON benchmark_runs (benchmark_id, agent_id, data_digest, seq);
CREATE INDEX ix_benchmark_runs_same_data_as ON benchmark_runs (same_data_as) WHERE same_data_as IS NOT NULL;

CREATE TABLE collected_traces (
    collection_id bigint NOT NULL,
    "position" integer NOT NULL,
    trace_id text NOT NULL,
    item_id text NOT NULL,
    trial smallint NOT NULL,
    outcome text NOT NULL,
    input text,
    expected_output text,
    output text,
    error text,
    tags text[] NOT NULL,
    attributes jsonb,
    url text,
    input_tokens bigint,
    output_tokens bigint,
    cost_usd double precision,
    latency_ms double precision,
    tool_calls jsonb,
    turns integer,
    scores jsonb,
    expected_any text[],
    expected_all text[],
    CONSTRAINT pk_collected_traces PRIMARY KEY (collection_id, "position"),
    CONSTRAINT uq_collected_traces_collection_id_trace_id UNIQUE (collection_id, trace_id)
);
CREATE INDEX ix_collected_traces_collection_id_item_id ON collected_traces (collection_id, item_id);

CREATE TABLE trace_transcripts (
    collection_id bigint NOT NULL,
    "position" integer NOT NULL,
    transcript jsonb NOT NULL,
    CONSTRAINT pk_trace_transcripts PRIMARY KEY (collection_id, "position")
);

CREATE TABLE deliveries (
    id text NOT NULL,
    notification_id text NOT NULL,
    endpoint_id text NOT NULL,
    status text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    fencing_token integer DEFAULT 0 NOT NULL,
    detail text,
    due_at timestamptz,
    tried_at timestamptz,
    delivered_at timestamptz,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT pk_deliveries PRIMARY KEY (id),
    CONSTRAINT uq_deliveries_notification_id_endpoint_id UNIQUE (notification_id, endpoint_id),
    CONSTRAINT fk_deliveries_notification_id FOREIGN KEY (notification_id)
        REFERENCES notifications(id) ON DELETE CASCADE
);
CREATE INDEX ix_deliveries_created_at_id ON deliveries (created_at, id);
CREATE INDEX ix_deliveries_with_job ON deliveries (endpoint_id) WHERE status = 'PENDING' AND due_at IS NULL;
CREATE INDEX ix_deliveries_status_created_at_id ON deliveries (status, created_at, id);
CREATE INDEX ix_deliveries_endpoint_id_created_at_id ON deliveries (endpoint_id, created_at, id);
CREATE INDEX ix_deliveries_pending ON deliveries (endpoint_id, due_at, id) WHERE status = 'PENDING';
CREATE INDEX ix_deliveries_held ON deliveries (endpoint_id, id) WHERE status = 'HELD';

CREATE TABLE kpi_definitions (
    id text NOT NULL,
    revision bigint NOT NULL,
    benchmark_id text NOT NULL,
    name text NOT NULL,
    description text,
    formula text NOT NULL,
    direction text NOT NULL,
    unit text,
    threshold_min double precision,
    threshold_max double precision,
    gate boolean DEFAULT false NOT NULL,
    min_effect double precision,
    created_at timestamptz DEFAULT now() NOT NULL,
    retired_at timestamptz,
    corrected boolean DEFAULT false NOT NULL,
    CONSTRAINT pk_kpi_definitions PRIMARY KEY (id, benchmark_id, revision),
    CONSTRAINT fk_kpi_definitions_benchmark_id FOREIGN KEY (benchmark_id) REFERENCES benchmarks(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX uq_kpi_definitions_current_name ON kpi_definitions (benchmark_id, lower(name))
    WHERE retired_at IS NULL;
CREATE INDEX ix_kpi_definitions_benchmark_id ON kpi_definitions (benchmark_id);
CREATE INDEX ix_kpi_definitions_current_benchmark_id_name_id ON kpi_definitions (benchmark_id, name, id)
    WHERE retired_at IS NULL;
CREATE INDEX ix_kpi_definitions_current_name_id_benchmark_id ON kpi_definitions (lower(name), id, benchmark_id)
    WHERE retired_at IS NULL;

CREATE TABLE source_subscriptions (
    benchmark_id text NOT NULL,
    agent_id text NOT NULL,
    source_digest text,
    polled_at timestamptz,
    CONSTRAINT pk_source_subscriptions PRIMARY KEY (benchmark_id, agent_id),
    CONSTRAINT fk_source_subscriptions_agent_id FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE,
    CONSTRAINT fk_source_subscriptions_benchmark_id FOREIGN KEY (benchmark_id)
        REFERENCES benchmarks(id) ON DELETE CASCADE
);

CREATE TABLE awaited_runs (
    event_id text NOT NULL,
    benchmark_id text NOT NULL,
    agent_id text NOT NULL,
    known_runs jsonb,
    forwarded_at timestamptz,
    polled_at timestamptz,
    ends_at timestamptz NOT NULL,
    CONSTRAINT pk_awaited_runs PRIMARY KEY (event_id, benchmark_id, agent_id),
    CONSTRAINT fk_awaited_runs_agent_id FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE,
    CONSTRAINT fk_awaited_runs_benchmark_id FOREIGN KEY (benchmark_id) REFERENCES benchmarks(id) ON DELETE CASCADE,
    CONSTRAINT fk_awaited_runs_event_id FOREIGN KEY (event_id) REFERENCES trigger_events(id) ON DELETE CASCADE
);
CREATE INDEX ix_awaited_runs_agent_id ON awaited_runs (agent_id);
CREATE INDEX ix_awaited_runs_benchmark_id ON awaited_runs (benchmark_id);

CREATE TABLE schedule_configs (
    id text NOT NULL,
    name text NOT NULL,
    description text,
    benchmark_id text NOT NULL,
    agent_id text NOT NULL,
    cron_expression text NOT NULL,
    timezone text NOT NULL,
    dst_policy text NOT NULL,
    enabled boolean NOT NULL,
    run_name_pattern text,
    misfire_policy text NOT NULL,
    catchup_window_seconds bigint NOT NULL,
    concurrency_policy text NOT NULL,
    auto_disable_on_failure boolean NOT NULL,
    max_consecutive_failures bigint NOT NULL,
    consecutive_failures bigint NOT NULL,
    last_run_at timestamptz,
    next_run_at timestamptz,
    disabled_at timestamptz,
    disabled_reason text,
    revision bigint NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT pk_schedule_configs PRIMARY KEY (id),
    CONSTRAINT fk_schedule_configs_agent_id FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE RESTRICT,
    CONSTRAINT fk_schedule_configs_benchmark_id FOREIGN KEY (benchmark_id) REFERENCES benchmarks(id) ON DELETE RESTRICT
);
CREATE INDEX ix_schedule_configs_created_at_id ON schedule_configs (created_at, id);
CREATE INDEX ix_schedule_configs_name_id ON schedule_configs (lower(name), id);
CREATE INDEX ix_schedule_configs_benchmark_id_created_at_id ON schedule_configs (benchmark_id, created_at, id);
CREATE INDEX ix_schedule_configs_agent_id_created_at_id ON schedule_configs (agent_id, created_at, id);
CREATE INDEX ix_schedule_configs_disabled ON schedule_configs (created_at, id) WHERE enabled IS FALSE;
CREATE INDEX ix_schedule_configs_next_run_at ON schedule_configs (next_run_at) WHERE next_run_at IS NOT NULL;
CREATE INDEX ix_schedule_configs_timezone_cron_expression ON schedule_configs (timezone, cron_expression)
    WHERE next_run_at IS NOT NULL;

CREATE TABLE webhook_secrets (
    id text NOT NULL,
    benchmark_id text,
    name text,
    secret text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    CONSTRAINT pk_webhook_secrets PRIMARY KEY (id),
    CONSTRAINT fk_webhook_secrets_benchmark_id FOREIGN KEY (benchmark_id) REFERENCES benchmarks(id) ON DELETE CASCADE
);
CREATE INDEX ix_webhook_secrets_benchmark_id_created_at_id ON webhook_secrets (benchmark_id, created_at, id);
CREATE INDEX ix_webhook_secrets_benchmark_id_expires_at ON webhook_secrets (benchmark_id, expires_at);
CREATE INDEX ix_webhook_secrets_langfuse ON webhook_secrets (created_at, id) WHERE benchmark_id IS NULL;

CREATE TABLE alert_events (
    id text NOT NULL,
    dedup_key text NOT NULL,
    state text NOT NULL,
    rule_id text,
    name text NOT NULL,
    severity text NOT NULL,
    benchmark_id text NOT NULL,
    agent_id text NOT NULL,
    run_id text,
    run_seq bigint,
    incident_id text,
    value double precision,
    baseline double precision,
    explanation text NOT NULL,
    details jsonb NOT NULL,
    silence_id text,
    notification_id text,
    publish_by timestamptz,
    endpoint_ids text[],
    verdict text,
    acknowledged_at timestamptz,
    acknowledged_by text,
    note text,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT pk_alert_events PRIMARY KEY (id),
    CONSTRAINT uq_alert_events_dedup_key UNIQUE (dedup_key)
);
CREATE INDEX ix_alert_events_rule_id_created_at_id ON alert_events (rule_id, created_at, id);
CREATE INDEX ix_alert_events_benchmark_id_created_at_id ON alert_events (benchmark_id, created_at, id);
CREATE INDEX ix_alert_events_agent_id_created_at_id ON alert_events (agent_id, created_at, id);
CREATE INDEX ix_alert_events_created_at_id ON alert_events (created_at, id);
CREATE INDEX ix_alert_events_incident_id ON alert_events (incident_id);
CREATE INDEX ix_alert_events_run_id ON alert_events (run_id);
CREATE INDEX ix_alert_events_open ON alert_events (run_id, id) WHERE state = 'FIRING' AND verdict IS NULL;
CREATE INDEX ix_alert_events_fired ON alert_events (rule_id, created_at) WHERE state = 'FIRING';
CREATE INDEX ix_alert_events_notification_id_id ON alert_events (notification_id, id);
CREATE INDEX ix_alert_events_silence_id_created_at_id ON alert_events (silence_id, created_at, id)
    WHERE silence_id IS NOT NULL;
CREATE INDEX ix_alert_events_gathered ON alert_events (agent_id, id) WHERE publish_by IS NOT NULL;
CREATE INDEX ix_alert_events_acknowledged ON alert_events (rule_id) WHERE verdict IS NOT NULL;
CREATE INDEX ix_alert_events_state_created_at_id ON alert_events (state, created_at, id);
CREATE INDEX ix_alert_events_name_created_at_id ON alert_events (name, created_at, id);

CREATE TABLE incidents (
    id text NOT NULL,
    rule_id text,
    name text NOT NULL,
    severity text NOT NULL,
    condition text NOT NULL,
    benchmark_id text NOT NULL,
    agent_id text NOT NULL,
    kpi text,
    metric text,
    value_name text NOT NULL,
    unit text,
    state text NOT NULL,
    resolution text,
    fingerprint text,
    started_seq bigint NOT NULL,
    opened_seq bigint NOT NULL,
    end_seq bigint,
    run_seqs bigint[] NOT NULL,
    started_run_id text NOT NULL,
    opened_run_id text NOT NULL,
    resolved_run_id text,
    started_at timestamptz NOT NULL,
    opened_at timestamptz NOT NULL,
    resolved_at timestamptz,
    resolved_by text,
    note text,
    baseline double precision,
    opened_value double precision,
    value double precision,
    explanation text NOT NULL,
    verdict text,
    acknowledged_at timestamptz,
    acknowledged_by text,
    state_before jsonb,
    assignee_id text,
    assigned_by text,
    assigned_at timestamptz,
    CONSTRAINT pk_incidents PRIMARY KEY (id)
);
CREATE INDEX ix_incidents_open ON incidents (benchmark_id, agent_id) WHERE state = 'OPEN';
CREATE INDEX ix_incidents_kpi_started_at ON incidents (benchmark_id, agent_id, kpi, started_at);
CREATE INDEX ix_incidents_opened_at_id ON incidents (opened_at, id);
CREATE INDEX ix_incidents_rule_id_opened_at_id ON incidents (rule_id, opened_at, id);
CREATE INDEX ix_incidents_benchmark_id_opened_at_id ON incidents (benchmark_id, opened_at, id);
CREATE INDEX ix_incidents_agent_id_opened_at_id ON incidents (agent_id, opened_at, id);
CREATE INDEX ix_incidents_state_opened_at_id ON incidents (state, opened_at, id);
CREATE INDEX ix_incidents_name_opened_at_id ON incidents (name, opened_at, id);
CREATE INDEX ix_incidents_assigned ON incidents (assignee_id) WHERE assignee_id IS NOT NULL;

CREATE TABLE alert_states (
    rule_id text NOT NULL,
    agent_id text NOT NULL,
    run_seq bigint NOT NULL,
    run_id text NOT NULL,
    state text NOT NULL,
    breaches integer NOT NULL,
    clears integer NOT NULL,
    fired_at timestamptz,
    incident_id text,
    series jsonb,
    breach_seq bigint,
    clear_seq bigint,
    value double precision,
    baseline double precision,
    explanation text NOT NULL,
    evaluated_at timestamptz NOT NULL,
    is_open boolean DEFAULT false NOT NULL,
    fingerprint text,
    excluded jsonb DEFAULT '[]' NOT NULL,
    CONSTRAINT pk_alert_states PRIMARY KEY (rule_id, agent_id),
    CONSTRAINT fk_alert_states_agent_id FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE,
    CONSTRAINT fk_alert_states_rule_id FOREIGN KEY (rule_id) REFERENCES alert_rules(id) ON DELETE CASCADE
);
CREATE INDEX ix_alert_states_agent_id ON alert_states (agent_id);

CREATE TABLE benchmark_baselines (
    benchmark_id text NOT NULL,
    agent_id text NOT NULL,
    run_id text NOT NULL,
    pinned_at timestamptz NOT NULL,
    CONSTRAINT pk_benchmark_baselines PRIMARY KEY (benchmark_id, agent_id),
    CONSTRAINT fk_benchmark_baselines_agent_id FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE,
    CONSTRAINT fk_benchmark_baselines_benchmark_id FOREIGN KEY (benchmark_id)
        REFERENCES benchmarks(id) ON DELETE CASCADE,
    CONSTRAINT fk_benchmark_baselines_run_id FOREIGN KEY (run_id) REFERENCES benchmark_runs(id) ON DELETE RESTRICT
);
CREATE INDEX ix_benchmark_baselines_agent_id ON benchmark_baselines (agent_id);
CREATE INDEX ix_benchmark_baselines_run_id ON benchmark_baselines (run_id);

CREATE TABLE kpi_history (
    id bigint GENERATED ALWAYS AS IDENTITY,
    run_seq bigint NOT NULL,
    run_id text NOT NULL,
    kpi_id text NOT NULL,
    kpi_revision bigint NOT NULL,
    benchmark_id text NOT NULL,
    agent_id text NOT NULL,
    name text NOT NULL,
    formula text NOT NULL,
    value double precision,
    undefined_reason text,
    unit text,
    direction text NOT NULL,
    within_thresholds boolean,
    validity text NOT NULL,
    gate boolean DEFAULT false NOT NULL,
    coverage double precision,
    missing jsonb DEFAULT '{}' NOT NULL,
    interval_low double precision,
    interval_high double precision,
    verdict jsonb,
    over_runs jsonb,
    recorded_at timestamptz DEFAULT now() NOT NULL,
    correction jsonb,
    CONSTRAINT pk_kpi_history PRIMARY KEY (id),
    CONSTRAINT fk_kpi_history_agent_id FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE RESTRICT,
    CONSTRAINT fk_kpi_history_benchmark_id FOREIGN KEY (benchmark_id) REFERENCES benchmarks(id) ON DELETE RESTRICT,
    CONSTRAINT fk_kpi_history_kpi_id_benchmark_id_kpi_revision FOREIGN KEY (kpi_id, benchmark_id, kpi_revision)
        REFERENCES kpi_definitions(id, benchmark_id, revision),
    CONSTRAINT fk_kpi_history_run_seq FOREIGN KEY (run_seq) REFERENCES benchmark_runs(seq) ON DELETE CASCADE
);
CREATE INDEX ix_kpi_history_agent_id_recorded_at_id ON kpi_history (agent_id, recorded_at, id);
CREATE INDEX ix_kpi_history_name_recorded_at_id ON kpi_history (name, recorded_at, id);
CREATE INDEX ix_kpi_history_recorded_at_id ON kpi_history (recorded_at, id);
CREATE INDEX ix_kpi_history_trend ON kpi_history (benchmark_id, agent_id, kpi_id, recorded_at, id);
CREATE INDEX ix_kpi_history_benchmark_id_agent_id_recorded_at_id
    ON kpi_history (benchmark_id, agent_id, recorded_at, id);
CREATE INDEX ix_kpi_history_benchmark_id_recorded_at_id ON kpi_history (benchmark_id, recorded_at, id);
CREATE INDEX ix_kpi_history_kpi_id_recorded_at_id ON kpi_history (kpi_id, recorded_at, id);
CREATE UNIQUE INDEX uq_kpi_history_run_seq_kpi_id ON kpi_history (run_seq, kpi_id);
CREATE INDEX ix_kpi_history_benchmark_id_kpi_id_recorded_at_id ON kpi_history (benchmark_id, kpi_id, recorded_at, id);

CREATE TABLE run_metrics (
    run_seq bigint NOT NULL,
    metric text NOT NULL,
    ordinal smallint NOT NULL,
    version text NOT NULL,
    n bigint NOT NULL,
    expected bigint NOT NULL,
    mean double precision,
    std double precision,
    min double precision,
    max double precision,
    p50 double precision,
    p95 double precision,
    p99 double precision,
    sum double precision,
    coverage double precision,
    interval_low double precision,
    interval_high double precision,
    missing jsonb NOT NULL,
    verdict jsonb,
    over_runs jsonb,
    percentiles double precision[],
    passes jsonb,
    agreement jsonb,
    CONSTRAINT pk_run_metrics PRIMARY KEY (run_seq, metric),
    CONSTRAINT fk_run_metrics_run_seq FOREIGN KEY (run_seq) REFERENCES benchmark_runs(seq) ON DELETE CASCADE
);

CREATE TABLE run_shards (
    run_seq bigint NOT NULL,
    shard integer NOT NULL,
    first integer NOT NULL,
    last integer NOT NULL,
    fencing_token integer NOT NULL,
    done_at timestamptz,
    summaries jsonb,
    CONSTRAINT pk_run_shards PRIMARY KEY (run_seq, shard),
    CONSTRAINT fk_run_shards_run_seq FOREIGN KEY (run_seq) REFERENCES benchmark_runs(seq) ON DELETE CASCADE
);

CREATE TABLE run_items (
    run_seq bigint NOT NULL,
    keys bytea NOT NULL,
    traces bytea NOT NULL,
    clusters bytea,
    CONSTRAINT pk_run_items PRIMARY KEY (run_seq),
    CONSTRAINT fk_run_items_run_seq FOREIGN KEY (run_seq) REFERENCES benchmark_runs(seq) ON DELETE CASCADE
);

CREATE TABLE run_series (
    run_seq bigint NOT NULL,
    series text NOT NULL,
    scale text NOT NULL,
    level double precision NOT NULL,
    item_values bytea,
    state jsonb,
    assumed_sd double precision,
    CONSTRAINT pk_run_series PRIMARY KEY (run_seq, series),
    CONSTRAINT fk_run_series_run_seq FOREIGN KEY (run_seq) REFERENCES benchmark_runs(seq) ON DELETE CASCADE
);

CREATE TABLE run_llm_usage (
    run_seq bigint NOT NULL,
    model text NOT NULL,
    requests bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cost_usd double precision,
    CONSTRAINT pk_run_llm_usage PRIMARY KEY (run_seq, model),
    CONSTRAINT fk_run_llm_usage_run_seq FOREIGN KEY (run_seq) REFERENCES benchmark_runs(seq) ON DELETE CASCADE
);

CREATE TABLE schedule_fires (
    seq bigint GENERATED ALWAYS AS IDENTITY,
    schedule_id text NOT NULL,
    due_at timestamptz NOT NULL,
    range_end timestamptz,
    fired_at timestamptz NOT NULL,
    triggered_by text NOT NULL,
    status text NOT NULL,
    reason text,
    detail text,
    plan jsonb,
    run_id text,
    settled_at timestamptz,
    reported_at timestamptz,
    CONSTRAINT pk_schedule_fires PRIMARY KEY (seq),
    CONSTRAINT uq_schedule_fires_schedule_id_due_at UNIQUE (schedule_id, due_at),
    CONSTRAINT fk_schedule_fires_run_id FOREIGN KEY (run_id) REFERENCES benchmark_runs(id) ON DELETE SET NULL
);
CREATE INDEX ix_schedule_fires_status_due_at ON schedule_fires (status, due_at) INCLUDE (schedule_id, reason);
CREATE INDEX ix_schedule_fires_unsettled ON schedule_fires (schedule_id)
    WHERE settled_at IS NULL AND run_id IS NOT NULL;
CREATE INDEX ix_schedule_fires_run_id ON schedule_fires (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX ix_schedule_fires_unreported ON schedule_fires (fired_at)
    WHERE reported_at IS NULL AND (status = 'FAILED' OR reason IN ('MISSED', 'OUTSIDE_CATCHUP_WINDOW', 'TOO_MANY_MISSED'));
CREATE INDEX ix_schedule_fires_missed ON schedule_fires (due_at, schedule_id)
    WHERE reason IN ('MISSED', 'OUTSIDE_CATCHUP_WINDOW', 'TOO_MANY_MISSED', 'NONEXISTENT_TIME');

CREATE TABLE processed_source_runs (
    benchmark_id text NOT NULL,
    agent_id text NOT NULL,
    source_run_id text NOT NULL,
    ended_at timestamptz,
    CONSTRAINT pk_processed_source_runs PRIMARY KEY (benchmark_id, agent_id, source_run_id),
    CONSTRAINT fk_processed_source_runs_benchmark_id_agent_id FOREIGN KEY (benchmark_id, agent_id)
        REFERENCES source_subscriptions(benchmark_id, agent_id) ON DELETE CASCADE
);

CREATE TABLE run_evaluations (
    run_seq bigint NOT NULL,
    rule_id text NOT NULL,
    rule_name text NOT NULL,
    rule_revision bigint NOT NULL,
    result text NOT NULL,
    outcome text,
    state text NOT NULL,
    value double precision,
    baseline double precision,
    explanation text NOT NULL,
    same_data_as text,
    CONSTRAINT pk_run_evaluations PRIMARY KEY (run_seq, rule_id),
    CONSTRAINT fk_run_evaluations_run_seq FOREIGN KEY (run_seq) REFERENCES benchmark_runs(seq) ON DELETE CASCADE
);

CREATE TABLE run_attributes (
    run_seq bigint NOT NULL,
    record jsonb NOT NULL,
    CONSTRAINT pk_run_attributes PRIMARY KEY (run_seq),
    CONSTRAINT fk_run_attributes_run_seq FOREIGN KEY (run_seq) REFERENCES benchmark_runs(seq) ON DELETE CASCADE
);

CREATE TABLE stored_comparisons (
    request_digest text NOT NULL,
    inputs_digest text NOT NULL,
    candidate_seq bigint NOT NULL,
    baseline_seq bigint NOT NULL,
    document text NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT pk_stored_comparisons PRIMARY KEY (request_digest),
    CONSTRAINT fk_stored_comparisons_baseline_seq_benchmark_runs FOREIGN KEY (baseline_seq)
        REFERENCES benchmark_runs(seq) ON DELETE CASCADE,
    CONSTRAINT fk_stored_comparisons_candidate_seq_benchmark_runs FOREIGN KEY (candidate_seq)
        REFERENCES benchmark_runs(seq) ON DELETE CASCADE
);
CREATE INDEX ix_stored_comparisons_candidate_seq ON stored_comparisons (candidate_seq);
CREATE INDEX ix_stored_comparisons_baseline_seq ON stored_comparisons (baseline_seq);

CREATE TABLE setup_drafts (
    id text NOT NULL,
    fields jsonb NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT pk_setup_drafts PRIMARY KEY (id)
);

CREATE TABLE notes (
    id text NOT NULL,
    benchmark_id text NOT NULL,
    run_id text,
    item_id text,
    incident_id text,
    text text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_notes PRIMARY KEY (id),
    CONSTRAINT ck_notes_item_of_run CHECK (item_id IS NULL OR run_id IS NOT NULL),
    CONSTRAINT ck_notes_one_subject CHECK (num_nonnulls(run_id, incident_id) = 1),
    CONSTRAINT fk_notes_benchmark_id_benchmarks FOREIGN KEY (benchmark_id) REFERENCES benchmarks(id) ON DELETE CASCADE,
    CONSTRAINT fk_notes_incident_id_incidents FOREIGN KEY (incident_id) REFERENCES incidents(id) ON DELETE CASCADE,
    CONSTRAINT fk_notes_run_id_benchmark_runs FOREIGN KEY (run_id) REFERENCES benchmark_runs(id) ON DELETE CASCADE
);
CREATE INDEX ix_notes_created_at_id ON notes (created_at, id);
CREATE INDEX ix_notes_benchmark_id_created_at_id ON notes (benchmark_id, created_at, id);
CREATE INDEX ix_notes_run_id_created_at_id ON notes (run_id, created_at, id);
CREATE INDEX ix_notes_item_id_created_at_id ON notes (item_id, created_at, id);
CREATE INDEX ix_notes_incident_id_created_at_id ON notes (incident_id, created_at, id);
CREATE INDEX ix_notes_created_by_created_at_id ON notes (created_by, created_at, id);

CREATE TABLE agent_revisions (
    agent_id text NOT NULL,
    revision bigint NOT NULL,
    changes text[] NOT NULL,
    changed_by text,
    changed_at timestamptz NOT NULL,
    CONSTRAINT pk_agent_revisions PRIMARY KEY (agent_id, revision),
    CONSTRAINT fk_agent_revisions_agent_id_agents FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE
);

CREATE TABLE alert_rule_revisions (
    rule_id text NOT NULL,
    revision bigint NOT NULL,
    changes text[] NOT NULL,
    changed_by text,
    changed_at timestamptz NOT NULL,
    CONSTRAINT pk_alert_rule_revisions PRIMARY KEY (rule_id, revision),
    CONSTRAINT fk_alert_rule_revisions_rule_id_alert_rules FOREIGN KEY (rule_id)
        REFERENCES alert_rules(id) ON DELETE CASCADE
);

CREATE TABLE project_objects (
    id text NOT NULL,
    file text NOT NULL,
    path text NOT NULL,
    kind text NOT NULL,
    object_id text NOT NULL,
    wanted jsonb NOT NULL,
    shown jsonb,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_project_objects PRIMARY KEY (id),
    CONSTRAINT uq_project_objects_file_path UNIQUE (file, path),
    CONSTRAINT uq_project_objects_kind_object_id UNIQUE (kind, object_id)
);
CREATE INDEX ix_project_objects_created_at_id ON project_objects (created_at, id);

CREATE TABLE datasets (
    id text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    item_count bigint NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT pk_datasets PRIMARY KEY (id),
    CONSTRAINT uq_datasets_name UNIQUE (name)
);
CREATE INDEX ix_datasets_created_at_id ON datasets (created_at, id);

CREATE TABLE dataset_versions (
    dataset_id text NOT NULL,
    version bigint NOT NULL,
    item_count bigint NOT NULL,
    added bigint NOT NULL,
    changed bigint NOT NULL,
    retired bigint NOT NULL,
    note text,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_dataset_versions PRIMARY KEY (dataset_id, version),
    CONSTRAINT fk_dataset_versions_dataset_id FOREIGN KEY (dataset_id) REFERENCES datasets(id) ON DELETE RESTRICT
);

CREATE TABLE dataset_items (
    dataset_id text NOT NULL,
    "position" integer NOT NULL,
    version bigint NOT NULL,
    item_id text NOT NULL,
    is_retired boolean NOT NULL,
    question text,
    input text,
    expected_output text,
    expected_any text[] NOT NULL,
    expected_all text[] NOT NULL,
    tags text[] NOT NULL,
    attributes jsonb NOT NULL,
    origin jsonb,
    CONSTRAINT pk_dataset_items PRIMARY KEY (dataset_id, "position", version),
    CONSTRAINT uq_dataset_items_dataset_id_item_id_version UNIQUE (dataset_id, item_id, version),
    CONSTRAINT fk_dataset_items_dataset_id FOREIGN KEY (dataset_id) REFERENCES datasets(id) ON DELETE RESTRICT
);

CREATE TABLE annotations (
    id text NOT NULL,
    benchmark_id text NOT NULL,
    run_id text NOT NULL,
    trace_id text NOT NULL,
    item_id text NOT NULL,
    judgement text NOT NULL,
    score double precision,
    corrected_answer text,
    note text,
    expected_is_wrong boolean NOT NULL,
    annotator text NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_annotations PRIMARY KEY (id),
    CONSTRAINT uq_annotations_run_id_trace_id_annotator UNIQUE (run_id, trace_id, annotator),
    CONSTRAINT ck_annotations_judgement CHECK (judgement IN ('right', 'partly', 'wrong')),
    CONSTRAINT fk_annotations_benchmark_id_benchmarks FOREIGN KEY (benchmark_id)
        REFERENCES benchmarks(id) ON DELETE CASCADE,
    CONSTRAINT fk_annotations_run_id_benchmark_runs FOREIGN KEY (run_id) REFERENCES benchmark_runs(id) ON DELETE CASCADE
);
CREATE INDEX ix_annotations_created_at_id ON annotations (created_at, id);
CREATE INDEX ix_annotations_benchmark_id_created_at_id ON annotations (benchmark_id, created_at, id);
CREATE INDEX ix_annotations_run_id_created_at_id ON annotations (run_id, created_at, id);
CREATE INDEX ix_annotations_item_id_created_at_id ON annotations (item_id, created_at, id);
CREATE INDEX ix_annotations_annotator_created_at_id ON annotations (annotator, created_at, id);

-- The owner of the table can drop the triggers; a role that only uses the table cannot.
CREATE FUNCTION audit_log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF OLD.at < now() - interval '400 days' THEN
      RETURN OLD;
    END IF;
  END IF;
  RAISE EXCEPTION 'the audit log is append-only: % is refused', TG_OP
    USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR TRUNCATE ON audit_log
FOR EACH STATEMENT EXECUTE FUNCTION audit_log_is_append_only();
CREATE TRIGGER audit_log_keeps_entries BEFORE DELETE ON audit_log
FOR EACH ROW EXECUTE FUNCTION audit_log_is_append_only();

-- With the rights of the owner: the role of the service need not be able to delete from the log.
CREATE FUNCTION delete_old_audit_entries(cutoff timestamptz, batch_rows integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
  WITH deleted AS (
    DELETE FROM audit_log WHERE seq IN (
      SELECT seq FROM audit_log WHERE at < cutoff ORDER BY at, seq LIMIT batch_rows
    ) RETURNING seq
  )
  SELECT count(*) FROM deleted
$$;

-- Views for dashboards and SQL clients: no texts of traces, no addresses, no secrets. A role that may read them needs no
-- right on any table.
CREATE VIEW metric_snapshots AS
SELECT run.id AS run_id, run.benchmark_id, run.agent_id, trace.trace_id, trace.item_id,
       trace.trial, metric.key AS metric, result.values[metric.ordinal] AS value,
       CASE WHEN result.values[metric.ordinal] IS NULL
            THEN result.notes -> metric.key END AS missing,
       result.notes -> metric.key ->> 'reason' AS reason
FROM trace_results AS result
JOIN benchmark_runs AS run ON run.seq = result.run_seq
JOIN collected_traces AS trace
  ON trace.collection_id = run.collection_id AND trace.position = result.position
CROSS JOIN LATERAL unnest(run.metric_keys) WITH ORDINALITY AS metric (key, ordinal);

CREATE VIEW run_history AS
SELECT id AS run_id, benchmark_id, agent_id, run_name, status, triggered_by, validity,
       coverage, error_share, traces_total, verdict ->> 'verdict' AS verdict, error_code,
       created_at, started_at, completed_at,
       extract(epoch FROM completed_at - started_at)::float8 AS seconds
FROM benchmark_runs;

CREATE VIEW kpi_values AS
SELECT run_id, benchmark_id, agent_id, kpi_id, name AS kpi, value, undefined_reason, unit,
       direction, within_thresholds, validity, interval_low, interval_high,
       verdict ->> 'verdict' AS verdict, recorded_at
FROM kpi_history;

CREATE VIEW metric_values AS
SELECT run.id AS run_id, run.benchmark_id, run.agent_id, run.validity, run.completed_at,
       metric.metric, metric.n, metric.mean, metric.std, metric.p50, metric.p95,
       metric.coverage, metric.interval_low, metric.interval_high
FROM run_metrics AS metric JOIN benchmark_runs AS run ON run.seq = metric.run_seq;

CREATE VIEW alert_history AS
SELECT id AS alert_id, state, rule_id AS alert_config_id, name, severity, benchmark_id,
       agent_id, run_id, incident_id, value, baseline, explanation,
       silence_id IS NOT NULL AS silenced, verdict, created_at
FROM alert_events;

CREATE VIEW rule_states AS
SELECT rule.id AS alert_config_id, rule.name, rule.severity, rule.benchmark_id,
       state.agent_id, state.state, state.value, state.baseline,
       state.explanation, state.fired_at, state.evaluated_at
FROM alert_states AS state JOIN alert_rules AS rule ON rule.id = state.rule_id
WHERE state.run_seq > 0;

CREATE VIEW delivery_history AS
SELECT delivery.id AS delivery_id, delivery.notification_id, endpoint.channel,
       delivery.status, delivery.attempts, delivery.created_at, delivery.delivered_at
FROM deliveries AS delivery JOIN endpoints AS endpoint ON endpoint.id = delivery.endpoint_id;
