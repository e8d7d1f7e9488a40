"""Simulated histories of a KPI, and the pages that the product sends about them.

A cell is a number of items and trials with two sources of noise: the chance of the items (answers
that pass or fail) and an effect that moves all items of a run. All levels go through the product's
functions: `fit_levels`, `scan_levels`, `advance_series`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaico.alerts.evaluation.incident_rules import advance_series
from mosaico.alerts.evaluation.series_evidence import PagePolicy
from mosaico.kpis.series_types import SeriesEvent, SeriesState
from mosaico.statistics.run_levels import RunItemValues, fit_levels
from mosaico.statistics.sequential import RunLevel

Floats: TypeAlias = NDArray[np.float64]
Shift: TypeAlias = Callable[[int], Floats]
Events: TypeAlias = list[tuple[int, SeriesEvent]]

# Equal: a series varies as the product expects it to before it has seen enough runs.
PRIOR_SD = 0.03
RUN_SD = 0.03
SETTLING_STEPS = 12
PAGES = (SeriesEvent.OPENED, SeriesEvent.WORSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """How the runs of a series vary: `run_sd` is that of the run effects on the level, `correlation`
    that of neighboring run effects. Without `item_noise` all items move alike.
    """

    items: int
    trials: int = 1
    item_noise: bool = True
    run_sd: float = 0.0
    correlation: float = 0.0

    @property
    def noise(self) -> str:
        if not self.run_sd:
            return "item"
        return "both" if self.item_noise else "run"

    def __str__(self) -> str:
        correlated = f" AR {self.correlation}" if self.correlation else ""
        return f"{self.items}x{self.trials} {self.noise}{correlated}"


SIZES = ((37, 1), (58, 1), (58, 5), (200, 1))
CELLS = tuple(
    Cell(items=items, trials=trials, item_noise=item_noise, run_sd=run_sd)
    for items, trials in SIZES
    for item_noise, run_sd in ((True, 0.0), (False, RUN_SD), (True, RUN_SD))
)
CORRELATED = tuple(replace(cell, correlation=0.6) for cell in CELLS if cell.run_sd)


def no_change(runs: int) -> Floats:
    return np.zeros(runs)


def drop(size: float, start: int, end: int | None = None) -> Shift:
    """A fall of the level by `size` in the runs from `start` up to, but not including, `end`."""

    def shift(runs: int) -> Floats:
        levels = np.zeros(runs)
        levels[start:end] = -size
        return levels

    return shift


def drift(size: float, start: int) -> Shift:
    """A fall by `size` with each run from `start` on."""
    return lambda runs: -size * np.clip(np.arange(runs) - start + 1.0, 0.0, None)


def together(*shifts: Shift) -> Shift:
    return lambda runs: np.sum([shift(runs) for shift in shifts], axis=0)


def simulate(
    cell: Cell, runs: int, histories: int, seed: int, shift: Shift = no_change
) -> list[dict[int, RunLevel]]:
    """The levels of some histories, each by run number from 0 on."""
    rng = np.random.default_rng(seed)
    return [
        levels_of_values(values, cell.trials)
        for values in _iter_values(rng, cell, runs, histories, shift(runs))
    ]


def levels_of_values(values: Floats, trials: int = 1) -> dict[int, RunLevel]:
    """The product's levels of a matrix of shape (runs, items)."""
    keys = np.arange(values.shape[1])
    traces = np.full(values.shape[1], float(trials))
    return fit_levels(
        [
            RunItemValues(run=run, keys=keys, values=row, traces=traces)
            for run, row in enumerate(values)
        ]
    )


def _iter_values(
    rng: np.random.Generator, cell: Cell, runs: int, histories: int, shift: Floats
) -> Iterator[Floats]:
    for _ in range(histories):
        effects = shift + run_effects(rng, cell, runs)
        # Their mean is 0.8: most items nearly always pass, a few nearly never.
        rates = np.clip(rng.beta(1.6, 0.4, size=cell.items), 0.01, 0.99)
        if not cell.item_noise:
            yield rates[None, :] + effects[:, None]
        else:
            passed = rng.binomial(cell.trials, shifted_rates(rates, effects))
            yield passed / cell.trials


def run_effects(rng: np.random.Generator, cell: Cell, runs: int) -> Floats:
    """Normal effects with the correlation of the cell between neighbors (AR 1)."""
    effects: Floats = rng.normal(size=runs)
    for run in range(1, runs):
        # So weighted, each effect has the variance 1, whatever the correlation.
        innovation = math.sqrt(1 - cell.correlation**2) * effects[run]
        effects[run] = cell.correlation * effects[run - 1] + innovation
    return cell.run_sd * effects


def shifted_rates(rates: Floats, effects: Floats) -> Floats:
    """The pass rates of items, shape (runs, items), on the logit scale so that each run has the mean
    that its effect says.
    """
    # Newton's method for the shift of each run. The bounds keep it stable where nearly all items pass or fail,
    # and the derivative is nearly 0.
    logits = np.log(rates / (1 - rates))
    targets = np.clip(rates.mean() + effects, 0.02, 0.98)
    shifts = np.zeros(len(effects))
    shifted = np.tile(rates, (len(effects), 1))
    for _ in range(SETTLING_STEPS):
        slopes = np.maximum((shifted * (1 - shifted)).mean(axis=1), 0.02)
        shifts = np.clip(shifts - (shifted.mean(axis=1) - targets) / slopes, -12, 12)
        shifted = 1 / (1 + np.exp(-(logits + shifts[:, None])))
    return shifted


def play(
    histories: Sequence[dict[int, RunLevel]], false_pages_per_month: float = 0.25
) -> list[Events]:
    """What the product says about each history: the events by run."""
    policy = PagePolicy(false_pages_per_month=false_pages_per_month, prior_sd=PRIOR_SD)
    return [_play_one(levels, policy) for levels in histories]


def _play_one(levels: dict[int, RunLevel], policy: PagePolicy) -> Events:
    state, events = SeriesState(), Events()
    for run in levels:
        state, evidence = advance_series(state, levels, run, policy)
        if evidence.event is not None:
            events.append((run, evidence.event))
    return events


def pages_of(events: Events) -> list[int]:
    return [run for run, event in events if event in PAGES]


def pages_per_month(pages: Sequence[Sequence[int]], runs: int) -> float:
    return sum(map(len, pages)) / (len(pages) * runs / 30)


class Detection(NamedTuple):
    """Percent of the histories that page within 1, 5, 10 and 30 runs, and the mean delay (31: never)."""

    by_1: float
    by_5: float
    by_10: float
    by_30: float
    delay: float

    def __str__(self) -> str:
        shares = "/".join(f"{share:.0f}" for share in self[:4])
        return f"{shares} {self.delay:.1f}"


def detection(pages: Sequence[Sequence[int]], start: int) -> Detection:
    delays = np.array(
        [
            min((run - start + 1 for run in runs if start <= run < start + 30), default=31)
            for runs in pages
        ]
    )
    shares = (float(100 * (delays <= limit).mean()) for limit in (1, 5, 10, 30))
    return Detection._make((*shares, float(delays.mean())))


def mean_of(detections: Sequence[Detection]) -> Detection:
    columns = zip(*detections, strict=True)
    return Detection._make(float(np.mean(column)) for column in columns)
