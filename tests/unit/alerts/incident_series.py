"""A series of runs with known noise, which is advanced run by run."""

import math
import random

from mosaico.alerts.evaluation.incident_rules import advance_series
from mosaico.alerts.evaluation.series_evidence import (
    PagePolicy,
    SeriesView,
    mean_level,
    variance_of_mean,
)
from mosaico.kpis.series_types import RunsEvidence, SeriesEvent, SeriesState
from mosaico.statistics.sequential import RunLevel, estimate_spread

POLICY = PagePolicy(false_pages_per_month=0.25, prior_sd=0.03)
NOISE = 0.02


class Series:
    """A series that is advanced run by run."""

    def __init__(self, policy: PagePolicy = POLICY, seed: int = 1) -> None:
        self.policy = policy
        self.random = random.Random(seed)
        # Half of the scatter is that of the items.
        self.item_noise = NOISE**2 / 2
        self.levels: dict[int, RunLevel] = {}
        self.state = SeriesState()
        self.evidence: list[RunsEvidence] = []

    def add(self, *levels: float) -> RunsEvidence:
        for level in levels:
            run = len(self.levels) + 1
            self.levels[run] = RunLevel(run, level, self.item_noise if run > 1 else None)
            step = advance_series(self.state, self.levels, run, self.policy)
            # Between two runs the state is JSON in a row of the database.
            self.state = SeriesState.model_validate_json(step.state.model_dump_json())
            self.evidence.append(step.evidence)
        return self.evidence[-1]

    def add_around(self, level: float, runs: int) -> RunsEvidence:
        for _ in range(runs):
            self.add(level + self.random.gauss(0, NOISE))
        return self.evidence[-1]

    def is_open(self) -> bool:
        return self.state.incident is not None

    def events(self) -> list[tuple[int, SeriesEvent]]:
        return [(run, ev.event) for run, ev in enumerate(self.evidence, 1) if ev.event]


def firing(seed: int = 1) -> Series:
    series = Series(seed=seed)
    series.add_around(0.8, 20)
    series.add(0.5)
    assert series.is_open()
    return series


def recovered_from_a_small_fall() -> Series:
    """An incident that may have been chance: a run just beyond the limit, and runs as before it."""
    series = Series()
    series.add_around(0.8, 20)
    assert 3.06 < (series.add(0.69).z or 0) < 4.4
    assert series.is_open()
    series.add_around(0.8, 6)
    assert not series.is_open()
    return series


def reference_level(series: Series, below: float = 0.0, runs: int = 14) -> float:
    """The mean of the reference, or so many standard errors of the mean of `runs` below it."""
    view = SeriesView(series.levels, POLICY)
    *earlier, current = (
        [run for run in level if run in series.levels] for level in series.state.levels
    )
    reference = view.of(current)
    spread = estimate_spread(
        reference, prior_sd=POLICY.prior_sd, earlier=[view.of(level) for level in earlier]
    )._replace(widening=1.0)
    latest = [RunLevel(0, 0.0, NOISE**2 / 2)] * runs
    error = math.sqrt(variance_of_mean(latest, spread) + variance_of_mean(reference, spread))
    return mean_level(reference) - below * error
