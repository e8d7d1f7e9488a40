"""Two runs side by side: what is asked of them, and what it amounts to in plain words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.comparison.baselines import Baseline, EarlierRun
from app.comparison.comparison_spec import Findings, MetricQuestion, Question
from app.comparison.flipped_items import Flip, Night, dead_weight, explain_fall, flipped, item_means
from app.comparison.item_attributes import USAGE, Traits
from app.comparison.item_matrix import ItemTable, Pairing, pair_items
from app.comparison.run_verdicts import Case, metric_rule
from app.comparison.schemas import (
    ComparedRun,
    Comparison,
    DeadWeight,
    FlippedItem,
    Flips,
    KpiComparison,
    MetricComparison,
    OtherAgent,
    SharedFeature,
    TraceLink,
)
from app.comparison.verdict_view import Verdicts, told_judgement
from app.core.errors import Invalid
from app.kpis.evaluate import KpiValue
from app.metrics.registry import provider_for
from app.metrics.types import Direction, MetricSpec
from app.results.plan import RunPlan
from app.statistics.anomaly import Side
from app.statistics.association import OverRepresented, over_represented
from app.statistics.verdict import Scale, Verdict, VerdictRule

MOST_FLIPS = 50
MOST_DEAD = 50

_USAGE_RULE = VerdictRule(side=Side.HIGH, scale=Scale.RATIO)
_USAGE_NAMES = {
    "latency_ms": "The latency",
    "tokens": "The number of tokens",
    "cost_usd": "The cost",
}


class NoSuchMetric(Invalid):
    """The two runs have no such metric that is a mean of items; name one of theirs."""

    code = "metric-not-compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOfComparison:
    """One of the two runs: `reasons` say why it is invalid, where it is. `also` are those that are
    taken together with it, item by item.
    """

    shown: ComparedRun
    plan: RunPlan
    table: ItemTable
    traits: Traits
    reasons: Sequence[str] = ()
    also: Sequence[EarlierRun] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoRuns:
    """All that a comparison is made of. `nights` are those of the other agents."""

    base: SideOfComparison
    candidate: SideOfComparison
    kpis: Sequence[KpiValue]
    metric: str | None = None
    others: Sequence[OtherAgent] = ()
    nights: Sequence[Night] = ()
    links: Mapping[str, Sequence[TraceLink]] = field(default_factory=dict)


def compare(two: TwoRuns) -> Comparison:
    """The candidate beside the base; imports numpy."""
    from app.comparison.compute import answer

    base, candidate = two.base, two.candidate
    earlier = [EarlierRun(0, base.shown.id, base.plan), *base.also]
    case = Case(plan=candidate.plan, kpis=two.kpis, baseline=Baseline(mode="CHOSEN", runs=earlier))
    pairing = pair_items(base.table, candidate.table)
    flips = flips_of(two, two.metric) if two.metric else []
    usage = pair_items(base.traits.usage, candidate.traits.usage)
    fell = frozenset(flip.item_id for flip in flips if flip.harm > 0)
    found = answer(case.question(candidate.table, pairing))
    spent = answer(_usage_question(candidate.traits.usage, usage))
    items = frozenset(pairing.candidate.items)
    verdicts = _verdicts(two, case, found, pairing)
    return Comparison(
        base=base.shown,
        base_run_ids=[run.id for run in earlier],
        candidate=candidate.shown,
        verdict=verdicts.run,
        kpis=[
            KpiComparison(
                kpi_id=one.kpi.id,
                name=one.kpi.name,
                gate=one.kpi.gate,
                verdict=dict(verdicts.kpis[one.kpi.id]),
            )
            for one in two.kpis
        ],
        metrics=[
            MetricComparison(metric=name, verdict=dict(said))
            for name, said in verdicts.metrics.items()
        ],
        usage=[
            MetricComparison(
                metric=name, verdict=told_judgement(_USAGE_NAMES[name], judgement, Scale.RATIO)
            )
            for name, judgement in spent.metrics.items()
        ],
        flips=_told_flips(two, flips),
        over_represented=[
            _shared(each) for each in over_represented(candidate.traits.features, fell, items)
        ],
        other_agents=list(two.others),
        dead_weight=_dead(two),
    )


def flip_metric(two: TwoRuns, wanted: str | None) -> str | None:
    """The metric whose flips are told: the wanted one, else the first share, else the first of all
    that is better on one side. Raises: `NoSuchMetric`.
    """
    known = [
        metric.column
        for metric in two.candidate.plan.metrics
        if metric.column in two.base.table.values and metric.column in two.candidate.table.values
    ]
    if wanted is not None:
        if wanted not in known:
            raise NoSuchMetric(
                f"{wanted!r} is not compared item by item; name one of {', '.join(known) or 'none'}"
            )
        return wanted
    specs = {name: _spec(two, name) for name in known}
    sided = [name for name in known if specs[name].direction is not Direction.NEITHER]
    shares = [name for name in sided if metric_rule(specs[name]).scale is Scale.RATE]
    return next(iter(shares or sided), None)


def _usage_question(usage: ItemTable, pairing: Pairing) -> Question:
    """What is told by both runs; nothing where they have too few items in common."""
    told = [
        name
        for name in USAGE
        if item_means(pairing.base, name) and item_means(pairing.candidate, name)
    ]
    return Question(
        run=usage,
        candidate=pairing.candidate,
        base=pairing.base,
        paired=pairing.paired,
        metrics=[MetricQuestion(column=name, scale=Scale.RATIO, rule=_USAGE_RULE) for name in told],
        kpis=(),
    )


def _verdicts(two: TwoRuns, case: Case, found: Findings, pairing: Pairing) -> Verdicts:
    for side, name in ((two.candidate, "candidate"), (two.base, "base")):
        if side.reasons:
            return case.without_comparison(
                found, f"the {name} is invalid: {'; '.join(side.reasons)}", Verdict.INVALID
            )
    return case.told(found, pairing)


def flips_of(two: TwoRuns, column: str) -> list[Flip]:
    pairing = pair_items(two.base.table, two.candidate.table)
    if not pairing.paired:
        return []
    return flipped(
        item_means(pairing.base, column),
        item_means(pairing.candidate, column),
        metric_rule(_spec(two, column)).scale,
        less_is_better=_less_is_better(two, column),
    )


def _told_flips(two: TwoRuns, flips: Sequence[Flip]) -> Flips | None:
    if two.metric is None:
        return None
    fell = sum(flip.harm > 0 for flip in flips)
    return Flips(
        metric=two.metric,
        fell=fell,
        rose=len(flips) - fell,
        items=[_told_flip(two, two.metric, flip) for flip in flips[:MOST_FLIPS]],
    )


def _told_flip(two: TwoRuns, column: str, flip: Flip) -> FlippedItem:
    scale, less = metric_rule(_spec(two, column)).scale, _less_is_better(two, column)
    nights = two.nights if flip.harm > 0 else ()
    fall = explain_fall(flip.item_id, nights, scale, less_is_better=less)
    return FlippedItem(
        item_id=flip.item_id,
        base=flip.base,
        candidate=flip.candidate,
        change=flip.candidate - flip.base,
        cause=fall.cause,
        fell_for=list(fall.fell_for),
        traces=list(two.links.get(flip.item_id, ())),
    )


def _dead(two: TwoRuns) -> DeadWeight | None:
    if two.metric is None or metric_rule(_spec(two, two.metric)).scale is not Scale.RATE:
        return None
    runs = [item_means(side.table, two.metric) for side in (two.base, two.candidate)]
    runs += [dict(means) for night in two.nights for means in (night.base, night.candidate)]
    found = dead_weight(runs, less_is_better=_less_is_better(two, two.metric))
    return DeadWeight(
        runs=len(runs),
        always_pass=len(found.always_pass),
        always_fail=len(found.always_fail),
        always_pass_items=list(found.always_pass[:MOST_DEAD]),
        always_fail_items=list(found.always_fail[:MOST_DEAD]),
    )


def _shared(found: OverRepresented) -> SharedFeature:
    counts = found.counts
    return SharedFeature(
        feature=found.feature,
        fell_with=counts.chosen_with,
        fell=counts.chosen,
        others_with=counts.others_with,
        others=counts.others,
        p=found.p,
        p_adjusted=found.p_adjusted,
    )


def _spec(two: TwoRuns, column: str) -> MetricSpec:
    planned = {metric.column: metric for metric in two.candidate.plan.metrics}
    return provider_for(planned[column].ref).spec


def _less_is_better(two: TwoRuns, column: str) -> bool:
    return _spec(two, column).direction is Direction.LOWER_IS_BETTER
