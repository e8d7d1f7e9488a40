"""Compares a candidate run with a baseline run: verdicts, flipped items, enriched features, usage."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from mosaico.comparison.baseline_runs import Baseline, BaselineRun
from mosaico.comparison.comparison_rules import RunComparison, metric_rule
from mosaico.comparison.comparison_spec import (
    ComparisonResult,
)
from mosaico.comparison.comparison_verdicts import render_compared, render_not_compared
from mosaico.comparison.equal_metrics import find_equal_metrics
from mosaico.comparison.fallen_items import find_fallen_by
from mosaico.comparison.pair_differences import compare_pair
from mosaico.comparison.schemas import (
    CategoryComparison,
    ComparedRun,
    Comparison,
    ConstantItems,
    EnrichedFeature,
    FlippedItem,
    FlippedItems,
    KpiComparison,
    MetricComparison,
    PeerRun,
    TraceLink,
)
from mosaico.comparison.usage_comparison import compare_usage
from mosaico.comparison.value_failures import log_failures
from mosaico.comparison.verdict_text import LOST_METRIC, not_compared
from mosaico.core.errors import Invalid
from mosaico.items.attributes import ItemAttributes
from mosaico.items.flipped import (
    Flip,
    ItemMeans,
    PeerMeans,
    explain_regression,
    find_constant_items,
    find_flips,
    item_means,
)
from mosaico.items.matrix import ItemMatrix, ItemPairing, pair_items
from mosaico.kpis.evaluate import KpiValue, PlannedKpi
from mosaico.kpis.judge_types import PeopleAgreement
from mosaico.kpis.verdict_types import BaselineSelection, RunVerdict, RunVerdicts
from mosaico.metrics.metric_gaps import MetricGap
from mosaico.metrics.registry import provider_for
from mosaico.metrics.types import Direction, MetricSpec
from mosaico.run_store.plan import RunPlan
from mosaico.statistics.sequential import Scan
from mosaico.statistics.verdict_rules import About, Scale, Verdict
from mosaico.statistics.whole_runs import MeasuredRuns

if TYPE_CHECKING:
    from mosaico.statistics.multiplicity import FeatureEnrichment

MAX_FLIPS = 50
MAX_CONSTANT_ITEMS = 50


class MetricNotCompared(Invalid):
    """The two runs have no such metric that is a mean over items; name one of their metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSide:
    """One of the two runs. `invalid_reasons` are empty for a valid run. `further_runs` are runs
    whose items are combined with those of the first run. `lost` are the columns of metrics that are no longer
    installed, and `lost_kpis` the KPIs that read them: `plan` has neither.
    """

    run: ComparedRun
    plan: RunPlan
    items: ItemMatrix
    attributes: ItemAttributes
    invalid_reasons: Sequence[str] = ()
    further_runs: Sequence[BaselineRun] = ()
    lost: Sequence[str] = ()
    lost_kpis: Sequence[PlannedKpi] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPair:
    """The input of a comparison. `metric` is the metric of flipped items, by default the first
    judged metric; `judged` names the KPIs and metrics that are judged
    together, by default what `select_deciders` selects; `peer_runs` and `peer_means` are the runs of other
    agents and their item means. Categories are compared from the one after `categories_after` on. `measured_runs` is how much
    whole runs vary, by series, and `run_sd` what the user states of it. `over_runs` is the evidence of files of earlier runs and
    the two runs together. `gaps` are the metrics that the candidate has too few values of, `agreements` how far its judges
    agree with people.
    """

    baseline: ComparisonSide
    candidate: ComparisonSide
    kpis: Sequence[KpiValue]
    metric: str | None = None
    judged: Sequence[str] = ()
    peer_runs: Sequence[PeerRun] = ()
    peer_means: Sequence[PeerMeans] = ()
    links: Mapping[str, Sequence[TraceLink]] = field(default_factory=dict)
    categories_after: str | None = None
    about: About | None = None
    measured_runs: Mapping[str, MeasuredRuns] = field(default_factory=dict)
    run_sd: float | None = None
    over_runs: Mapping[str, Scan] = field(default_factory=dict)
    gaps: Mapping[str, MetricGap] = field(default_factory=dict)
    agreements: Mapping[str, PeopleAgreement] = field(default_factory=dict)


def compare(pair: RunPair) -> Comparison:
    """The comparison of the candidate with the baseline. Imports numpy."""
    from mosaico.comparison.child_computation import compute

    baseline, candidate = pair.baseline, pair.candidate
    comparison = _run_comparison(pair)
    pairing = pair_items(baseline.items, candidate.items)
    spec = comparison.spec(candidate.items, pairing)
    result = compute(spec)
    verdicts, deciders = _verdicts(pair, comparison, result, pairing), result.deciders
    log_failures(candidate.run.id, verdicts.failures)
    if pair.metric is None:
        judged_metric = next((name for name in deciders.judged if name in verdicts.metrics), None)
        pair = replace(pair, metric=judged_metric)
    flips = flips_of(pair, pair.metric) if pair.metric else []
    categories, left_out, last_category = _category_comparisons(pair, comparison)
    return Comparison(
        baseline=baseline.run,
        baseline_run_ids=[baseline.run.id, *(run.id for run in baseline.further_runs)],
        candidate=candidate.run,
        verdict=_with_lost(verdicts.run, candidate.lost),
        kpis=_kpi_comparisons(pair, verdicts),
        metrics=_metric_comparisons(candidate, verdicts, find_equal_metrics(spec)),
        # One name and one verdict for one figure.
        usage=compare_usage(
            candidate.run.id,
            baseline.attributes.usage,
            candidate.attributes.usage,
            spec,
            left_out=verdicts.metrics.keys(),
        ),
        judged=list(deciders.names),
        decided_by=deciders.by,
        guard=deciders.guard,
        flipped_items=_flipped_items(pair, flips),
        enriched_features=_enriched_features(candidate, pairing, flips),
        what_changed=compare_pair(
            (baseline.attributes, candidate.attributes),
            (BaselineRun(0, baseline.run.id, baseline.plan), candidate.plan),
            find_fallen_by(deciders, candidate.plan, pair.kpis, pairing),
            pairing,
        ),
        peers=list(pair.peer_runs),
        constant_items=_constant_items(pair),
        categories=categories,
        categories_left_out=left_out,
        last_category=last_category,
    )


def _run_comparison(pair: RunPair) -> RunComparison:
    baseline = pair.baseline
    runs = [BaselineRun(0, baseline.run.id, baseline.plan), *baseline.further_runs]
    return RunComparison(
        plan=pair.candidate.plan,
        kpis=pair.kpis,
        baseline=Baseline(mode=BaselineSelection.CHOSEN, runs=runs),
        judged=pair.judged,
        about=pair.about,
        measured_runs=pair.measured_runs,
        run_sd=pair.run_sd,
        gaps=pair.gaps,
        agreements=pair.agreements,
    )


def _kpi_comparisons(pair: RunPair, verdicts: RunVerdicts) -> list[KpiComparison]:
    lost = not_compared(LOST_METRIC)
    return [
        *(KpiComparison.of(value.kpi, verdicts.kpis[value.kpi.id]) for value in pair.kpis),
        *(KpiComparison.of(kpi, lost) for kpi in pair.candidate.lost_kpis),
    ]


def _metric_comparisons(
    candidate: ComparisonSide, verdicts: RunVerdicts, equal: Mapping[str, str]
) -> list[MetricComparison]:
    """The metrics with their verdicts; `equal` names an earlier metric with the same values."""
    lost = not_compared(LOST_METRIC)
    return [
        *(
            MetricComparison(metric=name, verdict=verdict, same_as=equal.get(name))
            for name, verdict in verdicts.metrics.items()
            # Where no answer failed, nobody asked for the metric of failed answers.
            if name not in candidate.plan.added_columns or verdict.value or verdict.effect
        ),
        *(MetricComparison(metric=name, verdict=lost) for name in candidate.lost),
    ]


def _enriched_features(
    candidate: ComparisonSide, pairing: ItemPairing, flips: Sequence[Flip]
) -> list[EnrichedFeature]:
    """The features that are more frequent among the regressed items. Imports numpy."""
    from mosaico.statistics.multiplicity import enriched_features

    regressed = frozenset(flip.item_id for flip in flips if flip.harm > 0)
    compared = frozenset(pairing.candidate.items)
    features = enriched_features(candidate.attributes.features, regressed, compared)
    return [_enriched_feature(feature) for feature in features]


def _with_lost(verdict: RunVerdict, lost: Sequence[str]) -> RunVerdict:
    """The verdict, which says what of the run is not compared."""
    if not lost:
        return verdict
    sentence = f"{', '.join(lost)}: {LOST_METRIC}."
    return verdict.model_copy(update={"explanation": f"{verdict.explanation} {sentence}"})


def _category_comparisons(
    pair: RunPair, comparison: RunComparison
) -> tuple[list[CategoryComparison], int, str | None]:
    """The changes by category, the number of categories after those, and the last one before them; none for fewer
    than two categories or an invalid run. Imports numpy.
    """
    # numpy is imported in processes that compute only.
    from mosaico.comparison.category_values import (
        CATEGORY_FIELD,
        categories_of,
        changes_by_category,
        select_categories,
    )

    sides = (pair.baseline, pair.candidate)
    if any(side.invalid_reasons for side in sides):
        return [], 0, None
    categories = categories_of((side.attributes.features for side in sides), CATEGORY_FIELD)
    if len(categories) < 2:  # noqa: PLR2004 - one category is the whole run
        return [], 0, None
    selection = select_categories(categories, pair.categories_after)
    items = (pair.baseline.items, pair.candidate.items)
    run_id = pair.candidate.run.id
    changes = changes_by_category(run_id, comparison, *items, selection.categories)
    return changes, selection.left_out, selection.last


def select_flip_metric(pair: RunPair, requested: str | None) -> str | None:
    """The metric of flipped items: the requested one, otherwise the first rate, otherwise the first
    metric with a better side. Raises: `MetricNotCompared`.
    """
    columns = [
        metric.column
        for metric in pair.candidate.plan.metrics
        if metric.column in pair.baseline.items.values
        and metric.column in pair.candidate.items.values
    ]
    if requested is not None:
        if requested not in columns:
            raise MetricNotCompared(
                f"the metric {requested!r} cannot be compared item by item;"
                f" name one of {', '.join(columns) or 'none'}"
            )
        return requested
    specs = {column: _spec(pair, column) for column in columns}
    directed = [name for name in columns if specs[name].direction is not Direction.NEITHER]
    rates = [name for name in directed if metric_rule(specs[name]).scale is Scale.RATE]
    return next(iter(rates or directed), None)


def _verdicts(
    pair: RunPair, comparison: RunComparison, result: ComparisonResult, pairing: ItemPairing
) -> RunVerdicts:
    for side, name in ((pair.candidate, "candidate"), (pair.baseline, "baseline")):
        if side.invalid_reasons:
            reasons = "; ".join(side.invalid_reasons)
            return render_not_compared(
                comparison, result, f"the {name} is invalid: {reasons}", Verdict.INVALID
            )
    return render_compared(comparison, result, pairing)


class PairedMeans(NamedTuple):
    """The item means of both runs for the items that they share."""

    baseline: ItemMeans
    candidate: ItemMeans


def paired_means(pair: RunPair, column: str) -> PairedMeans:
    """The item means of a metric; none when the runs share too few items."""
    pairing = pair_items(pair.baseline.items, pair.candidate.items)
    if not pairing.is_paired or column not in pairing.candidate.values:
        return PairedMeans({}, {})
    return PairedMeans(item_means(pairing.baseline, column), item_means(pairing.candidate, column))


def flips_of(pair: RunPair, column: str) -> list[Flip]:
    """The flipped items of a metric; none when the runs share too few items."""
    means = paired_means(pair, column)
    return find_flips(
        means.baseline,
        means.candidate,
        metric_rule(_spec(pair, column)).scale,
        less_is_better=_less_is_better(pair, column),
    )


def _flipped_items(pair: RunPair, flips: Sequence[Flip]) -> FlippedItems | None:
    if pair.metric is None:
        return None
    regressions = sum(flip.harm > 0 for flip in flips)
    return FlippedItems(
        metric=pair.metric,
        regressions=regressions,
        improvements=len(flips) - regressions,
        items=[_flipped_item(pair, pair.metric, flip) for flip in flips[:MAX_FLIPS]],
    )


def _flipped_item(pair: RunPair, column: str, flip: Flip) -> FlippedItem:
    regression = explain_regression(
        flip.item_id,
        pair.peer_means if flip.harm > 0 else (),
        metric_rule(_spec(pair, column)).scale,
        less_is_better=_less_is_better(pair, column),
    )
    return FlippedItem(
        item_id=flip.item_id,
        baseline=flip.baseline,
        candidate=flip.candidate,
        # The difference of two numbers may be beyond the range of a float, which JSON has none for.
        change=max(-sys.float_info.max, min(flip.candidate - flip.baseline, sys.float_info.max)),
        cause=regression.cause,
        agents=list(regression.agents),
        traces=list(pair.links.get(flip.item_id, ())),
    )


def _constant_items(pair: RunPair) -> ConstantItems | None:
    if pair.metric is None or metric_rule(_spec(pair, pair.metric)).scale is not Scale.RATE:
        return None
    runs = [item_means(side.items, pair.metric) for side in (pair.baseline, pair.candidate)]
    runs += [dict(means) for peer in pair.peer_means for means in (peer.baseline, peer.candidate)]
    constant = find_constant_items(runs, less_is_better=_less_is_better(pair, pair.metric))
    return ConstantItems(
        runs=len(runs),
        always_pass=len(constant.always_pass),
        always_fail=len(constant.always_fail),
        always_pass_items=list(constant.always_pass[:MAX_CONSTANT_ITEMS]),
        always_fail_items=list(constant.always_fail[:MAX_CONSTANT_ITEMS]),
    )


def _enriched_feature(feature: "FeatureEnrichment") -> EnrichedFeature:
    table = feature.table
    return EnrichedFeature(
        feature=feature.feature,
        count=table.selected_with,
        total=table.selected,
        baseline_count=table.unselected_with,
        baseline_total=table.unselected,
        p=feature.p,
        p_adjusted=feature.p_adjusted,
    )


def _spec(pair: RunPair, column: str) -> MetricSpec:
    planned = {metric.column: metric for metric in pair.candidate.plan.metrics}
    return provider_for(planned[column].ref).spec


def _less_is_better(pair: RunPair, column: str) -> bool:
    return _spec(pair, column).direction is Direction.LOWER_IS_BETTER
