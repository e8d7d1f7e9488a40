"""Conditions and states of alerts: each number by hand, then whatever may come."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.alerts.rules import (
    AlertOutcome,
    Assessment,
    Condition,
    NoDataPolicy,
    Observation,
    RuleSpec,
    RuleState,
    ValueSpec,
    advance,
    evaluate_condition,
)
from app.kpis.verdicts import ValueVerdict
from app.statistics.anomaly import RunPoint
from app.statistics.verdict import Side, Verdict

NOW = datetime(2026, 11, 22, 7, tzinfo=UTC)
QUALITY = ValueSpec(name="quality", is_share=True)

B, H, N, L = AlertOutcome.BREACH, AlertOutcome.HEALTHY, AlertOutcome.NO_DATA, AlertOutcome.WARMUP


def assessed(
    condition: Condition,
    value: float | None,
    *history: float,
    subject: ValueSpec = QUALITY,
    **more: object,
) -> Assessment:
    rule = RuleSpec(condition=condition, **more)  # type: ignore[arg-type]
    points = [RunPoint(value=each, error=0.01) for each in history]
    return evaluate_condition(rule, subject, Observation(value=value, history=points))


@pytest.mark.parametrize(
    ("condition", "fires_at"),
    [
        (Condition.LESS_THAN, [0.6]),
        (Condition.GREATER_THAN, [0.8]),
        (Condition.EQUALS, [0.7, 0.1 * 7]),
        (Condition.NOT_EQUALS, [0.6, 0.8]),
    ],
)
def test_fixed_limits_hold_as_named_and_0_7_is_0_1_times_7(
    condition: Condition, fires_at: list[float]
) -> None:
    assert 0.1 * 7 != 0.7
    found = [
        value
        for value in (0.6, 0.7, 0.1 * 7, 0.8)
        if assessed(condition, value, threshold=0.7).outcome is B
    ]
    assert found == fires_at


@pytest.mark.parametrize("threshold", [10, -10])
def test_a_drop_by_ten_percent_is_the_same_with_either_sign(threshold: float) -> None:
    # The mean of the last five is 0.8; a tenth below is 0.72.
    history = [0.1, 0.7, 0.75, 0.8, 0.85, 0.9]
    drop = Condition.PERCENTAGE_DROP
    assert assessed(drop, 0.72, *history, threshold=threshold).outcome is B
    assert assessed(drop, 0.73, *history, threshold=threshold).outcome is H
    assert assessed(drop, 0.95, *history, threshold=threshold).outcome is H
    found = assessed(drop, 0.6, *history, threshold=threshold)
    assert found.baseline == pytest.approx(0.8)
    assert found.min_detectable_effect == pytest.approx(0.08)
    assert found.explanation == (
        "quality fell by 25 % to 0.6, from 0.8 (mean of the last 5 valid runs); the limit is 10 %."
    )


def test_a_rise_is_no_drop() -> None:
    assert assessed(Condition.PERCENTAGE_RISE, 1.1, 1.0, threshold=10).outcome is B
    assert assessed(Condition.PERCENTAGE_RISE, 1.09, 1.0, threshold=10).outcome is H
    assert assessed(Condition.PERCENTAGE_RISE, 0.5, 1.0, threshold=10).outcome is H


def test_a_drop_of_a_negative_value_is_a_fall_too() -> None:
    assert assessed(Condition.PERCENTAGE_DROP, -12.0, -10.0, threshold=20).outcome is B
    assert assessed(Condition.PERCENTAGE_DROP, -8.0, -10.0, threshold=20).outcome is H


def test_baseline_runs_say_how_far_a_percentage_looks_back() -> None:
    drop = Condition.PERCENTAGE_DROP
    assert assessed(drop, 0.5, 1.0, 0.5, threshold=10, baseline_runs=1).outcome is H
    assert assessed(drop, 0.5, 1.0, 0.5, threshold=10, baseline_runs=2).outcome is B


def test_a_percentage_below_the_minimum_effect_does_not_fire() -> None:
    found = assessed(Condition.PERCENTAGE_DROP, 0.009, 0.01, threshold=10, minimum_effect=0.02)
    assert found.outcome is H
    assert "below the minimum effect" in found.explanation


@pytest.mark.parametrize(("value", "baseline"), [(1.0, 0.0), (-1.0, 1.0), (1.0, -1.0)])
def test_of_zero_or_over_a_change_of_sign_a_percentage_says_nothing(
    value: float, baseline: float
) -> None:
    found = assessed(Condition.PERCENTAGE_DROP, value, baseline, threshold=10)
    assert found.outcome is N
    assert "LESS_THAN" in found.explanation


def test_the_first_run_is_learned_from() -> None:
    assert assessed(Condition.PERCENTAGE_DROP, 0.5, threshold=10).outcome is L


@pytest.mark.parametrize("condition", Condition)
def test_no_value_is_no_zero(condition: Condition) -> None:
    found = assessed(condition, None, 1, 1, 1, 1, 1, threshold=0)
    assert (found.outcome, found.value) == (N, None)


def test_an_anomaly_is_learned_for_five_runs_and_then_seen() -> None:
    anomaly = Condition.ANOMALY_DETECTED
    found = assessed(anomaly, 0.1, 0.8, 0.8, 0.8)
    assert found.outcome is L
    assert found.explanation.endswith(
        "there are 3 of the 5 earlier runs that anomaly detection needs."
    )
    # Median 0.8, MAD 0.01, scale 1.4826 * 1.206 * 0.01 = 0.01788: at 3, below 0.7464.
    history = (0.79, 0.8, 0.8, 0.81, 0.82)
    found = assessed(anomaly, 0.74, *history)
    assert found.outcome is B
    assert found.details["z"] == pytest.approx(0.06 / (1.4826 * 1.206 * 0.01))
    assert found.details["expectedLow"] == pytest.approx(0.8 - 3 * 1.4826 * 1.206 * 0.01)
    assert assessed(anomaly, 0.75, *history).outcome is H
    assert assessed(anomaly, 0.75, *history, threshold=2).outcome is B


def test_an_anomaly_for_the_better_wakes_nobody() -> None:
    history = (0.79, 0.8, 0.8, 0.81, 0.82)
    anomaly = Condition.ANOMALY_DETECTED
    assert assessed(anomaly, 1.0, *history).outcome is H
    slower = ValueSpec(name="LATENCY_MS", harm=Side.HIGH)
    assert assessed(anomaly, 1.0, *history, subject=slower).outcome is B


def test_an_anomaly_of_less_than_two_points_of_a_share_wakes_nobody() -> None:
    history = (0.8, 0.8, 0.8, 0.8, 0.8)
    points = [RunPoint(value=each, error=0.001) for each in history]
    rule = RuleSpec(condition=Condition.ANOMALY_DETECTED)
    found = evaluate_condition(rule, QUALITY, Observation(value=0.785, history=points))
    assert found.outcome is H
    assert "below the minimum effect" in found.explanation


def walk(rule: RuleSpec, outcomes: str) -> list[str]:
    """The states after each of B(reach), H(ealthy), N(o data), L(earning), and what was told."""
    named = {"B": B, "H": H, "N": N, "L": L}
    standing, found = RuleState(), []
    for day, each in enumerate(outcomes):
        step = advance(standing, named[each], rule, NOW + timedelta(days=day))
        standing = step.state
        found.append(standing.status.value + ("!" if step.notification else ""))
    return found


FIXED = Condition.LESS_THAN


def test_an_alert_goes_from_ok_over_pending_and_firing_to_resolved_and_ok() -> None:
    rule = RuleSpec(condition=FIXED, threshold=1, for_runs=2, keep_firing_for_runs=1)
    assert walk(rule, "HBBBHHH") == [
        "OK", "PENDING", "FIRING!", "FIRING", "FIRING", "RESOLVED!", "OK",
    ]  # fmt: skip


def test_a_single_bad_run_is_forgotten_where_two_are_asked_for() -> None:
    rule = RuleSpec(condition=FIXED, threshold=1, for_runs=2)
    assert walk(rule, "BHBHB") == ["PENDING", "OK", "PENDING", "OK", "PENDING"]


def test_learning_and_no_data_resolve_nothing() -> None:
    rule = RuleSpec(condition=FIXED, threshold=1, keep_firing_for_runs=0)
    assert walk(rule, "LBLNNBH") == [
        "WARMUP", "FIRING!", "FIRING", "NO_DATA!", "NO_DATA", "FIRING", "RESOLVED!",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "states"),
    [
        (NoDataPolicy.NO_DATA, ["OK", "NO_DATA!", "OK"]),
        (NoDataPolicy.KEEP, ["OK", "OK", "OK"]),
        (NoDataPolicy.OK, ["OK", "OK", "OK"]),
        (NoDataPolicy.FIRING, ["OK", "FIRING!", "RESOLVED!"]),
    ],
)
def test_a_rule_says_what_no_data_means(policy: NoDataPolicy, states: list[str]) -> None:
    rule = RuleSpec(condition=FIXED, threshold=1, no_data=policy, keep_firing_for_runs=0)
    assert walk(rule, "HNH") == states


def test_within_the_cooldown_nothing_fires_anew_and_after_it_what_still_is_so() -> None:
    rule = RuleSpec(
        condition=FIXED, threshold=1, keep_firing_for_runs=0, cooldown=timedelta(days=3)
    )
    assert walk(rule, "BHBBB") == ["FIRING!", "RESOLVED!", "PENDING", "FIRING!", "FIRING"]


def test_a_value_that_alternates_for_a_thousand_runs_is_told_once() -> None:
    told = walk(RuleSpec(condition=FIXED, threshold=1, keep_firing_for_runs=1), "BH" * 500)
    assert [state for state in told if state.endswith("!")] == ["FIRING!"]
    told = walk(RuleSpec(condition=FIXED, threshold=1, for_runs=2), "BH" * 500)
    assert [state for state in told if state.endswith("!")] == []


rules = st.builds(
    RuleSpec,
    condition=st.just(FIXED),
    threshold=st.just(1.0),
    for_runs=st.integers(1, 4),
    keep_firing_for_runs=st.integers(0, 4),
    cooldown=st.integers(0, 5).map(lambda days: timedelta(days=days)),
    no_data=st.sampled_from(NoDataPolicy),
)


@given(rules, st.text("BHNL", max_size=60))
def test_whatever_comes_every_firing_has_at_most_one_resolved(
    rule: RuleSpec, outcomes: str
) -> None:
    told = [state for state in walk(rule, outcomes) if state in ("FIRING!", "RESOLVED!")]
    assert told == (["FIRING!", "RESOLVED!"] * len(told))[: len(told)]


@given(rules, st.text("BHNL", max_size=60))
def test_what_is_told_twice_as_firing_is_a_cooldown_apart(rule: RuleSpec, outcomes: str) -> None:
    days = [day for day, state in enumerate(walk(rule, outcomes)) if state == "FIRING!"]
    assert all(timedelta(days=then - now) >= rule.cooldown for now, then in pairwise(days))


@given(rules, st.text("HNL", max_size=40))
def test_without_a_breach_nothing_fires(rule: RuleSpec, outcomes: str) -> None:
    if rule.no_data is not NoDataPolicy.FIRING:
        assert "FIRING!" not in walk(rule, outcomes)


@given(
    st.sampled_from(Condition),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=8)
    | st.lists(st.floats(-1e308, 1e308), min_size=5, max_size=8),
    st.floats(-1e9, 1e9),
)
def test_whatever_the_numbers_are_a_condition_has_an_answer(
    condition: Condition, value: float, history: list[float], threshold: float
) -> None:
    assert assessed(condition, value, *history, threshold=threshold).explanation


def test_ten_percent_below_the_mean_of_five_healthy_nights_is_a_false_alarm_in_twelve() -> None:
    """37 binary tasks once a night at a mean pass rate of .8: 8 to 9 % of healthy nights."""
    chance = random.Random(5)
    alarms = 0
    for _ in range(1500):
        agent = [chance.betavariate(1.6, 0.4) for _ in range(37)]
        nights = [sum(chance.random() < p for p in agent) / 37 for _ in range(6)]
        found = assessed(Condition.PERCENTAGE_DROP, nights[5], *nights[:5], threshold=10)
        alarms += found.outcome is B
    # 8.3 % ± 3 standard errors of 0.7 points.
    assert 0.062 < alarms / 1500 < 0.105


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        (Verdict.REGRESSED, AlertOutcome.BREACH),
        (Verdict.IMPROVED, AlertOutcome.HEALTHY),
        (Verdict.NO_EVIDENCE, AlertOutcome.HEALTHY),
        (Verdict.INCONCLUSIVE, AlertOutcome.WARMUP),
        (None, AlertOutcome.WARMUP),
    ],
)
def test_a_regression_is_a_breach_and_an_open_question_changes_nothing(
    verdict: Verdict | None, outcome: AlertOutcome
) -> None:
    said = ValueVerdict(
        verdict=verdict,
        baseline_value=0.9,
        min_detectable_effect=0.1,
        explanation="It fell.",
    )
    found = evaluate_condition(
        RuleSpec(condition=Condition.REGRESSED),
        ValueSpec(name="quality"),
        Observation(value=0.5, verdict=said),
    )
    assert (found.outcome, found.baseline, found.explanation) == (outcome, 0.9, "It fell.")
