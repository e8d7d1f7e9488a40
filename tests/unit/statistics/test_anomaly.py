"""Runs beside their history: by hand, beside scipy, and by simulation."""

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.statistics.anomaly import (
    ALPHA,
    T_CRITICAL_ONE_SIDED,
    T_CRITICAL_TWO_SIDED,
    WINDOW,
    AnomalyResult,
    AnomalyScore,
    ItemSum,
    RunPoint,
    Warmup,
    detect_anomaly,
)
from app.statistics.verdict import Side
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
stats = Reference("scipy.stats")

values = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)


def points(*numbers: float, error: float | None = None) -> list[RunPoint]:
    return [RunPoint(value=number, error=error) for number in numbers]


def judged(found: AnomalyResult) -> AnomalyScore:
    assert isinstance(found, AnomalyScore)
    return found


def passes(*verdicts: int) -> RunPoint:
    """A run of tasks that passed (1) or not (0), each once."""
    items = {str(task): ItemSum(1, passed, passed) for task, passed in enumerate(verdicts)}
    return RunPoint(value=sum(verdicts) / len(verdicts), items=items)


@pytest.mark.parametrize("degrees", range(1, 30))
def test_critical_values__equal_scipy(degrees: int) -> None:
    one_sided, two_sided = T_CRITICAL_ONE_SIDED[degrees - 1], T_CRITICAL_TWO_SIDED[degrees - 1]
    assert one_sided == pytest.approx(stats.t.ppf(1 - ALPHA, degrees), rel=1e-12)
    assert two_sided == pytest.approx(stats.t.ppf(1 - ALPHA / 2, degrees), rel=1e-12)
    assert len(T_CRITICAL_ONE_SIDED) == len(T_CRITICAL_TWO_SIDED) == WINDOW - 1


def test_four_runs_are_too_few_to_judge_a_fifth() -> None:
    found = detect_anomaly(RunPoint(value=0.0), points(1, 1, 1, 1), side=Side.LOW)
    assert found == Warmup(4, 5)


def test_chance_within_the_runs_is_counted_from_the_tasks() -> None:
    # Two tasks that pass in 3 of 5 runs each: variances 0.3, so that of a run is 0.3 / 2 = 0.15,
    # more than the 0.05 of the values .5 .5 .5 .5 1. At 0: z = 0.6 / sqrt(0.15 * 1.2) = sqrt(2).
    history = [passes(1, 0), passes(0, 1), passes(1, 0), passes(0, 1), passes(1, 1)]
    found = judged(detect_anomaly(passes(0, 0), history, side=Side.LOW))
    assert (found.method, found.history) == ("components", 5)
    assert found.center == pytest.approx(0.6)
    assert found.z == pytest.approx(math.sqrt(2))
    assert found.critical == pytest.approx(stats.norm.ppf(0.995))
    assert not found.is_anomaly


def test_runs_that_differ_by_more_than_chance_are_judged_by_the_t_of_their_number() -> None:
    # The tasks always agree within a run, so the runs vary more than their tasks explain.
    history = [passes(*[n] * 4) for n in (1, 1, 0, 1, 1)]
    found = judged(detect_anomaly(passes(0, 0, 0, 0), history, side=Side.LOW))
    assert found.critical == pytest.approx(stats.t.ppf(0.995, 4))


def test_without_tasks_the_distance_is_that_from_the_median_in_corrected_deviations() -> None:
    # Median 10; deviations 2 1 0 1 2, their median 1; scale 1.4826 * 1.206 = 1.788.
    found = judged(
        detect_anomaly(RunPoint(value=4), points(8, 9, 10, 11, 12, error=0.5), side=Side.LOW)
    )
    assert found.method == "mad"
    assert found.z == pytest.approx(6 / (1.4826 * 1.206))
    assert (found.critical, found.is_anomaly) == (3.0, True)


def test_no_distance_is_below_the_standard_error_of_a_run() -> None:
    found = judged(
        detect_anomaly(RunPoint(value=4), points(8, 9, 10, 11, 12, error=3), side=Side.LOW)
    )
    assert (found.z, found.is_anomaly) == (2.0, False)


def test_without_a_standard_error_five_runs_allow_what_student_would() -> None:
    # s = sqrt(2.5); reach = t(.995, 4) * sqrt(1.2) * s = 7.97: a fall by 6 is nothing yet.
    history = points(8, 9, 10, 11, 12)
    reach = stats.t.ppf(0.995, 4) * math.sqrt(1.2 * 2.5)
    assert not judged(detect_anomaly(RunPoint(value=4), history, side=Side.LOW)).is_anomaly
    found = judged(detect_anomaly(RunPoint(value=10 - reach - 0.01), history, side=Side.LOW))
    assert (found.critical, found.is_anomaly) == (3.5, True)


def test_only_the_harmful_side_counts() -> None:
    history = points(8, 9, 10, 11, 12, error=0.5)
    for side, fires in ((Side.LOW, False), (Side.HIGH, True), (Side.BOTH, True)):
        assert judged(detect_anomaly(RunPoint(value=20), history, side=side)).is_anomaly is fires


def test_times_and_costs_are_compared_as_ratios() -> None:
    # Logs of 1, 2, 4, 8, 16 are 0 to 4 times ln 2: as above, the scale is 1.788 ln 2.
    history = points(1, 2, 4, 8, 16, error=0.01)
    found = judged(
        detect_anomaly(RunPoint(value=256), history, side=Side.HIGH, is_logarithmic=True)
    )
    assert found.center == pytest.approx(4)
    assert found.z == pytest.approx(6 / (1.4826 * 1.206))
    assert found.high == pytest.approx(4 * 2 ** (3 * 1.4826 * 1.206))


def test_ratios_of_what_is_not_positive_are_left_alone() -> None:
    history = points(0, 1, 2, 3, 4, error=0.01)
    found = judged(detect_anomaly(RunPoint(value=5), history, side=Side.HIGH, is_logarithmic=True))
    assert found.center == 2


def test_one_flip_of_a_task_that_always_passed_is_no_anomaly() -> None:
    history = [passes(*[1] * 20)] * 8
    one = detect_anomaly(passes(0, *[1] * 19), history, side=Side.LOW, resolution=1 / 20)
    four = detect_anomaly(passes(*[0] * 4, *[1] * 16), history, side=Side.LOW, resolution=1 / 20)
    assert (judged(one).is_anomaly, judged(four).is_anomaly) == (False, True)


def test_a_slow_slide_is_seen_that_no_single_night_shows() -> None:
    steady = [0.0, 1.0, -1.0, 0.5, -0.5, 0.0, 1.0, -1.0]
    slide = [-1.8, -1.9, -2.2, -2.0, -1.9, -2.1]
    found = judged(
        detect_anomaly(
            RunPoint(value=-2.1, error=1), points(*steady, *slide, error=1), side=Side.LOW
        )
    )
    assert (found.method, found.is_anomaly) == ("cusum", True)
    # Seven nights of about 2 above a slack of one half each, in units of the scale of the first 8.
    assert found.z > found.critical == 5.0


def test_thirteen_runs_are_too_few_to_look_for_a_slide() -> None:
    numbers = [0.0, 1.0, -1.0, 0.5, -0.5, 0.0, 1.0, -1.8, -1.9, -2.2, -2.0, -1.9, -2.1]
    found = detect_anomaly(RunPoint(value=-2.1, error=1), points(*numbers, error=1), side=Side.LOW)
    assert judged(found).method == "mad"


def test_an_outage_in_the_history_does_not_hide_the_next_one() -> None:
    history = points(0.8, 0.81, 0.0, 0.79, 0.8, 0.82, error=0.02)
    assert judged(detect_anomaly(RunPoint(value=0.5), history, side=Side.LOW)).is_anomaly


@given(st.lists(values, min_size=5, max_size=40), values, st.sampled_from(Side))
def test_every_finding_is_a_number_and_is_the_same_in_the_mirror(
    history: list[float], value: float, side: Side
) -> None:
    mirror = {Side.LOW: Side.HIGH, Side.HIGH: Side.LOW, Side.BOTH: Side.BOTH}[side]
    found = judged(detect_anomaly(RunPoint(value=value), points(*history), side=side))
    other = judged(
        detect_anomaly(RunPoint(value=-value), points(*[-each for each in history]), side=mirror)
    )
    assert all(
        math.isfinite(each)
        for each in (found.z, found.low, found.high, found.min_detectable_effect)
    )
    assert found.is_anomaly is other.is_anomaly
    assert found.low <= found.center <= found.high


@given(st.lists(values, min_size=5, max_size=30))
def test_a_run_at_the_center_of_its_history_never_stands_out(history: list[float]) -> None:
    found = judged(detect_anomaly(RunPoint(value=history[0]), points(*history), side=Side.LOW))
    again = detect_anomaly(RunPoint(value=found.center), points(*history), side=Side.LOW)
    assert judged(again).method == "cusum" or not judged(again).is_anomaly


# Simulation: binary tasks whose difficulty is Beta(1.6, 0.4), so a mean pass rate of .8.


class Nights:
    """Seeded nights of an agent over tasks, with an exact number of trials each."""

    def __init__(self, seed: int, *, tasks: int, trials: int) -> None:
        self._chance = random.Random(seed)
        self._tasks, self._trials = tasks, trials

    def agent(self) -> list[float]:
        return [self._chance.betavariate(1.6, 0.4) for _ in range(self._tasks)]

    def night(self, agent: Sequence[float], *, drop: float = 0.0) -> RunPoint:
        chance = self._chance.random
        passed = [sum(chance() < each - drop for _ in range(self._trials)) for each in agent]
        share = sum(passed) / (self._tasks * self._trials)
        return RunPoint(
            value=share,
            error=math.sqrt(share * (1 - share) / (self._tasks * self._trials)),
            items={str(task): ItemSum(self._trials, n, n) for task, n in enumerate(passed)},
        )

    @property
    def resolution(self) -> float:
        return 1 / (self._tasks * self._trials)


def alarm_rate(
    nights: Nights, *, history: int, repeats: int, drop: float = 0.0, tasks_known: bool = True
) -> float:
    alarms = 0
    for _ in range(repeats):
        agent = nights.agent()
        before = [nights.night(agent) for _ in range(history)]
        run = nights.night(agent, drop=drop)
        if not tasks_known:
            before = [RunPoint(value=each.value, error=each.error) for each in before]
        found = detect_anomaly(run, before, side=Side.LOW, resolution=nights.resolution)
        alarms += judged(found).is_anomaly
    return alarms / repeats


def test_healthy_nights_of_37_tasks_raise_few_false_alarms() -> None:
    # 0.53 % in the long run: of 600 nights 3, and with a probability of 0.99 not above 9.
    rate = alarm_rate(Nights(1, tasks=37, trials=1), history=5, repeats=600)
    assert rate <= 9 / 600


@pytest.mark.prove
def test_the_false_alarms_and_the_power_of_anomalies_are_those_that_are_promised() -> None:
    small = Nights(2, tasks=37, trials=1)
    assert 0.002 < alarm_rate(small, history=5, repeats=8000) < 0.009
    assert alarm_rate(small, history=5, repeats=8000, tasks_known=False) < 0.005
    large = Nights(3, tasks=100, trials=3)
    assert alarm_rate(large, history=8, repeats=2000) < 0.01
    assert alarm_rate(large, history=8, repeats=1000, drop=0.1) > 0.78
    assert alarm_rate(large, history=8, repeats=1000, drop=0.1, tasks_known=False) > 0.74
    assert alarm_rate(large, history=20, repeats=1500) < 0.018
