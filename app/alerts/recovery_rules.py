"""Evidence that a series is back on the reference of its open incident, in four ways (A to D)."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from app.alerts.series_evidence import SeriesView, mean_level, variance_of_mean
from app.kpis.series_types import OpenIncident
from app.statistics.sequential import RunLevel, Spread

RECOVERY_WINDOWS = (1, 2, 3, 5, 8, 14, 21)
# No evidence against the old level: closer to it than its one-sided 5 % limit.
NEAR = 1.64
# A: up to eight runs, near the old level and far above the rest of the incident.
REBOUND_RUNS = 8
REBOUND_Z = 3.7
# After a deep fall (at least three runs, two and a half standard deviations of a run below the old
# level on average) three runs near the old level need less: chance seldom takes them there.
DEEP_FALL = 2.5
DEEP_RUNS = 3
DEEP_REBOUND_Z = 2.6
# B: at least five runs, and not worse than the old level by two fifths of the fall.
NON_INFERIOR_RUNS = 5
NON_INFERIOR_Z = 2.5
MARGIN_OF_FALL = 0.4
# C: fourteen runs whose mean is within one standard error of the old level.
CLEAN_RUNS = 14
CLEAN_Z = 1.0
# D: after three runs near the old level, all runs of the incident together are no evidence any more.
UNCONFIRMED_RUNS = 3
UNCONFIRMED_Z = 1.5


class _IncidentReference(NamedTuple):
    """The reference of an open incident: its level, and the variance of that level."""

    level: float
    variance: float
    spread: Spread

    def score(self, runs: Sequence[RunLevel], expected: float | None = None) -> float:
        """How far runs lie above an expected level (the reference, unless given), in standard errors."""
        distance = mean_level(runs) - (self.level if expected is None else expected)
        return distance / math.sqrt(variance_of_mean(runs, self.spread) + self.variance)


def find_recovery(
    view: SeriesView, reference: Sequence[int], incident: OpenIncident, spread: Spread
) -> tuple[int, ...]:
    """The latest runs of an incident that are back on the reference; empty without evidence."""
    base = view.of(reference)
    frozen = _IncidentReference(mean_level(base), variance_of_mean(base, spread), spread)
    after = [run for run in incident.runs if run > incident.level_runs[-1]]
    widths = [width for width in RECOVERY_WINDOWS if width <= len(after)]
    for width in widths:
        if _is_recovered(view, tuple(after[-width:]), incident, frozen):
            return tuple(after[-width:])
    if _is_unconfirmed(view, after, incident, frozen):
        return tuple(after)
    return ()


def _is_recovered(
    view: SeriesView, latest: tuple[int, ...], incident: OpenIncident, frozen: _IncidentReference
) -> bool:
    levels = view.of(latest)
    if frozen.score(levels) <= -NEAR:
        return False
    if len(latest) <= REBOUND_RUNS and _has_rebounded(view, latest, incident, frozen):
        return True
    if len(latest) >= NON_INFERIOR_RUNS:
        fall = frozen.level - view.mean(incident.level_runs)
        if frozen.score(levels, frozen.level - MARGIN_OF_FALL * fall) > NON_INFERIOR_Z:
            return True
    return len(latest) == CLEAN_RUNS and frozen.score(levels) > -CLEAN_Z


def _has_rebounded(
    view: SeriesView, latest: tuple[int, ...], incident: OpenIncident, frozen: _IncidentReference
) -> bool:
    levels, spread = view.of(latest), frozen.spread
    earlier_level = view.of([run for run in incident.runs if run not in latest])
    variance = variance_of_mean(levels, spread) + variance_of_mean(earlier_level, spread)
    fall = frozen.level - mean_level(earlier_level)
    is_deep = fall > DEEP_FALL * math.sqrt(spread.variance)
    is_long = min(len(levels), len(earlier_level)) >= DEEP_RUNS
    limit = DEEP_REBOUND_Z if is_deep and is_long else REBOUND_Z
    return mean_level(levels) - mean_level(earlier_level) > limit * math.sqrt(variance)


def _is_unconfirmed(
    view: SeriesView, after: Sequence[int], incident: OpenIncident, frozen: _IncidentReference
) -> bool:
    is_first_level = incident.level_runs[0] == incident.started
    if len(after) < UNCONFIRMED_RUNS or not is_first_level:
        return False
    is_near = frozen.score(view.of(after)) > -NEAR
    return is_near and frozen.score(view.of(incident.runs)) > -UNCONFIRMED_Z
