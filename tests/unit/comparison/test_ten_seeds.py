"""The examples of docs/statistics.md and docs/alerts.md, each with ten seeds; `benchmarks.calibration` and
`benchmarks.detection` measure the rates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.detection import CELLS
from benchmarks.simulated_pairs import CALLED, COST, PASSED, judge, passes, run_of, usual_rates
from benchmarks.simulated_series import play
from mosaico.statistics.trials import FloatArray
from mosaico.statistics.verdict_rules import ChangeVerdict, Side, Verdict, VerdictRule
from tests.support.references import IN_ONE_PROCESS

pytestmark = IN_ONE_PROCESS

WORTH_A_PAGE = replace(PASSED, rule=VerdictRule(side=Side.LOW))
SEEDS = range(10)
# Of 5 % of unchanged pairs, three or more of ten are called once in 90 times.
MOST_CALLED = 2
LEAST_FOUND = 9
# The trials of a single broken task are proof enough, whatever the other tasks did.
ENOUGH_FOR_ONE_TASK = 9


def seeds() -> Iterator[np.random.Generator]:
    return (np.random.default_rng([43, seed]) for seed in SEEDS)


def called(changes: Sequence[ChangeVerdict]) -> int:
    return sum(change.verdict in CALLED for change in changes)


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


def test_unchanged_tasks__are_rarely_called() -> None:
    changes = []
    for random in seeds():
        rates = usual_rates(random, 37)
        first, second = (run_of(passes(rates, 5, random)) for _ in range(2))
        changes.append(judge(first, second, PASSED))
    assert called(changes) <= MOST_CALLED


def costs(random: np.random.Generator, traces: int) -> FloatArray:
    """Two of a hundred traces cost 30 times as much."""
    retries = np.where(random.random((traces, 1)) < 0.02, 30.0, 1.0)
    return np.exp(random.normal(0, 1, (traces, 1))) * retries


def test_samples_of_40_and_400_traces__tell_twice_the_cost_from_none() -> None:
    unchanged, doubled = list[ChangeVerdict](), list[ChangeVerdict]()
    for random in seeds():
        before, after = costs(random, 40), costs(random, 400)
        for factor, changes in ((1.0, unchanged), (2.5, doubled)):
            pair = run_of(before, prefix="a"), run_of(factor * after, prefix="b")
            changes.append(judge(*pair, COST, is_paired=False))
    assert called(unchanged) <= MOST_CALLED
    assert all(change.verdict is Verdict.REGRESSED for change in doubled)


def test_samples_of_500_and_60_traces__tell_a_fall_from_none() -> None:
    unchanged, fallen = list[ChangeVerdict](), list[ChangeVerdict]()
    for random in seeds():
        before = run_of(passes(random.uniform(0.95, 1, 500), 1, random), prefix="a")
        for factor, changes in ((1.0, unchanged), (0.75, fallen)):
            rates = factor * random.uniform(0.95, 1, 60)
            after = run_of(passes(rates, 1, random), prefix="b")
            changes.append(judge(before, after, PASSED, is_paired=False))
    assert called(unchanged) <= MOST_CALLED
    assert all(change.verdict is Verdict.REGRESSED for change in fallen)


def test_five_unequal_clusters__tell_a_fall_of_all_from_none() -> None:
    sizes = (30, 12, 8, 6, 4)
    unchanged, fallen = list[ChangeVerdict](), list[ChangeVerdict]()
    for random in seeds():
        rates = usual_rates(random, 60)
        before = run_of(passes(rates, 1, random), clusters=sizes)
        for left, changes in ((1.0, unchanged), (0.1, fallen)):
            after = run_of(passes(left * rates, 1, random), clusters=sizes)
            changes.append(judge(before, after, PASSED))
    assert called(unchanged) <= MOST_CALLED
    assert sum(change.verdict is Verdict.REGRESSED for change in fallen) >= 9


@pytest.mark.parametrize(
    ("name", "most"),
    [
        # 0.1 pages in 30 runs; the logarithm of the mean had 1.7.
        ("costs, 58 x 1, retries cost 30 times as much", 4),
        ("200 x 1, runs vary by 1.2 points", 4),
    ],
)
def test_unchanged_agents__page_rarely_in_30_runs_and_not_in_the_second(
    name: str, most: int
) -> None:
    pages = [play(CELLS[name], np.zeros(30), random).pages for random in seeds()]
    assert sum(map(len, pages)) <= most
    assert not any(2 in runs for runs in pages)
