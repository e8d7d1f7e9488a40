"""Evidence that a series is back on the reference of its open incident.

The last runs of the incident are compared with two levels: they lie significantly above the other runs
of the incident, and not significantly below the reference before it. Two further rules close an incident
that never was a real fall, whose two levels are too close to be told apart: they look at all its runs.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from mosaico.alerts.evaluation.series_evidence import SeriesView, mean_level, variance_of_mean
from mosaico.kpis.series_types import OpenIncident
from mosaico.statistics.sequential import RunLevel, Spread, score_effect

# No evidence against the old level: the 95 % interval of the difference from it includes zero.
NEAR = 1.96
# How far the last run, the last two, three, and four to ten runs lie above the other runs of the
# incident: a normal quantile. A long incident has many single good runs by chance, and hardly ever
# three in a row; of four and more runs there are seven chances at once.
RISES = (4.4, 3.8, 3.05, 3.3)
# In the first five runs after the page an incident has had few chances to end falsely. Its level rests
# on few runs, too, so that no rise is far. One or two runs that paged are no level yet: they were chosen
# because they are bad.
NEW_INCIDENT_RUNS = 5
MIN_PAGE_RUNS = 3
NEW_RISES = (3.4, 2.65, 2.1, 2.2)
MAX_RECOVERY_RUNS = 10
# Fourteen runs whose mean is within one standard error of the old level.
CLEAN_RUNS = 14
CLEAN_Z = 1.0
# All runs since the page are not worse than the old level by so many standard deviations of a run, as a
# normal quantile, and at most one standard error below it.
MARGIN_SDS = 1.5
NOT_WORSE_Z = 2.9


class _Level(NamedTuple):
    """The mean of some runs, and the variance of that mean."""

    mean: float
    variance: float

    @classmethod
    def of(cls, runs: Sequence[RunLevel], spread: Spread) -> "_Level":
        return cls(mean_level(runs), variance_of_mean(runs, spread))

    def distance(self, other: "_Level", spread: Spread) -> float:
        """Return how far this level lies above another one: a normal quantile."""
        fall = score_effect(
            1, 1, self.mean - other.mean, self.variance + other.variance, spread.degrees
        )
        return -fall.z


def find_recovery(
    view: SeriesView, reference: Sequence[int], incident: OpenIncident, spread: Spread
) -> tuple[int, ...]:
    """The latest runs of an incident that are back on the reference; empty without evidence."""
    # The widening for correlated runs keeps false alarms below their limit. Here it would only delay.
    spread = spread._replace(widening=1.0)
    old_level = _Level.of(view.of(reference), spread)
    later_runs = [run for run in incident.runs[1:] if run > incident.opened]
    for width in range(1, min(len(later_runs), MAX_RECOVERY_RUNS) + 1):
        earlier_runs, latest_runs = incident.runs[:-width], incident.runs[-width:]
        has_level = len(earlier_runs) >= MIN_PAGE_RUNS or earlier_runs[-1] > incident.opened
        is_new = len(later_runs) <= NEW_INCIDENT_RUNS
        rises = NEW_RISES if is_new and has_level else RISES
        rise = _rise(view, incident, earlier_runs, latest_runs, spread)
        is_near = _Level.of(view.of(latest_runs), spread).distance(old_level, spread) > -NEAR
        if is_near and rise > rises[min(width, len(rises)) - 1]:
            return latest_runs
    runs_since_level = tuple(run for run in incident.runs if run > incident.level_runs[-1])
    if _is_clean(view, runs_since_level, old_level, spread):
        return runs_since_level[-CLEAN_RUNS:]
    if _is_not_worse(view, runs_since_level, old_level, spread):
        return runs_since_level
    return ()


def _rise(
    view: SeriesView,
    incident: OpenIncident,
    earlier_runs: Sequence[int],
    latest_runs: Sequence[int],
    spread: Spread,
) -> float:
    """How far the last runs lie above the other runs of the incident, or above those of its present
    level: a fall in an incident that was chance is one of all its runs.
    """
    level_runs = [run for run in earlier_runs if run >= incident.level_runs[0]]
    # Without a recovery, the last runs are bad ones, too, and have the noise of bad runs.
    spread = _with_noise_of(view.of(earlier_runs[1:]), spread)
    latest = _Level.of(view.of(latest_runs), spread)
    return max(
        latest.distance(_Level.of(view.of(runs), spread), spread)
        for runs in (earlier_runs, level_runs)
        if runs
    )


def _with_noise_of(runs: Sequence[RunLevel], spread: Spread) -> Spread:
    """The spread with the noise of the items in bad runs, if it is larger: half-right answers vary more than
    right ones, and a bad run is by chance as good as a recovered one.
    """
    noises = [run.noise * run.traces for run in runs if run.noise is not None]
    if not noises:
        return spread
    return spread._replace(per_trace=max(spread.per_trace, math.fsum(noises) / len(noises)))


def _is_clean(view: SeriesView, runs: Sequence[int], old_level: _Level, spread: Spread) -> bool:
    if len(runs) < CLEAN_RUNS:
        return False
    latest = _Level.of(view.of(runs[-CLEAN_RUNS:]), spread)
    return latest.distance(old_level, spread) > -CLEAN_Z


def _is_not_worse(view: SeriesView, runs: Sequence[int], old_level: _Level, spread: Spread) -> bool:
    """Return whether the runs together are non-inferior to the old level. They are all runs since the page:
    the runs of the page itself were chosen because they are bad.
    """
    if not runs:
        return False
    latest = _Level.of(view.of(runs), spread)
    margin = MARGIN_SDS * math.sqrt(spread.variance)
    worse_level = old_level._replace(mean=old_level.mean - margin)
    is_near = latest.distance(old_level, spread) > -CLEAN_Z
    return is_near and latest.distance(worse_level, spread) > NOT_WORSE_Z
