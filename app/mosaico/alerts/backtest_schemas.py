"""Request and response bodies of tests and backtests of alert rules."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from mosaico.alerts.rules import (
    AlertEventState,
    AlertOutcome,
    AlertStatus,
    RuleOutcome,
)
from mosaico.alerts.schemas import AlertConfigBody
from mosaico.core.defaults import BACKTEST_DAYS
from mosaico.core.schemas import (
    Identifier,
    StoredText,
    WireModel,
)


class RuleTestAssessment(WireModel):
    """The assessment of a rule for the newest valid run of an agent."""

    agent_id: str
    run_id: str
    outcome: AlertOutcome
    value: float | None
    baseline: float | None
    explanation: StoredText


class RuleTestView(WireModel):
    """The assessments of a rule, and the test message that was sent to its recipients."""

    assessments: list[RuleTestAssessment]
    notification_id: str


class BacktestRequest(WireModel):
    """The rule to replay: a stored one by its ID, or a draft."""

    alert_config_id: Identifier | None = None
    rule: AlertConfigBody | None = None
    agent_id: Identifier | None = Field(
        default=None, description="Required when the rule applies to every agent."
    )
    days: Annotated[int, Field(ge=1, le=3660, description="Days of history to replay.")] = (
        BACKTEST_DAYS
    )


class BacktestCoverageView(WireModel):
    """Number of runs of the backtest, by outcome."""

    runs: int
    valid: int
    invalid: int
    failed: int
    with_value: int
    no_data: int
    warmup: int


class ReplayedRunView(WireModel):
    """One replayed run; `result` is null for a run that is not valid, and `outcome` where the condition was not
    evaluated. `notified` is the state that would have been sent; `expectedLow` and
    `expectedHigh` are the limits of the range that an anomaly rule expected.
    """

    run_id: str
    completed_at: datetime
    result: Annotated[
        RuleOutcome | None,
        Field(description="What the rule made of the run; null if it is not valid."),
    ]
    outcome: AlertOutcome | None
    state: AlertStatus
    notified: AlertEventState | None
    value: float | None
    baseline: float | None
    expected_low: float | None
    expected_high: float | None
    explanation: StoredText


class BacktestView(WireModel):
    """A rule replayed over stored history. `falseAlarmsPerMonth` assumes that all runs were healthy
    and is null for less than seven days of history; `pagedRunIds` are the runs that would have
    paged, because an incident opened or became worse; `minDetectableEffect` is the smallest harmful
    change that the rule detects after the last run.
    """

    agent_id: str
    since: datetime
    coverage: BacktestCoverageView
    fired: int
    resolved: int
    no_data: int
    false_alarms_per_month: float | None
    min_detectable_effect: float | None
    paged_run_ids: list[str]
    runs: list[ReplayedRunView]
