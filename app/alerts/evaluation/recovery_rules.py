"""Evidence that a series is back on the reference of its open incident.

The last runs of the incident are compared with two levels: they lie significantly above the other runs
of the incident, and not significantly below the reference before it. Two further rules close an incident
that never was a real fall, whose two levels are too close to be told apart.
"""

from collections.abc import Sequence
from typing import NamedTuple

from app.alerts.evaluation.series_evidence import SeriesView, mean_level, variance_of_mean
from app.kpis.series_types import OpenIncident
from app.statistics.sequential import RunLevel, Spread, score_effect

# No evidence against the old level: at most so far below it, as a normal quantile.
NEAR = 1.45
# How far the last run, the last two, and the last three to eight runs lie above the other runs of the
# incident: a normal quantile. A long incident has many single good runs by chance, and hardly ever
# three in a row.
RISES = (4.2, 3.7, 3.3)
# In the first five runs after the page an incident has had few chances to end falsely. Its level rests
# on few runs, too, so that no rise is far.
NEW_INCIDENT_RUNS = 5
NEW_RISES = (3.4, 2.8, 2.3)
MAX_RECOVERY_RUNS = 8
# Fourteen runs whose mean is within one standard error of the old level.
CLEAN_RUNS = 14
CLEAN_Z = 1.0
# After three runs near the old level, all runs of the incident together are no evidence any more.
UNCONFIRMED_RUNS = 3
UNCONFIRMED_Z = 1.5


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
    # The widening for correlated runs keeps the promise about pages. Here it would only delay.
    spread = spread._replace(widening=1.0)
    old_level = _Level.of(view.of(reference), spread)
    later_runs = [run for run in incident.runs[1:] if run > incident.opened]
    rises = NEW_RISES if len(later_runs) <= NEW_INCIDENT_RUNS else RISES
    for width in range(1, min(len(later_runs), MAX_RECOVERY_RUNS) + 1):
        latest_runs = incident.runs[-width:]
        latest = _Level.of(view.of(latest_runs), spread)
        rise = _rise(view, latest, incident, incident.runs[:-width], spread)
        is_near = latest.distance(old_level, spread) > -NEAR
        if is_near and rise > rises[min(width, len(rises)) - 1]:
            return latest_runs
    runs_since_level = tuple(run for run in incident.runs if run > incident.level_runs[-1])
    if _is_clean(view, runs_since_level, old_level, spread):
        return runs_since_level[-CLEAN_RUNS:]
    if _is_unconfirmed(view, runs_since_level, incident, old_level, spread):
        return runs_since_level
    return ()


def _rise(
    view: SeriesView,
    latest: _Level,
    incident: OpenIncident,
    earlier_runs: Sequence[int],
    spread: Spread,
) -> float:
    """How far the last runs lie above the other runs of the incident, or above those of its present
    level: a fall in an incident that was chance is one of all its runs.
    """
    level_runs = [run for run in earlier_runs if run >= incident.level_runs[0]]
    return max(
        latest.distance(_Level.of(view.of(runs), spread), spread)
        for runs in (earlier_runs, level_runs)
        if runs
    )


def _is_clean(view: SeriesView, runs: Sequence[int], old_level: _Level, spread: Spread) -> bool:
    if len(runs) < CLEAN_RUNS:
        return False
    latest = _Level.of(view.of(runs[-CLEAN_RUNS:]), spread)
    return latest.distance(old_level, spread) > -CLEAN_Z


def _is_unconfirmed(
    view: SeriesView,
    runs: Sequence[int],
    incident: OpenIncident,
    old_level: _Level,
    spread: Spread,
) -> bool:
    is_first_level = incident.level_runs[0] == incident.started
    if len(runs) < UNCONFIRMED_RUNS or not is_first_level:
        return False
    latest = _Level.of(view.of(runs), spread)
    incident_level = _Level.of(view.of(incident.runs), spread)
    is_near = latest.distance(old_level, spread) > -NEAR
    return is_near and incident_level.distance(old_level, spread) > -UNCONFIRMED_Z
