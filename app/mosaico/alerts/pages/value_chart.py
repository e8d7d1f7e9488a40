"""Charts of a value that an alert rule watches: around an alert or an incident, and in a backtest."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from markupsafe import Markup
from sqlalchemy.orm import Session

from mosaico.alerts.backtest_schemas import BacktestView, ReplayedRunView
from mosaico.alerts.evaluation.value_history import MeasurementHistory
from mosaico.alerts.evaluation.watched_values import RuleTarget
from mosaico.alerts.models import AlertEvent, AlertRule, Incident
from mosaico.alerts.rules import AlertEventState, Condition
from mosaico.alerts.schemas import AlertConfigBody, AlertConfigView
from mosaico.core.keyset import MAX_LIMIT
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.page_text import label_times
from mosaico.core.web.pages import build_url
from mosaico.core.web.trend_chart import PageChart, TrendEvent, TrendLimit, TrendPoint, trend_chart
from mosaico.kpis.number_text import FigureFormat
from mosaico.run_store.kpi_trend import MAX_POINTS
from mosaico.run_store.run_history import PastRun, list_ended_runs
from mosaico.statistics.verdict_rules import Verdict

# Before an incident, so that its level can be compared with the one it left.
LEAD = timedelta(days=30)
_FIXED = {Condition.LESS_THAN, Condition.GREATER_THAN, Condition.EQUALS, Condition.NOT_EQUALS}
_MARKS = {
    AlertEventState.FIRING: ("fires", Verdict.REGRESSED),
    AlertEventState.WORSE: ("worse", Verdict.REGRESSED),
    AlertEventState.RESOLVED: ("resolves", Verdict.IMPROVED),
}


def draw_incident(session: Session, incident: Incident, zone: ZoneInfo) -> PageChart | None:
    """The value before and in an incident, with its beginning and end; None without any run."""
    runs, note = _newest_runs(session, incident, incident.started_at - LEAD)
    if not runs:
        return None
    figures = incident_figures(incident)
    points = _past_points(
        session, runs, RuleTarget.of(incident.kpi, incident.metric), incident.opened_seq, zone,
        figures, lambda run: _position_in(incident, run),
    )  # fmt: skip
    positions = {run.seq: position for position, run in enumerate(runs)}
    marks = (
        (incident.started_seq, "incident began", Verdict.REGRESSED),
        (incident.end_seq, (incident.resolution or "").replace("_", " ").lower(), Verdict.IMPROVED),
    )
    events = [
        TrendEvent(positions[seq], text, verdict)
        for seq, text, verdict in marks
        if seq in positions
    ]
    chart = _draw(incident.value_name, points, figures, events=events)
    return chart._replace(note=note)


def incident_figures(incident: Incident) -> FigureFormat:
    """How the values of an incident are written."""
    return FigureFormat.of([incident.baseline, incident.value], incident.unit)


def find_watched(session: Session, event: AlertEvent) -> Incident | AlertRule | None:
    """What has the watched value of an alert: the incident keeps it, the rule may watch another one now."""
    incident = session.get(Incident, event.incident_id) if event.incident_id else None
    return incident or (session.get(AlertRule, event.rule_id) if event.rule_id else None)


def values_in_api(
    watched: Incident | AlertRule | None, subject: Incident | AlertEvent, at: datetime
) -> dict[str, str]:
    """The path of the values of a chart from `LEAD` before a time on; the API lists those of KPIs only."""
    if watched is None or watched.kpi is None:
        return {}
    query = {
        "benchmarkId": subject.benchmark_id,
        "agentId": subject.agent_id,
        "kpi": watched.kpi,
        "from": (at - LEAD).isoformat(),
    }
    return {"values": build_url("/kpi-history", query, limit=MAX_LIMIT)}


def draw_alert(session: Session, event: AlertEvent, zone: ZoneInfo) -> PageChart | None:
    """The value before and after an alert, with its run and what was expected; None for a notice without
    a value.
    """
    watched = find_watched(session, event)
    if watched is None or event.value is None:
        return None
    runs, note = _newest_runs(session, event, event.created_at - LEAD)
    seqs = [run.seq for run in runs]
    if event.run_seq not in seqs:
        return None
    details = event.details
    figures = FigureFormat(details.unit, details.is_share)
    points = _past_points(
        session, runs, RuleTarget.of(watched.kpi, watched.metric), event.run_seq, zone, figures,
        lambda run: "the run of the alert" if run.seq == event.run_seq else "",
    )  # fmt: skip
    expected = (
        [event.baseline]
        if details.anomaly is None
        else [details.anomaly.expected_low, details.anomaly.expected_high]
    )
    limits = [
        TrendLimit(f"expected {figures.write(value)}", value)
        for value in expected
        if value is not None
    ]
    text, verdict = _MARKS.get(AlertEventState(event.state), ("alert", Verdict.REGRESSED))
    mark = TrendEvent(seqs.index(event.run_seq), text, verdict)
    name = details.value_name or event.name
    chart = _draw(name, points, figures, limits=limits, events=[mark])
    return chart._replace(note=note)


def draw_backtest(
    rule: AlertConfigBody | AlertConfigView, backtest: BacktestView, zone: ZoneInfo
) -> PageChart | None:
    """The replayed values with what the rule would have sent; None without any run."""
    runs = backtest.runs[-MAX_POINTS:]
    if not runs:
        return None
    events = [
        TrendEvent(position, *_MARKS[run.notified])
        for position, run in enumerate(runs)
        if run.notified in _MARKS
    ]
    labels = label_times([run.completed_at for run in runs], zone)
    points = [_replayed_point(run, label) for run, label in zip(runs, labels, strict=True)]
    figures = FigureFormat.of(point.value for point in points)
    limits = []
    if rule.condition in _FIXED and rule.threshold is not None:
        limits.append(TrendLimit(f"limit {figures.write(rule.threshold)}", rule.threshold))
    chart = _draw(rule.name, points, figures, limits=limits, events=events)
    if len(backtest.runs) == len(runs):
        return chart
    return chart._replace(note=f"The newest {len(runs)} of {len(backtest.runs):,} runs are drawn.")


def _newest_runs(
    session: Session, subject: Incident | AlertEvent, since: datetime
) -> tuple[list[PastRun], str]:
    """The last runs since a time, as many as a chart shows, and a note if there are more."""
    runs = list_ended_runs(
        session, subject.benchmark_id, subject.agent_id, since=since, limit=MAX_POINTS + 1
    )
    if len(runs) <= MAX_POINTS:
        return runs, ""
    return runs[-MAX_POINTS:], f"The newest {MAX_POINTS} runs are drawn; earlier ones are not."


def _draw(
    name: str,
    points: Sequence[TrendPoint],
    figures: FigureFormat,
    *,
    limits: Sequence[TrendLimit] = (),
    events: Sequence[TrendEvent],
) -> PageChart:
    chart = trend_chart(
        name, points, figures.unit, limits=limits, events=events, is_page=True, write=figures.write
    )
    return PageChart(Markup(chart), points)  # noqa: S704 - our own SVG, which escapes its texts


def _past_points(
    session: Session,
    runs: Sequence[PastRun],
    target: RuleTarget,
    marked_seq: int | None,
    zone: ZoneInfo,
    figures: FigureFormat,
    describe: Callable[[PastRun], str],
) -> list[TrendPoint]:
    """The watched value of each run; `describe` adds words to the text of a point."""
    measurements = MeasurementHistory(session, runs).measurements(target)
    points = []
    labels = label_times([run.completed_at for run in runs], zone)
    for run, label in zip(runs, labels, strict=True):
        measurement = measurements.get(run.seq)
        value = measurement.point.value if measurement and measurement.point else None
        verdict = Verdict.REGRESSED if run.seq == marked_seq else None
        words = ["no value" if value is None else figures.write(value), describe(run)]
        points.append(
            TrendPoint(
                label=label,
                value=value,
                low=None,
                high=None,
                verdict=verdict if run.is_valid else Verdict.INVALID,
                fingerprint=run.fingerprint,
                text=f"{label}: {', '.join(filter(None, words))}",
                url=path_of("runs", run.id),
            )
        )
    return points


def _position_in(incident: Incident, run: PastRun) -> str:
    is_inside = incident.started_seq <= run.seq and (
        incident.end_seq is None or run.seq < incident.end_seq
    )
    return "in the incident" if is_inside else "outside the incident"


def _replayed_point(run: ReplayedRunView, label: str) -> TrendPoint:
    verdict = _MARKS[run.notified][1] if run.notified in _MARKS else None
    return TrendPoint(
        label=label,
        value=run.value,
        low=run.expected_low,
        high=run.expected_high,
        verdict=verdict if run.outcome else Verdict.INVALID,
        text=f"{label}: {run.explanation}",
        url=path_of("runs", run.run_id),
    )
