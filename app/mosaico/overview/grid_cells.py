"""The last verdicts of an agent or a benchmark, as tables show them."""

from datetime import datetime, timedelta
from typing import NamedTuple

from markupsafe import Markup
from sqlalchemy.orm import Session

from mosaico.core.web.sparklines import sparkline
from mosaico.kpis.number_text import FigureFormat
from mosaico.overview import rules
from mosaico.overview.cell_queries import read_cells
from mosaico.overview.changes import FAILED
from mosaico.overview.router import DAY_HOURS
from mosaico.overview.schemas import OverviewCell

# The data of `read_grid_cells` in the API.
VERDICTS = {"verdicts": f"/overview?hours={DAY_HOURS}"}


class GridCell(NamedTuple):
    """An agent on a benchmark as the table shows it."""

    cell: OverviewCell
    outcome: str
    value: str
    interval: str
    spark: Markup


def read_grid_cells(
    session: Session, now: datetime, *, agent_id: str | None = None, benchmark_id: str | None = None
) -> list[GridCell]:
    """The cells of an agent or a benchmark, or all of them, the worst first."""
    since = now - timedelta(hours=DAY_HOURS)
    agents = None if agent_id is None else [agent_id]
    cells = read_cells(session, since, agents=agents, benchmark_id=benchmark_id).cells
    return [grid_cell(cell) for cell in cells]


def grid_cell(cell: OverviewCell) -> GridCell:
    """A cell of the overview as tables show it."""
    kpi, outcome = cell.kpi, rules.outcome_of(cell)
    if kpi is None or kpi.value is None or outcome == FAILED:
        return GridCell(cell, outcome, "", "", Markup())
    scale = kpi.verdict.scale if kpi.verdict else None
    figures = FigureFormat.of([kpi.value, *kpi.history], kpi.unit, scale)
    interval = figures.write_range(kpi.interval_low, kpi.interval_high) or ""
    spark = sparkline(kpi.history, kpi.outcome, write=figures.write)
    return GridCell(
        cell, outcome, figures.write(kpi.value), interval,
        Markup(spark),  # noqa: S704 - our own SVG, which escapes the unit
    )  # fmt: skip
