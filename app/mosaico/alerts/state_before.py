"""What stood before somebody judged an incident: kept with it, so that the judgement can be taken back."""

from datetime import datetime
from typing import Final

from mosaico.core.schemas import WireModel
from mosaico.kpis.series_types import SeriesState
from mosaico.run_store.rules import BaselineHold


class StateBefore(WireModel):
    """The state of the rule for the agent, the holds of runs by sequence number, and the states of the series of the
    newest run, before an open incident was closed by a person. `notAccepted` are the runs that nobody had accepted.
    """

    run_seq: int
    run_id: str
    state: str
    is_open: bool
    breaches: int
    clears: int
    fired_at: datetime | None
    series: SeriesState | None
    breach_seq: int | None
    clear_seq: int | None
    fingerprint: str | None
    excluded: list[list[int | None]]
    explanation: str
    holds: dict[int, BaselineHold | None]
    series_run: int | None
    series_states: dict[str, SeriesState | None]
    not_accepted: list[str]


# The columns of `alert_states` that a judgement changes.
STATE_FIELDS: Final = (
    "state", "is_open", "breaches", "clears", "fired_at", "series", "breach_seq", "clear_seq", "fingerprint", "excluded",
)  # fmt: skip
