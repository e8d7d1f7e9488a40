"""Anomaly detection: by hand, against scipy, and by simulation."""

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.statistics.anomaly import (
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
from mosaico.statistics.verdict_rules import Side
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
stats = Reference("scipy.stats")

values = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)


def points(*numbers: float, error: float | None = None) -> list[RunPoint]:
    return [RunPoint(value=number, error=error) for number in numbers]


def judged(result: AnomalyResult) -> AnomalyScore:
    assert isinstance(result, AnomalyScore)
    return result


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


def test_detect_anomaly__four_runs_are_warmup() -> None:
    warmup = detect_anomaly(RunPoint(value=0.0), points(1, 1, 1, 1), side=Side.LOW)
    assert warmup == Warmup(4, 5)


def test_components__chance_within_runs_is_estimated_from_items() -> None:
    # Two tasks that pass in 3 of 5 runs each: variances 0.3, so that of a run is 0.3 / 2 = 0.15,
    # more than the 0.05 of the values .5 .5 .5 .5 1. At 0: z = 0.6 / sqrt(0.15 * 1.2) = sqrt(2).
    history = [passes(1, 0), passes(0, 1), passes(1, 0), passes(0, 1), passes(1, 1)]
    score = judged(detect_anomaly(passes(0, 0), history, side=Side.LOW))
    assert (score.method, score.history) == ("components", 5)
    assert score.center == pytest.approx(0.6)
    assert score.z == pytest.approx(math.sqrt(2))
    assert score.critical == pytest.approx(stats.norm.ppf(0.995))
    assert not score.is_anomaly


def test_components__variance_between_runs_uses_student_t() -> None:
    # The tasks always agree within a run, so the runs vary more than their tasks explain.
    history = [passes(*[n] * 4) for n in (1, 1, 0, 1, 1)]
    score = judged(detect_anomaly(passes(0, 0, 0, 0), history, side=Side.LOW))
    assert score.critical == pytest.approx(stats.t.ppf(0.995, 4))


def test_mad__distance_from_the_median_in_corrected_deviations() -> None:
    # Median 10; deviations 2 1 0 1 2, their median 1; scale 1.4826 * 1.206 = 1.788.
    score = judged(
        detect_anomaly(RunPoint(value=4), points(8, 9, 10, 11, 12, error=0.5), side=Side.LOW)
    )
    assert score.method == "mad"
    assert score.z == pytest.approx(6 / (1.4826 * 1.206))
    assert (score.critical, score.is_anomaly) == (3.0, True)


def test_mad__spread_is_at_least_the_standard_error() -> None:
    score = judged(
        detect_anomaly(RunPoint(value=4), points(8, 9, 10, 11, 12, error=3), side=Side.LOW)
    )
    assert (score.z, score.is_anomaly) == (2.0, False)


def test_mad__without_standard_error_allows_what_student_t_allows() -> None:
    # s = sqrt(2.5); reach = t(.995, 4) * sqrt(1.2) * s = 7.97: a fall by 6 is nothing yet.
    history = points(8, 9, 10, 11, 12)
    reach = stats.t.ppf(0.995, 4) * math.sqrt(1.2 * 2.5)
    assert not judged(detect_anomaly(RunPoint(value=4), history, side=Side.LOW)).is_anomaly
    score = judged(detect_anomaly(RunPoint(value=10 - reach - 0.01), history, side=Side.LOW))
    assert (score.critical, score.is_anomaly) == (3.5, True)


def test_detect_anomaly__only_the_harmful_side_counts() -> None:
    history = points(8, 9, 10, 11, 12, error=0.5)
    for side, fires in ((Side.LOW, False), (Side.HIGH, True), (Side.BOTH, True)):
        assert judged(detect_anomaly(RunPoint(value=20), history, side=side)).is_anomaly is fires


def test_detect_anomaly__logarithmic_values_are_compared_as_ratios() -> None:
    # Logs of 1, 2, 4, 8, 16 are 0 to 4 times ln 2: as above, the scale is 1.788 ln 2.
    history = points(1, 2, 4, 8, 16, error=0.01)
    score = judged(
        detect_anomaly(RunPoint(value=256), history, side=Side.HIGH, is_logarithmic=True)
    )
    assert score.center == pytest.approx(4)
    assert score.z == pytest.approx(6 / (1.4826 * 1.206))
    assert score.high == pytest.approx(4 * 2 ** (3 * 1.4826 * 1.206))


def test_detect_anomaly__non_positive_values_are_not_logarithmic() -> None:
    history = points(0, 1, 2, 3, 4, error=0.01)
    score = judged(detect_anomaly(RunPoint(value=5), history, side=Side.HIGH, is_logarithmic=True))
    assert score.center == 2


def test_detect_anomaly__one_flipped_trace_is_below_the_resolution() -> None:
    # Without variation the spread is one trace, so that z is 1 and 4; the limit is 2.58.
    history = [passes(*[1] * 20)] * 8
    score = detect_anomaly(passes(0, *[1] * 19), history, side=Side.LOW, resolution=1 / 20)
    four = detect_anomaly(passes(*[0] * 4, *[1] * 16), history, side=Side.LOW, resolution=1 / 20)
    assert (judged(score).is_anomaly, judged(four).is_anomaly) == (False, True)


def test_cusum__detects_a_drift_that_no_single_run_shows() -> None:
    steady = [0.0, 1.0, -1.0, 0.5, -0.5, 0.0, 1.0, -1.0]
    # The reference of eight runs allows a single run to reach −3.77: none of these is an anomaly.
    slide = [-1.8, -1.9, -2.2, -2.0, -1.9, -2.1]
    score = judged(
        detect_anomaly(
            RunPoint(value=-2.1, error=1), points(*steady, *slide, error=1), side=Side.LOW
        )
    )
    assert (score.method, score.is_anomaly) == ("cusum", True)
    # Seven runs of about 2 above a slack of one half each, in units of the scale of the first 8.
    assert score.z > score.critical == 5.0


def test_cusum__needs_fourteen_runs() -> None:
    # Thirteen runs: without the latest six, seven are too few for a reference.
    numbers = [0.0, 1.0, -1.0, 0.5, -0.5, 0.0, 1.0, -1.8, -1.9, -2.2, -2.0, -1.9, -2.1]
    result = detect_anomaly(RunPoint(value=-2.1, error=1), points(*numbers, error=1), side=Side.LOW)
    assert judged(result).method == "mad"


def test_mad__outage_in_the_history_does_not_hide_the_next() -> None:
    # With the outage in it, a standard deviation would be 0.33: 0.5 would be half of it away.
    history = points(0.8, 0.81, 0.0, 0.79, 0.8, 0.82, error=0.02)
    assert judged(detect_anomaly(RunPoint(value=0.5), history, side=Side.LOW)).is_anomaly


@given(st.lists(values, min_size=5, max_size=40), values, st.sampled_from(Side))
def test_detect_anomaly__is_finite_and_symmetric(
    history: list[float], value: float, side: Side
) -> None:
    mirror = {Side.LOW: Side.HIGH, Side.HIGH: Side.LOW, Side.BOTH: Side.BOTH}[side]
    score = judged(detect_anomaly(RunPoint(value=value), points(*history), side=side))
    other = judged(
        detect_anomaly(
            RunPoint(value=-value), points(*[-number for number in history]), side=mirror
        )
    )
    assert all(
        math.isfinite(number)
        for number in (score.z, score.low, score.high, score.min_detectable_effect)
    )
    assert score.is_anomaly is other.is_anomaly
    assert score.low <= score.center <= score.high


@given(st.lists(values, min_size=5, max_size=30))
def test_detect_anomaly__run_at_the_center_is_no_anomaly(history: list[float]) -> None:
    score = judged(detect_anomaly(RunPoint(value=history[0]), points(*history), side=Side.LOW))
    again = detect_anomaly(RunPoint(value=score.center), points(*history), side=Side.LOW)
    # A drift of the runs before may be detected with a run at the center, too.
    assert judged(again).method == "cusum" or not judged(again).is_anomaly


# Simulation: binary tasks whose difficulty is Beta(1.6, 0.4), so a mean pass rate of .8.


class AgentSimulator:
    """Seeded runs of an agent over tasks, with an exact number of trials each."""

    def __init__(self, seed: int, *, tasks: int, trials: int) -> None:
        self._chance = random.Random(seed)
        self._tasks, self._trials = tasks, trials

    def draw_agent(self) -> list[float]:
        return [self._chance.betavariate(1.6, 0.4) for _ in range(self._tasks)]

    def run(self, agent: Sequence[float], *, drop: float = 0.0) -> RunPoint:
        chance = self._chance.random
        passed = [sum(chance() < rate - drop for _ in range(self._trials)) for rate in agent]
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
    simulator: AgentSimulator,
    *,
    history: int,
    repeats: int,
    drop: float = 0.0,
    tasks_known: bool = True,
) -> float:
    alarms = 0
    for _ in range(repeats):
        agent = simulator.draw_agent()
        before = [simulator.run(agent) for _ in range(history)]
        run = simulator.run(agent, drop=drop)
        if not tasks_known:
            before = [
                RunPoint(value=run_value.value, error=run_value.error) for run_value in before
            ]
        result = detect_anomaly(run, before, side=Side.LOW, resolution=simulator.resolution)
        alarms += judged(result).is_anomaly
    return alarms / repeats


def test_detect_anomaly__healthy_runs_of_37_items_raise_few_false_alarms() -> None:
    # 0.53 % in the long run: of 600 runs 3, and with a probability of 0.99 not above 9.
    rate = alarm_rate(AgentSimulator(1, tasks=37, trials=1), history=5, repeats=600)
    assert rate <= 9 / 600


@pytest.mark.prove
def test_detect_anomaly__has_the_promised_false_alarms_and_power() -> None:
    small = AgentSimulator(2, tasks=37, trials=1)
    # ALPHA is 0.5 %; its standard error in 8,000 runs is 0.08 %.
    assert 0.002 < alarm_rate(small, history=5, repeats=8000) < 0.009
    assert alarm_rate(small, history=5, repeats=8000, tasks_known=False) < 0.005
    large = AgentSimulator(3, tasks=100, trials=3)
    assert alarm_rate(large, history=8, repeats=2000) < 0.01
    assert alarm_rate(large, history=8, repeats=1000, drop=0.1) > 0.78
    assert alarm_rate(large, history=8, repeats=1000, drop=0.1, tasks_known=False) > 0.74
    assert alarm_rate(large, history=20, repeats=1500) < 0.018
