"""The trend of a KPI: the values of the runs of an agent since a time, drawn for a page or as a file."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from app.benchmarks.models import KpiDefinition
from app.core.web.charts import TrendEvent, TrendLimit, TrendPoint, trend_chart
from app.core.web.pages import path_of
from app.kpis.number_text import format_number
from app.results.kpi_trend import (
    MAX_POINTS,
    KpiPoint,
    TrendBucket,
    bucket_points,
    list_kpi_points,
    list_trend_buckets,
    trend_events,
    trend_points,
)


class AgentTrend(NamedTuple):
    """The newest values of an agent, oldest first; `buckets` are all of them, if a chart cannot show each."""

    name: str
    points: Sequence[KpiPoint]
    buckets: Sequence[TrendBucket]

    @property
    def runs(self) -> int:
        return sum(bucket.runs for bucket in self.buckets) or len(self.points)

    @property
    def runs_per_point(self) -> int:
        return self.buckets[0].runs if self.buckets else 1

    @property
    def points_drawn(self) -> int:
        return len(self.buckets or self.points)


def load_trend(
    session: Session, kpi: KpiDefinition, agent_id: str, name: str, since: datetime
) -> AgentTrend:
    points = list_kpi_points(
        session, kpi.benchmark_id, agent_id, kpi.id, since=since, limit=MAX_POINTS + 1
    )
    if len(points) <= MAX_POINTS:
        return AgentTrend(name, points, ())
    return AgentTrend(
        name,
        points,
        list_trend_buckets(session, kpi.benchmark_id, agent_id, kpi.id, since=since),
    )


def draw_trend(
    title: str, kpi: KpiDefinition, trend: AgentTrend, zone: ZoneInfo, *, is_page: bool = False
) -> str:
    """The chart, with the thresholds of the KPI; the labels of its points are days in a time zone."""
    points, events = _points(trend, kpi.unit, zone)
    limits = list_limits(kpi)
    return trend_chart(title, points, kpi.unit, limits=limits, events=events, is_page=is_page)


def list_limits(kpi: KpiDefinition) -> Sequence[TrendLimit]:
    """The thresholds of a KPI that are set."""
    limits = (("lower threshold", kpi.threshold_min), ("upper threshold", kpi.threshold_max))
    return [
        TrendLimit(f"{text} {format_number(value)}", value)
        for text, value in limits
        if value is not None
    ]


def _points(
    trend: AgentTrend, unit: str | None, zone: ZoneInfo
) -> tuple[Sequence[TrendPoint], Sequence[TrendEvent]]:
    if trend.buckets:
        names = [_bucket_label(bucket, zone) for bucket in trend.buckets]
        return bucket_points(trend.buckets, names, unit), ()
    labels = {point.kpi.id: _day(point.kpi.recorded_at, zone) for point in trend.points}
    urls = {point.kpi.id: path_of("runs", point.kpi.run_id) for point in trend.points}
    return trend_points(trend.points, labels, urls), trend_events(trend.points)


def _bucket_label(bucket: TrendBucket, zone: ZoneInfo) -> str:
    """The days of a bucket: "3 May", "3 May to 9 May"."""
    days = dict.fromkeys(_day(at, zone) for at in (bucket.first_at, bucket.last_at))
    return " to ".join(days)


def _day(at: datetime, zone: ZoneInfo) -> str:
    local = at.astimezone(zone)
    return f"{local.day} {local:%b}"
