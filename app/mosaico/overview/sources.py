"""What Morning and the fleet are made of: read once where a page shows both."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy.orm import Session

from mosaico.alerts.own_agents import ALL_AGENTS, MineChoice
from mosaico.overview.cell_queries import Cells, read_cells
from mosaico.overview.change_queries import ChangeHistory, read_changes

# Of Morning, and more than the nights of a strip.
LONGEST_PERIOD: Final = timedelta(days=30)


class OverviewSources(NamedTuple):
    """The last run of each agent on each benchmark, and the changes of the longest period."""

    cells: Cells
    history: ChangeHistory


def read_sources(
    session: Session, since: datetime, now: datetime, choice: MineChoice = ALL_AGENTS
) -> OverviewSources:
    """The sources of a period from a time on, or of the longest one, if that is longer; of the chosen agents."""
    return OverviewSources(
        read_cells(session, since, agents=choice.ids),
        read_changes(session, min(since, now - LONGEST_PERIOD), choice),
    )
