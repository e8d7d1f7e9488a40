"""The changes of latency, tokens and cost between two runs, beside what decides."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from mosaico.comparison.comparison_spec import ComparisonSpec, MetricComparisonSpec
from mosaico.comparison.schemas import MetricComparison
from mosaico.comparison.value_failures import log_failures
from mosaico.comparison.verdict_text import render_verdict
from mosaico.items.attributes import USAGE
from mosaico.items.flipped import item_means
from mosaico.items.formulas.properties import ValueRange
from mosaico.items.matrix import ItemMatrix, ItemPairing, pair_items
from mosaico.statistics.verdict_rules import Scale, Side, VerdictRule

_RULE: Final = VerdictRule(side=Side.HIGH, scale=Scale.RATIO)
_UNITS: Final = {"LATENCY_MS": "ms", "TOTAL_TOKENS": "tokens", "COST_USD": "USD"}


def compare_usage(
    run_id: str,
    baseline: ItemMatrix,
    candidate: ItemMatrix,
    judged: ComparisonSpec,
    *,
    left_out: Collection[str],
) -> list[MetricComparison]:
    """The changes of the usage figures, by the terms of what is `judged`. Imports numpy."""
    from mosaico.comparison.child_computation import compute

    spec = replace(
        _usage_spec(candidate, pair_items(baseline, candidate)),
        about=judged.about,
        measured_runs=judged.measured_runs,
        run_sd=judged.run_sd,
    )
    result = compute(spec)
    log_failures(run_id, result.failures)
    return [
        MetricComparison(
            metric=name, verdict=render_verdict(name, change, Scale.RATIO, unit=_UNITS[name])
        )
        for name, change in result.metrics.items()
        if name not in left_out
    ]


def _usage_spec(usage: ItemMatrix, pairing: ItemPairing) -> ComparisonSpec:
    """The usage figures that both runs report."""
    reported = [
        name
        for name in USAGE
        if item_means(pairing.baseline, name) and item_means(pairing.candidate, name)
    ]
    return ComparisonSpec(
        run=usage,
        candidate=pairing.candidate,
        baseline=pairing.baseline,
        is_paired=pairing.is_paired,
        metrics=[
            MetricComparisonSpec(column=name, rule=_RULE, limits=ValueRange(0.0, None))
            for name in reported
        ],
        kpis=(),
    )
