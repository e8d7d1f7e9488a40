"""Compares a run with its baseline before the run is stored as completed."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from mosaico.comparison.baseline_runs import BaselineRun
from mosaico.comparison.baselines import find_baseline, find_ruler_changes
from mosaico.comparison.comparison_rules import RunComparison
from mosaico.comparison.comparison_spec import ComparisonResult, ComparisonSpec
from mosaico.comparison.comparison_verdicts import render_compared, render_not_compared
from mosaico.comparison.equal_metrics import find_equal_metrics
from mosaico.comparison.fallen_slice import find_fallen_slice, with_fallen_slice
from mosaico.comparison.measured_runs import read_measured_runs
from mosaico.comparison.run_attributes import read_run_attributes, record_run, with_differences
from mosaico.comparison.run_verdict_text import FIRST_RUN, NOT_COMPARABLE, SAME_SOURCE_RUN
from mosaico.comparison.value_failures import ValueFailures, log_failures
from mosaico.formula import compile_formula
from mosaico.items.attributes import ItemAttributes
from mosaico.items.label_counts import TraceSummaries, summarize_traces, with_label_counts
from mosaico.items.matrix import ItemMatrix, ItemPairing, pair_items
from mosaico.items.queries import read_items
from mosaico.jobs.handlers import JobContext
from mosaico.jobs.lost_calls import CallLost
from mosaico.kpis.evaluate import KpiValue
from mosaico.kpis.judge_types import PeopleAgreement
from mosaico.kpis.verdict_types import RunVerdicts, SubjectKey, ValueFailure
from mosaico.metrics.engine import failure_of_lost_call
from mosaico.metrics.metric_gaps import MetricGap
from mosaico.metrics.registry import column_of
from mosaico.metrics.types import MetricRef
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.queries import get_run
from mosaico.run_store.recorded_attributes import RunRecord
from mosaico.run_store.rules import Validity, ValidityVerdict
from mosaico.run_store.series_points import RunPoints, metric_series
from mosaico.statistics.verdict_rules import Verdict
from mosaico.traces.types import Trace

log = logging.getLogger(__name__)

# 100,000 traces take about ten seconds; a busy machine may take many times longer.
TIMEOUT_S = 600.0


class ComparedRunResult(NamedTuple):
    """The verdicts of a run, its points for the evidence over several runs: None for an invalid
    run, and when the comparison failed; and what its traces record.
    """

    verdicts: RunVerdicts
    points: RunPoints | None = None
    record: RunRecord | None = None


class BaselineOutdated(Exception):
    """The run measures by another ruler than the baseline `run_id`, whose traces it could measure again."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id


def compare_with_baseline(
    job: JobContext,
    *,
    run_id: str,
    run_seq: int,
    plan: RunPlan,
    kpis: Sequence[KpiValue],
    validity: ValidityVerdict,
    gaps: Mapping[str, MetricGap],
    agreements: Mapping[str, PeopleAgreement] = MappingProxyType({}),
    has_new_data: bool = True,
    may_wait: bool = False,
) -> ComparedRunResult:
    """The verdicts, intervals and item values of a run whose traces are all measured; `gaps` are the metrics that it has
    too few values of, `agreements` how far its judges agree with people.

    Reads the items of the run and of its baseline, and computes in a child process. When that
    fails, the run has no verdict but is still stored: its values are correct.

    Raises: `BaselineOutdated` where the run `may_wait`, and stored traces can be measured by its ruler.
    """
    comparison = _plan_comparison(
        job,
        run_id,
        plan,
        kpis,
        gaps,
        agreements,
        is_valid=validity.validity is Validity.VALID,
        has_new_data=has_new_data,
    )
    differences = comparison.differences
    baseline = None if differences.conditions else comparison.baseline
    if may_wait and baseline and differences.measurable_again:
        raise BaselineOutdated(baseline.runs[0].id)
    items = _load_items(job, comparison, {run_seq: plan.columns})
    pairing = None
    if baseline:
        columns = {run.seq: run.plan.columns for run in baseline.runs}
        pairing = pair_items(_load_items(job, comparison, columns), items)
    job.checkpoint()
    try:
        spec = comparison.spec(items, pairing)
        kpi_values = {kpi.kpi.id: kpi.value for kpi in kpis if kpi.value is not None}
        result, points = _compute(job, spec, kpi_values)
    except (CallLost, ArithmeticError, ValueError) as error:
        job.checkpoint()
        log.warning("the comparison of run %s failed", run_id, exc_info=True)
        reason = f"the comparison could not be computed: {error}"
        return ComparedRunResult(render_not_compared(comparison, ComparisonResult(), reason))
    run = BaselineRun(run_seq, run_id, plan)
    attributes = _load_attributes(job, run)
    if pairing is None:
        verdicts = _without_baseline(job, run_id, comparison, result, validity)
    else:
        verdicts = _with_equal(render_compared(comparison, result, pairing), spec)
        verdicts = _with_slice(job, run, spec, pairing, attributes, verdicts)
    log_failures(run_id, verdicts.failures)
    record = record_run(
        comparison, result.deciders, pairing, attributes, partial(_load_attributes, job)
    )
    verdicts = replace(verdicts, run=with_differences(verdicts.run, record.what_changed))
    if validity.validity is not Validity.VALID:
        return ComparedRunResult(verdicts, record=record)
    return ComparedRunResult(verdicts, _without_gaps(points, gaps), record)


def _without_gaps(points: RunPoints, gaps: Mapping[str, MetricGap]) -> RunPoints:
    """The points without those of metrics with too few values, which would tell nothing of the agent."""
    unmeasured = set(map(metric_series, gaps))
    series = {name: point for name, point in points.series.items() if name not in unmeasured}
    return replace(points, series=series)


def _plan_comparison(
    job: JobContext,
    run_id: str,
    plan: RunPlan,
    kpis: Sequence[KpiValue],
    gaps: Mapping[str, MetricGap],
    agreements: Mapping[str, PeopleAgreement],
    *,
    is_valid: bool,
    has_new_data: bool,
) -> RunComparison:
    """The comparison of a run with its baseline; an invalid run has none."""
    with job.resources.db.read() as session:
        run = get_run(session, run_id)
        baseline = find_baseline(session, run, plan) if is_valid else None
        ruler = find_ruler_changes(session, run, baseline, plan) if has_new_data else ()
        measured = read_measured_runs(session, run.seq) if baseline else {}
    return RunComparison(
        plan=plan,
        kpis=kpis,
        baseline=baseline,
        ruler=ruler,
        measured_runs=measured,
        gaps=gaps,
        agreements=agreements,
    )


def _without_baseline(
    job: JobContext,
    run_id: str,
    comparison: RunComparison,
    result: ComparisonResult,
    validity: ValidityVerdict,
) -> RunVerdicts:
    """The verdicts of a run that has no baseline, or may not be compared with it."""
    if validity.validity is not Validity.VALID:
        reason = f"the run is invalid: {'; '.join(validity.reasons)}"
        return render_not_compared(comparison, result, reason, Verdict.INVALID)
    if conditions := comparison.differences.conditions:
        reason = f"{NOT_COMPARABLE}: {'; '.join(conditions)}"
        return render_not_compared(comparison, result, reason, Verdict.INVALID)
    with job.resources.db.read_statement() as session:
        is_first = get_run(session, run_id).same_source_as is None
    return render_not_compared(comparison, result, FIRST_RUN if is_first else SAME_SOURCE_RUN)


def _with_equal(verdicts: RunVerdicts, spec: ComparisonSpec) -> RunVerdicts:
    """The verdicts, in which a metric with the values of an earlier one names that one."""
    equal = find_equal_metrics(spec)
    metrics = {
        column: verdict.model_copy(update={"same_as": equal[column]})
        if column in equal
        else verdict
        for column, verdict in verdicts.metrics.items()
    }
    return replace(verdicts, metrics=metrics)


def _with_slice(
    job: JobContext,
    run: BaselineRun,
    spec: ComparisonSpec,
    pairing: ItemPairing,
    attributes: ItemAttributes,
    verdicts: RunVerdicts,
) -> RunVerdicts:
    """The verdicts, of which the one of the run says which slice of the items fell alone."""
    if not pairing.is_paired:
        return verdicts
    try:
        fallen = job.pool.run(
            find_fallen_slice, run.plan, spec.deciders.names, pairing, attributes.features,
            timeout_s=TIMEOUT_S,
        )  # fmt: skip
    except CallLost:
        job.checkpoint()
        log.warning("the slices of run %s could not be compared", run.seq, exc_info=True)
        return verdicts
    return replace(verdicts, run=with_fallen_slice(verdicts.run, fallen))


def _compute(
    job: JobContext, spec: ComparisonSpec, kpi_values: Mapping[str, float]
) -> tuple[ComparisonResult, RunPoints]:
    """`compute_in_child` in a child process. Raises: `CallLost`."""
    try:
        return job.pool.run(compute_in_child, spec, kpi_values, timeout_s=TIMEOUT_S)
    except CallLost as error:
        job.checkpoint()
        reduced = _without_counted(spec, error)
        if reduced is spec:
            raise
    return job.pool.run(compute_in_child, reduced, kpi_values, timeout_s=TIMEOUT_S)


def _without_counted(spec: ComparisonSpec, error: CallLost) -> ComparisonSpec:
    """The spec without the metrics that plugins compute from counts, and without their KPIs: theirs is
    the only foreign code in the child process, and may have hung or ended it. They fail with the error.
    """
    if not (counted := spec.count_metrics):
        return spec
    failure = ValueFailure(f"{type(error).__name__}: {error}", str(error))
    metrics = [metric for metric in spec.metrics if metric.column not in counted]
    kpis = [
        kpi
        for kpi in spec.kpis
        if not {column_of(ref.key) for ref in compile_formula(kpi.formula).references} & {*counted}
    ]
    kept = {kpi.id for kpi in kpis}
    lost: list[SubjectKey] = [(column, None) for column in counted]
    lost += [(None, kpi.id) for kpi in spec.kpis if kpi.id not in kept]
    return replace(
        spec, metrics=metrics, kpis=kpis, failures={**spec.failures, **dict.fromkeys(lost, failure)}
    )


def compute_in_child(
    spec: ComparisonSpec, kpi_values: Mapping[str, float]
) -> tuple[ComparisonResult, RunPoints]:
    """`compute` and `points_of_run`: numpy is imported in a child process only."""
    from mosaico.comparison.child_computation import compute
    from mosaico.comparison.series_levels import points_of_run

    failures = ValueFailures()
    points = points_of_run(spec, kpi_values, failures)
    result = compute(spec)
    return replace(result, failures={**failures.by_key, **result.failures}), points


def _load_attributes(job: JobContext, run: BaselineRun) -> ItemAttributes:
    job.checkpoint()
    with job.resources.db.read() as session:
        return read_run_attributes(session, run)


def _load_items(
    job: JobContext, comparison: RunComparison, runs: Mapping[int, Sequence[str]]
) -> ItemMatrix:
    """The items of some runs; `runs` are their stored metrics by seq.

    Metric plugins summarize traces in a child process, so that a plugin cannot block the worker.
    """

    def summarize(
        ref: MetricRef, values: Sequence[float | None], traces: Sequence[Trace]
    ) -> TraceSummaries:
        job.checkpoint()
        try:
            return job.pool.run(summarize_traces, ref, values, traces, timeout_s=job.call_timeout_s)
        except CallLost as error:
            job.checkpoint()
            return failure_of_lost_call(error)

    job.checkpoint()
    # One statement, which takes seconds for a million traces.
    with job.resources.db.read() as session:
        matrix = read_items(
            session,
            runs,
            comparison.item_columns,
            cluster_field=comparison.plan.cluster_field,
            is_sample=comparison.plan.is_sample,
            has_answers=comparison.has_judgements,
        )
    return with_label_counts(matrix, job.resources.db, runs, comparison.count_metrics, summarize)
