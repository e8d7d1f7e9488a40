"""The page Morning: regressions, invalid and failed runs, and the runs in progress."""

from datetime import datetime, timedelta
from typing import NamedTuple

from fastapi import Request, Response
from markupsafe import Markup
from sqlalchemy.orm import Session

from mosaico.access.deps import READ
from mosaico.comparison.change_text import describe_change, format_amount
from mosaico.comparison.change_view import ChangeView, view_changes
from mosaico.core.row_counts import MAX_COUNTED
from mosaico.core.web.deps import Res
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import build_url, render_page
from mosaico.core.web.routes import Router
from mosaico.core.web.sparklines import sparkline
from mosaico.kpis.number_text import FigureFormat
from mosaico.overview import queries, rules
from mosaico.overview.router import DAY_HOURS, Hours, Since, period_start
from mosaico.overview.schemas import Overview, OverviewCell
from mosaico.overview.visits import VISITS_AGE_S, VISITS_COOKIE, Visits, format_visit, read_visits
from mosaico.statistics.verdict_rules import Scale, Verdict

router = Router()

PERIODS = ((24, "24 h"), (24 * 7, "7 days"), (24 * 30, "30 days"))
_NEWS = (Verdict.REGRESSED, rules.FAILED, Verdict.INVALID, Verdict.CHANGED, Verdict.IMPROVED)


class NewsCard(NamedTuple):
    """A cell that deserves a sentence: what changed, the values before and now, and the change."""

    cell: OverviewCell
    outcome: str
    subject: str
    values: str
    change: str
    run_again: "RunAgainForm | None" = None
    changes: ChangeView | None = None


class RunAgainForm(NamedTuple):
    """The form that runs a benchmark again: its address and fields."""

    address: str
    fields: dict[str, str]


# The data of `read_grid_cells` in the API.
VERDICTS = {"verdicts": f"/overview?hours={DAY_HOURS}"}


class GridCell(NamedTuple):
    """An agent on a benchmark as the table shows it."""

    cell: OverviewCell
    outcome: str
    value: str
    interval: str
    spark: Markup


class GridRow(NamedTuple):
    """An agent with its cells, by benchmark; None where it was never benchmarked."""

    agent_id: str
    name: str
    cells: list[GridCell | None]


@router.get("/", dependencies=READ)
def show_morning(
    request: Request, res: Res, hours: Hours = DAY_HOURS, since: Since = None
) -> Response:
    """The first page; it notes the time of the visit, which the next one can start from."""
    now = res.clock()
    visits = read_visits(request.cookies.get(VISITS_COOKIE, ""), now)
    with res.db.read() as session:
        overview = queries.read_overview(session, period_start(now, hours, since), now)
    response = render_page(
        request,
        "morning.html",
        title="Morning",
        nav="/",
        api=build_url("/overview", {"hours": hours, "from": since and format_visit(since)}),
        overview=overview,
        max_counted=MAX_COUNTED,
        periods=_periods(hours, since, visits),
        period=_period_text(hours, since, visits),
        headline=rules.describe_night(overview.counts),
        facts=[*rules.describe_counts(overview.counts), *_detectable(overview)],
        news=_news(overview),
        benchmarks=_benchmarks(overview),
        rows=_rows(overview),
    )
    response.set_cookie(
        VISITS_COOKIE, str(visits), max_age=VISITS_AGE_S, httponly=True, samesite="lax"
    )
    return response


def _periods(hours: int, since: datetime | None, visits: Visits) -> list[tuple[str, str, bool]]:
    """The text and the address of each period, and whether it is shown."""
    periods = [
        (text, build_url("/", hours=count), since is None and count == hours)
        for count, text in PERIODS
    ]
    if visits.last is None:
        return periods
    address = build_url("/", {"from": format_visit(visits.last)})
    return [("last visit", address, since == visits.last), *periods]


def _period_text(hours: int, since: datetime | None, visits: Visits) -> str:
    if since is None:
        return f"in the last {dict(PERIODS).get(hours, f'{hours} h')}"
    return "since your last visit" if since == visits.last else "since then"


def _detectable(overview: Overview) -> list[str]:
    """The smallest drop of a share that would have been seen, and with how many items and trials; over
    benchmarks that differ, a range.
    """
    drops = overview.detectable_drops
    if not drops:
        return []
    low, high = (format_amount(drop, Scale.RATE) for drop in (drops[0], drops[-1]))
    span = low if low == high else f"{low} to {high}"
    verdicts = [cell.kpi.verdict for cell in overview.cells if cell.is_recent and cell.kpi]
    sizes = {
        (verdict.items, verdict.trials)
        for verdict in verdicts
        if verdict and verdict.items and verdict.trials
    }
    size = "".join(f" ({items} items × {trials:g})" for items, trials in sizes)
    return [f"minimum detectable effect: {span}{size if len(sizes) == 1 else ''}"]


def _news(overview: Overview) -> list[NewsCard]:
    return [
        _card(cell)
        for cell in overview.cells
        if cell.is_recent and (cell.same_answers or rules.outcome_of(cell) in _NEWS)
    ]


def _card(cell: OverviewCell) -> NewsCard:
    outcome = rules.outcome_of(cell)
    if cell.same_answers:
        # What did not change since then is no news.
        return NewsCard(cell, outcome, cell.same_answers, "", "")
    change = cell.kpi.verdict if cell.kpi else None
    text = describe_change(change, change.scale, cell.kpi.unit) if change and cell.kpi else None
    if outcome in {rules.FAILED, Verdict.INVALID} or text is None or cell.kpi is None:
        words = {rules.FAILED: "the run failed", Verdict.INVALID: "not comparable"}
        subject = words.get(outcome, cell.benchmark_name)
        run_again = _run_again_form(cell) if outcome in words else None
        return NewsCard(cell, outcome, subject, "", "", run_again)
    # The page of the run has the adjusted interval and p.
    interval = f", 95 % CI {text.bounds}" if text.bounds else ""
    changes = view_changes(cell.what_changed) if cell.what_changed else None
    return NewsCard(
        cell, outcome, cell.kpi.name, text.values, f"{text.delta}{interval}", changes=changes
    )


def _run_again_form(cell: OverviewCell) -> RunAgainForm:
    """A failed run gets a new attempt; a run that may not be retried, or is invalid, a new run."""
    if cell.can_retry:
        return RunAgainForm(f"{path_of('runs', cell.run_id)}/retry", {})
    return RunAgainForm("/runs", {"benchmark": cell.benchmark_id, "agent": cell.agent_id})


def _benchmarks(overview: Overview) -> list[tuple[str, str, str]]:
    """The columns of the table: ID and name of each benchmark, and its headline KPI."""
    columns: dict[str, tuple[str, str]] = {}
    for cell in sorted(overview.cells, key=lambda cell: cell.benchmark_name.lower()):
        kpi = cell.kpi.name if cell.kpi else ""
        names = columns.setdefault(cell.benchmark_id, (cell.benchmark_name, kpi))
        columns[cell.benchmark_id] = (names[0], names[1] or kpi)
    return [(benchmark_id, *names) for benchmark_id, names in columns.items()]


def _rows(overview: Overview) -> list[GridRow]:
    agents = {cell.agent_id: cell.agent_name for cell in overview.cells}
    by_pair = {(cell.agent_id, cell.benchmark_id): cell for cell in overview.cells}
    benchmark_ids = [column[0] for column in _benchmarks(overview)]
    return [
        GridRow(
            agent_id,
            name,
            [
                grid_cell(cell) if (cell := by_pair.get((agent_id, benchmark_id))) else None
                for benchmark_id in benchmark_ids
            ],
        )
        for agent_id, name in sorted(agents.items(), key=lambda agent: agent[1].lower())
    ]


def read_grid_cells(
    session: Session, now: datetime, *, agent_id: str | None = None, benchmark_id: str | None = None
) -> list[GridCell]:
    """The cells of an agent or a benchmark, or all of them, the worst first."""
    since = now - timedelta(hours=DAY_HOURS)
    cells = queries.read_cells(session, since, agent_id=agent_id, benchmark_id=benchmark_id).cells
    return [grid_cell(cell) for cell in cells]


def grid_cell(cell: OverviewCell) -> GridCell:
    """A cell of the overview as tables show it."""
    kpi, outcome = cell.kpi, rules.outcome_of(cell)
    if kpi is None or kpi.value is None or outcome == rules.FAILED:
        return GridCell(cell, outcome, "", "", Markup())
    scale = kpi.verdict.scale if kpi.verdict else None
    figures = FigureFormat.of([kpi.value, *kpi.history], kpi.unit, scale)
    interval = figures.write_range(kpi.interval_low, kpi.interval_high) or ""
    spark = sparkline(kpi.history, cell.verdict, write=figures.write)
    return GridCell(
        cell, outcome, figures.write(kpi.value), interval,
        Markup(spark),  # noqa: S704 - our own SVG, which escapes the unit
    )  # fmt: skip
