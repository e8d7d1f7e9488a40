"""A sample of the rates that `python -m benchmarks.detection` measures, with the same functions."""

import numpy as np
import pytest

from benchmarks.detection import CELLS, detection, histories
from benchmarks.simulated_series import lasting_harm, simulate_levels
from mosaico.kpis.series_types import SeriesEvent
from tests.support.references import IN_ONE_PROCESS

pytestmark = IN_ONE_PROCESS

SMALL = "37 x 1, runs vary by 2 points"
LARGE = "200 x 1, runs vary by 1.2 points"
RARE = "rare failures: 10 x 1, items pass in 99 %"
RETRIES = "costs, 58 x 1, retries cost 30 times as much"


@pytest.mark.parametrize(
    "name",
    [SMALL, *(pytest.param(name, marks=pytest.mark.prove) for name in (LARGE, RARE, RETRIES))],
)
def test_unchanged_agents_page_rarely(name: str) -> None:
    """0.1 pages in 30 runs are 6 in 20 histories of 90 runs; of the promised 0.25 they were 15."""
    pages = [len(events.pages) for events in histories(name, np.zeros(90), 20)]
    assert sum(pages) <= 15


def test_drops_are_told() -> None:
    drop = lasting_harm(CELLS[LARGE], 0.1, 20, 25)
    assert detection([events.pages for events in histories(LARGE, drop, 20)], 20).by_5 >= 0.9
    collapse = lasting_harm(CELLS[SMALL], 0.3, 20, 21)
    assert detection([events.pages for events in histories(SMALL, collapse, 20)], 20).by_1 >= 0.7


def test_recovered_agents_close_their_incidents_and_bad_ones_do_not() -> None:
    bad = lasting_harm(CELLS[LARGE], 0.1, 21, 50)
    for events in histories(LARGE, np.concatenate([bad, np.zeros(10)]), 10):
        [closed] = events.runs_of(SeriesEvent.RESOLVED)[-1:]
        assert closed > 50


@pytest.mark.parametrize("name", [SMALL, RETRIES])
def test_levels_of_a_run_do_not_depend_on_later_runs(name: str) -> None:
    """The simulation reads the levels of all runs once, and the product after each run."""
    levels = simulate_levels(CELLS[name], np.zeros(30), np.random.default_rng(1))
    alone = simulate_levels(CELLS[name], np.zeros(30), np.random.default_rng(1), is_stepwise=True)
    for run in (2, 17, 30):
        together, by_step = levels[run - 1], alone[run - 1]
        changes = [
            [known[seq].level - known[1].level for seq in known] for known in (together, by_step)
        ]
        assert changes[0] == pytest.approx(changes[1], abs=1e-9)
        assert [known.noise for known in together.values()] == [
            known.noise for known in by_step.values()
        ]
