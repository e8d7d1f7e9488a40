"""What files of earlier runs tell: how much whole runs vary, and whether the last ones differ."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mosaico.comparison.comparison_rules import RunComparison
from mosaico.comparison.pair_comparison import RunPair
from mosaico.comparison.value_failures import ValueFailures
from mosaico.comparison.whole_run_text import describe_over_runs
from mosaico.gating.rules import GateResult
from mosaico.items.matrix import (
    ItemMatrix,
)
from mosaico.kpis.evaluate import KpiValue
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.series_points import kpi_series, metric_series
from mosaico.statistics.sequential import MAX_REFERENCE, Scan
from mosaico.statistics.verdict_rules import Side
from mosaico.statistics.whole_runs import MeasuredRuns


class EarlierRuns(NamedTuple):
    """How much whole runs vary, and the evidence of all runs together, by series."""

    measured: Mapping[str, MeasuredRuns] = MappingProxyType({})
    scans: Mapping[str, Scan] = MappingProxyType({})


class MeasuredRun(NamedTuple):
    """A run with the values of its items and its KPIs."""

    plan: RunPlan
    items: ItemMatrix
    kpis: Sequence[KpiValue]


def measure_earlier(runs: Sequence[MeasuredRun]) -> EarlierRuns:
    """What files tell as the stored runs of a series do, oldest first; the candidate, which is the last one, does not tell
    how unchanged runs vary.
    """
    # Imports numpy, as the comparison does.
    from mosaico.comparison.series_levels import measure_series, points_of_run, scan_series

    points = []
    for run in runs:
        comparison = RunComparison(plan=run.plan, kpis=run.kpis, baseline=None)
        values = {kpi.kpi.id: kpi.value for kpi in run.kpis if kpi.value is not None}
        # A value without a level has no variation either: it is assumed, as without history.
        points.append(points_of_run(comparison.spec(run.items, None), values, ValueFailures()))
    return EarlierRuns(measure_series(points[:-1]), scan_series(points))


def warn_of_few(earlier: EarlierRuns, given: int) -> str | None:
    """The warning when some of the given earlier runs tell nothing."""
    used = max((runs.runs for runs in earlier.measured.values()), default=0)
    if used > min(given, MAX_REFERENCE - 1):
        return None
    return (
        f"{used} of the {given + 1} runs (baseline and earlier ones) tell how much whole runs vary: the others share too few"
        " items with the baseline, or have no value; give results of the same items"
    )


def describe_all_runs(result: GateResult, pair: RunPair, runs: int) -> list[str]:
    """What all runs together say of the checked metrics and KPIs, in sentences."""
    kpis = {value.kpi.name: kpi_series(value.kpi.id) for value in pair.kpis}
    sentences = []
    for check in result.checks:
        scan = pair.over_runs.get(kpis.get(check.name, metric_series(check.name)))
        if scan is not None and check.verdict is not None:
            side = check.verdict.side or Side.BOTH
            sentences.append(describe_over_runs(check.name, scan, side, runs))
    return [sentence for sentence in dict.fromkeys(sentences) if sentence]
