"""What stood before somebody judged an incident: kept with it, so that the judgement can be taken back."""

from datetime import datetime
from typing import Final

from mosaico.core.schemas import WireModel
from mosaico.kpis.series_types import SeriesState
from mosaico.run_store.rules import BaselineHold


class RunBefore(WireModel):
    """A run of the incident: why it was no baseline, and whether its level was accepted."""

    seq: int
    hold: BaselineHold | None = None
    is_accepted: bool = False


class SeriesBefore(WireModel):
    """The state of a series after its newest run."""

    run_seq: int
    series: str
    state: SeriesState | None = None


class StateBefore(WireModel):
    """The state of the rule for the agent, its runs and the series of the newest run, before a person closed an open
    incident.
    """

    run_seq: int
    run_id: str
    state: str
    is_open: bool
    breaches: int
    clears: int
    fired_at: datetime | None = None
    series: SeriesState | None = None
    breach_seq: int | None = None
    clear_seq: int | None = None
    fingerprint: str | None = None
    excluded: list[list[int | None]]
    explanation: str
    runs: list[RunBefore]
    newest_series: list[SeriesBefore]


# The columns of `alert_states` that a judgement changes.
STATE_FIELDS: Final = (
    "state", "is_open", "breaches", "clears", "fired_at", "series", "breach_seq", "clear_seq", "fingerprint", "excluded",
)  # fmt: skip
