from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from app.alerts.rules import AlertOutcome, AlertStatus, Condition, NoDataPolicy, RuleSpec
from app.core.schemas import UNSET, Identifier, Instant, LongText, ShortText, StoredText, WireModel
from app.notifications.types import MessageSeverity

A_YEAR_MINUTES = 366 * 24 * 60
MOST_RUNS = 30

Runs = Annotated[int, Field(ge=1, le=MOST_RUNS)]
Names = Annotated[list[ShortText], Field(max_length=20)]
Recipients = Annotated[list[Annotated[str, Field(max_length=2048)]], Field(max_length=50)]
Cooldown = Annotated[
    int,
    Field(ge=0, le=A_YEAR_MINUTES, description="It fires anew only this long after it last did."),
]
ForRuns = Annotated[Runs, Field(description="So many breaches in a row make it fire.")]
KeepFiring = Annotated[
    int, Field(ge=0, le=MOST_RUNS, description="So many healthy runs do not resolve it yet.")
]
BaselineRuns = Annotated[Runs, Field(description="Percentages compare with the mean of so many.")]
Threshold = Annotated[
    float | None,
    Field(
        description="A value; percent, of which -10 and 10 are the same; for anomalies the distance"
        " at which they fire, or null."
    ),
]
Metric = Annotated[
    ShortText | None, Field(description="A metric or a statistic of it.", examples=["ROUGE.p95"])
]
Kpi = Annotated[ShortText | None, Field(description="Id or name of a KPI of the benchmark.")]
Effect = Annotated[
    float | None,
    Field(ge=0, description="Smaller changes wake nobody, in the unit of the value."),
]


class RuleFields(Protocol):
    """What a stored rule and a draft of one have in common."""

    @property
    def condition(self) -> str: ...
    @property
    def threshold(self) -> float | None: ...
    @property
    def for_runs(self) -> int: ...
    @property
    def keep_firing_for_runs(self) -> int: ...
    @property
    def cooldown_minutes(self) -> int: ...
    @property
    def no_data(self) -> str: ...
    @property
    def baseline_runs(self) -> int: ...
    @property
    def minimum_effect(self) -> float | None: ...


def rule_spec(config: RuleFields) -> RuleSpec:
    """What a rule asks, without what it is called and whom it tells."""
    return RuleSpec(
        condition=Condition(config.condition),
        threshold=config.threshold,
        for_runs=config.for_runs,
        keep_firing_for_runs=config.keep_firing_for_runs,
        cooldown=timedelta(minutes=config.cooldown_minutes),
        no_data=NoDataPolicy(config.no_data),
        baseline_runs=config.baseline_runs,
        minimum_effect=config.minimum_effect,
    )


class AlertConfigBody(WireModel):
    """A rule as PUT writes it: a field that is left out takes its default."""

    name: ShortText
    benchmark_id: Identifier
    agent_id: Identifier | None = Field(default=None, description="None: each agent by itself.")
    metric: Metric = None
    kpi: Kpi = None
    condition: Condition
    threshold: Threshold = None
    severity: MessageSeverity = MessageSeverity.WARNING
    channels: Names = Field(default=["IN_APP"])
    recipients: Recipients = Field(default=[])
    enabled: bool = True
    cooldown_minutes: Cooldown = 0
    for_runs: ForRuns = 1
    keep_firing_for_runs: KeepFiring = 1
    no_data: NoDataPolicy = NoDataPolicy.NO_DATA
    baseline_runs: BaselineRuns = 5
    minimum_effect: Effect = None


class AlertConfigCreate(AlertConfigBody):
    id: Identifier | None = None


class AlertConfigPatch(WireModel):
    """Only the fields that are sent change; null clears one."""

    name: ShortText = UNSET
    benchmark_id: Identifier = UNSET
    agent_id: Identifier | None = None
    metric: Metric = None
    kpi: Kpi = None
    condition: Condition = UNSET
    threshold: Threshold = None
    severity: MessageSeverity = UNSET
    channels: Names = UNSET
    recipients: Recipients = UNSET
    enabled: bool = UNSET
    cooldown_minutes: Cooldown = UNSET
    for_runs: ForRuns = UNSET
    keep_firing_for_runs: KeepFiring = UNSET
    no_data: NoDataPolicy = UNSET
    baseline_runs: BaselineRuns = UNSET
    minimum_effect: Effect = None


class AlertStateView(WireModel):
    """Where a rule stands for an agent, after which run, and why."""

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
    """How often this rule was right, as far as its alerts were acknowledged.

    `review` proposes to change it: less than half of five or more were true.
    """

    true: int
    noise: int
    precision: float | None
    review: bool


class AlertConfigView(WireModel):
    """A rule with where it stands; `kpi` is an id."""

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
    states: list[AlertStateView]
    precision: AlertPrecisionView
    revision: int
    created_at: datetime
    updated_at: datetime


class AlertEventState(StrEnum):
    """What an alert tells: of a rule, of a run, of a schedule."""

    FIRING = "FIRING"
    RESOLVED = "RESOLVED"
    NO_DATA = "NO_DATA"
    RUN_INVALID = "RUN_INVALID"
    RUN_FAILED = "RUN_FAILED"
    SCHEDULE_MISSED = "SCHEDULE_MISSED"


class ContributingTrace(WireModel):
    """A trace that changed for the worse: its value, and that of its item in the run before.

    `url` leads to it in its source, where that has pages.
    """

    metric: str
    trace_id: str
    item_id: str
    url: str | None
    value: float
    before: float | None


AckVerdict = Literal["true", "noise"]


class AlertView(WireModel):
    """Something that was told. With `silenceId` it was told to nobody."""

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
    details: dict[str, Any]
    contributing_traces: list[ContributingTrace]
    silence_id: str | None
    notification_id: str | None
    verdict: AckVerdict | None
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    created_at: datetime


class Acknowledgement(WireModel):
    """Whether the alert was right; a later one takes its place."""

    verdict: AckVerdict


class SilenceMatchers(WireModel):
    """Which alerts a silence holds: those that match each field that is given."""

    alert_config_id: Identifier | None = None
    benchmark_id: Identifier | None = None
    agent_id: Identifier | None = None
    severity: MessageSeverity | None = None
    name: ShortText | None = Field(default=None, description="Glob, as nightly-*.")


class SilenceCreate(WireModel):
    """What is not told for a while; it is still judged and recorded."""

    id: Identifier | None = None
    matchers: SilenceMatchers
    starts_at: Instant | None = Field(default=None, description="Now when left out.")
    ends_at: Instant
    comment: LongText | None = None


class SilenceView(WireModel):
    id: str
    matchers: SilenceMatchers
    comment: str | None
    starts_at: datetime
    ends_at: datetime
    created_at: datetime


class RuleTestAssessment(WireModel):
    """What the newest valid run of an agent says about a rule."""

    agent_id: str
    run_id: str
    outcome: AlertOutcome
    value: float | None
    baseline: float | None
    explanation: StoredText


class RuleTestView(WireModel):
    """What a rule says now, and the message that its recipients got for a trial."""

    assessments: list[RuleTestAssessment]
    notification_id: str


class BacktestRequest(WireModel):
    """A rule to replay: a stored one, or a draft."""

    alert_config_id: Identifier | None = None
    rule: AlertConfigBody | None = None
    agent_id: Identifier | None = Field(
        default=None, description="Needed where the rule is about every agent."
    )
    days: Annotated[int, Field(ge=1, le=3660, description="How far to look back.")] = 90


class BacktestCoverageView(WireModel):
    """How much there was to judge by."""

    runs: int
    valid: int
    invalid: int
    failed: int
    with_value: int
    no_data: int
    warmup: int


class ReplayedRunView(WireModel):
    """What a run would have done: `told` is what would have been sent."""

    run_id: str
    completed_at: datetime
    outcome: AlertOutcome | None
    state: AlertStatus
    notified: AlertStatus | None
    value: float | None
    baseline: float | None
    explanation: StoredText


class BacktestView(WireModel):
    """A rule replayed over stored history. `falseAlarmsPerMonth` takes the history for healthy, and
    is null below seven days of it; `smallestVisible` is the smallest harm that the rule sees, as
    things are after the last run.
    """

    agent_id: str
    since: datetime
    coverage: BacktestCoverageView
    fired: int
    resolved: int
    no_data: int
    false_alarms_per_month: float | None
    min_detectable_effect: float | None
    runs: list[ReplayedRunView]
