"""Response bodies about changes: drops, runs without a number, recoveries and judgements."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from mosaico.alerts.rules import IncidentResolution
from mosaico.core.schemas import StoredText, WireModel
from mosaico.overview.changes import ChangeGroup, ChangeOutcome, JudgedAs
from mosaico.run_store.recorded_attributes import WhatChanged
from mosaico.statistics.verdict_rules import Scale, Verdict


class ValueComparison(WireModel):
    """A value beside an earlier one. `low` to `high` is the interval of the change, in the unit of `scale`; `against`
    names what the value is compared with.
    """

    against: Annotated[StoredText, Field(description="What the value is compared with.")]
    baseline_run_id: Annotated[str | None, Field(description="ID of its newest run.")] = None
    baseline_at: Annotated[datetime | None, Field(description="When this run ended.")] = None
    baseline_value: float | None
    value: float | None
    effect: float | None
    low: float | None
    high: float | None
    scale: Scale | None
    items: Annotated[int | None, Field(description="Number of compared items.")] = None
    is_adjusted: Annotated[
        bool, Field(description="Whether the interval is adjusted for what is judged together.")
    ] = False


class ChangedKpi(WireModel):
    """A KPI in the last run of a change, with its own verdict. The first of `comparisons` is the one to read; others
    answer another question.
    """

    kpi_id: str
    name: StoredText
    unit: str | None
    gate: bool
    value: float | None
    verdict: Annotated[Verdict | None, Field(description="Verdict of this KPI alone.")]
    comparisons: Annotated[
        list[ValueComparison],
        Field(description="With the baseline of the run, and with the runs before."),
    ]


class ChangeJudgement(WireModel):
    """What somebody said of a change: `true` (it was real), `noise` (a false alarm) or `accepted` (the new level)."""

    verdict: JudgedAs
    at: datetime
    by: Annotated[str | None, Field(description="ID of the API key that judged it.")]
    by_name: Annotated[StoredText | None, Field(description="Name of this API key.")]
    note: StoredText | None


class ChangeView(WireModel):
    """A change of an agent on a benchmark: an incident, or runs with one bad outcome. `outcome` is REGRESSED, CHANGED,
    INVALID, FAILED or SAME_ANSWERS. `since` is when its first bad run ended, `runId` its last run.
    """

    group: Annotated[ChangeGroup, Field(description="Where the period has the change.")]
    outcome: Annotated[ChangeOutcome, Field(description="What happened.")]
    benchmark_id: str
    benchmark_name: StoredText
    agent_id: str
    agent_name: StoredText
    since: datetime
    since_run_id: str
    run_id: str
    completed_at: datetime
    runs: Annotated[int, Field(description="Number of its runs.")]
    kpi: Annotated[
        ChangedKpi | None,
        Field(description="The KPI that changed; null for a metric and for a whole run."),
    ]
    metric: str | None
    others: Annotated[list[ChangedKpi], Field(description="The other KPIs of the run.")]
    decided_by: Annotated[
        StoredText | None, Field(description="Name of the KPI whose verdict is that of the run.")
    ]
    explanation: StoredText
    weak_judges: Annotated[
        list[StoredText],
        Field(
            description="One sentence about each judge of it that agrees too little with people."
        ),
    ]
    what_changed: Annotated[
        WhatChanged | None,
        Field(
            description="What changed since the baseline of the run; null where that is not known."
        ),
    ]
    incident_ids: Annotated[list[str], Field(description="IDs of its incidents.")]
    unjudged_ids: Annotated[
        list[str], Field(description="IDs of its incidents that nobody judged.")
    ]
    assignees: Annotated[
        list[StoredText], Field(description="Names of the people to whom they are assigned.")
    ]
    ended_at: Annotated[datetime | None, Field(description="When it was over; null before.")]
    ended_run_id: Annotated[str | None, Field(description="ID of the run with which it was over.")]
    ended_value: Annotated[float | None, Field(description="Value of the KPI in this run.")]
    resolution: IncidentResolution | None
    judgement: Annotated[
        ChangeJudgement | None, Field(description="What somebody said of it; null before.")
    ]
    can_retry: Annotated[bool, Field(description="Whether the run failed and may be retried.")]
    can_undo: Annotated[bool, Field(description="Whether the judgement can be taken back.")]


class ChangeCounts(WireModel):
    """How many changes a period from `since` on has."""

    name: Annotated[str, Field(description="What the page calls the period.")]
    since: datetime
    changes: Annotated[int, Field(description="Number of changes in the period.")]
