"""Completing a run: its result, its alerts and COMPLETED are written in one transaction."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import insert
from sqlalchemy.orm import Session

from mosaico.alerts.evaluation.incident_rules import SeriesStep
from mosaico.alerts.evaluation.run_evaluation import AlertDecision
from mosaico.alerts.publishing import EventNotice, publish_notice
from mosaico.alerts.rules import AlertEventState
from mosaico.alerts.service import record_decisions
from mosaico.comparison.acceptance import hold_back
from mosaico.comparison.run_verdict_text import NOT_COMPARABLE, say_same_answers
from mosaico.kpis.evaluate import KpiValue
from mosaico.kpis.models import KpiHistory
from mosaico.kpis.verdict_types import BaselineSelection, RunVerdict
from mosaico.run_store import rules
from mosaico.run_store.models import BenchmarkRun, RunAttributes, RunMetricAggregate
from mosaico.run_store.rules import RunStatus, Validity
from mosaico.run_store.run_result import RunResult
from mosaico.run_store.run_series import store_points
from mosaico.run_store.series_points import kpi_series, metric_series
from mosaico.runs.late_scores import describe_arrived_scores
from mosaico.runs.leases import RunLease, lock_leased_run
from mosaico.runs.run_data import settle_place
from mosaico.runs.service import end_run
from mosaico.statistics.passes import write_passes
from mosaico.statistics.verdict_rules import Verdict

STORED_STATISTICS = ("n", "mean", "std", "min", "max", "p50", "p95", "p99", "sum", "coverage")


def finish_run(
    session: Session,
    lease: RunLease,
    result: RunResult,
    decisions: Sequence[AlertDecision],
    now: datetime,
) -> BenchmarkRun:
    """Write the result of a run, what follows for its alerts, and COMPLETED; returns the run.

    Raises: `RunEnded` when the lease is void, `StaleDecision` when another run of the agent, or an edit of a rule,
            changes what follows from the run: compute its result again.
    """
    run = lock_leased_run(session, lease)
    settle_place(session, run, result.place, is_valid=result.is_valid)
    rules.require_transition(run.id, RunStatus(run.status), RunStatus.COMPLETED)
    validity = result.validity
    run.validity, run.validity_reasons = validity.validity, list(validity.reasons)
    run.metric_warning = result.metric_warning
    run.coverage, run.error_share = validity.coverage, validity.error_share
    run.verdict = _run_verdict(result, now, describe_arrived_scores(session, run, result))
    hold_back(session, run, result.verdicts.run)
    result = _with_steps(result, record_decisions(session, result, decisions, now))
    _store_metrics(session, result)
    session.add_all(_kpi_rows(result, now))
    if result.record is not None:
        session.add(RunAttributes(run_seq=result.run_seq, record=result.record))
    if result.items is not None:
        store_points(session, result.run_seq, result.items, result.series)
    if run.has_new_data and result.verdicts.run.verdict is Verdict.INVALID:
        publish_notice(session, _not_comparable(run, result), now)
    end_run(session, run, RunStatus.COMPLETED, now)
    return run


def _run_verdict(result: RunResult, now: datetime, arrived: str | None) -> RunVerdict:
    """The verdict of a run, which first says when its data are not new, or what of them `arrived` since."""
    verdict, same_data = result.verdicts.run, result.place.same_data
    if arrived is not None:
        return verdict.model_copy(update={"explanation": f"{arrived} {verdict.explanation}"})
    if same_data is None or same_data.completed_at is None or result.place.is_rescored:
        return verdict
    return say_same_answers(verdict, same_data.completed_at, now)


def _not_comparable(run: BenchmarkRun, result: RunResult) -> EventNotice:
    """The notice of a valid run that could not be compared: one for each pair of series and
    baseline, not one for each run.
    """
    verdict = result.verdicts.run
    is_pinned = verdict.baseline is not None and verdict.baseline.mode is BaselineSelection.PINNED
    run_ids = " ".join(verdict.baseline.run_ids) if verdict.baseline else ""
    remedy = (
        "Pin a newer run as baseline, or rescore the baseline."
        if is_pinned
        else "Later runs will be compared with this one."
    )
    return EventNotice(
        state=AlertEventState.RUN_INVALID,
        dedup_key=f"not-comparable/{run.fingerprint}/{run_ids}",
        name=NOT_COMPARABLE,
        benchmark_id=run.benchmark_id,
        agent_id=run.agent_id,
        run_id=run.id,
        run_seq=run.seq,
        explanation=f"This run has no verdict: {verdict.reason}. Its values are correct. {remedy}",
    )


def _with_steps(result: RunResult, steps: Mapping[str, SeriesStep]) -> RunResult:
    """A result whose series have the verdicts of the rules about them."""
    series_results = {
        series: replace(series_result, evidence=step.evidence, state=step.state)
        for series, step in steps.items()
        if (series_result := result.series.get(series)) is not None
    }
    return replace(result, series={**result.series, **series_results})


def _store_metrics(session: Session, result: RunResult) -> None:
    # With their nulls: otherwise each set of columns that have values would be a statement.
    session.execute(
        insert(RunMetricAggregate),
        list(_metric_rows(result)),
        execution_options={"render_nulls": True},
    )


def _metric_rows(result: RunResult) -> Iterator[dict[str, object]]:
    for ordinal, metric in enumerate(result.plan.metrics):
        aggregate = result.aggregates[metric.column]
        interval = result.verdicts.metric_intervals.get(metric.column)
        yield {
            "run_seq": result.run_seq,
            "metric": metric.column,
            "ordinal": ordinal,
            "version": metric.full_version,
            "expected": aggregate.expected,
            "missing": dict(aggregate.missing),
            "interval_low": interval.low if interval else None,
            "interval_high": interval.high if interval else None,
            "verdict": result.verdicts.metrics.get(metric.column),
            "over_runs": result.evidence_of(metric_series(metric.column)),
            "percentiles": list(aggregate.percentiles) or None,
            "passes": write_passes(aggregate.passes),
            "agreement": result.agreements.get(metric.column),
            **{name: aggregate.statistic(name) for name in STORED_STATISTICS},
        }


def _kpi_validity(result: RunResult, value: KpiValue) -> Validity:
    """A KPI of a valid run is invalid alone if one of its metrics has too few values."""
    return Validity.INVALID if value.is_incomplete else result.validity.validity


def _kpi_rows(result: RunResult, now: datetime) -> Iterator[KpiHistory]:
    for value in result.kpis:
        kpi = value.kpi
        interval = result.verdicts.kpi_intervals.get(kpi.id)
        yield KpiHistory(
            run_seq=result.run_seq,
            run_id=result.run_id,
            benchmark_id=result.benchmark_id,
            agent_id=result.agent_id,
            kpi_id=kpi.id,
            kpi_revision=kpi.revision,
            name=kpi.name,
            formula=kpi.formula,
            value=value.value,
            undefined_reason=value.reason,
            unit=kpi.unit,
            direction=kpi.direction,
            within_thresholds=value.within_thresholds,
            validity=_kpi_validity(result, value),
            gate=kpi.gate,
            coverage=result.kpi_coverage(kpi),
            missing=result.kpi_missing(kpi),
            interval_low=interval.low if interval else None,
            interval_high=interval.high if interval else None,
            verdict=result.verdicts.kpis.get(kpi.id),
            over_runs=result.evidence_of(kpi_series(kpi.id)),
            correction=value.correction,
            recorded_at=now,
        )
