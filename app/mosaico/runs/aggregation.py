"""From stored trace results to the result of a run: aggregates, KPIs, validity and verdicts."""

from collections.abc import Sequence
from typing import NamedTuple

from mosaico.annotations.kpi_corrections import correct_kpis
from mosaico.annotations.run_judges import measure_judges_of_run
from mosaico.comparison.baseline_comparison import compare_with_baseline
from mosaico.comparison.unmeasured_deciders import unmeasured_deciders
from mosaico.jobs.handlers import JobContext
from mosaico.kpis.evaluate import KpiValue, evaluate_kpis, warn_of_few_trials
from mosaico.metrics.aggregate import Aggregate
from mosaico.metrics.metric_gaps import MetricGap, find_gaps
from mosaico.metrics.registry import column_of
from mosaico.metrics.unread_texts import measured_texts, warn_of_unread
from mosaico.run_store import queries
from mosaico.run_store.plan import PlannedJudgeCalibration
from mosaico.run_store.rules import (
    Validity,
    ValidityVerdict,
    add_reason,
    assess_validity,
    judge_error_reason,
)
from mosaico.run_store.run_result import RunResult
from mosaico.run_store.scored_trace import ScoredTrace
from mosaico.runs.collection import AbsentTraces, count_absent_traces
from mosaico.runs.leases import RunLease
from mosaico.runs.llm_metrics import measure_traces
from mosaico.runs.metric_columns import MetricColumns
from mosaico.runs.run_data import find_place
from mosaico.runs.scoring import RunValues
from mosaico.runs.series import SeriesResults, evaluate_series
from mosaico.statistics.verdict_rules import Verdict
from mosaico.traces.types import Trace

SHARDS_PER_READ = 16
# Short read transactions: a run can have millions of traces.
TRACES_PER_READ = 2000


class _Measured(NamedTuple):
    """What the traces of a run came to, before it is compared."""

    trace_count: int
    aggregates: dict[str, Aggregate]
    gaps: dict[str, MetricGap]
    reasons: dict[str, str]
    kpis: list[KpiValue]
    validity: ValidityVerdict
    warning: str | None


def compute_result(job: JobContext, lease: RunLease, *, may_wait: bool = False) -> RunResult:
    """The result of a run whose shards are all measured. Reads and computes, outside of any
    transaction; writes nothing.

    Raises: `BaselineOutdated` for a run that `may_wait` until its baseline is measured again.
    """
    plan = lease.plan
    with job.resources.db.read() as session:
        absent = count_absent_traces(session, lease)
        run = queries.get_run(session, lease.run_id)
        place, night = find_place(session, run), run.night
    measured = _measure(job, lease, absent)
    judges = measure_judges_of_run(job, lease.run_id, plan, measured.kpis)
    verdicts, points, record = compare_with_baseline(
        job,
        run_id=lease.run_id,
        run_seq=lease.run_seq,
        plan=plan,
        kpis=measured.kpis,
        validity=measured.validity,
        gaps=measured.gaps,
        agreements=judges.agreements,
        has_new_data=place.has_new_data,
        may_wait=may_wait and place.has_new_data,
    )
    is_regressed = verdicts.run.verdict is Verdict.REGRESSED
    judged = (
        evaluate_series(job, lease, points, place, is_regressed=is_regressed)
        if points
        else SeriesResults()
    )
    corrected = correct_kpis(judges, measured.kpis, verdicts)
    return RunResult(
        run_id=lease.run_id, run_seq=lease.run_seq, plan=plan, fingerprint=lease.fingerprint,
        trace_count=measured.trace_count, aggregates=measured.aggregates, kpis=corrected.kpis,
        validity=measured.validity, gaps=measured.reasons, agreements=judges.agreements,
        metric_warning="; ".join(filter(None, (measured.warning, corrected.warning))) or None,
        verdicts=corrected.verdicts, items=judged.items, series=judged.series, place=place, night=night, record=record,
    )  # fmt: skip


def _measure(job: JobContext, lease: RunLease, absent: AbsentTraces) -> _Measured:
    plan = lease.plan
    columns = _read_columns(job, lease)
    # They lower the coverage, as if they had no value.
    columns.add_absent(absent.traces)
    tally = columns.tally()
    aggregates = _with_run_values(job, lease, columns.aggregates())
    texts = measured_texts(plan.refs, aggregates)
    gaps = find_gaps(plan.refs, aggregates, plan.min_coverage, has_trials=columns.has_trials)
    reasons = {column: gap.describe() for column, gap in gaps.items()}
    kpis = evaluate_kpis(
        # By column, because a formula may name a metric by an alias.
        plan.kpis,
        lambda key, statistic: aggregates[column_of(key)].statistic(statistic),
        texts,
        reasons,
        lambda ref: aggregates[column_of(ref.key)].explain_missing(ref.stat),
    )
    validity = assess_validity(
        tally,
        min_coverage=plan.min_coverage,
        max_error_share=plan.max_error_share,
        absence=absent.reason,
    )
    # An invalid run says why: texts that are missing are missing in each metric.
    if validity.validity is Validity.VALID:
        validity = add_reason(validity, unmeasured_deciders(plan, kpis, aggregates, gaps))
    validity = add_reason(validity, check_judge(job, lease))
    few_trials = warn_of_few_trials(plan.kpis, lambda key: aggregates[column_of(key)])
    warning = "; ".join(filter(None, (warn_of_unread(texts), few_trials))) or None
    return _Measured(tally.total, aggregates, gaps, reasons, kpis, validity, warning)


def _read_columns(job: JobContext, lease: RunLease) -> MetricColumns:
    """All values of the run, read in batches: no shard changes any more, so that the batches need
    no common snapshot.
    """
    rows, first = _read_batch(job, lease, 0, with_items=True), 0
    trials = _has_trials(job, lease, rows)
    columns = MetricColumns(lease.plan.columns, trials=trials, added=lease.plan.added_columns)
    while True:
        columns.extend(rows)
        # Positions have no gaps.
        if len(rows) < TRACES_PER_READ:
            return columns
        first += TRACES_PER_READ
        rows = _read_batch(job, lease, first, with_items=trials)


def _read_batch(
    job: JobContext, lease: RunLease, first: int, *, with_items: bool
) -> list[ScoredTrace]:
    job.checkpoint()
    with job.resources.db.read_statement() as session:
        return queries.read_scored_traces(
            session,
            lease.run_seq,
            lease.collection_id,
            first,
            TRACES_PER_READ,
            with_items=with_items,
        )


def _has_trials(job: JobContext, lease: RunLease, first_batch: Sequence[ScoredTrace]) -> bool:
    """Return whether items were repeated: of a run with one batch, its rows show it."""
    if len(first_batch) < TRACES_PER_READ:
        return len({row.item_id for row in first_batch}) < len(first_batch)
    with job.resources.db.read() as session:
        return queries.has_trials(session, lease.collection_id)


def _with_run_values(
    job: JobContext, lease: RunLease, aggregates: dict[str, Aggregate]
) -> dict[str, Aggregate]:
    """The aggregates, with the value of the whole run for each metric that defines one."""
    run_values, shard = RunValues(lease.plan.refs, job), -1
    while run_values:
        with job.resources.db.read() as session:
            shards = queries.list_summarized_shards(session, lease.run_seq, shard, SHARDS_PER_READ)
        if not shards:
            break
        run_values.add([row.summaries for row in shards])
        shard = shards[-1].shard
    return run_values.into(aggregates)


def check_judge(job: JobContext, lease: RunLease) -> str | None:
    """Return the reason why the judge of a run cannot be trusted; None when it can, or when no
    check is configured.
    """
    calibration = lease.plan.judge_calibration
    if calibration is None:
        return None
    rows = measure_traces(
        _calibration_traces(calibration),
        (calibration.metric.ref,),
        job=job,
        run_seq=lease.run_seq,
        # Answers of earlier runs would show the judge as it was then.
        cache_suffix=f"#run-{lease.run_seq}",
    )
    return judge_error_reason(
        calibration.metric.column,
        [answer.gold for answer in calibration.answers],
        [row.values[0] for row in rows],
        max_error=calibration.max_error,
    )


def _calibration_traces(calibration: PlannedJudgeCalibration) -> list[Trace]:
    return [
        Trace(
            trace_id=f"calibration-{number}",
            item_id=f"calibration-{number}",
            input=answer.input,
            expected_output=answer.expected_output,
            output=answer.output,
        )
        for number, answer in enumerate(calibration.answers)
    ]
