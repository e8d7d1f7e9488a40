"""A series of runs with known noise, which is advanced run by run."""

import random

from mosaico.alerts.evaluation.incident_rules import advance_series
from mosaico.alerts.evaluation.series_evidence import PagePolicy, SeriesView
from mosaico.kpis.series_types import RunsEvidence, SeriesEvent, SeriesState
from mosaico.statistics.sequential import RunLevel, estimate_variance, score_means

POLICY = PagePolicy(false_pages_per_month=0.25, prior_sd=0.015)
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


def reference_level(series: Series, below: float = 0.0) -> float:
    """The mean of the reference, or so many standard errors of the mean of five runs below it."""
    reference = SeriesView(series.levels, POLICY).of(series.state.reference)
    mean = sum(run.level for run in reference) / len(reference)
    latest = [RunLevel(0, mean, NOISE**2 / 2)] * 5
    variance = estimate_variance(
        reference,
        prior_sd=POLICY.prior_sd,
        recent=latest,
        returned=frozenset(series.state.returned),
    )
    return mean - below * score_means(reference, latest, variance).standard_error
