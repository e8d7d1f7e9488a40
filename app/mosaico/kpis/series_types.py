"""Evidence over several runs as it is stored with a run and sent over HTTP.

A series is one KPI or metric of one agent in comparable runs. The columns `over_runs` of
`kpi_history` and `run_metrics` hold a `RunsEvidence`, `run_series.state` holds the `SeriesState` that
the next run reads, and alert rules hold a state of their own. Stored evidence is that of the
`REGRESSED` rule about the series; without one it is decided at 0.25 false alarms in 30 runs.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from mosaico.core.schemas import WireModel
from mosaico.statistics.verdict_rules import Scale
from mosaico.statistics.whole_runs import MeasuredRuns


class SeriesStatus(StrEnum):
    """The state of a series after a valid run.

    WARMUP: too few runs to compare with. OK: no incident. FIRING: an incident is open.
    """

    WARMUP = "WARMUP"
    OK = "OK"
    FIRING = "FIRING"


class SeriesEvent(StrEnum):
    """The change of a series by a run. OPENED and WORSE page; REFERENCE_LOST closes an incident
    whose reference shares no item with later runs any more.
    """

    OPENED = "OPENED"
    WORSE = "WORSE"
    PARTLY_BACK = "PARTLY_BACK"
    RESOLVED = "RESOLVED"
    IMPROVED = "IMPROVED"
    REFERENCE_LOST = "REFERENCE_LOST"

    @property
    def pages(self) -> bool:
        """Return whether the event notifies recipients at once."""
        return self in (SeriesEvent.OPENED, SeriesEvent.WORSE)


class OpenIncident(WireModel):
    """The runs of an open incident, by sequence number, oldest first.

    `started` is the estimated first bad run, `opened` the run that opened the incident. `runs` are
    its latest valid runs from `started` on. `levelRuns` define its present level: the runs of the
    fall, of the last further fall or of the last partial recovery; they never count as recovered.
    `recovered` counts the consecutive runs with evidence of recovery.
    """

    started: int
    opened: int
    runs: tuple[int, ...]
    level_runs: tuple[int, ...]
    recovered: int = 0


class SeriesVariation(WireModel):
    """How much whole runs of a series vary: see `MeasuredRuns`."""

    scale: Scale
    between: float
    degrees: float
    runs: int
    has_items: bool = True

    @property
    def measured(self) -> MeasuredRuns:
        return MeasuredRuns(**dict(self))


class SeriesState(WireModel):
    """The state of a series between runs, as stored JSON.

    `reference` are the runs of the present level, at most 60, oldest first. Those of incidents that were noise, or may
    have been chance, are also `returned`: they tell how runs vary, and are in no window. Version 1, whose reference was
    the last of several `levels`, is read as version 2; an unknown `version` is refused. `variation` is how much the runs of
    the reference vary as wholes: the verdict of the next run reads it.
    """

    version: Literal[2] = 2
    reference: tuple[int, ...] = ()
    returned: tuple[int, ...] = ()
    incident: OpenIncident | None = None
    variation: SeriesVariation | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_version_1(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("version") != 1:
            return data
        runs = data["levels"][-1] if data.get("levels") else []
        # Runs of incidents that were noise stood before older ones.
        returned = [run for place, run in enumerate(runs) if min(runs[place:]) < run]
        return {
            "reference": sorted(runs),
            "returned": sorted(returned),
            "incident": data.get("incident"),
        }

    @property
    def runs(self) -> set[int]:
        """All runs whose levels the next step needs."""
        incident = self.incident
        inside = {*incident.runs, *incident.level_runs} if incident else set()
        return {*self.reference} | inside


class RunsEvidence(WireModel):
    """The evidence of the last runs, with the strongest window.

    The mean of the last `width` runs is `level`, that of the `reference` runs before them
    `referenceLevel`; `effect` is their difference, and `low` to `high` the range in which it
    likely is. `z` is the harm in standard errors, which pages above `limit`; then the range excludes 0. `since` is the first run of the window; in an incident, the first run of the incident. `zeroLevel`
    is the level that stands for the value 0, which has no logarithm; there is no interval then, if one
    of both levels is 0.
    With `isTypical` the change is that of a typical item (a mean of logarithms): the mean of all items, which a few
    expensive ones may decide, can change otherwise.
    `earlierLevel` is the level of the incident before a further fall or a partial recovery.
    """

    version: Literal[1] = 1
    status: SeriesStatus
    event: SeriesEvent | None = None
    z: float | None = None
    limit: float
    width: int | None = None
    reference: Annotated[int, Field(description="Number of reference runs.")] = 0
    level: float | None = None
    reference_level: float | None = None
    zero_level: float | None = None
    is_typical: bool = False
    earlier_level: float | None = None
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    since: int | None = None
