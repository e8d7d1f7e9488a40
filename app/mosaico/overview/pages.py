"""The page Morning: what is new, ongoing, recovered and judged, the fleet, and the runs in progress."""

from collections.abc import Mapping
from datetime import datetime

from fastapi import Request, Response

from mosaico.access.deps import READ, get_caller
from mosaico.alerts.own_agents import Mine, choose_agents
from mosaico.comparison.change_text import format_amount
from mosaico.core.row_counts import MAX_COUNTED
from mosaico.core.web.deps import Res
from mosaico.core.web.pages import build_url, reader_zone, render_page
from mosaico.core.web.routes import Router
from mosaico.overview import queries, rules
from mosaico.overview.change_cards import MAX_OPEN, ChangeCard, build_cards
from mosaico.overview.changes import ChangeGroup
from mosaico.overview.fleet_queries import FleetFilter, read_fleet
from mosaico.overview.fleet_table import fleet_rows, night_heads
from mosaico.overview.router import DAY_HOURS, Hours, Since, period_start
from mosaico.overview.schemas import Overview
from mosaico.overview.sources import read_sources
from mosaico.overview.visits import VISITS_AGE_S, VISITS_COOKIE, Visits, format_visit, read_visits
from mosaico.statistics.verdict_rules import Scale

router = Router()

# Of the fleet, below the changes: its own page has the others.
MAX_ROWS = 30


@router.get("/", dependencies=READ)
def show_morning(
    request: Request, res: Res, *, hours: Hours = DAY_HOURS, since: Since = None, mine: Mine = False
) -> Response:
    """The first page; it notes the time of the visit, which the next one can start from."""
    now = res.clock()
    zone = reader_zone(request)
    visits = read_visits(request.cookies.get(VISITS_COOKIE, ""), now)
    start = period_start(now, hours, since)
    with res.db.read() as session:
        chosen = choose_agents(session, get_caller(request), mine=mine)
        sources = read_sources(session, start, now, chosen)
        overview = queries.read_overview(session, start, now, sources, chosen)
        fleet = read_fleet(session, now, zone, FleetFilter(), sources, chosen)
        cards = build_cards(session, overview, zone)
    pair_count = sum(overview.counts.values())
    own = "true" if mine else None
    period = {
        "hours": hours if hours != DAY_HOURS else None,
        "from": since and format_visit(since),
        "mine": own,
    }
    headline = rules.describe_night(overview.changes, start, pair_count)
    response = render_page(
        request,
        "morning.html",
        title="Morning",
        nav="/",
        api=build_url("/overview", period | {"hours": hours}),
        api_parts={"fleet": build_url("/overview/fleet", timezone=zone.key, mine=own)},
        chosen=chosen,
        params=period,
        overview=overview,
        max_counted=MAX_COUNTED,
        periods=_periods(hours, since, visits, overview, own),
        period=_period_text(hours, since, visits),
        headline=headline,
        pair_count=pair_count,
        rest_counts=rules.describe_counts(overview.counts),
        sight=[
            (format_amount(drop, Scale.RATE), count)
            for drop, count in rules.describe_sight(overview.detectable_drops)
        ],
        least_sight=_find_least_sight(overview),
        groups=_groups(cards),
        max_open=MAX_OPEN,
        fleet=fleet,
        rows=fleet_rows(fleet.pairs[:MAX_ROWS]),
        nights=night_heads(fleet),
    )
    response.set_cookie(
        VISITS_COOKIE, str(visits), max_age=VISITS_AGE_S, httponly=True, samesite="lax"
    )
    return response


def _groups(cards: list[ChangeCard]) -> Mapping[str, list[ChangeCard]]:
    """The cards of each group, also of an empty one."""
    return {group: [card for card in cards if card.view.group is group] for group in ChangeGroup}


def _periods(
    hours: int, since: datetime | None, visits: Visits, overview: Overview, mine: str | None
) -> list[tuple[str, str, bool]]:
    """The text and the address of each period, and whether it is shown; the text says how many changes it has."""
    counts = {period.name: period.changes for period in overview.periods}
    periods = [
        (
            f"{name} · {counts[name]}",
            build_url("/", hours=count, mine=mine),
            since is None and count == hours,
        )
        for name, count in queries.PERIODS
    ]
    if visits.last is None:
        return periods
    address = build_url("/", {"from": format_visit(visits.last), "mine": mine})
    is_shown = since == visits.last
    text = f"last visit · {overview.change_count}" if is_shown else "last visit"
    return [(text, address, is_shown), *periods]


def _period_text(hours: int, since: datetime | None, visits: Visits) -> str:
    if since is None:
        name = {count: name for name, count in queries.PERIODS}.get(hours, f"{hours} h")
        return f"in the last {name}"
    return "since your last visit" if since == visits.last else "since then"


def _find_least_sight(overview: Overview) -> str | None:
    """The page that says what a run of the benchmark with the largest detectable drop needs to show a smaller one."""
    sights = [
        (cell.kpi.verdict.min_detectable_effect, cell.benchmark_id)
        for cell in overview.cells
        if cell.is_recent
        and cell.kpi
        and cell.kpi.verdict
        and cell.kpi.verdict.min_detectable_effect in overview.detectable_drops
    ]
    if not sights:
        return None
    return build_url(f"/benchmarks/{max(sights)[1]}/power")
