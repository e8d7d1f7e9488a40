"""The values of a KPI over the runs of an agent, as points of a chart."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.core.web.charts import TrendEvent, TrendPoint
from app.kpis.models import KpiHistory
from app.kpis.number_text import format_value, format_values
from app.results.models import BenchmarkRun
from app.results.rules import Validity
from app.statistics.verdict_rules import Scale, Verdict

# As many as a reader can tell apart.
MAX_POINTS = 180


class KpiPoint(NamedTuple):
    """The value of a KPI in one run, with the fingerprint and the acceptance of the run."""

    kpi: KpiHistory
    fingerprint: str | None
    accepted_at: datetime | None
    differences: Sequence[str]

    @property
    def verdict(self) -> Verdict | None:
        """INVALID for a run of which too little was measured."""
        if self.kpi.validity != Validity.VALID:
            return Verdict.INVALID
        return self.kpi.verdict.verdict if self.kpi.verdict else None


def list_kpi_points(
    session: Session,
    benchmark_id: str,
    agent_id: str,
    kpi_id: str,
    *,
    up_to: int | None = None,
    since: datetime | None = None,
    limit: int = MAX_POINTS,
) -> list[KpiPoint]:
    """The last values of a KPI, oldest first; `up_to` is the ID of the last one, included."""
    statement = (
        select(KpiHistory, BenchmarkRun.fingerprint, BenchmarkRun.accepted_at, BenchmarkRun.verdict)
        .join(BenchmarkRun, BenchmarkRun.seq == KpiHistory.run_seq)
        .where(
            KpiHistory.benchmark_id == benchmark_id,
            KpiHistory.agent_id == agent_id,
            KpiHistory.kpi_id == kpi_id,
            BenchmarkRun.confirms.is_(None),
            BenchmarkRun.rescore_of.is_(None),
        )
    )
    if up_to is not None:
        statement = statement.where(KpiHistory.id <= up_to)
    if since is not None:
        statement = statement.where(KpiHistory.recorded_at >= since)
    newest = session.execute(statement.order_by(KpiHistory.id.desc()).limit(limit)).all()
    return [
        KpiPoint(kpi, fingerprint, accepted_at, verdict.differences if verdict else ())
        for kpi, fingerprint, accepted_at, verdict in reversed(newest)
    ]


def trend_points(
    points: Sequence[KpiPoint], labels: Mapping[int, str], urls: Mapping[int, str]
) -> list[TrendPoint]:
    """The points of a chart; `labels` and `urls` are by the ID of the value."""
    return [
        TrendPoint(
            label=labels[point.kpi.id],
            value=point.kpi.value,
            low=point.kpi.interval_low,
            high=point.kpi.interval_high,
            verdict=point.verdict,
            fingerprint=point.fingerprint,
            text=f"{labels[point.kpi.id]}: {describe_point(point)}",
            url=urls.get(point.kpi.id),
        )
        for point in points
    ]


def trend_events(points: Sequence[KpiPoint]) -> list[TrendEvent]:
    """What explains a change of level: a regressed run with its first difference, an acceptance."""
    events = []
    for position, point in enumerate(points):
        if point.accepted_at is not None:
            events.append(TrendEvent(position, "level accepted"))
        elif point.verdict is Verdict.REGRESSED:
            cause = point.differences[0] if point.differences else "regressed"
            events.append(TrendEvent(position, cause, Verdict.REGRESSED))
    return events


def describe_point(point: KpiPoint) -> str:
    """A value with its interval and verdict: "0.71 (95 % CI 0.62 to 0.79), regressed"."""
    kpi = point.kpi
    if kpi.value is None:
        return f"no value: {kpi.undefined_reason or 'undefined'}"
    is_share = bool(kpi.verdict and kpi.verdict.scale is Scale.RATE)
    text = format_value(kpi.value, kpi.unit, is_share=is_share)
    if kpi.interval_low is not None and kpi.interval_high is not None:
        low, high = format_values(
            [kpi.interval_low, kpi.interval_high], kpi.unit, is_share=is_share
        )
        text += f" (95 % CI {low} to {high})"
    verdict = point.verdict
    return f"{text}, {verdict.replace('_', ' ').lower() if verdict else 'not compared'}"
