"""Request and response bodies of alert rules, alerts and silences."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from mosaico.alerts.details import AlertDetails, ContributingTrace
from mosaico.alerts.rules import (
    AlertEventState,
    AlertStatus,
    Condition,
    IncidentResolution,
    IncidentState,
    NoDataPolicy,
    RuleSpec,
)
from mosaico.alerts.silence_matchers import SilenceMatchers
from mosaico.core.defaults import BASELINE_RUNS
from mosaico.core.edits import SERVICE_MOVES, EditBody, patch_of
from mosaico.core.schemas import (
    Identifier,
    Instant,
    LongText,
    ShortText,
    StoredText,
    WireModel,
)
from mosaico.notifications.schemas import DeliveryView, NotificationView
from mosaico.notifications.types import MessageSeverity

if TYPE_CHECKING:
    from mosaico.alerts.models import AlertRule

A_YEAR_HOURS = 366 * 24
A_YEAR_MINUTES = A_YEAR_HOURS * 60
MAX_RUNS = 30

Runs = Annotated[int, Field(ge=1, le=MAX_RUNS)]
ChannelNames = Annotated[list[ShortText], Field(max_length=20)]
MAX_RECIPIENTS = 50
Recipients = Annotated[
    list[Annotated[str, Field(max_length=2048)]], Field(max_length=MAX_RECIPIENTS)
]
Cooldown = Annotated[
    int,
    Field(
        ge=0,
        le=A_YEAR_MINUTES,
        description="Minutes after a first firing in which no new incident opens.",
    ),
]
ForRuns = Annotated[Runs, Field(description="Consecutive breaches after which the rule fires.")]
KeepFiring = Annotated[
    int | None,
    Field(
        ge=0,
        le=MAX_RUNS,
        description="Number of consecutive healthy runs that keep the incident open; the next one"
        " resolves it. Null: 0 for REGRESSED, which requires evidence of recovery, and 1 for other"
        " conditions.",
    ),
]
BaselineRuns = Annotated[
    Runs,
    Field(description="For percentages: number of earlier runs whose mean is the baseline."),
]
Threshold = Annotated[
    float | None,
    Field(
        description="Threshold of the condition: a value, a percentage (the sign is ignored), or for"
        " ANOMALY_DETECTED the limit of z. Without one, the default."
    ),
]
Metric = Annotated[
    ShortText | None,
    Field(
        description="Metric, or statistic of a metric such as ROUGE.p95.", examples=["ROUGE.p95"]
    ),
]
Kpi = Annotated[ShortText | None, Field(description="ID or name of a KPI of the benchmark.")]
Effect = Annotated[
    float | None,
    Field(ge=0, description="Smallest change that fires, in the unit of the value."),
]


FalsePages = Annotated[
    float | None,
    Field(
        ge=0.001,
        le=0.33,
        description="Maximum number of false alarms of a REGRESSED rule in 30 runs of one series."
        " Null: MOSAICO_FALSE_PAGES_PER_MONTH, 0.25 by default.",
    ),
]


HoursWithoutRun = Annotated[
    int | None,
    Field(
        ge=1,
        le=A_YEAR_HOURS,
        description="Hours without a completed run after which the recipients are notified. Null:"
        " nobody is notified.",
    ),
]


def rule_spec(rule: "AlertRule") -> RuleSpec:
    """The condition of a rule with its parameters, without its name and recipients."""
    return RuleSpec(
        condition=Condition(rule.condition),
        threshold=rule.threshold,
        for_runs=rule.for_runs,
        keep_firing_for_runs=rule.keep_firing_for_runs,
        cooldown=timedelta(minutes=rule.cooldown_minutes),
        no_data=NoDataPolicy(rule.no_data),
        baseline_runs=rule.baseline_runs,
        minimum_effect=rule.minimum_effect,
        false_pages_per_month=rule.false_pages_per_month,
    )


class AlertStateView(WireModel):
    """The state of a rule for one agent, the run that led to it, and why."""

    agent_id: str
    state: AlertStatus
    run_id: str
    value: float | None
    baseline: float | None
    explanation: StoredText
    fired_at: datetime | None
    incident_id: str | None
    evaluated_at: datetime


class AlertPrecisionView(WireModel):
    """The share of true alerts among the acknowledged ones of a rule.

    `review` is true when at least five were acknowledged and less than half of them were true: the
    rule should be changed.
    """

    true: int
    noise: int
    precision: float | None
    review: bool


class AlertRecordView(WireModel):
    """How often a rule fired in the last `days`, and how many of these alerts were acknowledged as
    true and as noise. Only the newest 1,000 count.
    """

    days: int
    fired: int
    true: int
    noise: int


class AlertConfigView(WireModel):
    """An alert rule with its states, those of the first 100 agents by ID; `kpi` is an ID."""

    id: str
    name: str
    benchmark_id: str
    agent_id: str | None
    metric: str | None
    kpi: str | None
    condition: Condition
    threshold: float | None
    severity: MessageSeverity
    channels: list[str]
    recipients: list[str]
    enabled: bool
    cooldown_minutes: int
    for_runs: int
    keep_firing_for_runs: int
    no_data: NoDataPolicy
    baseline_runs: int
    minimum_effect: float | None
    false_pages_per_month: float | None
    promised_false_pages: Annotated[
        float | None,
        Field(
            description="Maximum number of false alarms in 30 runs of one series: `falsePagesPerMonth`, or its"
            " default. Null for conditions other than REGRESSED, which have no such limit."
        ),
    ]
    max_hours_without_run: int | None
    states: Annotated[list[AlertStateView], SERVICE_MOVES]
    record: Annotated[AlertRecordView, SERVICE_MOVES]
    precision: Annotated[AlertPrecisionView, SERVICE_MOVES]
    revision: int
    created_at: datetime
    updated_at: datetime


class AlertConfigBody(EditBody):
    """An alert rule as PUT writes it: a field that is left out gets its default."""

    shown_as: ClassVar = AlertConfigView

    name: ShortText
    benchmark_id: Identifier
    agent_id: Identifier | None = Field(
        default=None, description="ID of the agent. Null: every agent, each with its own state."
    )
    metric: Metric = None
    kpi: Kpi = None
    condition: Condition
    threshold: Threshold = None
    severity: MessageSeverity = MessageSeverity.WARNING
    channels: ChannelNames = Field(default=["IN_APP"])
    recipients: Recipients = Field(default=[])
    enabled: bool = True
    cooldown_minutes: Cooldown = 0
    for_runs: ForRuns = 1
    keep_firing_for_runs: KeepFiring = None
    no_data: NoDataPolicy = NoDataPolicy.NO_DATA
    baseline_runs: BaselineRuns = BASELINE_RUNS
    minimum_effect: Effect = None
    false_pages_per_month: FalsePages = None
    max_hours_without_run: HoursWithoutRun = None


class AlertConfigCreate(AlertConfigBody):
    id: Identifier | None = None


@patch_of
class AlertConfigPatch(AlertConfigBody):
    """The fields to change; null clears a field."""


AckVerdict = Literal["true", "noise"]


class AlertView(WireModel):
    """An alert. One with a `silenceId` was not sent to anybody."""

    id: str
    state: AlertEventState
    alert_config_id: str | None
    name: str
    severity: MessageSeverity
    benchmark_id: str
    agent_id: str
    run_id: str | None
    run_url: str | None
    incident_id: str | None
    value: float | None
    baseline: float | None
    explanation: StoredText
    details: AlertDetails
    contributing_traces: tuple[ContributingTrace, ...]
    silence_id: str | None
    notification_id: str | None
    verdict: AckVerdict | None
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    acknowledged_by_name: StoredText | None = None
    assignee_name: StoredText | None = None
    note: StoredText | None
    created_at: datetime


class InboxEntryView(NotificationView):
    """A message of the inbox with its alerts and deliveries, 50 of each at most."""

    alerts: list[AlertView]
    deliveries: list[DeliveryView]


class IncidentView(WireModel):
    """An incident: the runs of one agent from the first bad one until evidence of recovery.

    `startedRunId` is the estimated first bad run, `openedRunId` the run that fired. `value` is that
    of the latest run, `openedValue` that of the run that fired, `baseline` the level before.
    `alertId` is the alert that opened it.
    """

    id: str
    alert_id: str
    alert_config_id: str | None
    state: IncidentState
    resolution: IncidentResolution | None
    name: str
    severity: MessageSeverity
    condition: Condition
    benchmark_id: str
    agent_id: str
    kpi: str | None
    metric: str | None
    value_name: str
    unit: str | None
    baseline: float | None
    opened_value: float | None
    value: float | None
    runs: Annotated[
        int, Field(description="Number of valid runs of the incident so far, 1,000 at most.")
    ]
    started_run_id: str
    started_at: datetime
    opened_run_id: str
    opened_at: datetime
    resolved_run_id: str | None
    resolved_at: datetime | None
    resolved_by: str | None
    resolved_by_name: StoredText | None = None
    note: StoredText | None
    explanation: StoredText
    verdict: AckVerdict | None
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    acknowledged_by_name: StoredText | None = None
    assignee_id: str | None
    assignee_name: StoredText | None = None
    assigned_by: str | None
    assigned_by_name: StoredText | None = None
    assigned_at: datetime | None


class IncidentAssignment(WireModel):
    """Who looks after an incident: the ID or the address of a person who has logged in."""

    assignee: ShortText


class IncidentDecision(WireModel):
    """The reason of a decision about an incident: real, noise, or the new level is correct."""

    note: LongText | None = None


class Acknowledgement(WireModel):
    """The acknowledgement of an alert as true or noise; a later one replaces it."""

    verdict: AckVerdict
    note: LongText | None = None


class SilenceView(WireModel):
    """A silence."""

    id: str
    matchers: SilenceMatchers
    comment: str | None
    starts_at: datetime
    ends_at: datetime
    created_at: datetime
    created_by: str | None
    created_by_name: StoredText | None = None


class SilenceCreate(EditBody):
    """A silence: matching alerts are recorded but not sent until it ends."""

    shown_as: ClassVar = SilenceView

    id: Identifier | None = None
    matchers: SilenceMatchers
    starts_at: Instant | None = Field(default=None, description="Default: now.")
    ends_at: Instant
    comment: LongText | None = None


@patch_of
class SilencePatch(EditBody):
    """The fields to change, of the matchers too; null clears a field."""

    shown_as: ClassVar = SilenceView

    matchers: SilenceMatchers
    ends_at: Instant
    comment: LongText | None = None
