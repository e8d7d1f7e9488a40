"""Cells and scenarios of the simulated series, and what they print."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from tests.support.series_simulation import (
    Cell,
    Events,
    pages_of,
    pages_per_month,
    simulate,
)

HISTORIES = 200
PROMISE = 0.25
# The standard error of a rate of 0.25 in 200 histories of three months is 0.02.
RATE_ERROR = 0.04
Show = Callable[[str], None]


@cache
def sd_of(cell: Cell) -> float:
    """The standard deviation of the level of one run."""
    histories = simulate(cell, 60, 40, seed=9)
    return float(np.mean([np.std([run.level for run in levels.values()]) for levels in histories]))


def false_pages(events: Sequence[Events], runs: int) -> float:
    """The pages of unchanged histories in 30 runs."""
    return pages_per_month([pages_of(history) for history in events], runs)
