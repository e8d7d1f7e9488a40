"""Builds the content of the page of a run from its stored results."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from fastapi import Request
from markupsafe import Markup
from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.access.deps import get_caller
from mosaico.access.queries import list_caller_names
from mosaico.agents.models import Agent
from mosaico.alerts.alert_recipients import messages_of
from mosaico.alerts.evaluation.run_evaluation import read_false_pages
from mosaico.alerts.event_queries import AlertFilter, list_events
from mosaico.alerts.incident_queries import list_incidents_of_run
from mosaico.alerts.models import AlertEvent
from mosaico.alerts.queries import find_existing_rules
from mosaico.alerts.rule_records import RuleFalseAlarms, read_false_alarms
from mosaico.annotations.queries import describe_annotated
from mosaico.benchmarks.models import Benchmark
from mosaico.comparison.baselines import is_pinned
from mosaico.comparison.change_text import change_bar, counting_ends, describe_change, format_amount
from mosaico.comparison.change_view import explain_missing_changes, view_changes
from mosaico.comparison.judge_text import describe_agreement
from mosaico.comparison.verdict_text import describe_runs_evidence
from mosaico.core.keyset import PageQuery, find_whole_list
from mosaico.core.resources import Resources
from mosaico.core.text import format_number
from mosaico.core.web.page_paths import alert_page_path, path_of
from mosaico.core.web.pages import Crumb, build_url, reader_zone
from mosaico.core.web.sparklines import interval_bar
from mosaico.core.web.trend_chart import PageChart, TrendLimit, trend_chart
from mosaico.kpis.models import KpiHistory
from mosaico.kpis.number_text import FigureFormat
from mosaico.kpis.queries import get_kpis_of_run
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.notes.queries import list_shown_notes
from mosaico.notifications.views import list_delivery_rows
from mosaico.run_store.attribute_queries import read_recorded_changes
from mosaico.run_store.evaluations import list_evaluations
from mosaico.run_store.expected_end import expect_ends
from mosaico.run_store.kpi_trend import (
    kpi_figures,
    label_points,
    list_kpi_points,
    trend_events,
    trend_points,
)
from mosaico.run_store.models import BenchmarkRun, RunMetricAggregate
from mosaico.run_store.queries import get_run, list_shown_metrics
from mosaico.run_store.rules import MAX_RETRIES, RETRYABLE, RunStatus, Validity
from mosaico.run_store.run_errors import list_run_errors
from mosaico.run_store.run_outcome import (
    find_deciding,
    find_shown_kpi,
    name_elsewhere,
    outcome_of_kpi,
    sort_kpis,
    verdict_of_run,
)
from mosaico.runs.llm_cache import list_llm_usage
from mosaico.runs.pages.answers import TypedAnswers, load_answer_list
from mosaico.runs.pages.before_now import list_distribution_charts, load_cost_charts
from mosaico.runs.pages.run_stages import list_stages
from mosaico.statistics.verdict_rules import Scale
from mosaico.traces.datasets.queries import find_dataset

TREND_RUNS = 30
MAX_ALERTS = 5


def load_run_page(
    session: Session,
    run_id: str,
    res: Resources,
    request: Request,
    typed: TypedAnswers | None = None,
    cursor: str = "",
) -> dict[str, Any]:
    """The values of the template `run.html`; `typed` is the filter of its answers, and `cursor` their page."""
    run = get_run(session, run_id)
    kpis = get_kpis_of_run(session, run.seq)
    agent = session.get_one(Agent, run.agent_id).name
    subject = session.get_one(Benchmark, run.benchmark_id)
    benchmark = subject.display_name
    baseline_ids = (
        list(run.verdict.baseline.run_ids) if run.verdict and run.verdict.baseline else []
    )
    baselines = _list_runs(session, baseline_ids)
    # A comparison needs the traces of each base.
    bases = [base.id for base in baselines if not base.purged_at] or baseline_ids[:1]
    status = RunStatus(run.status)
    answers = load_answer_list(session, run, typed or TypedAnswers(), cursor)
    is_shown = answers["answers"] is not None
    costs = load_cost_charts(session, find_shown_kpi(kpis)) if is_shown else []
    outcome = verdict_of_run(run.validity, run.verdict.verdict if run.verdict else None)
    own_outcomes = [outcome_of_kpi(kpi) for kpi in kpis]
    tested = find_dataset(session, run.dataset_name) if run.dataset_name else None
    return {
        "run": run,
        "agent": agent,
        "benchmark": benchmark,
        "is_sample": bool((subject.metadata_ or {}).get("sample")),
        "steps": [
            Crumb("Runs", "/runs"),
            Crumb(benchmark, build_url("/runs", benchmark=run.benchmark_id)),
            Crumb(agent, build_url("/runs", benchmark=run.benchmark_id, agent=run.agent_id)),
        ],
        "outcome": outcome,
        "dataset_url": path_of("datasets", tested.id, "items") if tested else None,
        "deciding": find_deciding(own_outcomes, outcome),
        "decided_by": name_elsewhere(own_outcomes, outcome),
        "incidents": list_incidents_of_run(session, run.benchmark_id, run.agent_id, run.seq),
        "accepted_by": list_caller_names(session, {run.accepted_by}).get(run.accepted_by or ""),
        "is_final": status.is_final,
        "expected_end_at": expect_ends(session, [run], res.clock()).get(run.id),
        "can_pin": status is RunStatus.COMPLETED
        and run.validity == Validity.VALID
        and not run.purged_at
        and not run.baseline_hold,
        "is_pinned": is_pinned(session, run),
        "can_retry": status in RETRYABLE and run.retry_count < MAX_RETRIES,
        "stages": list_stages(run),
        "reasons": [*(run.validity_reasons or []), *filter(None, [run.source_warning])],
        "explanation": run.verdict.explanation if run.verdict else None,
        "same_answers": run.verdict.same_answers if run.verdict else None,
        **_changes(session, run),
        "fallen_slice": run.verdict.fallen_slice.tag
        if run.verdict and run.verdict.fallen_slice
        else "",
        "baseline_ids": baseline_ids,
        "baselines": baselines,
        "compare_url": build_url("/compare", base=bases, run=run.id) if bases else None,
        "retried_as": session.scalar(
            select(BenchmarkRun.id).where(BenchmarkRun.retry_of == run.id).limit(1)
        ),
        "kpis": _kpi_rows(kpis),
        "metrics": _metric_rows(list_shown_metrics(session, run)),
        **_alerts(session, run.id, res),
        **_evaluations(session, run.seq),
        "notes": list_shown_notes(session, get_caller(request), run_id=run.id),
        "annotated": describe_annotated(session, run),
        "errors": [] if run.purged_at else _errors(session, run),
        **answers,
        "costs": costs,
        "small_charts": [
            *(list_distribution_charts(answers["answers"]["loaded"]) if is_shown else ()),
            *costs,
        ],
        "usage": _usage(session, run.seq),
        **_trend(session, run, kpis, request),
    }


def _changes(session: Session, run: BenchmarkRun) -> dict[str, Any]:
    """What changed since the baseline, or why that is not known."""
    changed = read_recorded_changes(session, [run.id]).get(run.id)
    return {
        "changes": changed and view_changes(changed),
        "no_changes": explain_missing_changes(run),
    }


def _errors(session: Session, run: BenchmarkRun) -> list[dict[str, Any]]:
    return [
        {"group": group, "url": path_of("runs", run.id, "traces", group.trace_id)}
        for group in list_run_errors(session, run)
    ]


def _list_runs(session: Session, run_ids: Sequence[str]) -> list[BenchmarkRun]:
    """The runs that still exist, in the given order."""
    runs = session.scalars(select(BenchmarkRun).where(BenchmarkRun.id.in_(run_ids)))
    return sorted(runs, key=lambda run: run_ids.index(run.id))


def _kpi_rows(kpis: Sequence[KpiHistory]) -> list[dict[str, Any]]:
    """The KPIs, those of the gate first, with the change as text and as a bar."""
    limits = _bar_limits(kpis)
    return [_kpi_row(kpi, limits) for kpi in sort_kpis(kpis)]


def _kpi_row(kpi: KpiHistory, limits: Mapping[Scale | None, float]) -> dict[str, Any]:
    verdict = kpi.verdict
    scale = verdict.scale if verdict else None
    text = describe_change(verdict, scale, kpi.unit) if verdict else None
    figures = FigureFormat.of([kpi.value], kpi.unit, scale)
    before, value = figures.write_pair(verdict.baseline_value if verdict else None, kpi.value)
    return {
        "id": kpi.kpi_id,
        "name": kpi.name,
        "gate": kpi.gate,
        "url": build_url(
            path_of("benchmarks", kpi.benchmark_id, "kpis", kpi.kpi_id), agent=kpi.agent_id
        ),
        "value": value,
        "reason": kpi.undefined_reason or "the KPI is undefined",
        "not_compared": (verdict.reason if verdict else None) or "there is no baseline",
        "before": before if text else None,
        "delta": text.delta if text else None,
        "interval": _ends(*counting_ends(verdict), scale) if verdict else None,
        "bar": _bar(kpi.name, verdict, limits),
        "verdict": outcome_of_kpi(kpi).verdict,
        "over_runs": describe_runs_evidence(kpi.over_runs) if kpi.over_runs else None,
        "correction": kpi.correction and kpi.correction.explanation,
        "by_judge": verdict is not None and verdict.compares_scores,
    }


def _ends(low: float | None, high: float | None, scale: Scale | None) -> str | None:
    if low is None or high is None:
        return None
    return (
        f"{format_amount(low, scale, has_sign=True)} to {format_amount(high, scale, has_sign=True)}"
    )


def _bar_limits(kpis: Sequence[KpiHistory]) -> dict[Scale | None, float]:
    """The largest end of an interval on each scale, so that bars of one scale can be compared."""
    limits: dict[Scale | None, float] = {}
    for verdict in (kpi.verdict for kpi in kpis if kpi.verdict is not None):
        low, high = counting_ends(verdict)
        if low is not None and high is not None:
            ends = (abs(low), abs(high), 1.2 * (verdict.margin or 0), 1e-9)
            limits[verdict.scale] = max(limits.get(verdict.scale, 0.0), *ends)
    return limits


def _bar(name: str, verdict: ValueVerdict | None, limits: Mapping[Scale | None, float]) -> Markup:
    if verdict is None or verdict.scale is Scale.NUMBER:
        return Markup()
    text = _ends(*counting_ends(verdict), verdict.scale) or ""
    if (change := change_bar(name, verdict, text)) is None:
        return Markup()
    return Markup(interval_bar(change, limits[verdict.scale]))  # noqa: S704 - our own SVG


def _metric_rows(metrics: Sequence[RunMetricAggregate]) -> list[dict[str, Any]]:
    """One row for each metric, with the names of later ones that have the same values on all items."""
    same_as = {
        metric.metric: metric.verdict.same_as
        for metric in metrics
        if metric.verdict and metric.verdict.same_as
    }
    return [
        {
            **_metric_row(metric),
            "same": [name for name, of in same_as.items() if of == metric.metric],
        }
        for metric in metrics
        if metric.metric not in same_as
    ]


def _metric_row(metric: RunMetricAggregate) -> dict[str, Any]:
    scale = metric.verdict.scale if metric.verdict else None
    figures = FigureFormat.of([metric.mean], scale=scale)

    def write(value: float | None) -> str | None:
        return None if value is None else figures.write(value)

    missing = ", ".join(f"{count} × {reason}" for reason, count in metric.missing.items())
    return {
        "name": metric.metric,
        "mean": write(metric.mean),
        "interval": figures.write_range(metric.interval_low, metric.interval_high),
        "n": metric.n,
        "expected": metric.expected,
        "p50": write(metric.p50),
        "p95": write(metric.p95),
        "missing": missing,
        "verdict": metric.verdict.verdict if metric.verdict else None,
        "not_compared": metric.verdict.reason if metric.verdict else None,
        "agreement": metric.agreement and describe_agreement(metric.agreement),
    }


def _alerts(session: Session, run_id: str, res: Resources) -> dict[str, Any]:
    """The alerts of a run, each with its deliveries and the false alarms of its rule; the address of all of
    them where the page shows only the newest.
    """
    events = list_events(session, PageQuery(MAX_ALERTS), AlertFilter(run_ids=[run_id]))
    false_alarms = read_false_alarms(
        session,
        [event.rule_id for event in events.rows],
        res.clock(),
        read_false_pages(res.options),
    )
    return {
        "alerts": [
            _alert(session, event, false_alarms.get(event.rule_id or "")) for event in events.rows
        ],
        "all_alerts": find_whole_list(
            session, events, build_url("/alert-history", run=run_id), AlertEvent.run_id, run_id
        ),
    }


def _evaluations(session: Session, run_seq: int) -> dict[str, Any]:
    """What each rule made of a run, also the rules that were deleted since."""
    evaluations = list_evaluations(session, run_seq)
    rule_ids = {evaluation.rule_id for evaluation in evaluations}
    return {"evaluations": evaluations, "existing_rules": find_existing_rules(session, rule_ids)}


def _alert(
    session: Session, event: AlertEvent, false_alarms: RuleFalseAlarms | None
) -> dict[str, Any]:
    return {
        "false_alarms": false_alarms,
        "name": event.name,
        "state": event.state,
        "severity": event.severity,
        "created_at": event.created_at,
        "explanation": event.explanation,
        "silenced": event.silence_id is not None,
        "url": alert_page_path(event.id),
        "deliveries": list_delivery_rows(session, messages_of(event)),
    }


def _usage(session: Session, run_seq: int) -> str:
    """The cost of the judges of a run; empty without judges."""
    return ", ".join(
        f"{usage.model}: {usage.requests:,} requests"
        + ("" if usage.cost_usd is None else f", {format_number(usage.cost_usd)} USD")
        for usage in list_llm_usage(session, run_seq)
    )


def _trend(
    session: Session, run: BenchmarkRun, kpis: Sequence[KpiHistory], request: Request
) -> dict[str, Any]:
    """The chart of the first KPI of the gate over the last runs; nothing with fewer than two."""
    nothing = {"trend": None, "trend_title": ""}
    kpi = find_shown_kpi(kpis)
    if kpi is None:
        return nothing
    points = list_kpi_points(
        session, run.benchmark_id, run.agent_id, kpi.kpi_id, up_to=kpi, limit=TREND_RUNS
    )
    if len(points) < 2:  # noqa: PLR2004 - a line has two ends
        return nothing
    labels = label_points(points, reader_zone(request))
    urls = {point.kpi.id: path_of("runs", point.kpi.run_id) for point in points}
    figures = kpi_figures(points)
    limits = [
        TrendLimit(f"threshold {figures.write(value)}", value)
        for planned in run.begun_plan.kpis
        if planned.id == kpi.kpi_id
        for value in (planned.threshold_min, planned.threshold_max)
        if value is not None
    ]
    chart_points = trend_points(points, labels, urls, figures)
    chart = trend_chart(
        kpi.name, chart_points, kpi.unit, limits=limits, events=trend_events(points), is_page=True,
        write=figures.write,
    )  # fmt: skip
    return {
        "trend": PageChart(Markup(chart), chart_points),  # noqa: S704 - our own SVG, which escapes its texts
        "trend_title": f"{kpi.name}, last {len(points)} runs",
        "trend_query": {
            "benchmarkId": run.benchmark_id,
            "agentId": run.agent_id,
            "kpi": kpi.kpi_id,
            "to": (kpi.recorded_at + timedelta(seconds=1)).isoformat(),
            # More than the points: rescored runs are none.
            "limit": 2 * TREND_RUNS,
        },
    }
