"""Tables of alert rules, their states, alerts, incidents and silences."""

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Index,
    Integer,
    Text,
    UniqueConstraint,
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.alerts.details import AlertDetails
from mosaico.alerts.silence_matchers import SilenceMatchers
from mosaico.alerts.state_before import StateBefore
from mosaico.core.db import Base, ModelJson
from mosaico.core.revisions import RevisionColumns
from mosaico.kpis.series_types import SeriesState

# Without parameters, so that the planner finds the indexes of these conditions.
EXPECTS_RUNS = "enabled AND max_hours_without_run IS NOT NULL"
OPEN = "state = 'FIRING' AND verdict IS NULL"
FIRED = "state = 'FIRING'"
UNRESOLVED = "state = 'OPEN'"


class AlertRule(Base):
    """A rule that watches a KPI (by ID) or a statistic of a metric, for one agent or for each.

    `endpoints` are the IDs of the endpoints that it notifies, in the order of its recipients.
    """

    __tablename__ = "alert_rules"
    __table_args__ = (
        Index("ix_alert_rules_created_at_id", "created_at", "id"),
        Index("ix_alert_rules_name_id", text("lower(name)"), "id"),
        Index("ix_alert_rules_benchmark_id_created_at_id", "benchmark_id", "created_at", "id"),
        Index("ix_alert_rules_agent_id_created_at_id", "agent_id", "created_at", "id"),
        Index(
            "ix_alert_rules_disabled",
            "created_at",
            "id",
            postgresql_where=text("enabled IS false"),
        ),
        # The rules that judge the runs of an agent, and those that watch a KPI, which is then not retired.
        Index("ix_alert_rules_benchmark_id_agent_id", "benchmark_id", "agent_id"),
        Index("ix_alert_rules_benchmark_id_kpi_condition", "benchmark_id", "kpi", "condition"),
        # The rules that notify an endpoint, which is then not deleted.
        Index(
            "ix_alert_rules_endpoints",
            "endpoints",
            postgresql_using="gin",
            postgresql_ops={"endpoints": "jsonb_path_ops"},
        ),
        # Read each minute, one after the other.
        Index("ix_alert_rules_max_hours", "id", postgresql_where=text(EXPECTS_RUNS)),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    benchmark_id: Mapped[str] = mapped_column(ForeignKey("benchmarks.id", ondelete="CASCADE"))
    agent_id: Mapped[str | None] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    metric: Mapped[str | None]
    kpi: Mapped[str | None]
    condition: Mapped[str]
    threshold: Mapped[float | None]
    severity: Mapped[str]
    channels: Mapped[list[Any]]
    endpoints: Mapped[list[Any]]
    enabled: Mapped[bool]
    cooldown_minutes: Mapped[int] = mapped_column(Integer)
    for_runs: Mapped[int] = mapped_column(Integer)
    keep_firing_for_runs: Mapped[int] = mapped_column(Integer)
    no_data: Mapped[str]
    baseline_runs: Mapped[int] = mapped_column(Integer)
    minimum_effect: Mapped[float | None]
    false_pages_per_month: Mapped[float | None]
    max_hours_without_run: Mapped[int | None] = mapped_column(Integer)
    revision: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AlertRuleRevision(RevisionColumns, Base):
    """An edit of an alert rule: what changed, when and by whom. The first revision has no row."""

    __tablename__ = "alert_rule_revisions"

    rule_id: Mapped[str] = mapped_column(
        ForeignKey("alert_rules.id", ondelete="CASCADE"), primary_key=True
    )


class AlertState(Base):
    """The state of a rule for one agent after the run `run_seq`; it only moves forward in run order.

    `incident_id` is the current incident, NULL without one, and while nobody was told of an incident that began
    before the rule was made. `series` is what a REGRESSED rule keeps
    of the runs. `breach_seq` is the first run of the present chain of breaches, `clear_seq` that of
    the present chain of healthy runs inside an incident. `is_open`, `fingerprint` and `excluded` are those of
    `mosaico.alerts.evaluation.rule_memory.Memory`.
    """

    __tablename__ = "alert_states"

    rule_id: Mapped[str] = mapped_column(
        ForeignKey("alert_rules.id", ondelete="CASCADE"), primary_key=True
    )
    agent_id: Mapped[str] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    run_seq: Mapped[int]
    run_id: Mapped[str]
    state: Mapped[str]
    breaches: Mapped[int] = mapped_column(Integer)
    clears: Mapped[int] = mapped_column(Integer)
    fired_at: Mapped[datetime | None]
    incident_id: Mapped[str | None]
    series: Mapped[SeriesState | None] = mapped_column(ModelJson(SeriesState))
    breach_seq: Mapped[int | None]
    clear_seq: Mapped[int | None]
    is_open: Mapped[bool] = mapped_column(default=False, server_default=false())
    fingerprint: Mapped[str | None]
    excluded: Mapped[list[list[int | None]]] = mapped_column(
        JSONB(none_as_null=True), default=list, server_default=text("'[]'::jsonb")
    )
    value: Mapped[float | None]
    baseline: Mapped[float | None]
    explanation: Mapped[str]
    evaluated_at: Mapped[datetime]


class AlertEvent(Base):
    """An alert: a change of state of a rule, or a notice about a run or a schedule (without rule).

    It keeps its texts, and `rule_id`, when the rule, the run or the schedule is deleted. `silence_id` names the
    silence that kept it from being sent. Until `publish_by` at the latest, it waits for other runs of the
    agent and then goes to `endpoint_ids`; both are NULL otherwise. `dedup_key` makes it unique: a job that is repeated after
    a crash cannot send it twice.
    """

    __tablename__ = "alert_events"
    __table_args__ = (
        UniqueConstraint("dedup_key"),
        Index("ix_alert_events_created_at_id", "created_at", "id"),
        Index("ix_alert_events_rule_id_created_at_id", "rule_id", "created_at", "id"),
        Index("ix_alert_events_benchmark_id_created_at_id", "benchmark_id", "created_at", "id"),
        Index("ix_alert_events_agent_id_created_at_id", "agent_id", "created_at", "id"),
        Index("ix_alert_events_state_created_at_id", "state", "created_at", "id"),
        Index("ix_alert_events_name_created_at_id", "name", "created_at", "id"),
        Index("ix_alert_events_run_id", "run_id"),
        Index("ix_alert_events_open", "run_id", "id", postgresql_where=text(OPEN)),
        Index("ix_alert_events_fired", "rule_id", "created_at", postgresql_where=text(FIRED)),
        Index("ix_alert_events_notification_id_id", "notification_id", "id"),
        Index(
            "ix_alert_events_silence_id_created_at_id",
            "silence_id",
            "created_at",
            "id",
            postgresql_where=text("silence_id IS NOT NULL"),
        ),
        Index(
            "ix_alert_events_gathered",
            "agent_id",
            "id",
            postgresql_where=text("publish_by IS NOT NULL"),
        ),
        Index(
            "ix_alert_events_acknowledged", "rule_id", postgresql_where=text("verdict IS NOT NULL")
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    dedup_key: Mapped[str]
    state: Mapped[str]
    rule_id: Mapped[str | None]
    name: Mapped[str]
    severity: Mapped[str]
    benchmark_id: Mapped[str]
    agent_id: Mapped[str]
    run_id: Mapped[str | None]
    run_seq: Mapped[int | None]
    incident_id: Mapped[str | None] = mapped_column(index=True)
    value: Mapped[float | None]
    baseline: Mapped[float | None]
    explanation: Mapped[str]
    details: Mapped[AlertDetails] = mapped_column(ModelJson(AlertDetails))
    silence_id: Mapped[str | None]
    notification_id: Mapped[str | None]
    publish_by: Mapped[datetime | None]
    endpoint_ids: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    verdict: Mapped[str | None]
    acknowledged_at: Mapped[datetime | None]
    acknowledged_by: Mapped[str | None]
    note: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Incident(Base):
    """An incident: the runs of one agent from the first bad one until evidence of recovery.

    `id` is that of the alert that opened it. `started_seq` is the estimated first bad run,
    `opened_seq` the run that fired, `end_seq` the first recovered run (NULL while it is open).
    `run_seqs` are its latest `MAX_RUNS` runs. It keeps its texts, and `rule_id`, when the rule or a run is deleted.
    `state_before` is what the judgement that closed it has changed. `assignee_id` is the person who looks after it.
    """

    MAX_RUNS: ClassVar = 1_000

    __tablename__ = "incidents"
    __table_args__ = (
        Index("ix_incidents_opened_at_id", "opened_at", "id"),
        Index("ix_incidents_open", "benchmark_id", "agent_id", postgresql_where=text(UNRESOLVED)),
        Index(
            "ix_incidents_kpi_started_at",
            "benchmark_id",
            "agent_id",
            "kpi",
            "started_at",
        ),
        Index("ix_incidents_rule_id_opened_at_id", "rule_id", "opened_at", "id"),
        Index("ix_incidents_benchmark_id_opened_at_id", "benchmark_id", "opened_at", "id"),
        Index("ix_incidents_agent_id_opened_at_id", "agent_id", "opened_at", "id"),
        Index("ix_incidents_state_opened_at_id", "state", "opened_at", "id"),
        Index("ix_incidents_name_opened_at_id", "name", "opened_at", "id"),
        Index(
            "ix_incidents_assigned",
            "assignee_id",
            postgresql_where=text("assignee_id IS NOT NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    rule_id: Mapped[str | None]
    name: Mapped[str]
    severity: Mapped[str]
    condition: Mapped[str]
    benchmark_id: Mapped[str]
    agent_id: Mapped[str]
    kpi: Mapped[str | None]
    metric: Mapped[str | None]
    value_name: Mapped[str]
    unit: Mapped[str | None]
    state: Mapped[str]
    resolution: Mapped[str | None]
    fingerprint: Mapped[str | None]
    started_seq: Mapped[int]
    opened_seq: Mapped[int]
    end_seq: Mapped[int | None]
    run_seqs: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    started_run_id: Mapped[str]
    opened_run_id: Mapped[str]
    resolved_run_id: Mapped[str | None]
    started_at: Mapped[datetime]
    opened_at: Mapped[datetime]
    resolved_at: Mapped[datetime | None]
    resolved_by: Mapped[str | None]
    note: Mapped[str | None]
    baseline: Mapped[float | None]
    opened_value: Mapped[float | None]
    value: Mapped[float | None]
    explanation: Mapped[str]
    verdict: Mapped[str | None]
    acknowledged_at: Mapped[datetime | None]
    acknowledged_by: Mapped[str | None]
    state_before: Mapped[StateBefore | None] = mapped_column(ModelJson(StateBefore))
    assignee_id: Mapped[str | None]
    assigned_by: Mapped[str | None]
    assigned_at: Mapped[datetime | None]


class AlertSilence(Base):
    """Holds back the notifications of alerts that match all given fields, until it ends.

    `created_by` is the ID of a person or an API key.
    """

    __tablename__ = "alert_silences"
    __table_args__ = (
        Index("ix_alert_silences_created_at_id", "created_at", "id"),
        Index("ix_alert_silences_ends_at", "ends_at"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    matchers: Mapped[SilenceMatchers] = mapped_column(ModelJson(SilenceMatchers))
    comment: Mapped[str | None]
    created_by: Mapped[str | None]
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
