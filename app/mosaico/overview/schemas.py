"""Response bodies of the overview."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from mosaico.core.schemas import StoredText, WireModel
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.overview.change_schemas import ChangeCounts, ChangeView
from mosaico.run_store.rules import RunStatus
from mosaico.statistics.verdict_rules import Verdict


class HeadlineKpi(WireModel):
    """The KPI that stands for a benchmark: its first KPI of the gate, otherwise its first KPI.

    `history` are its values in the last valid runs, oldest first, this run included if it is valid. `outcome` is its own
    verdict: INVALID where too little of it was measured. Of a KPI that annotations correct the history has the scores of
    the judge, which are comparable.
    """

    kpi_id: str
    name: str
    value: float | None
    undefined_reason: str | None
    unit: str | None
    interval_low: float | None
    interval_high: float | None
    verdict: ValueVerdict | None
    outcome: Annotated[Verdict | None, Field(description="Verdict of this KPI alone.")]
    history: list[float]
    usual: Annotated[
        float | None, Field(description="Median of up to 59 valid runs before; null without any.")
    ]


class OpenAlert(WireModel):
    """A firing alert of a run that is not acknowledged; `notificationId` is its message, null
    if it was silenced.
    """

    alert_id: str
    notification_id: str | None


class OverviewCell(WireModel):
    """The last run of an agent on a benchmark that has ended. `isRecent` is whether it ended in the
    requested period. `verdict` is that of the run, INVALID also when too little was measured.
    `canRetry` is whether the run failed and may be retried.
    """

    benchmark_id: str
    benchmark_name: StoredText
    agent_id: str
    agent_name: StoredText
    run_id: str
    status: RunStatus
    is_recent: bool
    can_retry: Annotated[bool, Field(description="Whether the run failed and may be retried.")]
    completed_at: datetime
    verdict: Verdict | None
    decided_by: Annotated[
        StoredText | None, Field(description="Name of the KPI whose verdict is that of the run.")
    ]
    explanation: StoredText
    differences: Annotated[
        list[StoredText], Field(description="What differs between the run and its baseline.")
    ]
    same_answers: Annotated[
        StoredText | None,
        Field(description="Set when the run has the data of an earlier one; says of which day."),
    ]
    kpi: HeadlineKpi | None
    open_alerts: list[OpenAlert]


class ActiveRun(WireModel):
    """A run that is pending or running."""

    run_id: str
    benchmark_name: StoredText
    agent_name: StoredText
    status: RunStatus
    traces_processed: int
    traces_total: int | None


class ExpectedRun(ActiveRun):
    """A run in progress with its expected end, from its progress or from the last runs of the agent; null
    where neither is known.
    """

    expected_end_at: Annotated[
        datetime | None, Field(description="Expected end, from the progress or the last runs.")
    ]


class Activity(WireModel):
    """The runs in progress, at most 20, and the number of open messages of the inbox."""

    active_runs: list[ActiveRun]
    unread: int


class NextSchedule(WireModel):
    """The schedule that is due next."""

    schedule_id: str
    name: StoredText
    due_at: datetime


class MissedSchedule(WireModel):
    """A schedule with due times of the period that started no run."""

    schedule_id: str
    name: StoredText
    missed: Annotated[int, Field(description="Number of its due times that started no run.")]
    detail: Annotated[
        StoredText | None, Field(description="The newest of its due times that did not exist.")
    ] = None


class StaleAgent(WireModel):
    """An agent that has had no new data on a benchmark for too long; `runId` is its last run since."""

    benchmark_id: str
    benchmark_name: StoredText
    agent_id: str
    agent_name: StoredText
    since: Annotated[datetime, Field(description="When its last new data came.")]
    run_id: str | None
    explanation: StoredText


class SearchKind(StrEnum):
    """The kind of a match of the search."""

    AGENT = "AGENT"
    BENCHMARK = "BENCHMARK"
    KPI = "KPI"
    ALERT_RULE = "ALERT_RULE"
    SCHEDULE = "SCHEDULE"
    RUN = "RUN"
    NOTE = "NOTE"
    ANNOTATION = "ANNOTATION"


class SearchMatch(WireModel):
    """A match of the search: `name` of a run is that of its agent, and of a note or an annotation its text, with its
    subject.
    """

    id: str
    name: StoredText
    benchmark_id: str | None = None
    benchmark_name: StoredText | None = None
    created_at: datetime | None = None
    status: RunStatus | None = None
    run_id: str | None = None
    item_id: str | None = None
    incident_id: str | None = None


class SearchGroup(WireModel):
    """Matches of one kind; `nextCursor` continues its search, null at its end."""

    kind: SearchKind
    matches: list[SearchMatch]
    next_cursor: str | None


class SearchResult(WireModel):
    """The matches of a search by kind; a kind without a match is missing, unless its search did not reach
    its end in time.
    """

    groups: list[SearchGroup]


class Overview(WireModel):
    """Every agent on every benchmark, worst verdict first; of more than 1,000 pairs those with the newest
    runs, and `isComplete` is false. `counts` are the recent cells by verdict;
    those that were not compared count as NOT_COMPARED, failed runs as FAILED.
    `detectableDrops` are the smallest drops of shares that the recent runs could have detected.
    """

    since: datetime
    cells: list[OverviewCell]
    is_complete: Annotated[
        bool, Field(description="Whether `cells` contains every agent on every benchmark.")
    ]
    counts: dict[str, int]
    changes: Annotated[
        list[ChangeView],
        Field(description="What changed in the period, by group, the worst first; at most 200."),
    ]
    change_count: Annotated[int, Field(description="Number of changes in the period.")]
    has_all_changes: Annotated[
        bool, Field(description="Whether the counts have all changes; false above 500 of one kind.")
    ]
    periods: Annotated[
        list[ChangeCounts], Field(description="How many changes other periods have.")
    ]
    detectable_drops: list[float]
    active_runs: Annotated[
        list[ExpectedRun], Field(description="The runs in progress, at most 20.")
    ]
    active_count: Annotated[
        int, Field(description="Number of all runs in progress, at most 10,000.")
    ]
    hidden_agents: Annotated[
        int, Field(description="Number of the agents that `mine` hides; 0 without it.")
    ] = 0
    next_schedule: NextSchedule | None
    missed_fires: Annotated[
        int,
        Field(description="Number of due times of the period that started no run, at most 10,000."),
    ]
    missed_schedules: Annotated[
        list[MissedSchedule],
        Field(description="The schedules of these times, most missed first, at most 20."),
    ]
    stale: Annotated[
        list[StaleAgent],
        Field(
            description="The agents without new data, those that were told last first, at most 100."
        ),
    ]
