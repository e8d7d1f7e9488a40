"""sealed recipients; views for dashboards"""

import hashlib
from urllib.parse import urlsplit
from uuid import uuid4

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0018'
down_revision = '0017'
branch_labels = None
depends_on = None

# What dashboards read, and a role may that may read nothing else: no texts, no addresses, no secrets.
VIEWS = {
    'run_history': """
        SELECT id AS run_id, benchmark_id, agent_id, run_name, status, triggered_by, validity,
               coverage, error_share, traces_total, verdict ->> 'verdict' AS verdict, error_code,
               created_at, started_at, completed_at,
               extract(epoch FROM completed_at - started_at)::float8 AS seconds
        FROM benchmark_runs""",
    'kpi_values': """
        SELECT run_id, benchmark_id, agent_id, kpi_id, name AS kpi, value, undefined_reason, unit,
               direction, within_thresholds, validity, interval_low, interval_high,
               verdict ->> 'verdict' AS verdict, recorded_at
        FROM kpi_history""",
    'metric_values': """
        SELECT run.id AS run_id, run.benchmark_id, run.agent_id, run.validity, run.completed_at,
               metric.metric, metric.n, metric.mean, metric.std, metric.p50, metric.p95,
               metric.coverage, metric.interval_low, metric.interval_high
        FROM run_metrics AS metric JOIN benchmark_runs AS run ON run.seq = metric.run_seq""",
    'alert_history': """
        SELECT id AS alert_id, state, config_id AS alert_config_id, name, severity, benchmark_id,
               agent_id, run_id, episode, value, baseline, explanation,
               silence_id IS NOT NULL AS silenced, verdict, created_at
        FROM alert_events""",
    'alert_standings': """
        SELECT rule.id AS alert_config_id, rule.name, rule.severity, rule.benchmark_id,
               standing.agent_id, standing.state, standing.value, standing.baseline,
               standing.explanation, standing.fired_at, standing.evaluated_at
        FROM alert_states AS standing JOIN alert_configs AS rule ON rule.id = standing.config_id
        WHERE standing.run_seq > 0""",
    'delivery_history': """
        SELECT delivery.id AS delivery_id, delivery.notification_id, endpoint.channel,
               delivery.status, delivery.attempts, delivery.created_at, delivery.delivered_at
        FROM deliveries AS delivery JOIN endpoints AS endpoint ON endpoint.id = delivery.endpoint_id""",
}
JSON_LIST = postgresql.JSONB(none_as_null=True)


def upgrade() -> None:
    op.add_column('notifications', sa.Column('listed', sa.Boolean(), server_default='true', nullable=False))
    for name in ('address', 'digest', 'host'):
        op.add_column('endpoints', sa.Column(name, sa.Text(), nullable=True))
    op.add_column('alert_configs', sa.Column('endpoints', JSON_LIST, nullable=True))
    _seal_endpoints()
    _point_rules_at_endpoints()
    op.drop_constraint('uq_endpoints_channel_recipient', 'endpoints')
    op.create_unique_constraint('uq_endpoints_channel_digest', 'endpoints', ['channel', 'digest'])
    op.alter_column('endpoints', 'digest', nullable=False)
    op.alter_column('endpoints', 'host', nullable=False)
    op.alter_column('alert_configs', 'endpoints', nullable=False)
    op.drop_column('alert_configs', 'recipients')
    for name, query in VIEWS.items():
        op.execute(f'CREATE VIEW {name} AS {query}')


def downgrade() -> None:
    for name in reversed(VIEWS):
        op.execute(f'DROP VIEW {name}')
    op.add_column('alert_configs', sa.Column('recipients', JSON_LIST, nullable=True))
    _open_endpoints()
    op.execute(
        """UPDATE alert_configs SET recipients = coalesce(
               (SELECT jsonb_agg(DISTINCT endpoint.recipient) FROM endpoints AS endpoint
                WHERE alert_configs.endpoints ? endpoint.id), '[]')"""
    )
    op.alter_column('alert_configs', 'recipients', nullable=False)
    op.drop_column('alert_configs', 'endpoints')
    op.drop_constraint('uq_endpoints_channel_digest', 'endpoints')
    op.create_unique_constraint('uq_endpoints_channel_recipient', 'endpoints', ['channel', 'recipient'])
    for name in ('address', 'digest', 'host'):
        op.drop_column('endpoints', name)
    op.drop_column('notifications', 'listed')


def _box():
    """The master keys of the process that migrates; asked for only where there is something to seal."""
    from app.core.settings import load_settings
    from app.startup import secret_box

    return secret_box(load_settings())


def _seal_endpoints() -> None:
    rows = op.get_bind().execute(sa.text('SELECT id, channel, recipient FROM endpoints')).all()
    box = _box() if rows else None
    for row in rows:
        _fill(box, *row)


def _fill(box, endpoint_id: str, channel: str, recipient: str) -> None:
    op.get_bind().execute(
        sa.text(
            'UPDATE endpoints SET address = :address, digest = :digest, host = :host,'
            ' recipient = :shown WHERE id = :id'
        ),
        {
            'address': box.seal(recipient, table='endpoints', row=endpoint_id, column='address'),
            'digest': hashlib.sha256(recipient.encode()).hexdigest(),
            'host': 'mail server' if channel == 'EMAIL' else urlsplit(recipient).netloc.lower(),
            'shown': _shown(channel, recipient),
            'id': endpoint_id,
        },
    )


def _shown(channel: str, recipient: str) -> str:
    if channel in ('SLACK', 'TEAMS'):
        return f'https://{urlsplit(recipient).netloc}/…{recipient[-4:]}'
    address, asks, _ = recipient.partition('?')
    return f'{address}{asks}…' if asks and channel == 'WEBHOOK' else recipient


def _point_rules_at_endpoints() -> None:
    rules = sa.text('SELECT id, channels, recipients FROM alert_configs')
    box = None
    for config_id, channels, recipients in op.get_bind().execute(rules).all():
        box = box or (_box() if recipients else None)
        found = [
            _endpoint(box, channel, recipient)
            for recipient in recipients
            if (channel := _channel_of(recipient, channels)) is not None
        ]
        op.get_bind().execute(
            sa.text('UPDATE alert_configs SET endpoints = :endpoints WHERE id = :id').bindparams(
                sa.bindparam('endpoints', type_=JSON_LIST)
            ),
            {'endpoints': list(dict.fromkeys(found)), 'id': config_id},
        )


def _channel_of(recipient: str, channels: list[str]) -> str | None:
    host = urlsplit(recipient).hostname or ''
    if '://' not in recipient and '@' in recipient:
        wanted = 'EMAIL'
    elif host.endswith(('.slack.com', '.slack-gov.com')):
        wanted = 'SLACK'
    elif host.endswith(('.logic.azure.com', '.logic.azure.us', '.logic.azure.cn', '.powerplatform.com')):
        wanted = 'TEAMS'
    else:
        wanted = 'WEBHOOK' if '://' in recipient else ''
    others = [name for name in channels if name not in ('IN_APP', 'EMAIL', 'SLACK', 'TEAMS', 'WEBHOOK')]
    return wanted if wanted in channels else others[0] if others else None


def _endpoint(box, channel: str, recipient: str) -> str:
    digest = hashlib.sha256(recipient.encode()).hexdigest()
    known = op.get_bind().execute(
        sa.text('SELECT id FROM endpoints WHERE channel = :channel AND digest = :digest'),
        {'channel': channel, 'digest': digest},
    ).scalar()
    if known is not None:
        return known
    made = str(uuid4())
    op.get_bind().execute(
        sa.text('INSERT INTO endpoints (id, channel, recipient) VALUES (:id, :channel, :id)'),
        {'id': made, 'channel': channel},
    )
    _fill(box, made, channel, recipient)
    return made


def _open_endpoints() -> None:
    sealed = sa.text('SELECT id, address FROM endpoints WHERE address IS NOT NULL')
    rows = op.get_bind().execute(sealed).all()
    box = _box() if rows else None
    for endpoint_id, address in rows:
        plain = box.open(address, table='endpoints', row=endpoint_id, column='address').reveal()
        op.get_bind().execute(
            sa.text('UPDATE endpoints SET recipient = :plain WHERE id = :id'),
            {'plain': plain, 'id': endpoint_id},
        )
