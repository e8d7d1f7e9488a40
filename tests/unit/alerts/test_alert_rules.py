"""Conditions and states of alert rules: figures derived by hand, then properties."""

import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.alerts.evaluation.conditions import evaluate_condition
from mosaico.alerts.rules import (
    AlertOutcome,
    Assessment,
    Condition,
    NoDataPolicy,
    Observation,
    RuleSpec,
    RuleState,
    ValueSpec,
    advance,
    loses_reference,
)
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.statistics.anomaly import RunPoint
from mosaico.statistics.run_variance import from_normal, to_normal
from mosaico.statistics.verdict_rules import Side, Verdict
from tests.support.texts import assert_names

NOW = datetime(2026, 11, 22, 7, tzinfo=UTC)
QUALITY = ValueSpec(name="quality", is_share=True)

B, H, N, L = AlertOutcome.BREACH, AlertOutcome.HEALTHY, AlertOutcome.NO_DATA, AlertOutcome.WARMUP


def assess(
    condition: Condition,
    value: float | None,
    *history: float,
    subject: ValueSpec = QUALITY,
    **more: object,
) -> Assessment:
    rule = RuleSpec(condition=condition, **more)  # type: ignore[arg-type]
    points = [RunPoint(value=value, error=0.01) for value in history]
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
def test_threshold_conditions__compare_with_a_relative_tolerance(
    condition: Condition, fires_at: list[float]
) -> None:
    assert 0.1 * 7 != 0.7
    breaching_values = [
        value
        for value in (0.6, 0.7, 0.1 * 7, 0.8)
        if assess(condition, value, threshold=0.7).outcome is B
    ]
    assert breaching_values == fires_at


@pytest.mark.parametrize("threshold", [10, -10])
def test_percentage_drop__the_sign_of_the_threshold_is_ignored(threshold: float) -> None:
    # The mean of the last five is 0.8; a tenth below is 0.72.
    history = [0.1, 0.7, 0.75, 0.8, 0.85, 0.9]
    drop = Condition.PERCENTAGE_DROP
    assert assess(drop, 0.72, *history, threshold=threshold).outcome is B
    assert assess(drop, 0.73, *history, threshold=threshold).outcome is H
    assert assess(drop, 0.95, *history, threshold=threshold).outcome is H
    assessment = assess(drop, 0.6, *history, threshold=threshold)
    assert assessment.baseline == pytest.approx(0.8)
    assert assessment.min_detectable_effect == pytest.approx(0.08)
    assert_names(assessment.explanation, "fell by 25 %", "0.600", "0.800", "5 valid runs", "10 %")


def test_percentage_drop__a_rise_is_healthy() -> None:
    assert assess(Condition.PERCENTAGE_RISE, 1.1, 1.0, threshold=10).outcome is B
    assert assess(Condition.PERCENTAGE_RISE, 1.09, 1.0, threshold=10).outcome is H
    assert assess(Condition.PERCENTAGE_RISE, 0.5, 1.0, threshold=10).outcome is H


def test_percentage_drop__rounding_errors_are_no_change() -> None:
    assessment = assess(Condition.PERCENTAGE_DROP, 0.7, 0.1 * 7, threshold=10)
    assert assessment.explanation.startswith("quality is 0.700, unchanged from 0.700 (mean of ")


def test_percentage_drop__a_negative_value_that_falls_is_a_breach() -> None:
    assert assess(Condition.PERCENTAGE_DROP, -12.0, -10.0, threshold=20).outcome is B
    assert assess(Condition.PERCENTAGE_DROP, -8.0, -10.0, threshold=20).outcome is H


def test_percentage_drop__compares_with_the_last_baseline_runs() -> None:
    drop = Condition.PERCENTAGE_DROP
    assert assess(drop, 0.5, 1.0, 0.5, threshold=10, baseline_runs=1).outcome is H
    assert assess(drop, 0.5, 1.0, 0.5, threshold=10, baseline_runs=2).outcome is B


def test_percentage_drop__below_the_minimum_effect_is_healthy() -> None:
    assessment = assess(Condition.PERCENTAGE_DROP, 0.009, 0.01, threshold=10, minimum_effect=0.02)
    assert assessment.outcome is H
    assert "below the minimum effect" in assessment.explanation


@pytest.mark.parametrize(("value", "baseline"), [(-1.0, 0.0), (-1.0, 1.0)])
def test_percentage_drop__from_zero_and_below_it_is_a_breach(value: float, baseline: float) -> None:
    assert assess(Condition.PERCENTAGE_DROP, value, baseline, threshold=150).outcome is B
    assert assess(Condition.PERCENTAGE_RISE, value, baseline, threshold=150).outcome is H


def test_percentage_rise__of_zeros_leaves_every_state() -> None:
    rise = Condition.PERCENTAGE_RISE
    unchanged, risen = (assess(rise, value, 0.0, 0.0, threshold=10) for value in (0.0, 0.2))
    assert (unchanged.outcome, risen.outcome) == (H, B)
    assert unchanged.explanation.startswith("quality is 0.000, unchanged from 0.000 (mean of")
    assert risen.explanation.startswith("quality rose to 0.200, from 0.000 (mean of")
    assert assess(rise, 0.01, 0.0, threshold=10, minimum_effect=0.05).outcome is H
    assert assess(Condition.PERCENTAGE_DROP, 0.2, 0.0, threshold=10).outcome is H


def test_regressed__a_value_without_a_direction_says_so() -> None:
    subject = ValueSpec(name="turns", harm=Side.BOTH)
    assessment = assess(Condition.REGRESSED, 3.0, subject=subject)
    assert assessment.outcome is N
    assert assessment.explanation.startswith("turns has no direction, so REGRESSED cannot tell")


def test_percentage_drop__first_run_is_warmup() -> None:
    assert assess(Condition.PERCENTAGE_DROP, 0.5, threshold=10).outcome is L


@pytest.mark.parametrize("condition", Condition)
def test_evaluate_condition__a_missing_value_is_no_data_and_not_zero(condition: Condition) -> None:
    assessment = assess(condition, None, 1, 1, 1, 1, 1, threshold=0)
    assert (assessment.outcome, assessment.value) == (N, None)


def test_anomaly__the_first_run_is_warmup_then_detected() -> None:
    anomaly = Condition.ANOMALY_DETECTED
    assessment = assess(anomaly, 0.1)
    assert assessment.outcome is L
    assert assessment.explanation.endswith("there is no earlier run to compare it with.")
    history = (0.79, 0.82, 0.8, 0.81, 0.8)
    assessment = assess(anomaly, 0.72, *history)
    assert assessment.outcome is B
    # One prior run of 0.015 beyond the error of 0.01, and squares of 0.00052 with four degrees.
    variance = (0.01**2 + 0.015**2 + 0.00052) / 5
    details = assessment.details.anomaly
    assert details is not None
    assert (details.method, details.width, details.history) == ("windows", 1, 5)
    degrees = 5 * min(variance / (variance - 0.01**2), 2) ** 2
    error = math.sqrt(variance * (1 + 1 / 5))
    assert details.z == pytest.approx(to_normal(0.084 / error, degrees))
    assert details.expected_low == pytest.approx(0.804 - from_normal(3.2, degrees) * error)
    assert assess(anomaly, 0.77, *history).outcome is H
    assert assess(anomaly, 0.77, *history, threshold=1.5).outcome is B


def test_anomaly__an_improvement_is_healthy() -> None:
    history = (0.79, 0.8, 0.8, 0.81, 0.82)
    anomaly = Condition.ANOMALY_DETECTED
    assert assess(anomaly, 1.0, *history).outcome is H
    slower = ValueSpec(name="LATENCY_MS", harm=Side.HIGH)
    assert assess(anomaly, 1.0, *history, subject=slower).outcome is B


def test_anomaly__below_two_points_of_a_share_is_healthy() -> None:
    points = [RunPoint(value=0.8, error=0.001)] * 20
    rule = RuleSpec(condition=Condition.ANOMALY_DETECTED)
    assessment = evaluate_condition(rule, QUALITY, Observation(value=0.785, history=points))
    assert assessment.outcome is H
    assert "below the minimum effect" in assessment.explanation


def walk_states(rule: RuleSpec, outcomes: str) -> list[str]:
    """The states after each of B(reach), H(ealthy), N(o data) and L (warm-up); ! marks a
    notification.
    """
    named = {"B": B, "H": H, "N": N, "L": L}
    rule_state, states = RuleState(), []
    for day, letter in enumerate(outcomes):
        step = advance(rule_state, named[letter], rule, NOW + timedelta(days=day))
        rule_state = step.state
        states.append(rule_state.status.value + ("!" if step.notification else ""))
    return states


FIXED = Condition.LESS_THAN


def test_advance__ok_pending_firing_resolved_ok() -> None:
    rule = RuleSpec(condition=FIXED, threshold=1, for_runs=2, keep_firing_for_runs=1)
    assert walk_states(rule, "HBBBHHH") == [
        "OK", "PENDING", "FIRING!", "FIRING", "FIRING", "RESOLVED!", "OK",
    ]  # fmt: skip


def test_advance__one_breach_of_two_required_does_not_fire() -> None:
    rule = RuleSpec(condition=FIXED, threshold=1, for_runs=2)
    assert walk_states(rule, "BHBHB") == ["PENDING", "OK", "PENDING", "OK", "PENDING"]


def test_advance__warmup_and_no_data_resolve_nothing() -> None:
    rule = RuleSpec(condition=FIXED, threshold=1, keep_firing_for_runs=0)
    assert walk_states(rule, "LBLNNBH") == [
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
def test_advance__follows_the_no_data_policy(policy: NoDataPolicy, states: list[str]) -> None:
    rule = RuleSpec(condition=FIXED, threshold=1, no_data=policy, keep_firing_for_runs=0)
    assert walk_states(rule, "HNH") == states


def test_cooldown__a_breach_within_it_is_pending_and_fires_afterwards() -> None:
    rule = RuleSpec(
        condition=FIXED, threshold=1, keep_firing_for_runs=0, cooldown=timedelta(days=3)
    )
    assert walk_states(rule, "BHBBB") == ["FIRING!", "RESOLVED!", "PENDING", "FIRING!", "FIRING"]


def test_advance__an_alternating_value_is_notified_once() -> None:
    states = walk_states(RuleSpec(condition=FIXED, threshold=1, keep_firing_for_runs=1), "BH" * 500)
    assert [state for state in states if state.endswith("!")] == ["FIRING!"]
    states = walk_states(RuleSpec(condition=FIXED, threshold=1, for_runs=2), "BH" * 500)
    assert [state for state in states if state.endswith("!")] == []


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
def test_advance__each_firing_has_at_most_one_resolved(rule: RuleSpec, outcomes: str) -> None:
    notifications = [
        state for state in walk_states(rule, outcomes) if state in ("FIRING!", "RESOLVED!")
    ]
    assert notifications == (["FIRING!", "RESOLVED!"] * len(notifications))[: len(notifications)]


@given(rules, st.text("BHNL", max_size=60))
def test_cooldown__two_firings_are_at_least_a_cooldown_apart(rule: RuleSpec, outcomes: str) -> None:
    days = [day for day, state in enumerate(walk_states(rule, outcomes)) if state == "FIRING!"]
    assert all(timedelta(days=then - now) >= rule.cooldown for now, then in pairwise(days))


@given(rules, st.text("HNL", max_size=40))
def test_advance__nothing_fires_without_a_breach(rule: RuleSpec, outcomes: str) -> None:
    if rule.no_data is not NoDataPolicy.FIRING:
        assert "FIRING!" not in walk_states(rule, outcomes)


@given(
    st.sampled_from(Condition),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=8)
    # Long enough for anomaly detection, and so large that sums and squares overflow.
    | st.lists(st.floats(-1e308, 1e308), min_size=5, max_size=8),
    st.floats(-1e9, 1e9),
)
def test_evaluate_condition__answers_for_any_numbers(
    condition: Condition, value: float, history: list[float], threshold: float
) -> None:
    assert assess(condition, value, *history, threshold=threshold).explanation


def test_percentage_drop__ten_percent_of_37_items_is_a_false_alarm_in_twelve() -> None:
    """37 binary items with a mean pass rate of .8: 8 to 9 % of healthy runs."""
    chance = random.Random(5)
    alarms = 0
    for _ in range(1500):
        agent = [chance.betavariate(1.6, 0.4) for _ in range(37)]
        rates = [sum(chance.random() < p for p in agent) / 37 for _ in range(6)]
        assessment = assess(Condition.PERCENTAGE_DROP, rates[5], *rates[:5], threshold=10)
        alarms += assessment.outcome is B
    # 8.3 % ± 3 standard errors of 0.7 points.
    assert 0.062 < alarms / 1500 < 0.105


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        (Verdict.REGRESSED, AlertOutcome.BREACH),
        (Verdict.IMPROVED, AlertOutcome.HEALTHY),
        (Verdict.NO_EVIDENCE, AlertOutcome.HEALTHY),
        (Verdict.INCONCLUSIVE, AlertOutcome.WARMUP),
        (Verdict.CHANGED, AlertOutcome.WARMUP),
        (None, AlertOutcome.WARMUP),
    ],
)
def test_regressed__a_regression_is_a_breach_and_inconclusive_changes_nothing(
    verdict: Verdict | None, outcome: AlertOutcome
) -> None:
    value_verdict = ValueVerdict(
        verdict=verdict,
        baseline_value=0.9,
        min_detectable_effect=0.1,
        explanation="It fell.",
    )
    assessment = evaluate_condition(
        RuleSpec(condition=Condition.REGRESSED),
        ValueSpec(name="quality"),
        Observation(value=0.5, verdict=value_verdict),
    )
    assert (assessment.outcome, assessment.baseline, assessment.explanation) == (
        outcome,
        0.9,
        "It fell.",
    )


@given(rules, st.text("BHNL", max_size=60))
def test_advance__every_state_is_left_by_healthy_runs(rule: RuleSpec, outcomes: str) -> None:
    """A state that cannot be left by data is a defect: after enough healthy runs every rule is OK."""
    # After the runs that keep it firing, one run resolves it and the next one is OK.
    recovery = "H" * (rule.keep_firing_for_runs + 2)
    assert walk_states(rule, outcomes + recovery)[-1] == "OK"


HISTORY_RULES = st.sampled_from(
    [
        RuleSpec(condition=Condition.PERCENTAGE_DROP, threshold=10),
        RuleSpec(condition=Condition.ANOMALY_DETECTED),
    ]
)
# None: all runs so far are deleted.
VALUES = st.lists(st.sampled_from((0.9, 0.4, 0.0, None)), max_size=40)


@given(HISTORY_RULES, VALUES)
def test_history_rules__every_state_is_left_by_good_runs_whatever_was_deleted(
    rule: RuleSpec, values: list[float | None]
) -> None:
    rule_state, history = RuleState(), list[float]()
    for value in [*values, *[0.9] * 20]:
        if value is None:
            history.clear()
            continue
        outcome = assess(rule.condition, value, *history, threshold=rule.threshold).outcome
        spec = rule
        if rule_state.open and loses_reference(rule.condition, outcome, is_same_series=True):
            outcome, spec = H, replace(rule, keep_firing_for_runs=0)
        rule_state = advance(rule_state, outcome, spec, NOW).state
        # The runs of an incident are excluded until it ends.
        if not rule_state.open:
            history.append(value)
    assert rule_state.status == "OK"


def test_no_data__ok_keeps_a_regressed_rule_as_it_is() -> None:
    rule = RuleSpec(condition=Condition.REGRESSED, no_data=NoDataPolicy.OK)
    assert walk_states(rule, "HNBNNNN") == ["OK", "OK", "FIRING!", *["FIRING"] * 4]


@given(rules, st.text("BHNL", max_size=60))
def test_advance__every_state_is_left_by_breaches(rule: RuleSpec, outcomes: str) -> None:
    """After enough breaches, and after the cooldown, every rule fires."""
    # `walk_states` has a run a day: a cooldown lasts as many runs as it has days.
    breaches = "B" * (rule.for_runs + rule.cooldown.days + 1)
    assert walk_states(rule, outcomes + breaches)[-1].startswith("FIRING")
