"""The page of a KPI: its values over the runs of an agent, with what explains a change."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import Path, Query, Request, Response
from markupsafe import Markup
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.access.deps import READ
from app.agents.models import Agent
from app.benchmarks.models import KpiDefinition
from app.benchmarks.queries import get_benchmark, get_kpi
from app.core.web.charts import TrendLimit, trend_chart
from app.core.web.deps import Res
from app.core.web.pages import Crumb, build_url, path_of, reader_zone, render_page
from app.core.web.routes import Router
from app.kpis.models import KpiHistory
from app.kpis.number_text import format_number
from app.results.kpi_trend import (
    MAX_POINTS,
    KpiPoint,
    TrendBucket,
    bucket_points,
    describe_point,
    list_kpi_points,
    list_trend_buckets,
    trend_events,
    trend_points,
)

router = Router()

BenchmarkId = Annotated[str, Path(alias="benchmarkId")]
KpiId = Annotated[str, Path(alias="kpi")]

SHOWN_ROWS = 60
DAYS = ((30, "30 days"), (90, "90 days"), (365, "1 year"))


@router.get("/benchmarks/{benchmarkId}/kpis/{kpi}", dependencies=READ)
def show_trend(
    request: Request,
    benchmark_id: BenchmarkId,
    kpi_id: KpiId,
    res: Res,
    agent: Annotated[str, Query(max_length=200)] = "",
    days: Annotated[int, Query(ge=1, le=3660)] = 90,
) -> Response:
    """The values of a KPI for one agent; without one, for the agent with the newest value."""
    zone = reader_zone(request)
    # Of whole hours, so that the page is the same until the next one.
    since = res.clock().replace(minute=0, second=0, microsecond=0) - timedelta(days=days)
    with res.db.read() as session:
        benchmark = get_benchmark(session, benchmark_id)
        kpi = get_kpi(session, benchmark_id, kpi_id)
        agents = _list_agents(session, benchmark_id, kpi_id)
        agent_id = agent or next(iter(agents), "")
        points = list_kpi_points(
            session, benchmark_id, agent_id, kpi_id, since=since, limit=MAX_POINTS + 1
        )
        buckets = (
            list_trend_buckets(session, benchmark_id, agent_id, kpi_id, since=since)
            if len(points) > MAX_POINTS
            else []
        )
    name = benchmark.display_name
    labels = {point.kpi.id: _label(point, zone) for point in points}
    urls = {point.kpi.id: path_of("runs", point.kpi.run_id) for point in points}
    if buckets:
        names = [_bucket_label(bucket, zone) for bucket in buckets]
        drawn, events = bucket_points(buckets, names, kpi.unit), []
    else:
        drawn, events = trend_points(points, labels, urls), trend_events(points)
    chart = trend_chart(kpi.name, drawn, kpi.unit, limits=_limits(kpi), events=events, is_page=True)
    return render_page(
        request,
        "trend.html",
        title=f"{kpi.name}, {name}",
        nav="/benchmarks",
        api=build_url(
            "/kpi-history",
            {"from": since.isoformat()},
            benchmarkId=benchmark_id,
            agentId=agent_id,
            kpi=kpi_id,
            limit=MAX_POINTS,
        ),
        steps=[
            Crumb("Runs", build_url("/runs", benchmark=benchmark_id)),
            Crumb(name, build_url("/runs", benchmark=benchmark_id, agent=agent_id)),
        ],
        kpi=kpi,
        path=path_of("benchmarks", benchmark_id, "kpis", kpi_id),
        agents=agents,
        agent_id=agent_id,
        days=days,
        periods=DAYS,
        chart=Markup(chart) if points else None,  # noqa: S704 - our own SVG, which escapes its texts
        rows=[_row(point) for point in reversed(points)][:SHOWN_ROWS],
        points=len(drawn),
        runs=sum(bucket.runs for bucket in buckets) or len(points),
        runs_per_point=buckets[0].runs if buckets else 1,
        limits=[limit.text for limit in _limits(kpi)],
    )


def _list_agents(session: Session, benchmark_id: str, kpi_id: str) -> Mapping[str, str]:
    """The names of the agents with values of the KPI, by ID; the newest value first."""
    rows = session.execute(
        select(Agent.id, Agent.name)
        .join(KpiHistory, KpiHistory.agent_id == Agent.id)
        .where(KpiHistory.benchmark_id == benchmark_id, KpiHistory.kpi_id == kpi_id)
        .group_by(Agent.id, Agent.name)
        .order_by(func.max(KpiHistory.id).desc())
    )
    return {row.id: row.name for row in rows}


def _limits(kpi: KpiDefinition) -> Sequence[TrendLimit]:
    limits = (("lower threshold", kpi.threshold_min), ("upper threshold", kpi.threshold_max))
    return [
        TrendLimit(f"{text} {format_number(value)}", value)
        for text, value in limits
        if value is not None
    ]


def _label(point: KpiPoint, zone: ZoneInfo) -> str:
    at = point.kpi.recorded_at.astimezone(zone)
    return f"{at.day} {at:%b}"


def _bucket_label(bucket: TrendBucket, zone: ZoneInfo) -> str:
    """The days of a bucket: "3 May", "3 May to 9 May"."""
    first, last = (at.astimezone(zone) for at in (bucket.first_at, bucket.last_at))
    days = dict.fromkeys(f"{at.day} {at:%b}" for at in (first, last))
    return " to ".join(days)


def _row(point: KpiPoint) -> dict[str, Any]:
    return {
        "run_id": point.kpi.run_id,
        "at": point.kpi.recorded_at,
        "text": describe_point(point),
        "verdict": point.verdict,
        "differences": point.differences,
    }
