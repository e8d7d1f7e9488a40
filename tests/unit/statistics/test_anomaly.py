"""Anomaly detection: the scan of REGRESSED rules, with either side of harm."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.statistics.anomaly import (
    AnomalyScore,
    RunPoint,
    Warmup,
    detect_anomaly,
    levels_of_values,
)
from mosaico.statistics.run_variance import from_normal
from mosaico.statistics.sequential import RunLevel
from mosaico.statistics.verdict_rules import Scale, Side

values = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)


def judge(
    *numbers: float,
    side: Side = Side.LOW,
    scale: Scale = Scale.NUMBER,
    error: float | None = None,
    critical: float | None = None,
) -> AnomalyScore:
    """The last of some values, compared with those before it."""
    points = [RunPoint(value=number, error=error) for number in numbers]
    levels, scale = levels_of_values(points, scale, 0.0)
    score = detect_anomaly(levels, side=side, scale=scale, critical=critical)
    assert isinstance(score, AnomalyScore)
    return score


def test_detect_anomaly__the_first_run_is_warmup() -> None:
    level = RunLevel(1, 0.0)
    assert detect_anomaly([level], side=Side.LOW, scale=Scale.NUMBER) == Warmup(0, 1)


def test_detect_anomaly__the_expected_range_by_hand() -> None:
    # Alternating, so that neighbors are not correlated; squares of 0.0008 with seven degrees of freedom.
    score = judge(*[0.79, 0.81] * 4, 0.7, scale=Scale.RATE, error=0.01)
    variance = (0.01**2 + 0.015**2 + 0.0008) / 8
    degrees = 8 * min(variance / (variance - 0.01**2), 2) ** 2
    half_width = from_normal(3.2, degrees) * math.sqrt(variance * (1 + 1 / 8))
    assert (score.width, score.history) == (1, 8)
    assert (score.low, score.high) == pytest.approx((0.8 - half_width, 0.8 + half_width))
    assert score.is_anomaly
    assert not judge(*[0.79, 0.81] * 4, score.low + 0.001, scale=Scale.RATE, error=0.01).is_anomaly
    assert not judge(*[0.79, 0.81] * 4, 0.7, scale=Scale.RATE, error=0.01, critical=9).is_anomaly


def test_detect_anomaly__without_known_noise_several_runs_must_show_how_they_vary() -> None:
    assert not judge(10, 1).is_anomaly
    assert judge(*[10, 10.1] * 5, 1).is_anomaly


def test_detect_anomaly__only_the_harmful_side_counts() -> None:
    history = [9.9, 10, 10.1] * 3
    for side, fires in ((Side.LOW, False), (Side.HIGH, True), (Side.BOTH, True)):
        assert judge(*history, 20, side=side, error=0.05).is_anomaly is fires
    assert judge(*history, 0, side=Side.BOTH, error=0.05).z < 0


def test_detect_anomaly__ratios_are_compared_as_ratios() -> None:
    history = [100.0, 110.0] * 5
    score = judge(*history, 400, side=Side.HIGH, scale=Scale.RATIO)
    assert score.is_anomaly
    assert score.center == pytest.approx(math.sqrt(100 * 110))
    assert score.high / score.center == pytest.approx(score.center / score.low)


def test_levels_of_values__that_are_not_positive_are_no_ratios() -> None:
    points = [RunPoint(value=0.0), RunPoint(value=3.0)]
    levels, scale = levels_of_values(points, Scale.RATIO, 0.0)
    assert scale is Scale.NUMBER
    assert [level.level for level in levels] == [0.0, 3.0]


def test_detect_anomaly__a_drift_is_one_of_several_runs() -> None:
    steady = [0.0, 1.0, -1.0, 0.5, -0.5, 0.0, 1.0, -1.0] * 2
    score = judge(*steady, -1.8, -1.9, -2.2, -2.0, -1.9, -2.1)
    assert score.is_anomaly
    assert score.width > 1
    assert score.level == pytest.approx(-2, abs=0.1)


def test_detect_anomaly__values_that_overflow_are_refused() -> None:
    with pytest.raises(OverflowError):
        judge(1e308, 1e308, -1e308)


@given(st.lists(values, min_size=1, max_size=40), values, st.sampled_from(Side))
def test_detect_anomaly__is_finite_and_symmetric(
    history: list[float], value: float, side: Side
) -> None:
    mirror = {Side.LOW: Side.HIGH, Side.HIGH: Side.LOW, Side.BOTH: Side.BOTH}[side]
    score = judge(*history, value, side=side)
    other = judge(*[-number for number in (*history, value)], side=mirror)
    assert all(
        math.isfinite(number)
        for number in (score.z, score.low, score.high, score.min_detectable_effect)
    )
    assert score.is_anomaly is other.is_anomaly
    assert score.low <= score.center <= score.high
