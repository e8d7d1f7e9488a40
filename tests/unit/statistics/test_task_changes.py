"""Which single items changed by themselves."""

import math

import numpy as np
import pytest

from mosaico.statistics.fixed_items import fixed_items_change
from mosaico.statistics.task_changes import find_task_changes, fisher_p
from mosaico.statistics.trials import FloatArray, ItemSums
from mosaico.statistics.verdict_rules import TaskChanges
from mosaico.statistics.whole_runs import RunEffect
from tests.support.references import IN_ONE_PROCESS, Reference

stats = Reference("scipy.stats")


def passes(counts: list[int] | FloatArray, trials: int) -> ItemSums:
    total = np.array(counts, dtype=np.float64)
    return ItemSums(n=np.full(len(total), float(trials)), total=total, squares=total)


def changes_of(
    before: list[int], after: list[int], trials: int, *, run_sd: float = 0.0
) -> TaskChanges:
    names = [f"q{item}" for item in range(len(before))]
    tasks = find_task_changes(
        names, passes(before, trials), passes(after, trials), runs_variance=2 * run_sd**2
    )
    assert tasks is not None
    return tasks


@IN_ONE_PROCESS
def test_fisher__equals_scipy() -> None:
    for row in ((5, 5, 5, 0), (10, 8, 10, 3), (7, 2, 9, 8), (3, 0, 3, 0)):
        first, passed, second, later = row
        table = [[passed, first - passed], [later, second - later]]
        assert fisher_p(*row) == pytest.approx(stats.fisher_exact(table).pvalue, abs=1e-12)


def test_tasks__that_changed_by_themselves() -> None:
    tasks = changes_of([10, 10, 9, 0, 5], [0, 9, 1, 10, 5], 10)
    assert (tasks.fell, tasks.rose, tasks.beyond_chance) == (("q0",), ("q3",), ("q0", "q2", "q3"))
    assert find_task_changes(["a"], passes([1], 1), passes([0], 1)) is None


def test_p__of_one_broken_task_of_37_by_hand() -> None:
    tasks = changes_of([10] * 37, [0] + [10] * 36, 10)
    # Two of all divisions of 20 trials into tens are as extreme; 37 tasks, at a tenth of the level.
    assert tasks.p_fall == pytest.approx(2 / math.comb(20, 10) * 37 * 10)
    assert tasks.p_rise == 1


def test_seven_trials__are_too_few_for_one_task_of_37() -> None:
    for trials, is_enough in ((7, False), (9, True)):
        tasks = changes_of([trials] * 37, [0] + [trials] * 36, trials)
        assert (tasks.p_fall < 0.05) is is_enough
        assert bool(tasks.beyond_chance) is is_enough


def test_runs_that_vary__explain_a_task_only_if_they_vary_much() -> None:
    usual, wild = (
        changes_of([10] * 37, [0] + [10] * 36, 10, run_sd=run_sd) for run_sd in (0.015, 0.2)
    )
    assert usual.p_fall < 0.01
    assert wild.p_fall > 0.05
    assert not wild.beyond_chance


def test_change__is_proved_by_tasks_in_its_own_direction_only() -> None:
    runs = RunEffect(2 * 0.015**2)
    # One task falls from always to never, and five of the others pass a little more often.
    before, after = [10] + [5] * 36, [0] + [7] * 6 + [5] * 30
    change = fixed_items_change(passes(before, 10), passes(after, 10), width=1.0, runs=runs)
    assert change is not None
    rising = change.with_tasks(changes_of(before, after, 10))
    assert (change.effect > 0, rising.p) == (True, change.p)
    back = fixed_items_change(passes([0, 10], 10), passes([10, 0], 10), width=1.0)
    assert back is not None
    assert back.with_tasks(changes_of([0, 10], [10, 0], 10)).p == back.p


def test_interval__excludes_0_where_tasks_prove_the_change() -> None:
    runs = RunEffect(2 * 0.015**2)
    before, after = [10] * 37, [0] + [10] * 36
    change = fixed_items_change(passes(before, 10), passes(after, 10), width=1.0, runs=runs)
    assert change is not None
    proved = change.with_tasks(changes_of(before, after, 10, run_sd=0.015))
    assert change.p > 0.05 > proved.p
    without, interval = change.interval(0.05), proved.interval(0.05)
    assert without is not None
    assert interval is not None
    assert without.high >= 0 > interval.high
    assert interval.low == without.low
