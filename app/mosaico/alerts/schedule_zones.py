"""The time zone of what is said about an agent: that of its schedule.

Schedules belong to a domain above this one, which provides the function that reads them.
"""

from collections.abc import Callable
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from mosaico.core.clock import zone_names

ZoneNameFinder: TypeAlias = Callable[[Session, str, str], str | None]
UTC_ZONE: Final = ZoneInfo("UTC")

_finders: Final = list[ZoneNameFinder]()


def provide_zone_names(finder: ZoneNameFinder) -> None:
    """Use a function of a benchmark ID and an agent ID that returns the name of their zone, or None."""
    _finders[:] = [finder]


def find_schedule_zone(session: Session, benchmark_id: str, agent_id: str) -> ZoneInfo:
    """The zone of the schedule of an agent and a benchmark; UTC without one."""
    names = (finder(session, benchmark_id, agent_id) for finder in _finders)
    return named_zone(next(names, None))


def named_zone(name: str | None) -> ZoneInfo:
    """The zone of a name; UTC without one, and where the zone data no longer has it."""
    return ZoneInfo(name) if name in zone_names() else UTC_ZONE
