"""The strip of an item: right or wrong on each night, one row for each agent; pure."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from mosaico.core.text import format_number
from mosaico.core.web.page_text import format_day
from mosaico.run_store.deciding_metric import DecidingMetric
from mosaico.run_store.item_nights import NIGHTS, ItemNight

# An item that was right on so many nights before fell.
_RIGHT_BEFORE: Final = 3


class NightCell(NamedTuple):
    """An item on one night of an agent: `state` is right, wrong, fell, none (no trace) or unknown; `mark` is A or B."""

    state: str
    text: str
    label: str
    url: str
    mark: str = ""


class AgentStrip(NamedTuple):
    """The nights of one agent, one cell for each day; None on a day without a run."""

    agent: str
    agent_id: str
    right: int
    measured: int
    cells: list[NightCell | None]


class ItemStrip(NamedTuple):
    """The rows of the agents over the same days; `cut_days` is how many days had several runs of an agent."""

    days: list[str]
    rows: list[AgentStrip]
    cut_days: int


def build_strip(
    nights: Sequence[ItemNight],
    decider: DecidingMetric | None,
    names: Mapping[str, str],
    zone: ZoneInfo,
    chosen: tuple[str | None, str],
    own_agent_id: str,
    url_of: Callable[[ItemNight], str],
) -> ItemStrip:
    """The strip of the last 30 days with a run; `chosen` are the run IDs of A and B, and the own agent is first. The newest
    run of a day counts.
    """
    days = sorted({_day(night.created_at, zone) for night in nights})[-NIGHTS:]
    labels = {_day(night.created_at, zone): format_day(night.created_at, zone) for night in nights}
    rows, cut_days = [], 0
    by_agent = sorted(
        nights,
        key=lambda night: (
            night.agent_id != own_agent_id,
            names.get(night.agent_id, night.agent_id),
            night.agent_id,
        ),
    )
    for agent_id, group in groupby(by_agent, key=attrgetter("agent_id")):
        own = list(group)
        states = _states(own, decider)
        cells: dict[date, NightCell] = {}
        for night, state in zip(own, states, strict=True):
            day = _day(night.created_at, zone)
            cut_days += day in cells
            if day in cells and cells[day].mark:
                # A chosen run stays visible.
                continue
            cells[day] = _cell(night, state, labels[day], chosen, url_of(night))
        rows.append(
            AgentStrip(
                names.get(agent_id, agent_id),
                agent_id,
                sum(state == "right" for state in states),
                sum(state in ("right", "wrong", "fell") for state in states),
                [cells.get(day) for day in days],
            )
        )
    return ItemStrip([labels[day] for day in days], rows, cut_days)


def find_fall(
    nights: Sequence[ItemNight], decider: DecidingMetric | None, agent_id: str
) -> tuple[ItemNight, ItemNight] | None:
    """The last right night of an agent that a wrong one follows, and that one; None without such nights."""
    measured = [
        (night, right)
        for night in nights
        if night.agent_id == agent_id and (right := night.is_right(decider)) is not None
    ]
    falls = [
        (before, now)
        for (before, was_right), (now, right) in pairwise(measured)
        if was_right and not right
    ]
    return falls[-1] if falls else None


def _day(at: datetime, zone: ZoneInfo) -> date:
    return at.astimezone(zone).date()


def _states(nights: Sequence[ItemNight], decider: DecidingMetric | None) -> list[str]:
    states: list[str] = []
    earlier: list[bool] = []
    for night in nights:
        right = night.is_right(decider)
        if not night.traces:
            states.append("none")
        elif right is None:
            states.append("unknown")
        else:
            fell = not right and len(earlier) >= _RIGHT_BEFORE and all(earlier[-_RIGHT_BEFORE:])
            states.append("right" if right else "fell" if fell else "wrong")
            earlier.append(right)
    return states


def _cell(
    night: ItemNight, state: str, day: str, chosen: tuple[str | None, str], url: str
) -> NightCell:
    words = {"fell": "wrong, fell", "none": "no trace", "unknown": "neither right nor wrong"}
    value = "" if night.value is None else f", {format_number(night.value)}"
    text = {"right": "✓", "wrong": "✗", "fell": "✗", "none": ""}.get(state, "·")
    mark = {chosen[0]: "A", chosen[1]: "B"}.get(night.run_id, "")
    return NightCell(state, text, f"{day}: {words.get(state, state)}{value}", url, mark)
