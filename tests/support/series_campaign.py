"""Cells and scenarios of the simulated series, and what they print."""

from collections.abc import Callable
from functools import cache

import numpy as np

from tests.support.series_simulation import (
    Cell,
    simulate,
)

HISTORIES = 200
Show = Callable[[str], None]


@cache
def sd_of(cell: Cell) -> float:
    """The standard deviation of the level of one run."""
    histories = simulate(cell, 60, 40, seed=9)
    return float(np.mean([np.std([run.level for run in levels.values()]) for levels in histories]))
