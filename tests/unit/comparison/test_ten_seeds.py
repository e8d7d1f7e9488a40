"""Tasks that break, as in docs/statistics.md, each with ten seeds; `benchmarks.calibration` and
`benchmarks.detection` measure the rates.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.simulated_pairs import PASSED, judge, passes, run_of, usual_rates
from mosaico.statistics.verdict_rules import Side, Verdict, VerdictRule
from tests.support.references import IN_ONE_PROCESS

pytestmark = IN_ONE_PROCESS

WORTH_A_PAGE = replace(PASSED, rule=VerdictRule(side=Side.LOW))
SEEDS = range(10)
LEAST_FOUND = 9
# The trials of a single broken task are proof enough, whatever the other tasks did.
ENOUGH_FOR_ONE_TASK = 9


def seeds() -> Iterator[np.random.Generator]:
    return (np.random.default_rng([43, seed]) for seed in SEEDS)


@pytest.mark.parametrize(("items", "trials"), [(10, 5), (37, 10)])
def test_four_tasks_that_break__are_found_and_named(items: int, trials: int) -> None:
    changes = []
    for random in seeds():
        rates = usual_rates(random, items)
        before, after = passes(rates, trials, random), passes(rates, trials, random)
        before[:4], after[:4] = 1.0, 0.0
        change = judge(run_of(before), run_of(after), PASSED)
        changes.append(change)
        assert change.tasks is not None
        assert {"0000", "0001", "0002", "0003"} <= {*change.tasks.fell}
    least = len(changes) if trials >= ENOUGH_FOR_ONE_TASK else LEAST_FOUND
    assert [change.verdict for change in changes].count(Verdict.REGRESSED) >= least


def test_one_task_of_37_that_breaks__is_found_by_its_ten_trials() -> None:
    for random in seeds():
        rates = usual_rates(random, 37)
        before = passes(rates, 10, random)
        after = before.copy()
        before[0], after[0] = 1.0, 0.0
        for earlier, later, verdict in (
            (before, after, Verdict.REGRESSED),
            (after, before, Verdict.IMPROVED),
        ):
            change = judge(run_of(earlier), run_of(later), WORTH_A_PAGE)
            assert (change.verdict, change.tasks and change.tasks.beyond_chance) == (
                verdict,
                ("0000",),
            )
