"""A benchmark run, from traces to KPI values: the whole product on one screen.

    begin → collect → score × n → finish

Each function is one job. It opens its step (and so takes it away from whoever lost it), works
outside any transaction, and writes what it found in one transaction that fails when the step was
taken away or the run has ended. So a job can be killed anywhere and simply done again.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from app.alerts.evaluation import AlertEvaluationService, EvaluatedRun
from app.comparison.fingerprint import find_fingerprint
from app.comparison.run_verdicts import judge_run, standings
from app.core.errors import Unavailable
from app.jobs.handlers import Job
from app.kpis.evaluate import evaluate_kpis
from app.metrics.aggregate import Aggregate
from app.metrics.registry import column_of
from app.results import queries
from app.results.rules import Validity, judge_validity, with_reason
from app.runs import service, shards
from app.runs.judge_calibration import find_drift
from app.runs.llm_metrics import measure_traces
from app.runs.metric_cache import measured_before
from app.runs.plan_builder import make_plan, note_answer, trace_query
from app.runs.scoring import Columns, RunValues, summarize
from app.runs.write_back import request_write_back
from app.traces.collect import collect
from app.traces.queries import read_traces
from app.traces.registry import TRACE_SOURCES, CredentialsRefused, TraceQuery
from app.traces.types import Trace

SHARDS_AT_ONCE = 16
TRACES_AT_ONCE = 2000


def begin(job: Job, run_id: str) -> None:
    """Freeze what the run will do: benchmark, formulas, metric versions."""
    res = job.resources
    with res.db.begin() as session:
        if not service.may_begin(session, run_id):
            return
        plan = make_plan(session, run_id, res.llm)
        lock = TRACE_SOURCES.get(plan.source).lock(trace_query(session, plan, res))
        service.begin_run(session, run_id, plan, lock, res.clock())


def collect_traces(job: Job, run_id: str) -> None:
    """Copy the traces of the run from their source, going on after the pages that are there."""
    res = job.resources
    with res.db.begin() as session:
        step = service.open_step(session, run_id)
        if step is None:
            return
        query, collection = (
            trace_query(session, step.plan, res),
            service.collection_of(session, step),
        )
    if collection.completed_at is None:
        _fill(job, step, query, collection.cursor)
    with res.db.read() as session:
        stretches = queries.cut_shards(
            session, run_id, traces=shards.SHARD_TRACES, size_bytes=shards.SHARD_BYTES
        )
        fingerprint = find_fingerprint(session, run_id, step.plan)
    with res.db.begin() as session:
        shards.plan_shards(session, step, stretches, fingerprint)


def _fill(job: Job, step: service.Step, query: TraceQuery, cursor: str | None) -> None:
    """Store the pages that are left; with the agent's new keys where it got some meanwhile."""
    res = job.resources
    try:
        for page in collect(TRACE_SOURCES.get(step.plan.source).open(res), query, cursor):
            job.checkpoint()
            with res.db.begin() as session:
                complete = service.append_page(session, step, page, res.clock())
                if complete:
                    note_answer(session, step.plan, query, res, refused=False)
            if complete:
                return
    except CredentialsRefused:
        with res.db.begin() as session:
            note_answer(session, step.plan, query, res, refused=True)
            newer = trace_query(session, step.plan, res)
            cursor = service.collection_of(session, step).cursor
        if newer == query:
            raise
        _fill(job, step, newer, cursor)


def score(job: Job, run_id: str, shard: int) -> None:
    """Measure one shard of the traces with every metric of the run, as far as no earlier run did."""
    res = job.resources
    with res.db.begin() as session:
        step = shards.open_shard(session, run_id, shard)
    if step is None:
        return
    with res.db.read() as session:
        before = measured_before(session, step)
        traces = list[Trace]()
        if before.needs_traces:
            traces = read_traces(session, step.collection_id, step.first, step.last)
    go_on = partial(_require_shard, job, step)
    measure = partial(measure_traces, job=job, run_seq=step.run_seq, checkpoint=go_on)
    measured = before.completed(traces, measure)
    summaries = summarize(traces, measured, step.plan.refs, job, go_on, known=before.summaries)
    with res.db.begin() as session:
        shards.store_shard(
            session, step, measured, res.clock(), summaries=summaries, reused=before.values
        )


def _require_shard(job: Job, step: shards.ShardStep) -> None:
    """Raise when the worker stops, the run has ended or another worker took the shard over."""
    job.checkpoint()
    # A database that is away for a moment costs nothing that was measured: storing asks again.
    with suppress(Unavailable), job.resources.db.read() as session:
        shards.require_shard(session, step)


def finish(job: Job, run_id: str) -> None:
    """Aggregate what was measured, evaluate the KPIs, judge whether the run can be trusted and how it
    stands beside its baseline, decide what it means for the alerts.
    """
    res = job.resources
    with res.db.begin() as session:
        step = service.open_step(session, run_id)
    if step is None:
        return
    columns = _columns(job, step)
    aggregates, tally = _with_run_values(job, step, columns.aggregates()), columns.tally()
    kpis = evaluate_kpis(step.plan.kpis, _statistics(aggregates))
    validity = with_reason(
        judge_validity(
            tally, min_coverage=step.plan.min_coverage, max_error_share=step.plan.max_error_share
        ),
        find_drift(job, step, job.checkpoint),
    )
    verdicts = judge_run(
        job,
        run_id=run_id,
        run_seq=step.run_seq,
        plan=step.plan,
        kpis=kpis,
        validity=validity,
    )
    run = EvaluatedRun(
        seq=step.run_seq,
        id=run_id,
        benchmark_id=step.plan.benchmark_id,
        agent_id=step.plan.agent_id,
        fingerprint=step.fingerprint,
        is_valid=validity.validity is Validity.VALID,
        reasons=validity.reasons,
        traces=tally.total,
        kpis=kpis,
        aggregates=aggregates,
        kpi_verdicts=verdicts.kpis,
        metric_verdicts=verdicts.metrics,
    )
    found = service.Finished(
        expected=tally.total,
        aggregates=aggregates,
        kpis=kpis,
        standings=standings(kpis, aggregates, verdicts),
        validity=validity,
        verdicts=verdicts,
        alerts=AlertEvaluationService(res.db).evaluate_alerts_for_run(run),
    )
    with res.db.begin() as session:
        service.finish_run(session, step, found, res.clock())
        request_write_back(session, run_id, res)


def _columns(job: Job, step: service.Step) -> Columns:
    """All that was measured; nothing changes it any more, so that it is read piece by piece."""
    with job.resources.db.read() as session:
        trials = queries.has_trials(session, step.collection_id)
    columns, first = Columns(step.plan.columns, trials=trials), 0
    while True:
        job.checkpoint()
        with job.resources.db.read() as session:
            rows = queries.scored_from(
                session, step.run_seq, step.collection_id, first, TRACES_AT_ONCE
            )
        if not rows:
            with job.resources.db.read() as session:
                columns.add_absent(service.absent_traces(session, step))
            return columns
        for row in rows:
            columns.add(row)
        first += TRACES_AT_ONCE


def _with_run_values(
    job: Job, step: service.Step, aggregates: dict[str, Aggregate]
) -> dict[str, Aggregate]:
    """The aggregates, with a value of the whole run where a metric defines one."""
    values, shard = RunValues(step.plan.refs, job), -1
    while values:
        with job.resources.db.read() as session:
            found = queries.summaries_after(session, step.run_seq, shard, SHARDS_AT_ONCE)
        if not found:
            break
        values.add([each.summaries for each in found])
        shard = found[-1].shard
    return values.into(aggregates)


def _statistics(aggregates: dict[str, Aggregate]) -> Callable[[str, str], float | None]:
    return lambda key, name: aggregates[column_of(key)].statistic(name)


def give_up(job: Job, run_id: str, code: str, message: str, **_: object) -> None:
    """A job of the run failed for good: so did the run."""
    with job.resources.db.begin() as session:
        service.fail_run(session, run_id, code, message, job.resources.clock())
