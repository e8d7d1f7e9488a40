"""The verdicts of a compared run, and the reasons of what is not compared; pure."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from mosaico.comparison.comparison_rules import (
    RunComparison,
    columns_of,
    metric_rule,
    spec_of,
)
from mosaico.comparison.comparison_spec import ComparisonResult, KpiInterval
from mosaico.comparison.deciders import DecidedBy, Deciders, with_meaning
from mosaico.comparison.direction_remedy import direct_kpi, direct_metric
from mosaico.comparison.run_verdict_text import NOT_COMPARABLE, render_run, run_not_compared
from mosaico.comparison.value_failures import ValueFailures, describe_failure
from mosaico.comparison.verdict_text import not_compared, render_verdict
from mosaico.comparison.weak_judges import with_weak_judges
from mosaico.formula import compile_formula
from mosaico.items.formulas.properties import ValueRange
from mosaico.items.matrix import ItemPairing
from mosaico.kpis.evaluate import KpiValue
from mosaico.kpis.verdict_types import (
    BaselineRuns,
    ComparedItems,
    RunVerdict,
    RunVerdicts,
    SubjectKey,
    ValueVerdict,
)
from mosaico.run_store.plan import PlannedMetric
from mosaico.run_store.plan_differences import MEASURED_DIFFERENTLY, PlanDifferences
from mosaico.statistics.verdict_rules import Verdict

CHANGED_METRIC = (
    f"{NOT_COMPARABLE}: it is {MEASURED_DIFFERENTLY}, and the baseline was not measured again; later runs"
    " are compared with this one, or rescore the baseline"
)
NEW_METRIC = f"{NOT_COMPARABLE}, which does not have this metric; rescore the baseline"
READ_DIFFERENTLY = (
    f"{NOT_COMPARABLE}: its traces are read by another version of their reader, or redacted by other rules, and those of"
    " the baseline cannot be read again; later runs are compared with this one"
)
CHANGED_KPI = f"{NOT_COMPARABLE}: its metrics are new or measured differently; rescore the baseline"
KPI_READ_DIFFERENTLY = READ_DIFFERENTLY.replace("its traces", "the traces of its metrics")
# The source in the plan of a file that is compared without a server.
FILE_SOURCE = "file"
NOT_PER_ITEM = "its value of the whole run is neither a mean over items nor computed from counts"


def render_compared(
    comparison: RunComparison, result: ComparisonResult, pairing: ItemPairing
) -> RunVerdicts:
    """The verdicts of a run that was compared with its baseline."""
    assert comparison.baseline is not None
    changed = comparison.differences
    failures = ValueFailures(result.failures)
    metrics = _metric_verdicts(comparison, result, changed, failures)
    kpis = _kpi_verdicts(comparison, result, changed, failures)
    run = render_run(
        _deciding_verdicts(result.deciders, metrics, kpis),
        noun="KPI" if kpis else "metric",
        # Beside the KPIs, and no one of them.
        guard=_worse_guard(result.deciders, metrics) if kpis else None,
        is_measured=result.deciders.by is not DecidedBy.NOTHING,
        is_file=_is_file(comparison),
        baseline=_baseline_runs(comparison),
        items=ComparedItems(
            compared=len(pairing.candidate.items) if pairing.is_paired else 0,
            only_baseline=pairing.only_baseline,
            only_candidate=pairing.only_candidate,
            revised=pairing.revised,
            left_out=pairing.left_out,
            are_samples=pairing.are_samples,
        ),
        differences=changed,
        ruler=comparison.ruler or changed.ruler,
        failures=_failure_reasons(comparison, failures),
        lost=[f"{column}: {reason}" for column, reason in _unmeasured(comparison, result).items()],
    )
    if run.verdict is Verdict.INVALID:
        run = run.model_copy(update={"incomplete": _incomplete(comparison, result)})
    verdicts = _with_results(run, metrics, kpis, replace(result, failures=failures.by_key))
    return with_weak_judges(verdicts, comparison, result.deciders)


def _metric_verdicts(
    comparison: RunComparison,
    result: ComparisonResult,
    changed: PlanDifferences,
    failures: ValueFailures,
) -> dict[str, ValueVerdict]:
    """The verdict of each metric, by column; one that fails is added to `failures`."""
    return {
        metric.column: _verdict_or_failure(
            failures,
            (metric.column, None),
            metric.column,
            partial(_metric_verdict, comparison, metric, result, changed),
        )
        for metric in comparison.plan.metrics
    }


def _kpi_verdicts(
    comparison: RunComparison,
    result: ComparisonResult,
    changed: PlanDifferences,
    failures: ValueFailures,
) -> dict[str, ValueVerdict]:
    """The verdict of each KPI, by ID; one that fails is added to `failures`."""
    return {
        value.kpi.id: _verdict_or_failure(
            failures,
            (None, value.kpi.id),
            value.kpi.name,
            partial(_kpi_verdict, comparison, value, result, changed),
        )
        for value in comparison.kpis
    }


def _unmeasured(comparison: RunComparison, result: ComparisonResult) -> dict[str, str]:
    """The reasons of the metrics with too few values, by column."""
    return comparison.unmeasured(result.lost_values)


def _incomplete(comparison: RunComparison, result: ComparisonResult) -> tuple[str, ...]:
    """The metrics that the run has too few values of."""
    least = comparison.plan.min_coverage
    lacking = [column for column, values in result.lost_values.items() if values.is_lacking(least)]
    return tuple(dict.fromkeys((*lacking, *comparison.gaps)))


def render_not_compared(
    comparison: RunComparison, result: ComparisonResult, reason: str, verdict: Verdict | None = None
) -> RunVerdicts:
    """The verdicts of a run that was not compared, with the intervals of its values."""
    failures = ValueFailures(result.failures)
    run = run_not_compared(
        reason,
        verdict,
        baseline=_baseline_runs(comparison),
        differences=comparison.differences,
        ruler=comparison.ruler or comparison.differences.ruler,
        failures=_failure_reasons(comparison, failures),
    )

    if comparison.kpis and all(value.is_incomplete for value in comparison.kpis):
        # The next complete run could not be compared with it.
        run = run.model_copy(update={"incomplete": tuple(comparison.gaps)})

    def value_verdict(key: SubjectKey, name: str) -> ValueVerdict:
        failure = failures.by_key.get(key)
        more = f"; {describe_failure(name, failure)}" if failure else ""
        return not_compared(f"{reason}{more}", verdict)

    metrics = {
        metric.column: value_verdict((metric.column, None), metric.column)
        for metric in comparison.plan.metrics
    }
    kpis = {
        value.kpi.id: value_verdict((None, value.kpi.id), value.kpi.name)
        for value in comparison.kpis
    }
    verdicts = _with_results(run, metrics, kpis, result)
    return with_weak_judges(verdicts, comparison, result.deciders)


def _deciding_verdicts(
    deciders: Deciders,
    metrics: Mapping[str, ValueVerdict],
    kpis: Mapping[str, ValueVerdict],
) -> list[ValueVerdict]:
    """The verdicts that are that of the run: of its KPIs, otherwise of the metrics that decide."""
    if kpis:
        return list(kpis.values())
    is_worse = _worse_guard(deciders, metrics) is not None
    names = deciders.checked if is_worse else deciders.names
    return [metrics[name] for name in names if name in metrics]


def _worse_guard(deciders: Deciders, metrics: Mapping[str, ValueVerdict]) -> ValueVerdict | None:
    """The verdict of the metric of failed answers if more answers failed."""
    guard = metrics.get(deciders.guard or "")
    return guard if guard is not None and guard.verdict is Verdict.REGRESSED else None


def _failure_reasons(comparison: RunComparison, failures: ValueFailures) -> list[str]:
    """The reasons of all failures, each with the name of its metric or KPI."""
    names = {value.kpi.id: value.kpi.name for value in comparison.kpis}
    return [
        describe_failure(column or names.get(kpi_id or "", kpi_id or ""), failure)
        for (column, kpi_id), failure in failures.by_key.items()
    ]


def _metric_verdict(
    comparison: RunComparison,
    metric: PlannedMetric,
    result: ComparisonResult,
    changed: PlanDifferences,
) -> ValueVerdict:
    change = result.metrics.get(metric.column)
    if change is not None:
        spec = spec_of(metric)
        scale = metric_rule(spec).scale
        limits = ValueRange(spec.minimum, spec.maximum)
        remedy = direct_metric(metric.column, is_file=_is_file(comparison))
        name = with_meaning(metric.column)
        return render_verdict(name, change, scale, unit=spec.unit, limits=limits, remedy=remedy)
    if metric.column in changed.metrics:
        return not_compared(_changed_reason(metric.column, changed), Verdict.INVALID)
    if (reason := _unmeasured(comparison, result).get(metric.column)) is not None:
        return not_compared(reason, Verdict.INVALID)
    return not_compared(NOT_PER_ITEM)


def _kpi_verdict(
    comparison: RunComparison, value: KpiValue, result: ComparisonResult, changed: PlanDifferences
) -> ValueVerdict:
    kpi, change = value.kpi, result.kpis.get(value.kpi.id)
    if change is not None:
        scale = comparison.kpi_rule(value).scale
        limits = comparison.value_limits(compile_formula(kpi.formula))
        remedy = direct_kpi(kpi.name, kpi.formula, is_file=_is_file(comparison))
        return render_verdict(
            kpi.name, change, scale, unit=kpi.unit, gate=kpi.gate, limits=limits, remedy=remedy
        )
    if value.value is None:
        verdict = Verdict.INVALID if value.is_incomplete else None
        return not_compared(f"it has no value: {value.reason}", verdict, has_value=False)
    if kpi.id in changed.kpis:
        is_read = columns_of(value) & changed.read_differently
        return not_compared(KPI_READ_DIFFERENTLY if is_read else CHANGED_KPI, Verdict.INVALID)
    unmeasured = _unmeasured(comparison, result)
    if lost := sorted(columns_of(value) & unmeasured.keys()):
        reasons = (f"{column}: {unmeasured[column]}" for column in lost)
        return not_compared("; ".join(reasons), Verdict.INVALID)
    return not_compared(NOT_PER_ITEM)


def _is_file(comparison: RunComparison) -> bool:
    return comparison.plan.source == FILE_SOURCE


def _baseline_runs(comparison: RunComparison) -> BaselineRuns | None:
    if comparison.baseline is None:
        return None
    return BaselineRuns(
        mode=comparison.baseline.mode, run_ids=tuple(run.id for run in comparison.baseline.runs)
    )


def _changed_reason(column: str, changed: PlanDifferences) -> str:
    """The reason why a metric is not compared."""
    if column in changed.read_differently:
        return READ_DIFFERENTLY
    return CHANGED_METRIC if column in changed.measurable_again else NEW_METRIC


def _verdict_or_failure(
    failures: ValueFailures, key: SubjectKey, name: str, render: Callable[[], ValueVerdict]
) -> ValueVerdict:
    """A verdict; without one, and with the reason, where any part of it failed."""
    verdict = failures.attempt(key, render)
    if verdict is None or key in failures.by_key:
        return not_compared(describe_failure(name, failures.by_key[key]))
    return verdict


def _with_results(
    run: RunVerdict,
    metrics: Mapping[str, ValueVerdict],
    kpis: Mapping[str, ValueVerdict],
    result: ComparisonResult,
) -> RunVerdicts:
    """The verdicts with the intervals and trial statistics that every run has."""
    return RunVerdicts(
        run=run,
        metrics={
            column: verdict.model_copy(update={"repeats": tuple(result.repeats.get(column, ()))})
            for column, verdict in metrics.items()
        },
        kpis={
            kpi: _with_interval_facts(verdict, result.kpi_intervals.get(kpi))
            for kpi, verdict in kpis.items()
        },
        metric_intervals=result.metric_intervals,
        kpi_intervals={
            kpi: interval.interval
            for kpi, interval in result.kpi_intervals.items()
            if interval.interval
        },
        failures=result.failures,
    )


def _with_interval_facts(verdict: ValueVerdict, interval: KpiInterval | None) -> ValueVerdict:
    """The verdict of a KPI with its threshold probability and warnings."""
    if interval is None:
        return verdict
    return verdict.model_copy(
        update={
            "threshold_probability": interval.threshold_probability,
            "warnings": tuple(note.sentence for note in interval.notes),
        }
    )
