"""Anomaly detection: the engine of REGRESSED rules on values of runs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.statistics.anomaly import (
    AnomalyResult,
    AnomalyScore,
    ItemSum,
    RunPoint,
    Warmup,
    detect_anomaly,
)
from mosaico.statistics.run_variance import from_normal
from mosaico.statistics.verdict_rules import Scale, Side

values = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)


def points(*numbers: float, error: float | None = None) -> list[RunPoint]:
    return [RunPoint(value=number, error=error) for number in numbers]


def judged(result: AnomalyResult) -> AnomalyScore:
    assert isinstance(result, AnomalyScore)
    return result


def run_of(*item_values: float) -> RunPoint:
    """A run of items, each with one trace."""
    items = {str(item): ItemSum(1, value, value**2) for item, value in enumerate(item_values)}
    return RunPoint(value=math.fsum(item_values) / len(item_values), items=items)


def test_detect_anomaly__the_first_run_is_warmup() -> None:
    assert detect_anomaly(RunPoint(value=0.0), [], side=Side.LOW) == Warmup(0, 1)


def test_detect_anomaly__the_noise_of_items_is_that_of_their_changes() -> None:
    # Two of four items change, by 1 and by -1: squares of 2, so that a run has 2 / (4 · 3) / 2. One that changes
    # moves the mean by a quarter.
    history = [run_of(1, 0, 1, 1), run_of(0, 1, 1, 1)] * 4
    score = judged(detect_anomaly(run_of(0, 0, 0, 0), history, side=Side.LOW, scale=Scale.RATE))
    noise = 1 / 12
    assert (score.width, score.history) == (1, 8)
    assert score.center == pytest.approx(0.75)
    error = math.sqrt(noise * (1 + 1 / 8))
    # Items change more than once in each run.
    ignored = 0.25 / (noise / 0.25**2)
    assert score.low == pytest.approx(0.75 - from_normal(3.2, 32) * error - ignored)
    assert not score.is_anomaly


def test_detect_anomaly__without_known_noise_several_runs_must_show_how_they_vary() -> None:
    assert not judged(detect_anomaly(RunPoint(value=1), points(10), side=Side.LOW)).is_anomaly
    history = points(*[10, 10.1] * 5)
    assert judged(detect_anomaly(RunPoint(value=1), history, side=Side.LOW)).is_anomaly


def test_detect_anomaly__only_the_harmful_side_counts() -> None:
    history = points(*[9.9, 10, 10.1] * 3, error=0.05)
    for side, fires in ((Side.LOW, False), (Side.HIGH, True), (Side.BOTH, True)):
        score = judged(detect_anomaly(RunPoint(value=20), history, side=side))
        assert score.is_anomaly is fires
    assert judged(detect_anomaly(RunPoint(value=0), history, side=Side.BOTH)).z < 0


def test_detect_anomaly__ratios_are_those_of_a_typical_item() -> None:
    """One of twenty items costs 100 times as much: the mean is six times as large, a typical item costs the same."""
    history = [run_of(*[1.0 + (run + item) % 3 / 10 for item in range(20)]) for run in range(12)]
    expensive = run_of(100.0, *[1.0 + item % 3 / 10 for item in range(19)])
    rise = run_of(*[2.0 + item % 3 / 5 for item in range(20)])
    assert expensive.value > 2 * rise.value
    for run, is_anomaly in ((expensive, False), (rise, True)):
        score = judged(detect_anomaly(run, history, side=Side.HIGH, scale=Scale.RATIO))
        assert score.is_anomaly is is_anomaly


def test_detect_anomaly__values_that_are_not_positive_are_no_ratios() -> None:
    score = judged(
        detect_anomaly(
            RunPoint(value=5), points(0, 1, 2, 3, 4, error=0.01), side=Side.HIGH, scale=Scale.RATIO
        )
    )
    assert score.center < 5


def test_detect_anomaly__a_drift_is_one_of_several_runs() -> None:
    steady = [0.0, 1.0, -1.0, 0.5, -0.5, 0.0, 1.0, -1.0] * 2
    score = judged(
        detect_anomaly(
            RunPoint(value=-2.1), points(*steady, -1.8, -1.9, -2.2, -2.0, -1.9), side=Side.LOW
        )
    )
    assert score.is_anomaly
    assert score.width > 1
    assert score.level == pytest.approx(-2, abs=0.1)


def test_detect_anomaly__values_that_overflow_are_refused() -> None:
    with pytest.raises(OverflowError):
        detect_anomaly(RunPoint(value=-1e308), points(1e308, 1e308), side=Side.LOW)


@given(st.lists(values, min_size=1, max_size=40), values, st.sampled_from(Side))
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
