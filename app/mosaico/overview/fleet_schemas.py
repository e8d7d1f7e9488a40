"""Response bodies of the fleet: every agent on every benchmark with its last nights."""

from datetime import date
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from mosaico.core.schemas import WireModel
from mosaico.overview.change_schemas import ChangeView
from mosaico.overview.nights import Night
from mosaico.overview.schemas import OverviewCell


class FleetOrder(StrEnum):
    """The order of pairs: what is worst first, or by the names of agents."""

    WORST = "worst"
    NAME = "name"


class FleetPair(OverviewCell):
    """An agent on a benchmark: its last run with its `change`, if it has one now, and its last nights."""

    change: Annotated[
        ChangeView | None,
        Field(description="What is new, ongoing, recovered or judged in the last 24 hours."),
    ]
    nights: Annotated[list[Night], Field(description="The last 14 days, oldest first.")]


class Fleet(WireModel):
    """The pairs that match a filter, `total` without it. `isComplete` is false above 1,000 pairs."""

    pairs: Annotated[list[FleetPair], Field(description="The pairs, in the requested order.")]
    total: Annotated[int, Field(description="Number of all pairs.")]
    first_day: Annotated[date, Field(description="The first of the days.")]
    last_day: Annotated[date, Field(description="The last of the days.")]
    is_complete: Annotated[bool, Field(description="Whether these are all pairs.")]
    hidden_agents: Annotated[
        int, Field(description="Number of the agents that `mine` hides; 0 without it.")
    ] = 0
