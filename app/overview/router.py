"""HTTP route of the overview."""

from datetime import timedelta
from typing import Annotated

from fastapi import Query

from app.access.deps import READ
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


@router.get("", dependencies=READ)
def get_overview(res: Res, hours: Hours = DAY_HOURS) -> Overview:
    """Show the last run of every agent on every benchmark, worst first, and what runs now."""
    now = res.clock()
    with res.db.read() as session:
        return queries.read_overview(session, now - timedelta(hours=hours), now)


@router.get("/system", dependencies=READ)
def get_system(res: Res) -> SystemView:
    """Show the state of the service: workers, queues, database, clock, disk and plugins."""
    return read_system(res)
