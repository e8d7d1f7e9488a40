"""Builds the plan of a run from its benchmark and its agent."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.agents.service import agent_query, record_credentials_check
from mosaico.benchmarks.models import Benchmark, KpiDefinition
from mosaico.benchmarks.queries import get_agent_of_benchmark, get_kpis
from mosaico.benchmarks.service import source_of
from mosaico.core.llm_server import LlmServer
from mosaico.core.resources import Resources
from mosaico.formula import compile_formula
from mosaico.formula.ast import filtered_key, split_filter
from mosaico.kpis.evaluate import PlannedKpi
from mosaico.metrics.model_metrics import is_remote
from mosaico.metrics.registry import METRICS, column_of, provider_for, ref_of_column
from mosaico.metrics.remote_measurement import with_model
from mosaico.metrics.types import ERROR_RATE, MetricRef
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.plan import PlannedJudgeCalibration, PlannedMetric, RunPlan
from mosaico.run_store.queries import get_run
from mosaico.runs.dataset_items import find_tested_version
from mosaico.traces.registry import TRACE_SOURCES, TraceQuery


def make_plan(session: Session, run: BenchmarkRun, llm: LlmServer | None) -> RunPlan:
    """The plan of a run from the current benchmark and agent, with the model of every judge.

    Raises: `NotFound` or `Invalid` when a metric was removed or has other options now;
            `LlmNotConfigured` when a metric needs a model and none is configured.
    """
    # Both exist, because the run refers to them.
    both = select(Benchmark, Agent).join(Agent, Agent.id == run.agent_id)
    benchmark, agent = session.execute(both.where(Benchmark.id == run.benchmark_id)).one()
    kpis = get_kpis(session, benchmark.id)
    plan = RunPlan(
        benchmark_id=benchmark.id,
        benchmark_revision=benchmark.revision,
        agent_id=agent.id,
        agent_revision=agent.revision,
        source=source_of(benchmark, agent),
        dataset_ref=benchmark.dataset_ref,
        dataset_version=find_tested_version(session, benchmark, agent),
        # What was requested for this run comes before the default of the benchmark.
        run_name=run.run_name or benchmark.run_name,
        metrics=tuple(_metrics([metric.ref for metric in benchmark.metrics], kpis, llm)),
        kpis=tuple(map(PlannedKpi.model_validate, kpis)),
        min_coverage=benchmark.min_coverage,
        max_error_share=benchmark.max_error_share,
        min_agreement=benchmark.min_agreement,
        late_scores=benchmark.late_scores,
        expect_items=benchmark.expect_items,
        settle_for=benchmark.settle_for,
        input_path=benchmark.input_path,
        output_path=benchmark.output_path,
        expected_path=benchmark.expected_path,
        harness=benchmark.harness,
        production=(
            benchmark.production.frozen(run.trace_window, run.created_at)
            if benchmark.production is not None
            else None
        ),
        write_back=benchmark.write_back,
        cluster_field=benchmark.cluster_field,
        infra_errors=tuple(benchmark.infra_errors),
        redact=benchmark.redact,
        baseline=benchmark.baseline,
        judge_calibration=_judge_calibration(benchmark, llm),
    )
    if run.rescore_of is not None:
        return _with_origin_selection(session, plan, run.rescore_of)
    return plan


def _with_origin_selection(session: Session, plan: RunPlan, origin_id: str) -> RunPlan:
    """The plan of a rescored run: what to read comes from its origin, whose traces it scores."""
    origin = get_run(session, origin_id).begun_plan
    selection = (
        "agent_revision",
        "source",
        "dataset_ref",
        "dataset_version",
        "run_name",
        "late_scores",
        "harness",
        "production",
        "input_path",
        "output_path",
        "expected_path",
        "redact",
    )
    return plan.model_copy(update={name: getattr(origin, name) for name in selection})


def trace_query(session: Session, plan: RunPlan, res: Resources) -> TraceQuery:
    """The query for the source, with the current credentials of the agent."""
    agent, is_shared = get_agent_of_benchmark(session, plan.benchmark_id, plan.agent_id)
    return agent_query(
        agent,
        res,
        dataset_ref=plan.dataset_ref,
        dataset_version=plan.dataset_version,
        run_name=plan.run_name,
        late_scores=plan.late_scores or (plan.production is not None and plan.reads_scores),
        harness=plan.harness,
        production=plan.production,
        expect_items=plan.expect_items,
        settle_for=plan.settle_for,
        score_names=plan.score_names,
        input_path=plan.input_path,
        output_path=plan.output_path,
        expected_path=plan.expected_path,
        redact=plan.redact,
        min_coverage=plan.min_coverage,
        agent_id=plan.agent_id,
        is_shared=is_shared,
    )


def collect_lock(session: Session, plan: RunPlan, res: Resources) -> str | None:
    """The lock under which the traces of a run are collected; None for sources without limits."""
    lock = TRACE_SOURCES.get(plan.source).lock
    return None if lock is None else lock(trace_query(session, plan, res))


def record_credentials_result(
    session: Session, plan: RunPlan, query: TraceQuery, res: Resources, *, refused: bool
) -> None:
    """Record on the agent whether the source accepted its keys; nothing for sources without keys."""
    if TRACE_SOURCES.get(plan.source).check is not None:
        record_credentials_check(session, plan.agent_id, query, res, refused=refused)


def _metrics(
    refs: list[MetricRef], kpis: list[KpiDefinition], llm: LlmServer | None
) -> list[PlannedMetric]:
    """The metrics of the benchmark, those that only its formulas use, and that of failed answers."""
    planned = {metric.column: metric for metric in (_metric(ref, llm) for ref in refs)}
    for kpi in kpis:
        for reference in compile_formula(kpi.formula).references:
            # A formula may use a metric that the benchmark does not list: it is measured with
            # default options.
            column = column_of(reference.key)
            if column not in planned:
                listed = planned.get(split_filter(column).key)
                ref = ref_of_column(column) if listed is None else _filtered_ref(listed, column)
                planned[column] = _metric(ref, llm)
    if ERROR_RATE not in planned:
        # The failures of every run are a check of their own.
        added = _metric(MetricRef.of(ERROR_RATE), llm)
        planned[ERROR_RATE] = added.model_copy(update={"is_added": True})
    return list(planned.values())


def _filtered_ref(listed: PlannedMetric, column: str) -> MetricRef:
    """A metric that the benchmark lists, with its options, over the traces of a filter."""
    return MetricRef.of(filtered_key(listed.key, split_filter(column).tags), listed.options)


def _metric(ref: MetricRef, llm: LlmServer | None) -> PlannedMetric:
    if is_remote(ref):
        ref = with_model(ref, llm)
    spec = provider_for(ref).spec
    return PlannedMetric(
        key=ref.key,
        options=dict(ref.options),
        column=spec.key,
        version=spec.version,
        direction=spec.direction,
        package=METRICS.package_of(split_filter(ref.key).key),
    )


def _judge_calibration(
    benchmark: Benchmark, llm: LlmServer | None
) -> PlannedJudgeCalibration | None:
    calibration = benchmark.judge_calibration
    if calibration is None:
        return None
    return PlannedJudgeCalibration(
        metric=_metric(calibration.metric.ref, llm),
        answers=tuple(calibration.answers),
        max_error=calibration.max_error,
    )
