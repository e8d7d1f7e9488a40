"""How a run stands beside its baseline, worked out before the run is stored as ended."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.comparison.baselines import Baseline, find_baseline
from app.comparison.comparison_spec import (
    Findings,
    KpiInterval,
    KpiQuestion,
    MetricQuestion,
    Question,
)
from app.comparison.item_counts import Tables, tables_of_traces, with_counts
from app.comparison.item_matrix import ItemTable, Pairing, pair_items
from app.comparison.item_queries import items_of_runs
from app.comparison.verdict_view import (
    FIRST_RUN,
    NOT_COMPARABLE,
    not_compared,
    render_run,
    render_verdict,
    run_not_compared,
)
from app.formula import Reference, compile_formula, read_reference
from app.jobs.handlers import JobContext
from app.jobs.pool import CallLost
from app.kpis.evaluate import KpiValue
from app.kpis.verdicts import (
    BaselineRuns,
    ComparedItems,
    RepeatedTrials,
    RunVerdict,
    RunVerdicts,
    ValueVerdict,
)
from app.metrics.lost_calls import failure_of_lost_call
from app.metrics.registry import column_of, provider_for
from app.metrics.run_value import is_counted, is_run_metric
from app.metrics.types import Direction, MetricFailed, MetricRef, MetricSpec
from app.results.plan import PlanDifferences, PlannedMetric, RunPlan, compare_plans
from app.results.rules import Validity, ValidityVerdict
from app.statistics.verdict import Scale, Side, Verdict, VerdictRule
from app.traces.types import Trace

log = logging.getLogger(__name__)

HARM = {
    Direction.HIGHER_IS_BETTER: Side.LOW,
    Direction.LOWER_IS_BETTER: Side.HIGH,
    Direction.NEITHER: Side.BOTH,
}
# Units of which ratios matter: a second more is much on one and nothing on a hundred.
RATIO_UNITS = frozenset({"ms", "s", "USD", "tokens"})
# A change this many times the smallest that counts is one that is not to be overlooked.
MARGIN = 2.5
# Ten seconds of work for 100,000 traces; a machine may be busy with other things.
LONGEST_S = 600.0
OTHER_METRIC = (
    f"{NOT_COMPARABLE}, which does not have it in this version; rescore the baseline to compare"
)
OTHER_KPI = f"{NOT_COMPARABLE}: its formula or its metrics changed; rescore the baseline to compare"
WHOLE_RUN = "its value of the whole run is neither a mean of items nor read off counts of theirs"


def judge_run(
    job: JobContext,
    *,
    run_id: str,
    run_seq: int,
    plan: RunPlan,
    kpis: Sequence[KpiValue],
    validity: ValidityVerdict,
) -> RunVerdicts:
    """The verdict on every KPI and metric of a run whose traces are all measured, with intervals.

    Reads the items of the run and its baseline; computes in a child process. A computation that is
    lost costs the verdicts and not the run.
    """
    with job.resources.db.read() as session:
        valid = validity.validity is Validity.VALID
        baseline = find_baseline(session, run_id, plan) if valid else None
        case = Case(plan=plan, kpis=kpis, baseline=baseline)
    cut = case.differences.conditions
    run = _items(job, case, {run_seq: plan.columns})
    base = None
    if baseline and not cut:
        base = _items(job, case, {each.seq: each.plan.columns for each in baseline.runs})
    pairing = pair_items(base, run) if base else None
    job.checkpoint()
    try:
        found = job.pool.run(answered, case.question(run, pairing), timeout_s=LONGEST_S)
    except (CallLost, ArithmeticError, ValueError) as lost:
        job.checkpoint()
        log.warning("no verdict on run %s", run_id, exc_info=True)
        return case.without_comparison(Findings(), f"it could not be computed: {lost}")
    if not valid:
        reasons = "; ".join(validity.reasons)
        return case.without_comparison(found, f"the run is invalid: {reasons}", Verdict.INVALID)
    if cut:
        why = f"{NOT_COMPARABLE}: {'; '.join(cut)}"
        return case.without_comparison(found, why, Verdict.INVALID)
    if pairing is None:
        return case.without_comparison(found, FIRST_RUN)
    return case.told(found, pairing)


def answered(asked: Question) -> Findings:
    """The numbers of a question; numpy is imported where this is called."""
    from app.comparison.compute import answer

    return answer(asked)


def _items(job: JobContext, case: "Case", runs: Mapping[int, Sequence[str]]) -> ItemTable:
    """The items of some runs; providers are asked in a child process."""

    def summarize(
        ref: MetricRef, values: Sequence[float | None], traces: Sequence[Trace]
    ) -> Tables | MetricFailed:
        job.checkpoint()
        try:
            return job.pool.run(tables_of_traces, ref, values, traces, timeout_s=job.call_timeout_s)
        except CallLost as lost:
            job.checkpoint()
            return failure_of_lost_call(lost)

    job.checkpoint()
    with job.resources.db.read() as session:
        table = items_of_runs(session, runs, case.columns, cluster_field=case.plan.cluster_field)
    return with_counts(table, job.resources.db, runs, case.counted, summarize)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run about to be judged."""

    plan: RunPlan
    kpis: Sequence[KpiValue]
    baseline: Baseline | None

    @property
    def columns(self) -> list[str]:
        """The metrics whose value of the run is made of its items."""
        return [
            metric.column
            for metric in self.plan.metrics
            if metric.column in self.counted or not is_run_metric(metric.ref)
        ]

    @property
    def counted(self) -> dict[str, MetricRef]:
        """Those of which it is read off counts."""
        return {metric.column: metric.ref for metric in self.plan.metrics if is_counted(metric.ref)}

    @property
    def differences(self) -> PlanDifferences:
        earlier = self.baseline.runs if self.baseline else ()
        return compare_plans((run.plan for run in earlier), self.plan)

    def question(self, run: ItemTable, pairing: Pairing | None) -> Question:
        differs = self.differences
        known = self._known(run, *((pairing.base, pairing.candidate) if pairing else ()))
        return Question(
            run=run,
            candidate=pairing.candidate if pairing else None,
            base=pairing.base if pairing else None,
            paired=pairing.paired if pairing else True,
            metrics=[
                MetricQuestion(
                    column=metric.column,
                    scale=metric_rule(_spec(metric)).scale,
                    rule=None if metric.column in differs.metrics else metric_rule(_spec(metric)),
                    is_success=_is_success(_spec(metric)),
                    counted=self.counted.get(metric.column),
                )
                for metric in self.plan.metrics
                if metric.column in known
            ],
            kpis=[
                KpiQuestion(
                    id=one.kpi.id,
                    formula=one.kpi.formula,
                    column=_plain_column(one.kpi.formula),
                    is_gate=one.kpi.gate,
                    rule=None if one.kpi.id in differs.kpis else self.kpi_rule(one),
                    threshold_min=one.kpi.threshold_min,
                )
                for one in self.kpis
                if one.value is not None
                and {column_of(ref.key) for ref in _references(one)} <= known
            ],
        )

    def kpi_rule(self, one: KpiValue) -> VerdictRule:
        """What counts as a change of a KPI; a plain metric in its place is judged as that metric."""
        specs = self._specs(one)
        plain = _plain_column(one.kpi.formula)
        side = HARM[Direction(one.kpi.direction)]
        if one.kpi.min_effect is not None:
            least = one.kpi.min_effect
            return VerdictRule(side=side, min_effect=least, margin=MARGIN * least)
        if plain is not None:
            return VerdictRule(side=side, scale=metric_rule(specs[0]).scale)
        shares = one.value is not None and 0 <= one.value <= 1 and all(map(_is_share, specs))
        return VerdictRule(side=side, scale=Scale.RATE if shares else Scale.NUMBER)

    def told(self, found: Findings, pairing: Pairing) -> RunVerdicts:
        """What is stored of a run that was compared."""
        assert self.baseline is not None
        differs = self.differences
        items = ComparedItems(
            compared=len(pairing.candidate.items) if pairing.paired else 0,
            only_baseline=pairing.only_base,
            only_candidate=pairing.only_candidate,
            revised=pairing.revised,
            left_out=pairing.left_out,
        )
        metrics = {
            metric.column: render_verdict(
                metric.column, found.metrics[metric.column], metric_rule(_spec(metric)).scale
            )
            if metric.column in found.metrics
            else self._no_metric(metric, differs)
            for metric in self.plan.metrics
        }
        kpis = {
            one.kpi.id: render_verdict(
                one.kpi.name, found.kpis[one.kpi.id], self.kpi_rule(one).scale, gate=one.kpi.gate
            )
            if one.kpi.id in found.kpis
            else self._no_kpi(one, differs)
            for one in self.kpis
        }
        run = render_run(
            list(kpis.values()),
            list(metrics.values()),
            baseline=self._baseline_runs(),
            items=items,
            differences=differs,
        )
        return self._verdicts(found, run, metrics, kpis)

    def without_comparison(
        self, found: Findings, reason: str, verdict: Verdict | None = None
    ) -> RunVerdicts:
        """What is stored of a run that was not compared: one reason for all of it."""
        value_verdict = not_compared(reason, verdict)
        run_verdict = run_not_compared(
            reason, verdict, baseline=self._baseline_runs(), differences=self.differences
        )
        return self._verdicts(
            found,
            run_verdict,
            {metric.column: value_verdict for metric in self.plan.metrics},
            {kpi_value.kpi.id: value_verdict for kpi_value in self.kpis},
        )

    def _baseline_runs(self) -> BaselineRuns | None:
        if self.baseline is None:
            return None
        return BaselineRuns(
            mode=self.baseline.mode, run_ids=tuple(run.id for run in self.baseline.runs)
        )

    def _verdicts(
        self,
        found: Findings,
        run: RunVerdict,
        metrics: Mapping[str, ValueVerdict],
        kpis: Mapping[str, ValueVerdict],
    ) -> RunVerdicts:
        return RunVerdicts(
            run=run,
            metrics={
                column: verdict.model_copy(update={"repeats": _repeated_trials(found, column)})
                for column, verdict in metrics.items()
            },
            kpis={
                kpi: _with_interval_facts(verdict, found.kpi_intervals.get(kpi))
                for kpi, verdict in kpis.items()
            },
            metric_intervals=found.metric_intervals,
            kpi_intervals={
                kpi: each.interval for kpi, each in found.kpi_intervals.items() if each.interval
            },
        )

    def _no_metric(self, metric: PlannedMetric, differs: PlanDifferences) -> ValueVerdict:
        if metric.column in differs.metrics:
            return not_compared(OTHER_METRIC, Verdict.INVALID)
        return not_compared(WHOLE_RUN)

    def _no_kpi(self, one: KpiValue, differs: PlanDifferences) -> ValueVerdict:
        if one.value is None:
            return not_compared(f"it has no value: {one.reason}", has_value=False)
        if one.kpi.id in differs.kpis:
            return not_compared(OTHER_KPI, Verdict.INVALID)
        return not_compared(WHOLE_RUN)

    def _known(self, *tables: ItemTable) -> set[str]:
        """The columns that can be resampled: what could not be counted in one of the runs cannot."""
        return {
            column
            for column in self.columns
            if column not in self.counted or all(column in table.counts for table in tables)
        }

    def _specs(self, one: KpiValue) -> list[MetricSpec]:
        planned = {metric.column: metric for metric in self.plan.metrics}
        return [_spec(planned[column_of(ref.key)]) for ref in _references(one)]


def metric_rule(spec: MetricSpec) -> VerdictRule:
    """What counts as a change of a metric: two points of a share, 2 % of anything else."""
    scale = Scale.RATIO if spec.unit in RATIO_UNITS else Scale.NUMBER
    return VerdictRule(side=HARM[spec.direction], scale=Scale.RATE if _is_share(spec) else scale)


def _is_share(spec: MetricSpec) -> bool:
    return (spec.minimum, spec.maximum) == (0.0, 1.0)


def _is_success(spec: MetricSpec) -> bool:
    return _is_share(spec) and spec.direction is Direction.HIGHER_IS_BETTER


def _spec(metric: PlannedMetric) -> MetricSpec:
    return provider_for(metric.ref).spec


def _references(one: KpiValue) -> tuple[Reference, ...]:
    return compile_formula(one.kpi.formula).references


def _plain_column(formula: str) -> str | None:
    """The metric of which a KPI is nothing but the mean."""
    reference = read_reference(formula)
    return column_of(reference.key) if reference and reference.stat == "mean" else None


def _with_interval_facts(verdict: ValueVerdict, interval: KpiInterval | None) -> ValueVerdict:
    """The verdict of a KPI with what its resamples show beside the interval."""
    if interval is None:
        return verdict
    return verdict.model_copy(
        update={
            "threshold_probability": interval.reaches_threshold,
            "warnings": tuple(note.sentence for note in interval.notes),
        }
    )


def _repeated_trials(found: Findings, column: str) -> tuple[RepeatedTrials, ...]:
    return tuple(RepeatedTrials.model_validate(row) for row in found.repeats.get(column, ()))
