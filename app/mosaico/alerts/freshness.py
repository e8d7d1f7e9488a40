"""When an agent has had no new data on a benchmark for too long; pure, but for the texts of its last run.

An upload that did not come, an empty production window, a service that stopped to send spans and a run of Langfuse
that never began look alike: runs repeat old data, find nothing, fail, or do not start.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Final

from mosaico.core.text import format_in_zone
from mosaico.run_store.rules import RunStatus, Validity

# Due times of a schedule, or longest gaps, without new data after which an agent is stale.
MISSED_TIMES: Final = 2
# The last gaps between new data that say how often they come, and with how few of them nothing is said.
LAST_GAPS: Final = 10
MIN_GAPS: Final = 3
# An agent that has rested for longer before this was watched is no news.
TOLD_WITHIN: Final = timedelta(days=30)


def stale_after(new_data: Sequence[datetime]) -> datetime | None:
    """When an agent without a schedule becomes stale, from the times of its last new data, oldest first: after twice
    the longest gap between them. None while too few gaps are known.
    """
    gaps = [later - earlier for earlier, later in pairwise(new_data[-LAST_GAPS - 1 :])]
    return new_data[-1] + MISSED_TIMES * max(gaps) if len(gaps) >= MIN_GAPS else None


def describe_last_run(
    status: str | None, validity: str | None, reasons: Sequence[str], error: str | None
) -> str:
    """What the last run found instead of new data, as a sentence; no status: there was no run."""
    match status:
        case None:
            return "No run has ended since then."
        case RunStatus.COMPLETED if validity == Validity.VALID:
            return "The last run read the same data again."
        case RunStatus.COMPLETED:
            return f"The last run is invalid: {'; '.join(reasons) or 'too little was measured'}."
        case RunStatus.FAILED:
            return f"The last run failed: {error or 'it has no results'}."
        case _:
            return f"The last run was {status.lower()}."


def describe_no_data(since: datetime, last_run: str, expected: str, zone: tzinfo) -> str:
    """The explanation of an alert about missing data; its time is in the zone."""
    return f"No new data since {format_in_zone(since, zone)}; {expected}. {last_run}"
