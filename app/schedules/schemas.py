from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.core.schemas import UNSET, Identifier, Instant, LongText, ShortText, StoredText, WireModel
from app.schedules.cron import DstPolicy
from app.schedules.rules import ConcurrencyPolicy, FireStatus, MisfirePolicy

CRON_LENGTH = 255
MOST_PREVIEWED = 100
A_DAY_S = 86_400
A_YEAR_S = 366 * A_DAY_S

CronText = Annotated[
    str,
    Field(
        min_length=1,
        max_length=CRON_LENGTH,
        description="Six fields, second first, or a macro such as @daily.",
        examples=["0 0 7 * * MON-FRI"],
    ),
]
ZoneName = Annotated[str, Field(max_length=100, description="IANA name.", examples=["Europe/Rome"])]
Failures = Annotated[
    int, Field(ge=1, le=1000, description="So many failed runs in a row disable the schedule.")
]
CatchupSeconds = Annotated[
    int,
    Field(ge=0, le=A_YEAR_S, description="Instants that were missed by more are skipped."),
]
Pattern = Annotated[
    ShortText | None,
    Field(
        description="Glob over the run names of the dataset, as nightly-*: each instant judges the"
        " newest complete run that matches, if it was not judged yet."
    ),
]


class ScheduleBody(WireModel):
    """A schedule as PUT writes it: a field that is left out takes its default."""

    name: ShortText
    description: LongText | None = None
    benchmark_id: Identifier
    agent_id: Identifier
    cron_expression: CronText
    timezone: ZoneName = "UTC"
    dst_policy: DstPolicy = DstPolicy.SPRING
    enabled: bool = True
    run_name_pattern: Pattern = None
    misfire_policy: MisfirePolicy = MisfirePolicy.FIRE_ONCE
    catchup_window_seconds: CatchupSeconds = A_DAY_S
    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.FORBID
    auto_disable_on_failure: bool = True
    max_consecutive_failures: Failures = 3


class ScheduleCreate(ScheduleBody):
    id: Identifier | None = None


class SchedulePatch(WireModel):
    """Only the fields that are sent change; null clears one."""

    name: ShortText = UNSET
    description: LongText | None = None
    benchmark_id: Identifier = UNSET
    agent_id: Identifier = UNSET
    cron_expression: CronText = UNSET
    timezone: ZoneName = UNSET
    dst_policy: DstPolicy = UNSET
    enabled: bool = UNSET
    run_name_pattern: Pattern = None
    misfire_policy: MisfirePolicy = UNSET
    catchup_window_seconds: CatchupSeconds = UNSET
    concurrency_policy: ConcurrencyPolicy = UNSET
    auto_disable_on_failure: bool = UNSET
    max_consecutive_failures: Failures = UNSET


class ScheduleView(WireModel):
    """A schedule. `disabledReason` says why the service itself disabled it, and when."""

    id: str
    name: str
    description: str | None
    benchmark_id: str
    agent_id: str
    cron_expression: str
    timezone: str
    dst_policy: str
    enabled: bool
    run_name_pattern: str | None
    misfire_policy: str
    catchup_window_seconds: int
    concurrency_policy: str
    auto_disable_on_failure: bool
    max_consecutive_failures: int
    consecutive_failures: int
    last_run_at: datetime | None
    next_run_at: datetime | None
    disabled_at: datetime | None
    disabled_reason: StoredText | None
    revision: int
    created_at: datetime
    updated_at: datetime


class FireView(WireModel):
    """What became of a due instant. With `until`, of all the instants from `dueAt` up to then."""

    due_at: datetime
    until: datetime | None
    fired_at: datetime
    triggered_by: str
    status: FireStatus
    reason: str | None
    detail: StoredText | None
    run_id: str | None


class PreviewRequest(WireModel):
    """An expression to look at before it is used."""

    cron_expression: CronText
    timezone: ZoneName = "UTC"
    dst_policy: DstPolicy = DstPolicy.SPRING
    after: Instant | None = Field(default=None, description="Now when left out.")
    count: Annotated[int, Field(ge=1, le=MOST_PREVIEWED)] = 10


class ClockNote(WireModel):
    """A night on which the clocks change under the schedule."""

    at: datetime
    text: str


class PreviewView(WireModel):
    """When a schedule would fire, in plain words and as instants in its zone."""

    cron_expression: str
    timezone: str
    description: str
    next: list[datetime]
    notes: list[ClockNote]


class DisabledView(WireModel):
    id: str
    name: str
    disabled_at: datetime
    disabled_reason: StoredText | None


class FailedRunView(WireModel):
    id: str
    benchmark_id: str
    agent_id: str
    error_code: str | None
    error_message: StoredText | None


class IdleView(WireModel):
    """A schedule that was due and started nothing, and why, with how often."""

    id: str
    name: str
    reasons: dict[str, int]


class DailySummaryView(WireModel):
    """A day of the service: what ran, what failed, what was to run and did not."""

    day: str
    timezone: str
    since: datetime
    until: datetime
    runs: dict[str, int]
    invalid_runs: int
    failed_runs: list[FailedRunView]
    fires: dict[str, int]
    disabled_schedules: list[DisabledView]
    idle_schedules: list[IdleView]
