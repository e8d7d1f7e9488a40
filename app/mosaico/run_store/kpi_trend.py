"""The values of a KPI over the runs of an agent, as points of a chart."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import quote
from zoneinfo import ZoneInfo

from sqlalchemy import literal, select, text, tuple_, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from mosaico.core.web.page_text import label_times
from mosaico.core.web.trend_chart import TrendEvent, TrendPoint
from mosaico.kpis.models import KpiHistory
from mosaico.kpis.number_text import FigureFormat
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.run_outcome import outcome_of_kpi
from mosaico.run_store.sql_means import sql_mean
from mosaico.statistics.verdict_rules import Verdict

# As many as a reader can distinguish.
MAX_POINTS = 180


# Runs that follow each other share a bucket, as few as fit; the newest run has one of its own, because a reader takes
# the last point for the last night. Values of invalid runs say nothing: they are in no
# mean, and a bucket of nothing else is INVALID. `worst` is what a reader must see first.
_BUCKETS_TEXT: Final = """
    WITH numbered AS (
        SELECT history.run_id, history.recorded_at, run.fingerprint,
               CASE WHEN history.validity = 'VALID' THEN history.value END AS value,
               CASE WHEN history.validity = 'VALID' THEN history.verdict ->> 'verdict'
                    ELSE 'INVALID' END AS verdict,
               row_number() OVER (ORDER BY history.recorded_at, history.id) - 1 AS position,
               count(*) OVER () AS total
        FROM kpi_history AS history JOIN benchmark_runs AS run ON run.seq = history.run_seq
        WHERE history.benchmark_id = :benchmark_id AND history.agent_id = :agent_id
          AND history.kpi_id = :kpi_id AND history.recorded_at >= :since
          AND history.recorded_at < coalesce(CAST(:until AS timestamptz), 'infinity')
          AND run.rescore_of IS NULL AND run.same_data_as IS NULL
    ), ranked AS (
        SELECT *, CASE WHEN position = total - 1 THEN total
                       ELSE position / greatest(1, ceil((total - 1) / CAST(:others AS float))::bigint)
                  END AS bucket,
               coalesce(array_position(ARRAY['REGRESSED', 'CHANGED', 'IMPROVED', 'INCONCLUSIVE',
                                             'NO_EVIDENCE'], verdict), 9) AS worst
        FROM numbered
    )
    SELECT count(*) AS runs, min(recorded_at) AS first_at, max(recorded_at) AS last_at,
           {mean} AS mean, min(value) AS low, max(value) AS high,
           (array_agg(verdict ORDER BY worst, position DESC))[1] AS verdict,
           (array_agg(run_id ORDER BY worst, position DESC))[1] AS run_id,
           (array_agg(fingerprint ORDER BY position DESC))[1] AS fingerprint
    FROM ranked GROUP BY bucket ORDER BY bucket
"""
_BUCKETS: Final = text(_BUCKETS_TEXT.format(mean=sql_mean("value")))


class TrendBucket(NamedTuple):
    """Runs that follow each other, as one point: the mean, the lowest and the highest value of the valid
    ones, the worst verdict, and the run that has it.
    """

    runs: int
    first_at: datetime
    last_at: datetime
    mean: float | None
    low: float | None
    high: float | None
    verdict: str | None
    run_id: str
    fingerprint: str | None


def list_trend_buckets(
    session: Session,
    benchmark_id: str,
    agent_id: str,
    kpi_id: str,
    *,
    since: datetime,
    until: datetime | None = None,
    points: int = MAX_POINTS,
) -> list[TrendBucket]:
    """The runs of a period in at most `points` buckets of the same size, oldest first. The newest run is the last
    bucket; only the one before it may be smaller.
    """
    parameters = {
        "benchmark_id": benchmark_id,
        "agent_id": agent_id,
        "kpi_id": kpi_id,
        "since": since,
        "until": until,
        "others": max(1, points - 1),
    }
    return [TrendBucket(*row) for row in session.execute(_BUCKETS, parameters)]


class KpiPoint(NamedTuple):
    """The value of a KPI in one run, with the fingerprint and the acceptance of the run."""

    kpi: KpiHistory
    fingerprint: str | None
    accepted_at: datetime | None
    differences: Sequence[str]

    @property
    def verdict(self) -> Verdict | None:
        """The own verdict of the value."""
        return outcome_of_kpi(self.kpi).verdict

    @property
    def is_corrected(self) -> bool:
        """Whether annotations correct the value."""
        correction = self.kpi.correction
        return correction is not None and correction.reason is None


def list_kpi_points(
    session: Session,
    benchmark_id: str,
    agent_id: str,
    kpi_id: str,
    *,
    up_to: KpiHistory | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = MAX_POINTS,
) -> list[KpiPoint]:
    """The last values of a KPI, oldest first; `up_to` is the last one, included."""
    statement = (
        select(
            KpiHistory,
            BenchmarkRun.fingerprint,
            BenchmarkRun.accepted_at,
            # Not the whole verdict: reading those of 180 runs takes longer than the query.
            type_coerce(BenchmarkRun.verdict, JSONB)["differences"],
        )
        .join(BenchmarkRun, BenchmarkRun.seq == KpiHistory.run_seq)
        .where(
            KpiHistory.benchmark_id == benchmark_id,
            KpiHistory.agent_id == agent_id,
            KpiHistory.kpi_id == kpi_id,
            # Neither repeats nor rescored runs: they say nothing new about the agent.
            BenchmarkRun.rescore_of.is_(None),
            BenchmarkRun.same_data_as.is_(None),
        )
    )
    order = tuple_(KpiHistory.recorded_at, KpiHistory.id)
    if up_to is not None:
        last = tuple_(literal(up_to.recorded_at), literal(up_to.id))
        statement = statement.where(order <= last)
    if since is not None:
        statement = statement.where(KpiHistory.recorded_at >= since)
    if until is not None:
        statement = statement.where(KpiHistory.recorded_at < until)
    # Both columns, not the pair of them: an index has no order of pairs.
    statement = statement.order_by(KpiHistory.recorded_at.desc(), KpiHistory.id.desc())
    newest = session.execute(statement.limit(limit)).all()
    return [
        KpiPoint(kpi, fingerprint, accepted_at, differences or ())
        for kpi, fingerprint, accepted_at, differences in reversed(newest)
    ]


def label_points(points: Sequence[KpiPoint], zone: ZoneInfo) -> dict[int, str]:
    """The labels of points in a chart, by the ID of the value."""
    labels = label_times([point.kpi.recorded_at for point in points], zone)
    return {point.kpi.id: label for point, label in zip(points, labels, strict=True)}


def trend_points(
    points: Sequence[KpiPoint],
    labels: Mapping[int, str],
    urls: Mapping[int, str],
    figures: FigureFormat,
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
            text=f"{labels[point.kpi.id]}: {describe_point(point, figures)}",
            url=urls.get(point.kpi.id),
        )
        for point in points
    ]


def trend_events(points: Sequence[KpiPoint]) -> list[TrendEvent]:
    """Return the events that explain a change of level: regressed runs with their first difference,
    acceptances, and the runs from which annotations correct the value, or correct it no longer.
    """
    events = []
    for position, point in enumerate(points):
        texts, verdict = [], None
        if point.accepted_at is not None:
            texts.append("level accepted")
        elif point.verdict is Verdict.REGRESSED:
            texts.append(point.differences[0] if point.differences else "regressed")
            verdict = Verdict.REGRESSED
        if position and point.is_corrected != points[position - 1].is_corrected:
            texts.append("corrected from here" if point.is_corrected else "not corrected from here")
        if texts:
            events.append(TrendEvent(position, "; ".join(texts), verdict))
    return events


class TrendValueText(NamedTuple):
    """A value and its interval as texts; `reason` is the reason for a missing value."""

    text: str | None
    interval: str | None
    reason: str | None = None


def describe_value(point: KpiPoint, figures: FigureFormat) -> TrendValueText:
    """The value of a point with its interval: "0.710" and "0.620 to 0.790"."""
    kpi = point.kpi
    if kpi.value is None:
        return TrendValueText(None, None, kpi.undefined_reason or "undefined")
    interval = figures.write_range(kpi.interval_low, kpi.interval_high)
    return TrendValueText(figures.write(kpi.value), interval)


def kpi_figures(points: Sequence[KpiPoint]) -> FigureFormat:
    """How the values of one KPI in these points are written: all alike, whether they were compared or not."""
    kpis = [point.kpi for point in points]
    scales = (kpi.verdict.scale for kpi in kpis if kpi.verdict and kpi.verdict.scale)
    unit = kpis[-1].unit if kpis else None
    return FigureFormat.of((kpi.value for kpi in kpis), unit, next(scales, None))


def describe_point(point: KpiPoint, figures: FigureFormat) -> str:
    """A value with its interval and verdict: "0.710 (95 % CI 0.620 to 0.790), regressed"."""
    value = describe_value(point, figures)
    if value.text is None:
        return f"no value: {value.reason}"
    interval = f" (95 % CI {value.interval})" if value.interval else ""
    verdict = point.verdict
    return f"{value.text}{interval}, {verdict.replace('_', ' ').lower() if verdict else 'not compared'}"


def bucket_points(
    buckets: Sequence[TrendBucket], labels: Sequence[str], figures: FigureFormat
) -> list[TrendPoint]:
    """The points of a chart over many runs; the band of a bucket is from its lowest to its highest value."""
    return [
        TrendPoint(
            label=label,
            value=bucket.mean,
            low=bucket.low,
            high=bucket.high,
            verdict=bucket.verdict,
            fingerprint=bucket.fingerprint,
            text=f"{label}: {describe_bucket(bucket, figures)}",
            url=f"/runs/{quote(bucket.run_id, safe='')}",
        )
        for bucket, label in zip(buckets, labels, strict=True)
    ]


def describe_bucket(bucket: TrendBucket, figures: FigureFormat) -> str:
    """A bucket in words: "12 runs, mean 0.830 (0.790 to 0.860), worst verdict regressed"."""
    runs = "1 run" if bucket.runs == 1 else f"{bucket.runs} runs"
    verdict = bucket.verdict.replace("_", " ").lower() if bucket.verdict else "not compared"
    if bucket.mean is None or bucket.low is None or bucket.high is None:
        return f"{runs}, no valid value, {verdict}"
    mean, ends = figures.write(bucket.mean), figures.write_range(bucket.low, bucket.high)
    return f"{runs}, mean {mean} ({ends}), worst verdict {verdict}"
