"""The trend of a KPI: the values of the runs of agents since a time, drawn for a page or as a file."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from mosaico.agents.queries import AgentLabel
from mosaico.alerts.models import Incident
from mosaico.benchmarks.models import KpiDefinition
from mosaico.core.web.overlay_chart import (
    TrendSeries,
    interval_bounds,
    overlay_chart,
    small_chart,
)
from mosaico.core.web.page_paths import incident_page_path, path_of
from mosaico.core.web.page_text import format_day
from mosaico.core.web.trend_chart import TrendLimit, TrendPoint, TrendSpan, trend_chart
from mosaico.kpis.number_text import FigureFormat
from mosaico.reporting.schemas import TrendPointView
from mosaico.run_store.kpi_trend import (
    MAX_POINTS,
    KpiPoint,
    TrendBucket,
    bucket_points,
    kpi_figures,
    label_points,
    list_kpi_points,
    list_trend_buckets,
    trend_events,
    trend_points,
)
from mosaico.statistics.verdict_rules import Verdict

# As many as a table shows beside the chart of all.
NEWEST = 60
A_YEAR = timedelta(days=365)


class AgentTrend(NamedTuple):
    """The newest values of an agent, oldest first; `buckets` are all of them, if a chart cannot show each."""

    agent_id: str
    name: str
    points: Sequence[KpiPoint]
    buckets: Sequence[TrendBucket]
    color: int = 0

    @property
    def last_verdict(self) -> Verdict | None:
        """The verdict of the newest run."""
        return self.points[-1].verdict if self.points else None

    @property
    def runs(self) -> int:
        return sum(bucket.runs for bucket in self.buckets) or len(self.points)

    @property
    def runs_per_point(self) -> int:
        return self.buckets[0].runs if self.buckets else 1

    @property
    def points_drawn(self) -> int:
        return len(self.buckets or self.points)


def load_trends(
    session: Session,
    kpi: KpiDefinition,
    agents: Mapping[str, AgentLabel],
    since: datetime,
    until: datetime | None = None,
) -> list[AgentTrend]:
    """The trend of each agent in a period; `agents` are by ID. Several agents share the points of a chart, and each has
    one more for its newest run.
    """
    limit = MAX_POINTS if len(agents) == 1 else MAX_POINTS // max(1, len(agents)) + 1
    return [
        _load_trend(session, kpi, agent_id, label, (since, until), limit)
        for agent_id, label in agents.items()
    ]


def _load_trend(
    session: Session,
    kpi: KpiDefinition,
    agent_id: str,
    label: AgentLabel,
    period: tuple[datetime, datetime | None],
    limit: int,
) -> AgentTrend:
    since, until = period
    of_kpi = (session, kpi.benchmark_id, agent_id, kpi.id)
    buckets = list_trend_buckets(*of_kpi, since=since, until=until, points=limit)
    # Buckets of one run have nothing that the points do not have.
    is_bucketed = any(bucket.runs > 1 for bucket in buckets)
    point_limit = NEWEST if is_bucketed else limit
    points = list_kpi_points(*of_kpi, since=since, until=until, limit=point_limit)
    return AgentTrend(agent_id, label.name, points, buckets if is_bucketed else (), label.color)


def draw_trends(
    title: str,
    kpi: KpiDefinition,
    trends: Sequence[AgentTrend],
    zone: ZoneInfo,
    *,
    spans: Sequence[TrendSpan] = (),
    is_page: bool = False,
) -> str:
    """The chart, with the thresholds of the KPI; the labels of its points are days in a time zone.

    That of one agent has the intervals and what explains a change of level; those of several agents
    share the time.
    """
    figures = trend_figures(trends)
    limits = list_limits(kpi, figures)
    if len(trends) > 1:
        series = [trend_series(trend, figures, zone) for trend in trends]
        return overlay_chart(
            title, series, kpi.unit, limits=limits, is_page=is_page, write=figures.write
        )
    [trend] = trends
    events = () if trend.buckets else trend_events(trend.points)
    points = _points(trend, figures, zone)
    return trend_chart(
        title, points, kpi.unit, limits=limits, events=events, spans=spans, is_page=is_page,
        write=figures.write,
    )  # fmt: skip


def trend_figures(trends: Sequence[AgentTrend]) -> FigureFormat:
    """How the values of a KPI are written, of all agents alike."""
    return kpi_figures([point for trend in trends for point in trend.points])


def incident_spans(trend: AgentTrend, incidents: Sequence[Incident]) -> list[TrendSpan]:
    """The points of the chart that lie in each incident; an incident without a point is left out."""
    spans = []
    for incident in incidents:
        inside = _positions_in(trend, incident)
        if inside:
            text = f"incident: {incident.name}, {(incident.resolution or 'open').lower()}"
            spans.append(TrendSpan(inside[0], inside[-1], text, incident_page_path(incident.id)))
    return spans


def _positions_in(trend: AgentTrend, incident: Incident) -> list[int]:
    """The positions of the points in an incident: by the numbers of their runs, those of many runs by time."""
    if not trend.buckets:
        return [
            position
            for position, point in enumerate(trend.points)
            if incident.started_seq <= point.kpi.run_seq
            and (incident.end_seq is None or point.kpi.run_seq < incident.end_seq)
        ]
    inside = [
        position
        for position, bucket in enumerate(trend.buckets)
        if bucket.last_at >= incident.started_at
        and (incident.resolved_at is None or bucket.first_at < incident.resolved_at)
    ]
    # The value of the run that opened it was recorded just before.
    return inside or ([len(trend.buckets) - 1] if incident.resolved_at is None else [])


def trend_views(agent_id: str, trend: AgentTrend) -> list[TrendPointView]:
    """The points of the chart of an agent, as the API shows them."""
    if trend.buckets:
        return [TrendPointView(agent_id=agent_id, **bucket._asdict()) for bucket in trend.buckets]
    return [
        TrendPointView(
            agent_id=agent_id,
            runs=1,
            first_at=point.kpi.recorded_at,
            last_at=point.kpi.recorded_at,
            mean=point.kpi.value,
            low=point.kpi.interval_low,
            high=point.kpi.interval_high,
            verdict=point.verdict,
            run_id=point.kpi.run_id,
            fingerprint=point.fingerprint,
        )
        for point in trend.points
    ]


def list_limits(kpi: KpiDefinition, figures: FigureFormat) -> Sequence[TrendLimit]:
    """The thresholds of a KPI that are set, written like its values."""
    limits = (("lower threshold", kpi.threshold_min), ("upper threshold", kpi.threshold_max))
    return [
        TrendLimit(f"{text} {figures.write(value)}", value)
        for text, value in limits
        if value is not None
    ]


def draw_each(trends: Sequence[AgentTrend], zone: ZoneInfo) -> list[tuple[AgentTrend, str]]:
    """A small chart of each agent with its intervals, all of one scale; without those that have no value."""
    figures = trend_figures(trends)
    series = [trend_series(trend, figures, zone) for trend in trends]
    bounds = interval_bounds(series)
    charts = [small_chart(line, bounds, figures.write) for line in series]
    return [(trend, chart) for trend, chart in zip(trends, charts, strict=True) if chart]


def trend_series(trend: AgentTrend, figures: FigureFormat, zone: ZoneInfo) -> TrendSeries:
    """The points of an agent in a chart of several: each names its agent."""
    times = [bucket.last_at for bucket in trend.buckets] or [
        point.kpi.recorded_at for point in trend.points
    ]
    points = [
        point._replace(text=f"{trend.name}, {point.text}")
        for point in _points(trend, figures, zone)
    ]
    return TrendSeries(trend.name, points, times, trend.color)


def _points(trend: AgentTrend, figures: FigureFormat, zone: ZoneInfo) -> Sequence[TrendPoint]:
    if trend.buckets:
        span = trend.buckets[-1].last_at - trend.buckets[0].first_at
        names = [_bucket_label(bucket, zone, has_year=span > A_YEAR) for bucket in trend.buckets]
        return bucket_points(trend.buckets, names, figures)
    labels = label_points(trend.points, zone)
    urls = {point.kpi.id: path_of("runs", point.kpi.run_id) for point in trend.points}
    return trend_points(trend.points, labels, urls, figures)


def _bucket_label(bucket: TrendBucket, zone: ZoneInfo, *, has_year: bool) -> str:
    """The days of a bucket: "3 May", "3 May to 9 May", "3 May 2025 to 9 May 2025"."""
    days = [format_day(at, zone) for at in (bucket.first_at, bucket.last_at)]
    if has_year:
        ends = zip(days, (bucket.first_at, bucket.last_at), strict=True)
        days = [f"{day} {at.astimezone(zone):%Y}" for day, at in ends]
    return " to ".join(dict.fromkeys(days))
