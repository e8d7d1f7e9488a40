"""The differences between the plans of two runs: what was measured, and by which ruler; pure."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mosaico.core.errors import AppError
from mosaico.formula import compile_formula, format_formula
from mosaico.kpis.evaluate import PlannedKpi
from mosaico.metrics.registry import column_of, provider_for
from mosaico.metrics.types import ERROR_RATE, WORK_UNITS, Direction
from mosaico.run_store.plan import PlannedMetric, RunPlan, conditions_of, population_of

MEASURED_DIFFERENTLY: Final = "measured differently from here on"
# A longer text of an option, such as the prompt of a judge, is not printed.
_OPTION_CHARS: Final = 40
_DIRECTIONS: Final = {
    Direction.HIGHER_IS_BETTER: "higher is better",
    Direction.LOWER_IS_BETTER: "lower is better",
    Direction.NEITHER: "no direction",
}


class RulerChange(NamedTuple):
    """A metric that is measured differently. `changes_values`: the same trace may get another value;
    `is_measurable_again`: the new value of an earlier run can be computed from its stored traces.
    """

    column: str
    text: str
    changes_values: bool
    is_measurable_again: bool


class PlanDifferences(NamedTuple):
    """The differences of a plan from earlier plans: the metrics (by column) and KPIs (by ID) whose
    values are not comparable, because they, or their metrics, are measured differently, and descriptions of all differences; `conditions` are the
    descriptions of those that affect every value.

    `measurable_again` are metrics of both plans that stored traces can be measured by again; `read_differently`
    are metrics whose traces were read by another version of the reader, or redacted by other rules, which nothing can
    repeat. `ruler`
    are the descriptions of both.
    """

    metrics: frozenset[str]
    kpis: frozenset[str]
    descriptions: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    measurable_again: frozenset[str] = frozenset()
    read_differently: frozenset[str] = frozenset()
    ruler: tuple[str, ...] = ()


def compare_plans(earlier: Iterable[RunPlan], plan: RunPlan) -> PlanDifferences:
    """The differences between a plan and any of the earlier plans."""
    differences = [_compare(earlier_plan, plan) for earlier_plan in earlier]
    return PlanDifferences(
        frozenset().union(*(difference.metrics for difference in differences)),
        frozenset().union(*(difference.kpis for difference in differences)),
        _unique(text for difference in differences for text in difference.descriptions),
        _unique(text for difference in differences for text in difference.conditions),
        frozenset().union(*(difference.measurable_again for difference in differences)),
        frozenset().union(*(difference.read_differently for difference in differences)),
        _unique(text for difference in differences for text in difference.ruler),
    )


def describe_changes(earlier: RunPlan, plan: RunPlan) -> tuple[str, ...]:
    """Describe the changes between two runs: the agent, the model, the benchmark and
    everything that `compare_plans` finds.
    """
    old, new = earlier.harness, plan.harness
    numbers = [
        ("agent revision", earlier.agent_revision, plan.agent_revision),
        ("benchmark revision", earlier.benchmark_revision, plan.benchmark_revision),
        ("provider", getattr(old, "provider", None), getattr(new, "provider", None)),
        ("model", getattr(old, "model", None), getattr(new, "model", None)),
        ("command", getattr(old, "command", None), getattr(new, "command", None)),
    ]
    return (
        *(f"{name} {before} → {after}" for name, before, after in numbers if before != after),
        *compare_plans([earlier], plan).descriptions,
    )


def _compare(earlier: RunPlan, plan: RunPlan) -> PlanDifferences:
    known = {metric.column for metric in earlier.metrics}
    new = {metric.column for metric in plan.metrics} - known
    added = {metric.column for metric in plan.metrics if metric.is_added}
    changes = list(_ruler_changes(earlier, plan))
    changed = {change.column for change in changes if change.changes_values}
    metrics = frozenset(new | changed)
    affected = {
        kpi.id
        for kpi in plan.kpis
        if any(column_of(ref.key) in metrics for ref in compile_formula(kpi.formula).references)
    }
    conditions = tuple(_condition_differences(earlier, plan))
    texts = (change.text for change in changes)
    ruler = _unique((*texts, *_kpi_formulas(earlier, plan), *_kpi_directions(earlier, plan)))
    descriptions = [
        *ruler,
        *_dataset_versions(earlier, plan),
        *(f"{column} is new" for column in sorted(new - added)),
        *(f"the KPI {kpi.name} is new" for kpi in _new_kpis(earlier, plan)),
        *_kpi_corrections(earlier, plan),
        *conditions,
    ]
    unrepeatable = {change.column for change in changes if not change.is_measurable_again}
    return PlanDifferences(
        metrics,
        frozenset(affected),
        tuple(descriptions),
        conditions,
        frozenset(changed - unrepeatable),
        frozenset(unrepeatable),
        ruler,
    )


def _ruler_changes(earlier: RunPlan, plan: RunPlan) -> Iterator[RulerChange]:
    """How the metrics of both plans are measured differently, by column."""
    before = {metric.column: metric for metric in earlier.completed_by(plan).metrics}
    for metric in sorted(plan.metrics, key=lambda metric: metric.column):
        if (old := before.get(metric.column)) is None:
            continue
        changes_values = old.full_version != metric.full_version
        texts = list(_metric_changes(old, metric))
        if texts:
            text = f"{metric.column} is {MEASURED_DIFFERENTLY} ({', '.join(texts)})"
            yield RulerChange(metric.column, text, changes_values, is_measurable_again=True)
    yield from _error_changes(earlier, plan, before)
    yield from _reader_changes(earlier, plan, before)
    yield from _redaction_changes(earlier, plan, before)


def _metric_changes(old: PlannedMetric, new: PlannedMetric) -> Iterator[str]:
    options = list(_option_changes(old, new))
    yield from options
    if old.package != new.package:
        yield f"{new.package or 'built-in'} instead of {old.package or 'built-in'}"
    # The options are a part of the version: it is named where they do not explain it.
    if old.version != new.version and not options:
        yield f"version {new.version} instead of {old.version}"
    if None not in {old.direction, new.direction} and old.direction != new.direction:
        yield _direction_change(old.direction, new.direction)


def _option_changes(old: PlannedMetric, new: PlannedMetric) -> Iterator[str]:
    for name in sorted(old.options.keys() | new.options.keys()):
        before, after = old.options.get(name), new.options.get(name)
        if before == after:
            continue
        if max(len(str(before)), len(str(after))) > _OPTION_CHARS:
            yield f"another {name}"
        else:
            yield f"{name} {_option_text(after)} instead of {_option_text(before)}"


def _option_text(value: bool | float | str | None) -> str:  # noqa: FBT001 - an option
    return "its default" if value is None else str(value)


def _direction_change(before: Direction | str | None, after: Direction | str | None) -> str:
    old, new = (_DIRECTIONS[Direction(side)] for side in (before, after) if side)
    return f"{new} instead of {old}"


def _dataset_versions(earlier: RunPlan, plan: RunPlan) -> Iterator[str]:
    """No condition: items that a version changed are no common items, and the others ask the same."""
    versions = earlier.dataset_version, plan.dataset_version
    if earlier.dataset_ref == plan.dataset_ref and versions[0] != versions[1]:
        before, now = ("no version" if version is None else f"v{version}" for version in versions)
        yield f"its items are those of the dataset {plan.dataset_ref} {now} instead of {before}"


def _new_kpis(earlier: RunPlan, plan: RunPlan) -> list[PlannedKpi]:
    earlier_ids = {kpi.id for kpi in earlier.kpis}
    return [kpi for kpi in plan.kpis if kpi.id not in earlier_ids]


def _kpi_formulas(earlier: RunPlan, plan: RunPlan) -> Iterator[str]:
    """The KPIs with another formula. It is computed from the stored values of the baseline, too."""
    formulas = {kpi.id: format_formula(kpi.formula) for kpi in earlier.kpis}
    for kpi in plan.kpis:
        formula = format_formula(kpi.formula)
        before = formulas.get(kpi.id, formula)
        if before != formula:
            yield (
                f"the KPI {kpi.name} is {MEASURED_DIFFERENTLY} (formula {formula} instead of {before},"
                " also for the baseline)"
            )


def _kpi_directions(earlier: RunPlan, plan: RunPlan) -> Iterator[str]:
    directions = {kpi.id: kpi.direction for kpi in earlier.kpis}
    for kpi in plan.kpis:
        before = directions.get(kpi.id, kpi.direction)
        if before != kpi.direction:
            change = _direction_change(before, kpi.direction)
            yield f"the KPI {kpi.name} is {MEASURED_DIFFERENTLY} ({change})"


def _kpi_corrections(earlier: RunPlan, plan: RunPlan) -> Iterator[str]:
    """No part of the ruler: the scores of the judge, which are compared, stay what they are."""
    before = {kpi.id: kpi.corrected for kpi in earlier.kpis}
    for kpi in plan.kpis:
        if before.get(kpi.id, kpi.corrected) != kpi.corrected:
            word = "now" if kpi.corrected else "no longer"
            yield f"the value of the KPI {kpi.name} is {word} corrected by annotations"


def _reader_changes(
    earlier: RunPlan, plan: RunPlan, before: dict[str, PlannedMetric]
) -> Iterator[RulerChange]:
    old, new = earlier.reader_version, plan.reader_version
    name = plan.reader.name if plan.reader else "?"
    for part in ("answers", "usage"):
        versions = getattr(old, part), getattr(new, part)
        if versions[0] == versions[1]:
            continue
        text = (
            f"{part} are {MEASURED_DIFFERENTLY} (version {versions[1]} of the reader {name} instead"
            f" of {versions[0]}, which read the traces before)"
        )
        for metric in plan.metrics:
            if metric.column in before and _part_of(metric) == part:
                yield RulerChange(
                    metric.column, text, changes_values=True, is_measurable_again=False
                )


def _error_changes(
    earlier: RunPlan, plan: RunPlan, before: dict[str, PlannedMetric]
) -> Iterator[RulerChange]:
    """Every metric leaves out the traces whose errors are not the agent's."""
    if set(earlier.infra_errors) == set(plan.infra_errors):
        return
    old, new = (", ".join(map(repr, p.infra_errors)) or "none" for p in (earlier, plan))
    text = f"errors are {MEASURED_DIFFERENTLY} (infraErrors {new} instead of {old})"
    for metric in plan.metrics:
        if metric.column in before:
            yield RulerChange(metric.column, text, changes_values=True, is_measurable_again=True)


def _redaction_changes(
    earlier: RunPlan, plan: RunPlan, before: dict[str, PlannedMetric]
) -> Iterator[RulerChange]:
    """Every metric that reads texts reads others; nothing brings back what was removed."""
    if earlier.redaction_rules == plan.redaction_rules:
        return
    text = f"texts are {MEASURED_DIFFERENTLY} (redact of the benchmark changed: other parts of them are removed)"
    for metric in plan.metrics:
        if metric.column in before and _reads_texts(metric):
            yield RulerChange(metric.column, text, changes_values=True, is_measurable_again=False)


def _reads_texts(metric: PlannedMetric) -> bool:
    is_of_outcome = metric.key in {"STATUS", ERROR_RATE, "ERROR_COUNT"}
    return not (metric.is_delivered or is_of_outcome) and _part_of(metric) == "answers"


def _part_of(metric: PlannedMetric) -> str:
    """The part of a trace that a metric reads."""
    try:
        unit = provider_for(metric.ref).spec.unit
    except AppError:  # its plugin is no longer installed
        return "answers"
    return "usage" if unit in WORK_UNITS else "answers"


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _condition_differences(earlier: RunPlan, plan: RunPlan) -> Iterator[str]:
    if earlier.source != plan.source:
        yield f"its traces come from {plan.source} instead of {earlier.source}"
    if earlier.dataset_ref != plan.dataset_ref:
        yield f"its dataset is {plan.dataset_ref} instead of {earlier.dataset_ref}"
    if earlier.late_scores != plan.late_scores and plan.reads_scores:
        yield "late scores are counted in only one of the two runs"
    old, new = earlier.harness, plan.harness
    if (old and conditions_of(old)) != (new and conditions_of(new)):
        yield "the conditions of the model differ (prompt, limits or judge)"
    earlier_traces, traces = earlier.production, plan.production
    if (earlier_traces and population_of(earlier_traces)) != (traces and population_of(traces)):
        yield "its production traces are selected by other filters or have another itemKey"
    if earlier.field_paths != plan.field_paths:
        yield "its texts are read by other paths (inputPath, outputPath, expectedPath)"
