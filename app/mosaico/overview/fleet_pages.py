"""The page Fleet: every agent on every benchmark on one screen, the worst first."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from fastapi import Query, Request, Response

from mosaico.access.deps import READ, get_caller
from mosaico.alerts.own_agents import Mine, choose_agents
from mosaico.core.web.deps import Res
from mosaico.core.web.pages import build_url, reader_zone, render_page
from mosaico.core.web.routes import Router
from mosaico.overview.changes import ChangeGroup
from mosaico.overview.fleet_queries import FleetFilter, read_fleet
from mosaico.overview.fleet_schemas import FleetOrder, FleetPair
from mosaico.overview.fleet_table import build_grid, fleet_rows, night_heads
from mosaico.overview.router import OUTCOMES, FleetOutcome, FleetText

router = Router()

# The worst ones are also named above the grid.
MAX_NAMED: Final = 8
Layout = Annotated[Literal["grid", "table"], Query()]
Rows = Annotated[Literal["agent", "benchmark"] | None, Query()]


@router.get("/fleet", dependencies=READ)
def show_fleet(
    request: Request,
    res: Res,
    *,
    text: FleetText = "",
    outcome: FleetOutcome = "",
    order: FleetOrder = FleetOrder.WORST,
    rows: Rows = None,
    layout: Layout = "grid",
    mine: Mine = False,
) -> Response:
    """The fleet as a grid of agents and benchmarks, or as a table with a row for each pair. Without a choice the rows
    are what there is more of: a grid that is too wide hides pairs.
    """
    zone, now = reader_zone(request), res.clock()
    with res.db.read() as session:
        chosen = choose_agents(session, get_caller(request), mine=mine)
        fleet = read_fleet(session, now, zone, FleetFilter(text, outcome, order), choice=chosen)
    is_table = layout == "table"
    pairs = fleet_rows(fleet.pairs, is_wide=is_table)
    rows = rows or _longer_side(fleet.pairs)
    columns, lines = build_grid(pairs, by_benchmark=rows == "benchmark")
    new = [row for row in pairs if row.pair.change and row.pair.change.group is ChangeGroup.NEW]
    return render_page(
        request,
        "fleet.html",
        title="Fleet",
        nav="/fleet",
        api=build_url(
            "/overview/fleet",
            {"text": text, "outcome": outcome, "timezone": zone.key, "mine": "true" if mine else None},
            order=None if order is FleetOrder.WORST else order,
        ),
        fleet=fleet,
        pairs=pairs,
        new=new[:MAX_NAMED],
        new_count=len(new),
        columns=columns,
        lines=lines,
        nights=night_heads(fleet),
        outcomes=OUTCOMES,
        chosen=chosen,
        choice={
            "text": text, "outcome": outcome, "order": order.value, "rows": rows, "layout": layout,
            "mine": "true" if mine else None,
        },
    )  # fmt: skip


def _longer_side(pairs: Sequence[FleetPair]) -> Literal["agent", "benchmark"]:
    agents, benchmarks = {pair.agent_id for pair in pairs}, {pair.benchmark_id for pair in pairs}
    return "benchmark" if len(benchmarks) > len(agents) else "agent"
