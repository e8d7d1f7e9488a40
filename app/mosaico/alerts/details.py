"""The stored details of an alert: how it was decided, what changed, and the traces behind it."""

import math
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from mosaico.core.schemas import StoredText, WireModel
from mosaico.kpis.judge_types import PeopleAgreement
from mosaico.kpis.series_types import RunsEvidence
from mosaico.kpis.verdict_types import FallenSlice, ValueVerdict
from mosaico.run_store.recorded_attributes import WhatChanged
from mosaico.statistics.anomaly import AnomalyMethod, AnomalyScore


class AnomalyDetails(WireModel):
    """Computation of an anomaly: the last `width` runs, the number of runs before them, and the range that was expected.

    `method` is `windows`; the others are those of alerts of earlier versions.
    """

    method: AnomalyMethod
    width: int = 1
    history: int
    z: float | None
    critical: float
    expected_low: float
    expected_high: float
    min_detectable_effect: float

    @classmethod
    def of(cls, score: AnomalyScore, low: float, high: float) -> "AnomalyDetails":
        """The score, and the expected range within the scale of the value."""
        return cls(
            method=score.method,
            width=score.width,
            history=score.history,
            z=score.z if math.isfinite(score.z) else None,
            critical=score.critical,
            expected_low=low,
            expected_high=high,
            min_detectable_effect=score.min_detectable_effect,
        )


class ContributingTrace(WireModel):
    """A trace that changed for the worse: its value, and the value of its item in the last run
    before the first bad one.

    `url` is its page in the source, when the source has pages.
    """

    metric: str
    trace_id: str
    item_id: str
    url: str | None = None
    value: float
    before: float | None = None


class AlertRecipient(WireModel):
    """Whom the rule of an alert named when the alert was made, and the message about the alert that was sent there."""

    endpoint_id: Annotated[str, Field(description="ID of the endpoint, which may be deleted.")]
    channel: Annotated[str, Field(description="Channel, such as EMAIL.")]
    recipient: Annotated[StoredText, Field(description="Its address, redacted.")]
    notification_id: Annotated[
        str | None,
        Field(
            description="The message; null while the alert waits or is silenced, and where another rule told the same"
            " before."
        ),
    ] = None


class AlertDetails(WireModel):
    """The details of an alert, as stored JSON and in the REST API.

    `valueName` is the KPI or the statistic of a metric, with its `unit`. `verdict` compares the run
    alone with its baseline, `runs` the last runs with those before them, `anomaly` is the score of
    an anomaly rule. `since` is when the first bad run ended. `changes` lists the differences
    between the run and the last one before the first bad run. With `isRelative` the numbers of `runs` are
    logarithms. `scheduleId` is the schedule that a notice is about.
    """

    version: Literal[1] = 1
    value_name: StoredText | None = None
    unit: str | None = None
    is_share: bool = False
    is_relative: bool = False
    verdict: ValueVerdict | None = None
    runs: RunsEvidence | None = None
    anomaly: AnomalyDetails | None = None
    since: datetime | None = None
    since_run_id: str | None = None
    schedule_id: str | None = None
    title_note: Annotated[
        StoredText | None,
        Field(
            description="What the title says beside the value: the limit or the expected range; of a failed run the"
            " error code, of a schedule the reason."
        ),
    ] = None
    changes: tuple[StoredText, ...] = ()
    what_changed: Annotated[
        WhatChanged | None,
        Field(
            description="The same differences with what of the drop they cover; null where no run before is known."
        ),
    ] = None
    fallen_slice: Annotated[
        FallenSlice | None,
        Field(
            description="The slice of the items that fell alone against the same earlier run; null without one."
        ),
    ] = None
    recipients: Annotated[
        tuple[AlertRecipient, ...] | None,
        Field(
            description="The recipients of its rule at that time; empty if it named none, null for an alert of an"
            " earlier version."
        ),
    ] = None
    rule_revision: Annotated[
        int | None, Field(description="Revision of the alert rule that was evaluated.")
    ] = None
    weak_judges: Annotated[
        tuple[PeopleAgreement, ...],
        Field(
            description="Judges of the value that agree with people less than the benchmark requires."
        ),
    ] = ()
    traces: Annotated[
        tuple[ContributingTrace, ...],
        Field(description="The traces that changed most for the worse."),
    ] = ()
