"""what models answered, and what runs spent on it; reasons beside missing values"""

import sqlalchemy as sa
from alembic import op

revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None

SNAPSHOTS = """
    CREATE OR REPLACE VIEW metric_snapshots AS
    SELECT run.id AS run_id, run.benchmark_id, run.agent_id, trace.trace_id, trace.item_id,
           trace.trial, metric.key AS metric, result.values[metric.ordinal] AS value,
           {notes}
    FROM trace_results AS result
    JOIN benchmark_runs AS run ON run.seq = result.run_seq
    JOIN collected_traces AS trace
      ON trace.collection_id = run.collection_id AND trace.position = result.position
    CROSS JOIN LATERAL unnest(run.metric_keys) WITH ORDINALITY AS metric (key, ordinal)
"""
BEFORE = "result.notes -> metric.key AS missing"
AFTER = """CASE WHEN result.values[metric.ordinal] IS NULL THEN result.notes -> metric.key END AS missing,
           result.notes -> metric.key ->> 'reason' AS reason"""


def upgrade() -> None:
    op.create_table(
        'kept_answers',
        sa.Column('key', sa.LargeBinary(), nullable=False),
        sa.Column('content', sa.Text(), nullable=True),
        sa.Column('vector', sa.LargeBinary(), nullable=True),
        sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint('key', name=op.f('pk_kept_answers')),
    )
    op.create_index(op.f('ix_kept_answers_created_at'), 'kept_answers', ['created_at'])
    op.create_table(
        'run_spending',
        sa.Column('run_seq', sa.BigInteger(), nullable=False),
        sa.Column('model', sa.Text(), nullable=False),
        sa.Column('requests', sa.BigInteger(), nullable=False),
        sa.Column('input_tokens', sa.BigInteger(), nullable=False),
        sa.Column('output_tokens', sa.BigInteger(), nullable=False),
        sa.Column('cost_usd', sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ['run_seq'], ['benchmark_runs.seq'],
            name=op.f('fk_run_spending_run_seq'), ondelete='CASCADE',
        ),
        sa.PrimaryKeyConstraint('run_seq', 'model', name=op.f('pk_run_spending')),
    )
    op.execute(SNAPSHOTS.format(notes=AFTER))


def downgrade() -> None:
    op.execute("DROP VIEW metric_snapshots")
    op.execute(SNAPSHOTS.format(notes=BEFORE))
    op.drop_index(op.f('ix_kept_answers_created_at'), table_name='kept_answers')
    op.drop_table('run_spending')
    op.drop_table('kept_answers')
