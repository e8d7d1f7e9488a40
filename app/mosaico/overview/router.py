"""HTTP routes of the overview."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import Query, Request

from mosaico.access.deps import ADMIN, READ, WHOLE_SERVICE, get_caller
from mosaico.alerts.own_agents import Mine, choose_agents
from mosaico.core.keyset import MAX_CURSOR
from mosaico.core.schemas import Instant
from mosaico.core.web.deps import Hub, Res
from mosaico.core.web.event_feeds import EventFeed, EventSnapshot
from mosaico.core.web.routes import Router
from mosaico.core.web.sse import EVERY_KEY, EventStream, stream_events
from mosaico.overview import queries
from mosaico.overview.diagnosis import Diagnoses, diagnose_service
from mosaico.overview.fleet_queries import FleetFilter, read_fleet
from mosaico.overview.fleet_schemas import Fleet, FleetOrder
from mosaico.overview.schemas import Overview, SearchKind, SearchResult
from mosaico.overview.search import search_names
from mosaico.overview.system import SystemView, read_system
from mosaico.schedules.time_zones import get_time_zone

router = Router(prefix="/overview", tags=["overview"])

DAY_HOURS, MAX_HOURS = 24, 24 * 366

Hours = Annotated[
    int, Query(ge=1, le=MAX_HOURS, description="Length of the period that counts as recent.")
]


Since = Annotated[
    Instant | None,
    Query(alias="from", description="Start of the period that counts as recent, before `hours`."),
]


# What the fleet can be filtered by: an outcome, and its words.
OUTCOMES = (
    ("", "all"), ("REGRESSED", "regressed"), ("FAILED", "failed"), ("INVALID", "invalid"), ("CHANGED", "changed"),
    ("SAME_ANSWERS", "same answers"), ("IMPROVED", "improved"), ("INCONCLUSIVE", "inconclusive"),
    ("NO_EVIDENCE", "no evidence"), ("NOT_MEASURED", "not measured"), ("NOT_COMPARED", "not compared"),
)  # fmt: skip
FleetText = Annotated[
    str, Query(max_length=200, description="Filter by a part of the agent or the benchmark.")
]
FleetOutcome = Annotated[
    Literal[
        "", "REGRESSED", "FAILED", "INVALID", "CHANGED", "SAME_ANSWERS", "IMPROVED", "INCONCLUSIVE", "NO_EVIDENCE",
        "NOT_MEASURED", "NOT_COMPARED",
    ],
    Query(description="Filter by what the last run came to, or by the change that it is part of."),
]  # fmt: skip


@router.get("", dependencies=READ)
def get_overview(
    request: Request, res: Res, *, hours: Hours = DAY_HOURS, since: Since = None, mine: Mine = False
) -> Overview:
    """Show the last run of every agent on every benchmark, worst first, and what runs now."""
    now = res.clock()
    with res.db.read() as session:
        choice = choose_agents(session, get_caller(request), mine=mine)
        return queries.read_overview(session, period_start(now, hours, since), now, choice=choice)


@router.get("/fleet", dependencies=READ)
def get_fleet(
    request: Request,
    res: Res,
    *,
    text: FleetText = "",
    outcome: FleetOutcome = "",
    order: Annotated[FleetOrder, Query(description="Order of the pairs.")] = FleetOrder.WORST,
    timezone: Annotated[
        str, Query(max_length=100, description="IANA time zone of the days.")
    ] = "UTC",
    mine: Mine = False,
) -> Fleet:
    """Show every agent on every benchmark with what changed and its last 14 days."""
    zone = get_time_zone(timezone)
    with res.db.read() as session:
        choice = choose_agents(session, get_caller(request), mine=mine)
        fleet_filter = FleetFilter(text, outcome, order)
        return read_fleet(session, res.clock(), zone, fleet_filter, choice=choice)


def period_start(now: datetime, hours: int, since: datetime | None) -> datetime:
    """The start of the requested period, at most `MAX_HOURS` ago."""
    return max(since or now - timedelta(hours=hours), now - timedelta(hours=MAX_HOURS))


@router.get("/events", response_class=EventStream, dependencies=READ)
def follow_activity(request: Request, res: Res, hub: Hub) -> EventStream:
    """Follow the runs in progress and the inbox as server-sent events: one event for each change."""

    def read_activity(_: object) -> dict[str, EventSnapshot]:
        with res.db.read() as session:
            activity = queries.read_activity(session)
        return {EVERY_KEY: EventSnapshot(event="activity", data=activity)}

    return stream_events(request, hub, EventFeed("activity", read_activity), EVERY_KEY)


@router.get("/search", dependencies=READ)
def search_by_name(
    res: Res,
    text: Annotated[
        str,
        Query(
            max_length=200, description="A part of a name or an ID; nothing matches an empty one."
        ),
    ] = "",
    kind: Annotated[SearchKind | None, Query(description="Search one kind.")] = None,
    cursor: Annotated[
        str | None,
        Query(max_length=MAX_CURSOR, description="`nextCursor` of the group of `kind`."),
    ] = None,
) -> SearchResult:
    """Search agents, benchmarks, KPIs, alert rules, schedules and runs by a part of a name or an ID."""
    with res.db.read() as session:
        return search_names(session, text, kind, cursor)


@router.post("/system/checks", dependencies=ADMIN)
def check_system(res: Res) -> Diagnoses:
    """Check the installation from the service, with its settings: mail server, disk, keys, Langfuse and more.

    Sends no mail and changes nothing; it connects to the mail server and to the Langfuse of each agent.
    """
    return Diagnoses(items=list(diagnose_service(res)))


@router.get("/system", dependencies=[*READ, *WHOLE_SERVICE])
def get_system(res: Res) -> SystemView:
    """Show the state of the service: workers, queues, database, clock, disk and plugins."""
    return read_system(res)
