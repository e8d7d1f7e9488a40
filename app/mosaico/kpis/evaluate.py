"""Evaluates the KPIs of a run from its aggregates."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict

from mosaico.formula import Reference, compile_formula
from mosaico.kpis.judge_types import KpiCorrection
from mosaico.metrics.aggregate import Aggregate
from mosaico.metrics.metric_gaps import COUNTING_STATISTICS
from mosaico.metrics.registry import column_of
from mosaico.metrics.unread_texts import MeasuredTexts, explain_value


class PlannedKpi(BaseModel):
    """One revision of a KPI, as stored in the plan of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True, defer_build=True)

    id: str
    revision: int
    name: str
    formula: str
    direction: str
    unit: str | None
    threshold_min: float | None
    threshold_max: float | None
    gate: bool = False
    min_effect: float | None = None
    corrected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KpiValue:
    """The value of a KPI in a run; None when it is undefined, and only then with a `reason`. `is_incomplete`: a metric
    of it lacks values of too many traces. `correction` is what annotations made of it.
    """

    kpi: PlannedKpi
    value: float | None
    reason: str | None
    is_incomplete: bool = False
    correction: KpiCorrection | None = None

    @property
    def within_thresholds(self) -> bool | None:
        """Return whether the value is within its thresholds; None without thresholds or without a
        value.
        """
        low, high = self.kpi.threshold_min, self.kpi.threshold_max
        if self.value is None or (low is None and high is None):
            return None
        return (low is None or self.value >= low) and (high is None or self.value <= high)


def evaluate_kpis(
    kpis: Iterable[PlannedKpi],
    statistic: Callable[[str, str], float | None],
    texts: Sequence[MeasuredTexts] = (),
    gaps: Mapping[str, str] = MappingProxyType({}),
    explain_missing: Callable[[Reference], str | None] = lambda _reference: None,
) -> list[KpiValue]:
    """Evaluate each KPI; `statistic("ROUGE", "p95")` returns a statistic of the run, `texts` are what its metrics read,
    for the reasons of undefined KPIs. `gaps` are the reasons why metrics, by column, have too few values: their KPIs
    have none; `explain_missing` gives the reason of a statistic without a value.
    """
    return [_evaluate(kpi, statistic, texts, gaps, explain_missing) for kpi in kpis]


def warn_of_few_trials(
    kpis: Iterable[PlannedKpi], aggregate_of: Callable[[str], Aggregate]
) -> str | None:
    """One line about the items that PASS_AT_K and PASS_POW_K leave out, because they have fewer trials; None without one.

    "PASS_AT_K(TASK_PASSED, 3) leaves out 1 of 58 items: fewer trials have a value".
    """
    references = (ref for kpi in kpis for ref in compile_formula(kpi.formula).references)
    parts = []
    for ref in dict.fromkeys(references):
        few, items = aggregate_of(ref.key).items_without(ref.stat)
        if 0 < few < items:
            parts.append(f"{ref} leaves out {few:,} of {items:,} items: fewer trials have a value")
    return "; ".join(parts) or None


def _evaluate(
    kpi: PlannedKpi,
    statistic: Callable[[str, str], float | None],
    texts: Sequence[MeasuredTexts],
    gaps: Mapping[str, str],
    explain_missing: Callable[[Reference], str | None],
) -> KpiValue:
    # The formula of the plan, not the current one of the benchmark.
    formula = compile_formula(kpi.formula)
    values: Mapping[Reference, float | None] = {
        reference: statistic(reference.key, reference.stat) for reference in formula.references
    }
    result = formula.evaluate(values)
    # A formula that replaces a metric without any value has a value all the same.
    replaced = {ref.key for ref in values if values[ref] is None and result.value is not None}
    columns = {
        column_of(ref.key): None
        for ref in formula.references
        if ref.stat not in COUNTING_STATISTICS and ref.key not in replaced
    }
    if reasons := [f"{column}: {gaps[column]}" for column in columns if column in gaps]:
        return KpiValue(kpi=kpi, value=None, reason="; ".join(reasons), is_incomplete=True)
    reason = explain_value(result, values, texts, explain_missing)
    return KpiValue(kpi=kpi, value=result.value, reason=reason)
