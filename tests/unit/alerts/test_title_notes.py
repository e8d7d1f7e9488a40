"""What the title of an alert says beside the value: limits with units, and expectations inside of the scale."""

import re

import pytest

from mosaico.alerts.evaluation.conditions import evaluate_condition
from mosaico.alerts.rules import AlertOutcome, Condition, Observation, RuleSpec, ValueSpec
from mosaico.statistics.anomaly import RunPoint
from mosaico.statistics.verdict_rules import Side

QUALITY = ValueSpec(name="quality", is_share=True, minimum=0.0, maximum=1.0)
LATENCY = ValueSpec(name="latency", harm=Side.HIGH, logarithmic=True, unit="ms", minimum=0.0)
EARLIER = [RunPoint(value=value) for value in (0.93, 0.99, 0.95, 0.97, 0.91, 0.99, 0.96)]


@pytest.mark.parametrize(
    ("condition", "spec", "threshold", "value", "note"),
    [
        (Condition.LESS_THAN, QUALITY, 0.85, 0.7, "below 0.85"),
        (Condition.LESS_THAN, QUALITY, 0.855, 0.9, "above 0.855"),
        (Condition.GREATER_THAN, LATENCY, 2000, 5010, "above 2,000 ms"),
        (Condition.EQUALS, LATENCY, 0, 0, "equal to 0 ms"),
        (Condition.PERCENTAGE_DROP, QUALITY, 10, 0.5, "limit 10 %"),
    ],
)
def test_title_note__is_the_limit_with_its_unit(
    condition: Condition, spec: ValueSpec, threshold: float, value: float, note: str
) -> None:
    rule = RuleSpec(condition=condition, threshold=threshold)
    assessment = evaluate_condition(rule, spec, Observation(value=value, history=EARLIER))
    assert assessment.details.title_note == note


def test_anomaly__no_expectation_is_outside_of_the_scale() -> None:
    rule = RuleSpec(condition=Condition.ANOMALY_DETECTED)
    observation = Observation(value=0.1, history=EARLIER)
    plain = evaluate_condition(rule, ValueSpec(name="quality", is_share=True), observation)
    limited = evaluate_condition(rule, QUALITY, observation)
    assert limited.outcome is AlertOutcome.BREACH
    # Around 0.957 by twice a spread of 0.03 or more: without the scale the upper end is above 1.
    assert plain.details.anomaly is not None
    assert plain.details.anomaly.expected_high > 1
    assert limited.details.anomaly is not None
    assert limited.details.anomaly.expected_high == 1
    assert limited.details.anomaly.expected_low == plain.details.anomaly.expected_low
    note = limited.details.title_note
    assert note is not None
    assert re.fullmatch(r"expected 0\.\d{3} to 1\.000", note)
    assert note in limited.explanation
