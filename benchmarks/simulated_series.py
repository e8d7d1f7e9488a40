"""Simulated histories of an agent, judged by the functions that ship: `points_of_run`, `levels_of_points`,
`decide_step`, and `Judge` for ANOMALY_DETECTED.

A cell says how an agent varies: its items with their chance, and effects that move all items of a run. An effect
is in points of the mean pass rate, and acts on the logit scale of every item; of costs it is a difference of
logarithms.
"""

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaico.alerts.evaluation.judging import Judge, SeriesInput
from mosaico.alerts.evaluation.series_decision import decide_step
from mosaico.alerts.rules import (
    AlertEventState,
    Condition,
    Observation,
    RuleSpec,
    RunSpan,
    ValueSpec,
)
from mosaico.comparison.comparison_spec import ComparisonSpec, MetricComparisonSpec
from mosaico.comparison.series_levels import levels_of_points, points_of_run
from mosaico.comparison.value_failures import ValueFailures
from mosaico.items.formulas.properties import ValueRange
from mosaico.items.matrix import ItemMatrix
from mosaico.kpis.series_types import RunsEvidence, SeriesEvent, SeriesState
from mosaico.run_store.rules import RunStatus, Validity
from mosaico.run_store.run_history import PastRun
from mosaico.run_store.series_points import StoredPoint, metric_series
from mosaico.statistics.sequential import DEFAULT_FALSE_PAGES, RunLevel
from mosaico.statistics.verdict_rules import Scale, Side, VerdictRule

Floats: TypeAlias = NDArray[np.float64]
Effects: TypeAlias = Callable[[np.random.Generator, int], Floats]

RULE = RuleSpec(condition=Condition.REGRESSED, keep_firing_for_runs=0)
ANOMALY_RULE = RuleSpec(condition=Condition.ANOMALY_DETECTED)
# The comparable runs that a rule reads.
ANOMALY_HISTORY = 30
FIRST_NIGHT = datetime(2026, 1, 1, tzinfo=UTC)
PASSED = VerdictRule(side=Side.LOW)
COST = VerdictRule(side=Side.HIGH, scale=Scale.RATIO)
PAGES = (SeriesEvent.OPENED, SeriesEvent.WORSE)
METRIC = "M"
SETTLING_STEPS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """How an unchanged agent varies: its items, their pass rates or costs, and the effects of whole runs.

    `rates` draws the pass rates of items; `costs` draws, for an agent whose costs are watched, their logarithms.
    `growing` items are added, one by one, over the history.
    """

    name: str
    items: int
    trials: int = 1
    rates: Callable[[np.random.Generator, int], Floats] | None = None
    costs: Callable[[np.random.Generator, tuple[int, int]], Floats] | None = None
    effects: Effects | None = None
    growing: int = 0

    @property
    def rule(self) -> VerdictRule:
        return PASSED if self.costs is None else COST


# How effects of whole runs come about.


def independent(sd: float) -> Effects:
    return lambda rng, runs: rng.normal(0.0, sd, runs)


def heavy_tailed(sd: float) -> Effects:
    """Student's t with three degrees of freedom, whose variance is 3."""
    return lambda rng, runs: sd * rng.standard_t(3, runs) / math.sqrt(3)


def correlated(correlation: float, sd: float) -> Effects:
    """Effects with a correlation of neighbors (AR 1)."""
    return irregular(correlation, sd, lambda _, runs: np.ones(runs))


def at_irregular_times(sd: float) -> Effects:
    """Effects that decay by 0.6 in a mean gap between runs; gaps are lognormal."""
    return irregular(0.6, sd, lambda rng, runs: rng.lognormal(-0.5, 1.0, runs))


def irregular(
    correlation: float, sd: float, gaps: Callable[[np.random.Generator, int], Floats]
) -> Effects:
    def draw(rng: np.random.Generator, runs: int) -> Floats:
        effects: Floats = rng.normal(0.0, 1.0, runs)
        for run, weight in enumerate(correlation ** gaps(rng, runs)):
            if run:
                # So weighted, each effect has the variance 1.
                effects[run] = weight * effects[run - 1] + math.sqrt(1 - weight**2) * effects[run]
        return sd * effects

    return draw


def in_bursts(sd: float) -> Effects:
    """CI runs in bursts of one to six, which share their effect."""

    def draw(rng: np.random.Generator, runs: int) -> Floats:
        sizes = rng.integers(1, 7, runs)
        effects: Floats = np.repeat(rng.normal(0.0, sd, runs), sizes)[:runs]
        return effects

    return draw


def slow_wave(size: float, length: int) -> Effects:
    def draw(rng: np.random.Generator, runs: int) -> Floats:
        phase = rng.uniform(0, 2 * math.pi)
        wave: Floats = size * np.sin(2 * math.pi * np.arange(runs) / length + phase)
        return wave

    return draw


def on_weekdays(size: float, days: int) -> Effects:
    """The last `days` of seven runs are worse by `size`."""

    def draw(rng: np.random.Generator, runs: int) -> Floats:
        first = rng.integers(0, 7)
        effects: Floats = np.where((np.arange(runs) + first) % 7 >= 7 - days, -size, 0.0)
        return effects

    return draw


# Pass rates of items, and logarithms of costs of shape (runs, items).


def usual_rates(rng: np.random.Generator, items: int) -> Floats:
    """Their mean is 0.8: most items nearly always pass, a few nearly never."""
    return np.clip(rng.beta(1.6, 0.4, items), 0.01, 0.99)


def near_one(rng: np.random.Generator, items: int) -> Floats:
    return rng.uniform(0.95, 1.0, items)


def nearly_always(_: np.random.Generator, items: int) -> Floats:
    return np.full(items, 0.99)


def near_zero(rng: np.random.Generator, items: int) -> Floats:
    return rng.uniform(0.0, 0.1, items)


def always_or_never(rng: np.random.Generator, items: int) -> Floats:
    """70 % of the items always pass, 10 % never, 20 % are flaky: runs are often equal."""
    kinds = rng.choice(3, items, p=(0.7, 0.1, 0.2))
    flaky = rng.uniform(0.2, 0.8, items)
    return np.choose(kinds, (np.ones(items), np.zeros(items), flaky))


def with_item_sizes(
    noise: Callable[[np.random.Generator, tuple[int, int]], Floats],
) -> Callable[[np.random.Generator, tuple[int, int]], Floats]:
    """Items that cost e times as much as others, with a noise of each trace."""
    return lambda rng, shape: rng.normal(0.0, 1.0, shape[1]) + noise(rng, shape)


def lognormal_noise(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.normal(0.0, 0.4, shape)


def t_noise(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return 0.5 * rng.standard_t(3, shape)


def retry_noise(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Two of a hundred traces cost 30 times as much."""
    retries = np.where(rng.uniform(size=shape) < 0.02, math.log(30.0), 0.0)
    return lognormal_noise(rng, shape) + retries


def pareto_noise(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.exponential(1 / 1.5, shape)


def simulate_levels(
    cell: Cell, change: Floats, rng: np.random.Generator, *, is_stepwise: bool = False
) -> list[dict[int, RunLevel]]:
    """What each run of one history knows: the levels of the runs up to it. `change` is that of each run;
    `is_stepwise`: read them after each run, as the product does.
    """
    points = [
        _point(cell, run, values) for run, values in enumerate(values_of_runs(cell, change, rng), 1)
    ]
    if cell.growing or is_stepwise:
        return [levels_of_points(points[: end + 1][-61:]) for end in range(len(points))]
    # The items are the same in all runs: no level depends on a later run.
    levels = list(levels_of_points(points).values())
    return [dict(zip(range(1, end + 2), levels, strict=False)) for end in range(len(levels))]


def values_of_runs(cell: Cell, change: Floats, rng: np.random.Generator) -> Floats:
    """The values by trace, of shape (runs, items, trials); NaN: the item does not exist yet."""
    runs = len(change)
    effects = change + (cell.effects(rng, runs) if cell.effects else 0.0)
    items = cell.items + cell.growing
    if cell.costs is not None:
        return np.exp(cell.costs(rng, (runs, items)) + effects[:, None])[:, :, None]
    rates = (cell.rates or usual_rates)(rng, items)
    passed = rng.uniform(size=(cell.trials, runs, items)) < shifted_rates(rates, effects)
    values = np.moveaxis(passed, 0, -1).astype(float)
    present = cell.items + cell.growing * np.arange(runs) // runs
    values[np.arange(items) >= present[:, None]] = np.nan
    return values


def shifted_rates(rates: Floats, effects: Floats) -> Floats:
    """The pass rates of items, shape (runs, items), on the logit scale so that each run has the mean
    that its effect says.
    """
    if not effects.any():
        return np.tile(rates, (len(effects), 1))
    # Newton's method for the shift of each run. The bounds keep it stable where nearly all items pass or fail,
    # and the derivative is nearly 0.
    rates = np.clip(rates, 1e-4, 1 - 1e-4)
    logits = np.log(rates / (1 - rates))
    targets = np.clip(rates.mean() + effects, 0.005, 0.995)
    shifts = np.zeros(len(effects))
    shifted = np.tile(rates, (len(effects), 1))
    for _ in range(SETTLING_STEPS):
        slopes = np.maximum((shifted * (1 - shifted)).mean(axis=1), 0.02)
        shifts = np.clip(shifts - (shifted.mean(axis=1) - targets) / slopes, -12, 12)
        shifted = 1 / (1 + np.exp(-(logits + shifts[:, None])))
    return shifted


def _point(cell: Cell, run: int, values: Floats) -> StoredPoint:
    """The stored point of a run with values of shape (items, trials)."""
    points = points_of_run(spec_of(cell, matrix_of(cell, values)), {}, ValueFailures())
    point = points.series[metric_series(METRIC)]
    return StoredPoint(run, point.scale, point.level, point.item_values, points.items)


def matrix_of(cell: Cell, values: Floats) -> ItemMatrix:
    """The items of a run with values of shape (items, trials)."""
    items = np.flatnonzero(~np.isnan(values[:, 0]))
    names = [f"item-{item}" for item in items]
    return ItemMatrix(
        items=names,
        revisions=[""] * len(names),
        item_index=array("l", np.repeat(np.arange(len(items)), cell.trials)),
        run_index=array("l", [0] * (len(items) * cell.trials)),
        values={METRIC: array("d", values[items].ravel())},
    )


def spec_of(cell: Cell, run: ItemMatrix) -> ComparisonSpec:
    limits = ValueRange(0.0, 1.0 if cell.costs is None else None)
    metric = MetricComparisonSpec(column=METRIC, rule=cell.rule, limits=limits)
    return ComparisonSpec(run=run, candidate=None, baseline=None, metrics=[metric], kpis=[])


class Events(NamedTuple):
    """What one history causes, by run from 1 on."""

    evidence: Sequence[RunsEvidence]

    def runs_of(self, *events: SeriesEvent) -> list[int]:
        return [run for run, step in enumerate(self.evidence, 1) if step.event in events]

    @property
    def pages(self) -> list[int]:
        return self.runs_of(*PAGES)


def play(
    cell: Cell, change: Floats, rng: np.random.Generator, false_pages: float = DEFAULT_FALSE_PAGES
) -> Events:
    """What the product says about one history."""
    state, evidence = SeriesState(), []
    for run, levels in enumerate(simulate_levels(cell, change, rng), 1):
        step = decide_step(state, levels, run, cell.rule.scale, cell.rule.side, RULE, false_pages)
        state = step.state
        evidence.append(step.evidence)
    return Events(evidence)


class _AnomalyRuns:
    """The runs of one history as a rule observes them: the comparable runs before a run, outside incidents."""

    def __init__(self, cell: Cell, levels: Sequence[dict[int, RunLevel]]) -> None:
        self._levels = levels
        self._value = ValueSpec(
            name=METRIC,
            harm=cell.rule.side,
            is_share=cell.costs is None,
            logarithmic=cell.costs is not None,
        )

    def observe(self, run: PastRun, excluded: Sequence[RunSpan]) -> tuple[ValueSpec, Observation]:
        known = self._levels[run.seq - 1]
        history = [
            level
            for seq, level in known.items()
            if seq < run.seq and not any(span.contains(seq) for span in excluded)
        ]
        levels = [*history[-ANOMALY_HISTORY:], known[run.seq]]
        value = levels[-1].level if not self._value.logarithmic else math.exp(levels[-1].level)
        return self._value, Observation(value=value, levels=levels)

    def series_of(self, run: PastRun) -> SeriesInput | None:  # noqa: ARG002 - no series
        return None


def play_anomaly(cell: Cell, change: Floats, rng: np.random.Generator) -> list[int]:
    """The runs of one history at which a rule ANOMALY_DETECTED fires."""
    levels = simulate_levels(cell, change, rng)
    judge = Judge(ANOMALY_RULE, _AnomalyRuns(cell, levels))
    fired = []
    for run in range(1, len(levels) + 1):
        past = PastRun(
            seq=run,
            id=f"run-{run}",
            status=RunStatus.COMPLETED,
            validity=Validity.VALID,
            fingerprint="simulated",
            completed_at=FIRST_NIGHT + timedelta(days=run),
            traces=None,
            night=run,
        )
        if judge.judge(past).change.notification is AlertEventState.FIRING:
            fired.append(run)
    return fired


def no_change(runs: int) -> Floats:
    return np.zeros(runs)


def lasting_harm(cell: Cell, size: float, first: int, last: int) -> Floats:
    """A harm of `size` points in the runs from the first up to and with the last; of costs, a factor of 1 + 2.2 size."""
    change = np.zeros(last)
    change[first - 1 :] = -size if cell.costs is None else math.log1p(2.2 * size)
    return change
