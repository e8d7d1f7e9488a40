"""Evidence of a series: the policy it is judged by, its levels, and what windows of them say."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mosaico.alerts.natural_scale import is_zero_level
from mosaico.kpis.series_types import OpenIncident, RunsEvidence, SeriesEvent, SeriesStatus
from mosaico.statistics.run_variance import RunVariance
from mosaico.statistics.sequential import (
    DEFAULT_FALSE_PAGES,
    RunLevel,
    WindowScore,
    assumed_sd,
    limit_of,
    mean_level,
    score_means,
)
from mosaico.statistics.verdict_rules import MIN_EFFECT, Scale, Side


class PagePolicy(NamedTuple):
    """When a series pages.

    `false_pages_per_month` is the limit of false alarms per series; `prior_sd` the assumed standard deviation of whole
    runs; `falls_harm` says whether a lower level is worse. A fall of less than `min_effect` does not page.
    More than `keep_firing_for_runs` consecutive runs with evidence of recovery close an incident.
    """

    false_pages_per_month: float
    prior_sd: float
    falls_harm: bool = True
    min_effect: float = 0.0
    keep_firing_for_runs: int = 0


def page_policy(
    scale: Scale,
    side: Side,
    levels: Mapping[int, RunLevel],
    *,
    false_pages_per_month: float = DEFAULT_FALSE_PAGES,
    min_effect: float | None = None,
    keep_firing_for_runs: int = 0,
) -> PagePolicy:
    """The policy of a series. On the scale NUMBER, fractions are those of the mean level.

    `min_effect` is in the unit of the value; None: two points of a share, 2 % of any other value.
    """
    level = mean_level([*levels.values()]) if levels else 0.0
    if min_effect is None:
        min_effect = MIN_EFFECT * (abs(level) if scale is Scale.NUMBER else 1.0)
    elif scale is Scale.RATIO:
        min_effect = _effect_on_logarithm(min_effect, side, [*levels.values()])
    return PagePolicy(
        false_pages_per_month=false_pages_per_month,
        prior_sd=assumed_sd([*levels.values()], scale),
        falls_harm=side is Side.LOW,
        min_effect=min_effect,
        keep_firing_for_runs=keep_firing_for_runs,
    )


def _effect_on_logarithm(amount: float, side: Side, levels: Sequence[RunLevel]) -> float:
    """How far a change for the worse by an amount, in the unit of the value, moves the logarithm of the value.

    0 for a series of zeros: each other value is a change. Infinite for a fall by more than the value.
    """
    known = [level for level in levels if not level.is_zero]
    if not known:
        return 0.0
    fraction = amount * math.exp(-mean_level(known))
    if side is not Side.LOW:
        return math.log1p(fraction)
    return -math.log1p(-fraction) if fraction < 1 else math.inf


class SeriesView(NamedTuple):
    """The series as the rules read it: harm is always a fall."""

    levels: Mapping[int, RunLevel]
    policy: PagePolicy

    @property
    def limit(self) -> float:
        return limit_of(self.policy.false_pages_per_month)

    @property
    def sign(self) -> float:
        """What a number of the view is multiplied with to be one of the series."""
        return 1.0 if self.policy.falls_harm else -1.0

    def of(self, runs: Sequence[int]) -> list[RunLevel]:
        levels = [self.levels[run] for run in runs if run in self.levels]
        if self.policy.falls_harm:
            return levels
        return [level._replace(level=-level.level) for level in levels]

    def mean(self, runs: Sequence[int]) -> float:
        return mean_level(self.of(runs))


def score_against(
    view: SeriesView, reference: Sequence[int], runs: Sequence[int], variance: RunVariance
) -> WindowScore:
    """Some runs against a frozen reference."""
    return score_means(view.of(reference), view.of(runs), variance)


def incident_evidence(
    score: WindowScore,
    incident: OpenIncident,
    view: SeriesView,
    reference: Sequence[int],
    event: SeriesEvent | None,
    earlier: Sequence[int] = (),
) -> RunsEvidence:
    """The evidence of a run in an incident; `earlier` are its runs before a change of its level."""
    # The effect is relative to the frozen reference, so the level follows from it without reading
    # the runs of the incident again.
    latest = view.mean(reference) + score.effect
    evidence = _numbers(score, latest, view, event, since=incident.started, is_open=True)
    if not earlier:
        return evidence
    return evidence.model_copy(update={"earlier_level": view.sign * view.mean(earlier)})


def window_evidence(
    score: WindowScore,
    runs: Sequence[int],
    view: SeriesView,
    event: SeriesEvent | None = None,
    *,
    is_open: bool = False,
) -> RunsEvidence:
    window = runs[len(runs) - score.width :]
    return _numbers(score, view.mean(window), view, event, since=window[0], is_open=is_open)


def _numbers(
    score: WindowScore,
    level: float,
    view: SeriesView,
    event: SeriesEvent | None,
    *,
    since: int,
    is_open: bool,
) -> RunsEvidence:
    sign = view.sign
    # The sign swaps the ends for values whose rise is the harm.
    half_width = score.half_width(view.limit)
    low, high = sorted(sign * (score.effect + side * half_width) for side in (-1, 1))
    latest, reference = sign * level, sign * (level - score.effect)
    zero = next((run.level for run in view.levels.values() if run.is_zero), None)
    # A ratio to 0 is not a percentage.
    has_interval = not (is_zero_level(latest, zero) or is_zero_level(reference, zero))
    return RunsEvidence(
        status=SeriesStatus.FIRING if is_open else SeriesStatus.OK,
        event=event,
        z=score.z,
        limit=view.limit,
        width=score.width,
        reference=score.reference,
        level=latest,
        reference_level=reference,
        zero_level=zero,
        is_typical=any(run.is_typical for run in view.levels.values()),
        effect=sign * score.effect,
        low=low if has_interval else None,
        high=high if has_interval else None,
        since=since,
    )
