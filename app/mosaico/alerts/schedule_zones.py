"""The time zone of what is said about an agent: that of its schedule."""

from typing import Final
from zoneinfo import ZoneInfo

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.core.clock import zone_names

UTC_ZONE: Final = ZoneInfo("UTC")
# As SQL: the tables of schedules belong to a domain above this one. An enabled schedule comes first.
_SELECT_ZONE: Final = text(
    """
    SELECT timezone FROM schedule_configs WHERE benchmark_id = :benchmark_id AND agent_id = :agent_id
    ORDER BY enabled DESC, created_at, id LIMIT 1
    """
)


def find_schedule_zone(session: Session, benchmark_id: str, agent_id: str) -> ZoneInfo:
    """The zone of the oldest schedule of an agent and a benchmark; UTC without one."""
    parameters = {"benchmark_id": benchmark_id, "agent_id": agent_id}
    return named_zone(session.scalar(_SELECT_ZONE, parameters))


def named_zone(name: str | None) -> ZoneInfo:
    """The zone of a name; UTC without one, and where the zone data no longer has it."""
    return ZoneInfo(name) if name in zone_names() else UTC_ZONE
