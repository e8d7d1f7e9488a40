"""HTTP route of the overview."""

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Query

from app.access.deps import READ
from app.core.schemas import Instant
from app.core.web.deps import Res
from app.core.web.routes import Router
from app.overview import queries
from app.overview.schemas import Overview
from app.overview.system import SystemView, read_system

router = Router(prefix="/overview", tags=["overview"])

DAY_HOURS, MAX_HOURS = 24, 24 * 366

Hours = Annotated[
    int, Query(ge=1, le=MAX_HOURS, description="Length of the period that counts as recent.")
]


Since = Annotated[
    Instant | None,
    Query(alias="from", description="Start of the period that counts as recent, before `hours`."),
]


@router.get("", dependencies=READ)
def get_overview(res: Res, hours: Hours = DAY_HOURS, since: Since = None) -> Overview:
    """Show the last run of every agent on every benchmark, worst first, and what runs now."""
    now = res.clock()
    with res.db.read() as session:
        return queries.read_overview(session, period_start(now, hours, since), now)


def period_start(now: datetime, hours: int, since: datetime | None) -> datetime:
    """The start of the requested period, at most `MAX_HOURS` ago."""
    return max(since or now - timedelta(hours=hours), now - timedelta(hours=MAX_HOURS))


@router.get("/system", dependencies=READ)
def get_system(res: Res) -> SystemView:
    """Show the state of the service: workers, queues, database, clock, disk and plugins."""
    return read_system(res)
