"""Wire format of schedules, fires, previews and the daily summary."""

from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import Field

from mosaico.core.edits import SERVICE_MOVES, EditBody, patch_of
from mosaico.core.schemas import Identifier, Instant, LongText, ShortText, StoredText, WireModel
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.run_store.rules import TriggerType
from mosaico.schedules.cron import DstPolicy
from mosaico.schedules.rules import ConcurrencyPolicy, FireSkipReason, FireStatus, MisfirePolicy
from mosaico.statistics.verdict_rules import Verdict

MAX_CRON_CHARS = 255
MAX_PREVIEWED = 100
DAY_S = 86_400
YEAR_S = 366 * DAY_S

CronText = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_CRON_CHARS,
        description="Six fields, second first, or a macro such as @daily.",
        examples=["0 0 7 * * MON-FRI"],
    ),
]
ZoneName = Annotated[
    str, Field(max_length=100, description="IANA time zone name.", examples=["Europe/Rome"])
]
MaxFailures = Annotated[
    int, Field(ge=1, le=1000, description="Number of failures in a row that disable the schedule.")
]
CatchupSeconds = Annotated[
    int,
    Field(ge=0, le=YEAR_S, description="Fire times that were missed by more seconds are skipped."),
]
RunNamePattern = Annotated[
    ShortText | None,
    Field(
        description="Glob pattern for run names of the dataset, such as nightly-*. Each instant"
        " evaluates the newest complete run that matches, if it was not evaluated before."
    ),
]


class ClockNote(WireModel):
    """A clock change that affects the schedule."""

    at: datetime
    text: str


class ScheduleView(WireModel):
    """A schedule. `disabledAt` and `disabledReason` are set if the service disabled it."""

    id: str
    name: str
    description: str | None
    benchmark_id: str
    agent_id: str
    cron_expression: str
    timezone: str
    dst_policy: DstPolicy
    enabled: bool
    run_name_pattern: str | None
    misfire_policy: MisfirePolicy
    catchup_window_seconds: int
    concurrency_policy: ConcurrencyPolicy
    auto_disable_on_failure: bool
    max_consecutive_failures: int
    consecutive_failures: Annotated[int, SERVICE_MOVES]
    last_run_at: Annotated[datetime | None, SERVICE_MOVES]
    next_run_at: Annotated[datetime | None, SERVICE_MOVES]
    disabled_at: Annotated[datetime | None, SERVICE_MOVES]
    disabled_reason: Annotated[StoredText | None, SERVICE_MOVES]
    clock_changes: Annotated[
        list[ClockNote],
        Field(description="The clock changes of the next 400 days that skip or repeat a due time."),
        SERVICE_MOVES,
    ]
    revision: int
    created_at: datetime
    updated_at: datetime


class ScheduleBody(EditBody):
    """All fields of a schedule; an omitted field gets its default."""

    shown_as: ClassVar = ScheduleView

    name: ShortText
    description: LongText | None = None
    benchmark_id: Identifier
    agent_id: Identifier
    cron_expression: CronText
    timezone: ZoneName = "UTC"
    dst_policy: DstPolicy = DstPolicy.SPRING
    enabled: bool = True
    run_name_pattern: RunNamePattern = None
    misfire_policy: MisfirePolicy = MisfirePolicy.FIRE_ONCE
    catchup_window_seconds: CatchupSeconds = DAY_S
    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.FORBID
    auto_disable_on_failure: bool = True
    max_consecutive_failures: MaxFailures = 3


class ScheduleCreate(ScheduleBody):
    """A new schedule; the service generates the id if it is omitted."""

    id: Identifier | None = None


@patch_of
class SchedulePatch(ScheduleBody):
    """The fields to change; null clears a field."""


class FireView(WireModel):
    """A due instant and its outcome; with `rangeEnd`, all instants from `dueAt` up to it.

    `reason` is the reason of a SKIPPED instant, `errorCode` the error of a FAILED instant.
    """

    due_at: datetime
    range_end: datetime | None
    fired_at: datetime
    triggered_by: TriggerType
    status: FireStatus
    reason: FireSkipReason | None
    error_code: str | None
    detail: StoredText | None
    run_id: str | None


class PreviewRequest(WireModel):
    """A cron expression to preview."""

    cron_expression: CronText
    timezone: ZoneName = "UTC"
    dst_policy: DstPolicy = DstPolicy.SPRING
    after: Instant | None = Field(default=None, description="Default: now.")
    count: Annotated[int, Field(ge=1, le=MAX_PREVIEWED)] = 10


class PreviewView(WireModel):
    """The fire times of an expression: a description, and instants in its time zone."""

    cron_expression: str
    timezone: str
    description: str
    next: list[datetime]
    notes: list[ClockNote]


class DisabledScheduleView(WireModel):
    """A schedule that the service disabled."""

    id: str
    name: str
    disabled_at: datetime
    disabled_reason: StoredText | None


class FailedRunView(WireModel):
    """A failed run and its error."""

    id: str
    benchmark_id: str
    benchmark_name: StoredText
    agent_id: str
    agent_name: StoredText
    error_code: str | None
    error_message: StoredText | None


class ChangedRunView(WireModel):
    """A run that REGRESSED, CHANGED or is INVALID, with the KPI that decides; `text` says it with its numbers."""

    id: str
    benchmark_id: str
    benchmark_name: StoredText
    agent_id: str
    agent_name: StoredText
    outcome: Annotated[Verdict, Field(description="What happened.")]
    kpi_name: Annotated[StoredText | None, Field(description="Name of the KPI that decides.")]
    change: Annotated[
        ValueVerdict | None, Field(description="Its comparison; null for an invalid run.")
    ]
    text: Annotated[StoredText, Field(description="The change in words.")]


class IdleScheduleView(WireModel):
    """A schedule that was due and started no run; `reasons` counts the instants by reason. `details` are sentences
    about times that did not exist.
    """

    id: str
    name: str
    reasons: dict[str, int]
    details: list[StoredText]


class DailySummaryView(WireModel):
    """The runs, failures and schedules of one day, from `since` to before `until`."""

    day: str
    timezone: str
    since: datetime
    until: datetime
    runs: dict[str, int]
    invalid_runs: int
    changed_runs: Annotated[
        list[ChangedRunView],
        Field(description="Runs that regressed, changed or are invalid: 50 of each."),
    ]
    failed_runs: list[FailedRunView]
    fires: dict[str, int]
    disabled_schedules: list[DisabledScheduleView]
    idle_schedules: list[IdleScheduleView]
