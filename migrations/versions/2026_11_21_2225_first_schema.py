"""first schema"""

import sqlalchemy as sa
from alembic import op
from procrastinate.schema import SchemaManager
from sqlalchemy.dialects import postgresql

revision = '0001'
down_revision = None
branch_labels = None
depends_on = None


METRIC_SNAPSHOTS = """
    CREATE VIEW metric_snapshots AS
    SELECT run.id AS run_id, run.benchmark_id, run.agent_id, trace.trace_id, trace.item_id,
           trace.trial, metric.key AS metric, result.values[metric.ordinal] AS value,
           result.notes -> metric.key AS missing
    FROM trace_results AS result
    JOIN benchmark_runs AS run ON run.seq = result.run_seq
    JOIN collected_traces AS trace
      ON trace.collection_id = run.collection_id AND trace.position = result.position
    CROSS JOIN LATERAL unnest(run.metric_keys) WITH ORDINALITY AS metric (key, ordinal)
"""


DROP_JOB_ENGINE = """
    DO $$ DECLARE each record; BEGIN
        DROP TABLE procrastinate_events, procrastinate_periodic_defers, procrastinate_jobs,
                   procrastinate_workers CASCADE;
        FOR each IN SELECT oid::regprocedure AS name FROM pg_proc
                    WHERE proname LIKE 'procrastinate\\_%' LOOP
            EXECUTE 'DROP FUNCTION ' || each.name || ' CASCADE';
        END LOOP;
        DROP TYPE procrastinate_job_to_defer_v1, procrastinate_job_status,
                  procrastinate_job_event_type CASCADE;
    END $$
"""


def upgrade() -> None:
    # The job engine's own schema; its later versions bring migrations of their own.
    op.get_bind().connection.driver_connection.execute(SchemaManager.get_schema())
    op.create_table('agents',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('description', sa.Text(), nullable=True),
    sa.Column('langfuse_project_name', sa.Text(), nullable=True),
    sa.Column('langfuse_url', sa.Text(), nullable=True),
    sa.Column('langfuse_public_key', sa.Text(), nullable=True),
    sa.Column('langfuse_secret_key', sa.Text(), nullable=True),
    sa.Column('archived', sa.Boolean(), nullable=False),
    sa.Column('revision', sa.BigInteger(), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('updated_at', sa.TIMESTAMP(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_agents'))
    )
    op.create_table('api_keys',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('role', sa.Text(), nullable=False),
    sa.Column('digest', sa.LargeBinary(), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('expires_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('last_used_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('revoked_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.CheckConstraint("role IN ('read', 'run', 'admin')", name=op.f('ck_api_keys_role')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_api_keys'))
    )
    op.create_table('benchmarks',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('metadata', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
    sa.Column('dataset_ref', sa.Text(), nullable=True),
    sa.Column('run_name', sa.Text(), nullable=True),
    sa.Column('task_def', sa.Text(), nullable=True),
    sa.Column('features', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('metrics', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
    sa.Column('min_coverage', sa.Double(), nullable=False),
    sa.Column('max_error_share', sa.Double(), nullable=False),
    sa.Column('keep_days', sa.BigInteger(), nullable=True),
    sa.Column('archived', sa.Boolean(), nullable=False),
    sa.Column('revision', sa.BigInteger(), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('updated_at', sa.TIMESTAMP(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_benchmarks'))
    )
    op.create_table('collections',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('query', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
    sa.Column('cursor', sa.Text(), nullable=True),
    sa.Column('trace_count', sa.BigInteger(), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('completed_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_collections'))
    )
    op.create_table('idempotency_keys',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('api_key_id', sa.Text(), nullable=False),
    sa.Column('method', sa.Text(), nullable=False),
    sa.Column('path', sa.Text(), nullable=False),
    sa.Column('fingerprint', sa.LargeBinary(), nullable=False),
    sa.Column('status', sa.BigInteger(), nullable=False),
    sa.Column('location', sa.Text(), nullable=True),
    sa.Column('answer', sa.Text(), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('expires_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_idempotency_keys'))
    )
    op.create_index(op.f('ix_idempotency_keys_expires_at'), 'idempotency_keys', ['expires_at'], unique=False)
    op.create_table('local_datasets',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('run_name', sa.Text(), nullable=False),
    sa.Column('trace_count', sa.BigInteger(), nullable=False),
    sa.Column('size_bytes', sa.BigInteger(), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_local_datasets')),
    sa.UniqueConstraint('name', 'run_name', name=op.f('uq_local_datasets_name_run_name'))
    )
    op.create_table('benchmark_agents',
    sa.Column('benchmark_id', sa.Text(), nullable=False),
    sa.Column('agent_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('fk_benchmark_agents_agent_id'), ondelete='RESTRICT'),
    sa.ForeignKeyConstraint(['benchmark_id'], ['benchmarks.id'], name=op.f('fk_benchmark_agents_benchmark_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('benchmark_id', 'agent_id', name=op.f('pk_benchmark_agents'))
    )
    op.create_index(op.f('ix_benchmark_agents_agent_id'), 'benchmark_agents', ['agent_id'], unique=False)
    op.create_table('benchmark_runs',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('seq', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('benchmark_id', sa.Text(), nullable=False),
    sa.Column('agent_id', sa.Text(), nullable=False),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('triggered_by', sa.Text(), nullable=False),
    sa.Column('run_name', sa.Text(), nullable=True),
    sa.Column('retry_count', sa.Integer(), nullable=False),
    sa.Column('retry_of', sa.Text(), nullable=True),
    sa.Column('collection_id', sa.BigInteger(), nullable=True),
    sa.Column('plan', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    sa.Column('metric_keys', postgresql.ARRAY(sa.Text()), nullable=True),
    sa.Column('fence', sa.BigInteger(), nullable=False),
    sa.Column('shards_total', sa.Integer(), nullable=True),
    sa.Column('shards_done', sa.Integer(), nullable=False),
    sa.Column('traces_total', sa.BigInteger(), nullable=True),
    sa.Column('traces_processed', sa.BigInteger(), nullable=False),
    sa.Column('metrics_computed', sa.BigInteger(), nullable=False),
    sa.Column('error_code', sa.Text(), nullable=True),
    sa.Column('error_message', sa.Text(), nullable=True),
    sa.Column('validity', sa.Text(), nullable=True),
    sa.Column('validity_reasons', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    sa.Column('coverage', sa.Double(), nullable=True),
    sa.Column('error_share', sa.Double(), nullable=True),
    sa.Column('fingerprint', sa.Text(), nullable=True),
    sa.Column('verdict', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('started_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('completed_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('fk_benchmark_runs_agent_id'), ondelete='RESTRICT'),
    sa.ForeignKeyConstraint(['benchmark_id'], ['benchmarks.id'], name=op.f('fk_benchmark_runs_benchmark_id'), ondelete='RESTRICT'),
    sa.ForeignKeyConstraint(['collection_id'], ['collections.id'], name=op.f('fk_benchmark_runs_collection_id'), ondelete='RESTRICT'),
    sa.ForeignKeyConstraint(['retry_of'], ['benchmark_runs.id'], name=op.f('fk_benchmark_runs_retry_of'), ondelete='SET NULL'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_benchmark_runs')),
    sa.UniqueConstraint('seq', name=op.f('uq_benchmark_runs_seq'))
    )
    op.create_index('ix_benchmark_runs_agent_id_seq', 'benchmark_runs', ['agent_id', 'seq'], unique=False)
    op.create_index('ix_benchmark_runs_benchmark_id_seq', 'benchmark_runs', ['benchmark_id', 'seq'], unique=False)
    op.create_index(op.f('ix_benchmark_runs_collection_id'), 'benchmark_runs', ['collection_id'], unique=False)
    op.create_index('ix_benchmark_runs_created_at', 'benchmark_runs', ['created_at'], unique=False)
    op.create_index(op.f('ix_benchmark_runs_retry_of'), 'benchmark_runs', ['retry_of'], unique=False)
    op.create_index('ix_benchmark_runs_status_seq', 'benchmark_runs', ['status', 'seq'], unique=False)
    op.create_table('collected_traces',
    sa.Column('collection_id', sa.BigInteger(), nullable=False),
    sa.Column('position', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('trace_id', sa.Text(), nullable=False),
    sa.Column('item_id', sa.Text(), nullable=False),
    sa.Column('trial', sa.SmallInteger(), nullable=False),
    sa.Column('outcome', sa.Text(), nullable=False),
    sa.Column('input', sa.Text(), nullable=True),
    sa.Column('expected_output', sa.Text(), nullable=True),
    sa.Column('output', sa.Text(), nullable=True),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('tags', postgresql.ARRAY(sa.Text()), nullable=False),
    sa.Column('url', sa.Text(), nullable=True),
    sa.Column('input_tokens', sa.BigInteger(), nullable=True),
    sa.Column('output_tokens', sa.BigInteger(), nullable=True),
    sa.Column('cost_usd', sa.Double(), nullable=True),
    sa.Column('latency_ms', sa.Double(), nullable=True),
    sa.Column('tool_calls', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    sa.Column('scores', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    sa.ForeignKeyConstraint(['collection_id'], ['collections.id'], name=op.f('fk_collected_traces_collection_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('collection_id', 'position', name=op.f('pk_collected_traces')),
    sa.UniqueConstraint('collection_id', 'trace_id', name=op.f('uq_collected_traces_collection_id_trace_id'))
    )
    op.create_table('kpi_definitions',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('revision', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('benchmark_id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('description', sa.Text(), nullable=True),
    sa.Column('formula', sa.Text(), nullable=False),
    sa.Column('direction', sa.Text(), nullable=False),
    sa.Column('unit', sa.Text(), nullable=True),
    sa.Column('threshold_min', sa.Double(), nullable=True),
    sa.Column('threshold_max', sa.Double(), nullable=True),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('retired_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['benchmark_id'], ['benchmarks.id'], name=op.f('fk_kpi_definitions_benchmark_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', 'revision', name=op.f('pk_kpi_definitions'))
    )
    op.create_index('uq_kpi_definitions_current_name', 'kpi_definitions', ['benchmark_id', sa.literal_column('lower(name)')], unique=True, postgresql_where=sa.text('retired_at IS NULL'))
    op.create_table('local_traces',
    sa.Column('dataset_id', sa.Text(), nullable=False),
    sa.Column('position', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('trace_id', sa.Text(), nullable=False),
    sa.Column('line', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['dataset_id'], ['local_datasets.id'], name=op.f('fk_local_traces_dataset_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('dataset_id', 'position', name=op.f('pk_local_traces')),
    sa.UniqueConstraint('dataset_id', 'trace_id', name=op.f('uq_local_traces_dataset_id_trace_id'))
    )
    op.create_table('kpi_history',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('run_seq', sa.BigInteger(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('kpi_id', sa.Text(), nullable=False),
    sa.Column('kpi_revision', sa.BigInteger(), nullable=False),
    sa.Column('benchmark_id', sa.Text(), nullable=False),
    sa.Column('agent_id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('formula', sa.Text(), nullable=False),
    sa.Column('value', sa.Double(), nullable=True),
    sa.Column('undefined_reason', sa.Text(), nullable=True),
    sa.Column('unit', sa.Text(), nullable=True),
    sa.Column('direction', sa.Text(), nullable=False),
    sa.Column('within_thresholds', sa.Boolean(), nullable=True),
    sa.Column('validity', sa.Text(), nullable=False),
    sa.Column('interval_low', sa.Double(), nullable=True),
    sa.Column('interval_high', sa.Double(), nullable=True),
    sa.Column('verdict', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    sa.Column('recorded_at', sa.TIMESTAMP(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('fk_kpi_history_agent_id'), ondelete='RESTRICT'),
    sa.ForeignKeyConstraint(['benchmark_id'], ['benchmarks.id'], name=op.f('fk_kpi_history_benchmark_id'), ondelete='RESTRICT'),
    sa.ForeignKeyConstraint(['kpi_id', 'kpi_revision'], ['kpi_definitions.id', 'kpi_definitions.revision'], name=op.f('fk_kpi_history_kpi_id_kpi_revision')),
    sa.ForeignKeyConstraint(['run_seq'], ['benchmark_runs.seq'], name=op.f('fk_kpi_history_run_seq'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_kpi_history'))
    )
    op.create_index(op.f('ix_kpi_history_agent_id'), 'kpi_history', ['agent_id'], unique=False)
    op.create_index('ix_kpi_history_benchmark_id_id', 'kpi_history', ['benchmark_id', 'id'], unique=False)
    op.create_index('ix_kpi_history_kpi_id_kpi_revision', 'kpi_history', ['kpi_id', 'kpi_revision'], unique=False)
    op.create_index('uq_kpi_history_run_seq_kpi_id', 'kpi_history', ['run_seq', 'kpi_id'], unique=True)
    op.create_table('run_metrics',
    sa.Column('run_seq', sa.BigInteger(), nullable=False),
    sa.Column('metric', sa.Text(), nullable=False),
    sa.Column('ordinal', sa.SmallInteger(), nullable=False),
    sa.Column('version', sa.Text(), nullable=False),
    sa.Column('n', sa.BigInteger(), nullable=False),
    sa.Column('expected', sa.BigInteger(), nullable=False),
    sa.Column('mean', sa.Double(), nullable=True),
    sa.Column('std', sa.Double(), nullable=True),
    sa.Column('min', sa.Double(), nullable=True),
    sa.Column('max', sa.Double(), nullable=True),
    sa.Column('p50', sa.Double(), nullable=True),
    sa.Column('p95', sa.Double(), nullable=True),
    sa.Column('p99', sa.Double(), nullable=True),
    sa.Column('sum', sa.Double(), nullable=True),
    sa.Column('coverage', sa.Double(), nullable=True),
    sa.Column('interval_low', sa.Double(), nullable=True),
    sa.Column('interval_high', sa.Double(), nullable=True),
    sa.Column('missing', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
    sa.Column('verdict', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    sa.ForeignKeyConstraint(['run_seq'], ['benchmark_runs.seq'], name=op.f('fk_run_metrics_run_seq'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('run_seq', 'metric', name=op.f('pk_run_metrics'))
    )
    op.create_table('run_shards',
    sa.Column('run_seq', sa.BigInteger(), nullable=False),
    sa.Column('shard', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('first', sa.Integer(), nullable=False),
    sa.Column('last', sa.Integer(), nullable=False),
    sa.Column('fence', sa.Integer(), nullable=False),
    sa.Column('done_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['run_seq'], ['benchmark_runs.seq'], name=op.f('fk_run_shards_run_seq'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('run_seq', 'shard', name=op.f('pk_run_shards'))
    )
    op.create_table('trace_results',
    sa.Column('run_seq', sa.BigInteger(), nullable=False),
    sa.Column('position', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('values', postgresql.ARRAY(sa.DOUBLE_PRECISION()), nullable=False),
    sa.Column('notes', postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    sa.PrimaryKeyConstraint('run_seq', 'position', name=op.f('pk_trace_results'))
    )


    op.execute(METRIC_SNAPSHOTS)


def downgrade() -> None:
    op.execute("DROP VIEW metric_snapshots")
    op.drop_table('trace_results')
    op.drop_table('run_shards')
    op.drop_table('run_metrics')
    op.drop_index('uq_kpi_history_run_seq_kpi_id', table_name='kpi_history')
    op.drop_index('ix_kpi_history_kpi_id_kpi_revision', table_name='kpi_history')
    op.drop_index('ix_kpi_history_benchmark_id_id', table_name='kpi_history')
    op.drop_index(op.f('ix_kpi_history_agent_id'), table_name='kpi_history')
    op.drop_table('kpi_history')
    op.drop_table('local_traces')
    op.drop_index('uq_kpi_definitions_current_name', table_name='kpi_definitions', postgresql_where=sa.text('retired_at IS NULL'))
    op.drop_table('kpi_definitions')
    op.drop_table('collected_traces')
    op.drop_index('ix_benchmark_runs_status_seq', table_name='benchmark_runs')
    op.drop_index(op.f('ix_benchmark_runs_retry_of'), table_name='benchmark_runs')
    op.drop_index('ix_benchmark_runs_created_at', table_name='benchmark_runs')
    op.drop_index(op.f('ix_benchmark_runs_collection_id'), table_name='benchmark_runs')
    op.drop_index('ix_benchmark_runs_benchmark_id_seq', table_name='benchmark_runs')
    op.drop_index('ix_benchmark_runs_agent_id_seq', table_name='benchmark_runs')
    op.drop_table('benchmark_runs')
    op.drop_index(op.f('ix_benchmark_agents_agent_id'), table_name='benchmark_agents')
    op.drop_table('benchmark_agents')
    op.drop_table('local_datasets')
    op.drop_index(op.f('ix_idempotency_keys_expires_at'), table_name='idempotency_keys')
    op.drop_table('idempotency_keys')
    op.drop_table('collections')
    op.drop_table('benchmarks')
    op.drop_table('api_keys')
    op.drop_table('agents')
    op.execute(DROP_JOB_ENGINE)
