"""The page of a KPI: its values over the runs of an agent, with what explains a change."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import Path, Query, Request, Response
from markupsafe import Markup
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mosaico.access.deps import READ
from mosaico.agents.models import Agent
from mosaico.agents.queries import AgentLabel
from mosaico.alerts.incident_queries import count_incidents_of_kpi, list_incidents_of_kpi
from mosaico.alerts.models import Incident
from mosaico.benchmarks.models import KpiDefinition
from mosaico.benchmarks.queries import get_benchmark, get_kpi
from mosaico.comparison.change_text import ChangeText, describe_change
from mosaico.core.keyset import MAX_LIMIT, WholeList
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.local_times import period_of_days
from mosaico.core.web.overlay_chart import MAX_SERIES
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, build_url, reader_zone, render_page
from mosaico.core.web.routes import Router
from mosaico.kpis.models import KpiHistory
from mosaico.kpis.number_text import FigureFormat
from mosaico.reporting.trend import (
    NEWEST,
    AgentTrend,
    draw_each,
    draw_trends,
    incident_spans,
    list_limits,
    load_trends,
    trend_figures,
)
from mosaico.run_store.kpi_trend import KpiPoint, describe_value
from mosaico.statistics.verdict_rules import Verdict

router = Router()

BenchmarkId = Annotated[str, Path(alias="benchmarkId")]
KpiId = Annotated[str, Path(alias="kpi")]

SHOWN_MOVES = 5
MAX_INCIDENTS = 20
MAX_TABS = 8
MAX_AGENTS = 500
# The verdicts that say that the value moved.
MOVES = (Verdict.REGRESSED, Verdict.CHANGED, Verdict.IMPROVED)
DAYS = ((30, "30 days"), (90, "90 days"), (365, "1 year"))


@router.get("/benchmarks/{benchmarkId}/kpis/{kpi}", dependencies=READ)
def show_trend(
    request: Request,
    benchmark_id: BenchmarkId,
    kpi_id: KpiId,
    res: Res,
    agent: Annotated[list[str] | None, Query(max_length=MAX_SERIES)] = None,
    days: Annotated[int, Query(ge=1, le=3660)] = 90,
    first_day: Annotated[str, Query(alias="from", max_length=40)] = "",
    last_day: Annotated[str, Query(alias="to", max_length=40)] = "",
) -> Response:
    """The values of a KPI for some agents; without one, for the agent with the newest value. `from` and
    `to` are days of the reader's zone, or instants; without them, the last `days`.
    """
    zone = reader_zone(request)
    first, until = period_of_days(first_day, last_day, zone)
    # Of whole hours, so that the page is the same until the next one.
    end = until or res.clock().replace(minute=0, second=0, microsecond=0)
    since = first or end - timedelta(days=days)
    with res.db.read() as session:
        benchmark = get_benchmark(session, benchmark_id)
        kpi = get_kpi(session, benchmark_id, kpi_id)
        agents = _list_agents(session, benchmark_id, kpi_id)
        agent_ids = list(dict.fromkeys(filter(None, agent or ()))) or list(agents)[:1]
        chosen = {id_: agents.get(id_, AgentLabel(id_)) for id_ in agent_ids} or {
            "": AgentLabel("")
        }
        trends = load_trends(session, kpi, chosen, since, until)
        incidents, all_incidents = _list_incidents(session, kpi, agent_ids, (since, until))
    spans = incident_spans(trends[0], incidents) if len(trends) == 1 else []
    chart = draw_trends(kpi.name, kpi, trends, zone, spans=spans, is_page=True)
    name = benchmark.display_name
    return render_page(
        request,
        "trend.html",
        title=f"{kpi.name}, {name}",
        nav="/benchmarks",
        **_addresses_in_api(kpi, agent_ids, since, until, zone),
        **_describe_values(trends, zone),
        steps=[
            Crumb("Benchmarks", "/benchmarks"),
            Crumb(name, path_of("benchmarks", benchmark_id)),
        ],
        kpi=kpi,
        path=path_of("benchmarks", benchmark_id, "kpis", kpi_id),
        agents={id_: label.name for id_, label in agents.items()},
        max_listed=MAX_AGENTS,
        tabs=_tabs(agents, chosen),
        agent_ids=agent_ids,
        days=None if first_day or last_day else days,
        first_day=first_day,
        last_day=last_day,
        incidents=incidents[:MAX_INCIDENTS],
        all_incidents=all_incidents,
        periods=DAYS,
        chart=Markup(chart) if any(trend.points for trend in trends) else None,  # noqa: S704 - our own SVG, which escapes its texts
        trends=trends,
        max_agents=MAX_SERIES,
        limits=[limit.text for limit in list_limits(kpi, trend_figures(trends))],
    )


def _list_incidents(
    session: Session,
    kpi: KpiDefinition,
    agent_ids: Sequence[str],
    period: tuple[datetime, datetime | None],
) -> tuple[list[Incident], WholeList | None]:
    """The incidents of one agent, and the list of all if the page does not show all; none of several agents."""
    if len(agent_ids) != 1:
        return [], None
    [agent_id] = agent_ids
    incidents = list_incidents_of_kpi(
        session, kpi.benchmark_id, agent_id, kpi.id, period, MAX_INCIDENTS + 1
    )
    if len(incidents) <= MAX_INCIDENTS:
        return incidents, None
    url = build_url("/incidents", benchmark=kpi.benchmark_id, agent=agent_ids, kpi=kpi.id)
    count = count_incidents_of_kpi(session, kpi.benchmark_id, agent_id, kpi.id)
    return incidents, WholeList(url, count)


def _addresses_in_api(
    kpi: KpiDefinition,
    agent_ids: Sequence[str],
    since: datetime,
    until: datetime | None,
    zone: ZoneInfo,
) -> dict[str, Any]:
    """The twin of the page in the API, and those of its parts."""
    period = {
        "benchmarkId": kpi.benchmark_id,
        "agentId": agent_ids,
        "kpi": kpi.id,
        "from": since.isoformat(),
        "to": until.isoformat() if until else None,
    }
    incidents = {**period, "from": None, "to": None}
    return {
        # The trend is one of agents; without any there are no values.
        "api": build_url("/kpi-history/trend" if agent_ids else "/kpi-history", period),
        "api_parts": {
            "KPI": path_of("benchmarks", kpi.benchmark_id, "kpis", kpi.id),
            "values": build_url("/kpi-history", period, limit=MAX_LIMIT),
            "runs": build_url("/benchmark-runs", {**period, "kpi": None}, limit=MAX_LIMIT),
            "incidents": build_url("/incidents", incidents, limit=MAX_LIMIT),
        },
        "csv": build_url("/api/v1/kpi-history.csv", period),
        "svg": build_url("/api/v1/kpi-history.svg", period, timeZone=zone.key),
    }


def _describe_values(trends: Sequence[AgentTrend], zone: ZoneInfo) -> dict[str, Any]:
    """The values of one agent by run, those of several by day."""
    figures = trend_figures(trends)
    rows = sorted(
        (_row(trend, point, figures) for trend in trends for point in trend.points),
        key=lambda row: row["at"],
        reverse=True,
    )
    moves = _list_moves(trends)
    is_together = len(trends) > 1
    return {
        "rows": [] if is_together else rows[:NEWEST],
        "nights": _nights(rows, zone)[:NEWEST] if is_together else [],
        "each": _charts_of_each(trends, zone) if is_together else [],
        "worse": [trend.name for trend in trends if trend.last_verdict is Verdict.REGRESSED],
        "latest": rows[0] if rows and len(trends) == 1 else None,
        "change": _latest_change(trends) if len(trends) == 1 else None,
        "moves": moves[:SHOWN_MOVES],
        "earlier_moves": moves[SHOWN_MOVES:],
        "runs": sum(trend.runs for trend in trends),
    }


def _list_agents(session: Session, benchmark_id: str, kpi_id: str) -> Mapping[str, AgentLabel]:
    """The names and colors of the agents with values of the KPI, by ID; the newest value first, at most `MAX_AGENTS`."""
    rows = session.execute(
        select(Agent.id, Agent.name, Agent.color_number)
        .join(KpiHistory, KpiHistory.agent_id == Agent.id)
        .where(KpiHistory.benchmark_id == benchmark_id, KpiHistory.kpi_id == kpi_id)
        .group_by(Agent.id)
        .order_by(func.max(KpiHistory.id).desc())
        .limit(MAX_AGENTS)
    )
    return {row.id: AgentLabel.of(row.name, row.color_number) for row in rows}


def _tabs(
    agents: Mapping[str, AgentLabel], selected_agents: Mapping[str, AgentLabel]
) -> list[tuple[str, AgentLabel]]:
    """The agents of the tabs: the selected ones, and those with the newest values."""
    first = dict(list(agents.items())[:MAX_TABS])
    return [(id_, label) for id_, label in {**first, **selected_agents}.items() if id_]


def _charts_of_each(
    trends: Sequence[AgentTrend], zone: ZoneInfo
) -> list[tuple[AgentTrend, Markup]]:
    return [(trend, Markup(svg)) for trend, svg in draw_each(trends, zone)]  # noqa: S704 - our own SVG


def _nights(rows: Sequence[Mapping[str, Any]], zone: ZoneInfo) -> list[dict[str, Any]]:
    """The rows of each day of the reader's zone, newest first: of an agent the newest run, and how many it had."""
    nights: list[dict[str, Any]] = []
    for day, on_day in groupby(rows, key=lambda row: row["at"].astimezone(zone).date()):
        newest: dict[str, dict[str, Any]] = {}
        for row in on_day:
            cell = newest.setdefault(row["agent_id"], {**row, "runs": 0})
            cell["runs"] += 1
        differences = [
            (cell["agent"], cell["differences"]) for cell in newest.values() if cell["differences"]
        ]
        nights.append({"day": day, "cells": newest, "differences": differences})
    return nights


def _list_moves(trends: Sequence[AgentTrend]) -> list[dict[str, Any]]:
    """The runs in which the value moved, newest first; of many runs, one of each point of the chart."""
    moves = [
        {"run_id": bucket.run_id, "at": bucket.last_at, "verdict": bucket.verdict}
        for trend in trends
        for bucket in trend.buckets
    ] or [
        {"run_id": point.kpi.run_id, "at": point.kpi.recorded_at, "verdict": point.verdict}
        for trend in trends
        for point in trend.points
    ]
    return [move for move in reversed(moves) if move["verdict"] in MOVES]


def _latest_change(trends: Sequence[AgentTrend]) -> ChangeText | None:
    """The newest value of an agent against its baseline; None without a comparison."""
    points = trends[0].points
    kpi = points[-1].kpi if points else None
    verdict = kpi.verdict if kpi else None
    return describe_change(verdict, verdict.scale, kpi.unit) if kpi and verdict else None


def _row(trend: AgentTrend, point: KpiPoint, figures: FigureFormat) -> dict[str, Any]:
    value = describe_value(point, figures)
    return {
        "agent": trend.name,
        "agent_id": trend.agent_id,
        "run_id": point.kpi.run_id,
        "at": point.kpi.recorded_at,
        "value": value.text,
        "interval": value.interval,
        "correction": point.kpi.correction and point.kpi.correction.explanation,
        "by_judge": bool(point.kpi.verdict and point.kpi.verdict.compares_scores),
        "reason": value.reason,
        "verdict": point.verdict,
        "differences": point.differences,
    }
