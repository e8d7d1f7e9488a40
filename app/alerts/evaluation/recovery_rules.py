"""Evidence that a series is back on the reference of its open incident.

The last runs of the incident are compared with two levels: the reference before the incident, and the
other runs of the incident. Their likelihood under the one, divided by that under the other, is the
evidence. Two further rules close an incident that never was a real fall, whose two levels are too
close to be told apart.

Source: Wald 1945, "Sequential tests of statistical hypotheses" (the likelihood ratio of two levels).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from app.alerts.evaluation.series_evidence import SeriesView, mean_level, variance_of_mean
from app.kpis.series_types import OpenIncident
from app.statistics.sequential import MIN_ERROR, RunLevel, Spread, score_effect

# No evidence against the old level: closer to it than its one-sided 5 % limit.
NEAR = 1.64
# The logarithm of the likelihood ratio that one, two, and three to eight last runs need. A long
# incident has many single good runs by chance, and hardly ever three in a row.
LOG_RATIOS = (8.0, 6.5, 4.6)
# In the first five runs after the page an incident has had few chances to end falsely. Its level rests
# on few runs, too, so that no ratio is large.
NEW_INCIDENT_RUNS = 5
NEW_LOG_RATIOS = (7.0, 5.0, 3.0)
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
    log_ratios = NEW_LOG_RATIOS if len(later_runs) <= NEW_INCIDENT_RUNS else LOG_RATIOS
    for width in range(1, min(len(later_runs), MAX_RECOVERY_RUNS) + 1):
        latest, earlier = incident.runs[-width:], incident.runs[:-width]
        ratio = _log_likelihood_ratio(
            _Level.of(view.of(latest), spread),
            old_level,
            _Level.of(view.of(earlier), spread),
            spread,
        )
        if ratio > log_ratios[min(width, len(log_ratios)) - 1]:
            return latest
    runs_since_level = tuple(run for run in incident.runs if run > incident.level_runs[-1])
    if _is_clean(view, runs_since_level, old_level, spread):
        return runs_since_level[-CLEAN_RUNS:]
    if _is_unconfirmed(view, runs_since_level, incident, old_level, spread):
        return runs_since_level
    return ()


def _log_likelihood_ratio(
    latest: _Level, old_level: _Level, incident_level: _Level, spread: Spread
) -> float:
    """log(likelihood of the old level / likelihood of the level of the incident), given the last
    runs; -inf below the incident and where they are evidence against the old level.
    """
    above = latest.distance(incident_level, spread)
    below = min(0.0, latest.distance(old_level, spread))
    if above <= 0 or below <= -NEAR:
        return -math.inf
    incident_variance = max(latest.variance + incident_level.variance, MIN_ERROR)
    old_variance = max(latest.variance + old_level.variance, MIN_ERROR)
    return (above**2 - below**2 + math.log(incident_variance / old_variance)) / 2


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
