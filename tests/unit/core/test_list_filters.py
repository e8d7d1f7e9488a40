"""The conditions that the filters of a list become."""

from app.alerts.models import AlertRule
from app.core.keyset import match_columns


def test_match_columns__no_value_is_no_condition() -> None:
    assert match_columns((AlertRule.agent_id, None), (AlertRule.enabled, None)) == []


def test_match_columns__each_column_equals_its_value() -> None:
    [condition] = match_columns((AlertRule.benchmark_id, "b"), (AlertRule.agent_id, None))
    assert str(condition) == "alert_rules.benchmark_id = :benchmark_id_1"


def test_match_columns__false_is_the_condition_of_the_partial_index() -> None:
    [condition] = match_columns((AlertRule.enabled, False))
    [index] = [
        index for index in AlertRule.metadata.tables["alert_rules"].indexes
        if index.name == "ix_alert_rules_disabled"
    ]  # fmt: skip
    assert str(condition) == f"alert_rules.{index.dialect_options['postgresql']['where']}"
