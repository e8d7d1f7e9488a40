"""The conditions that the filters of a list become, and the filter that selects its rows."""

from datetime import UTC, datetime
from typing import Any
from unittest.mock import MagicMock

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.alerts.models import AlertRule
from mosaico.core.list_filters import (
    FEW_ROWS,
    IndexedFilter,
    PagePlan,
    filter_any,
    filter_disabled,
    filter_period,
    intersect_filters,
    match_columns,
    plan_page,
)

NEWEST = [AlertRule.created_at, AlertRule.id]
SINCE = datetime(2026, 11, 24, tzinfo=UTC)
[OF_B] = filter_any(AlertRule.benchmark_id, ["b"], NEWEST)
[OF_A] = filter_any(AlertRule.agent_id, ["a"], NEWEST)
[OF_TWO] = filter_any(AlertRule.agent_id, ["a", "b"], NEWEST)
[YOUNG] = filter_period(SINCE, None, NEWEST)
[OLD] = filter_period(None, SINCE, NEWEST)


def plan(filters: list[IndexedFilter], counts: list[int], keys: list[Any] = NEWEST) -> PagePlan:
    """The plan of a list whose filters have so many rows."""
    # Of the session the plan uses one statement only, which counts the rows of each filter.
    session = MagicMock(Session)
    session.execute.return_value.one.return_value = counts
    return plan_page(session, keys, filters, [])


def texts(conditions: Any) -> list[str]:
    return [str(condition) for condition in conditions]


def test_match_columns__no_value_is_no_condition() -> None:
    assert match_columns((AlertRule.agent_id, None), (AlertRule.benchmark_id, None)) == []


def test_match_columns__each_column_equals_its_value() -> None:
    [condition] = match_columns((AlertRule.benchmark_id, "b"), (AlertRule.agent_id, None))
    assert str(condition) == "alert_rules.benchmark_id = :benchmark_id_1"


def test_filter_disabled__false_is_the_condition_of_the_partial_index() -> None:
    [disabled] = filter_disabled(AlertRule.enabled, NEWEST, enabled=False)
    [index] = [
        index for index in AlertRule.metadata.tables["alert_rules"].indexes
        if index.name == "ix_alert_rules_disabled"
    ]  # fmt: skip
    assert str(disabled.condition) == f"alert_rules.{index.dialect_options['postgresql']['where']}"


@pytest.mark.parametrize("enabled", [True, None])
def test_filter_disabled__no_index_serves_enabled_rows(enabled: bool | None) -> None:
    assert filter_disabled(AlertRule.enabled, NEWEST, enabled=enabled) == []


def test_filters__no_value_is_no_filter() -> None:
    assert filter_any(AlertRule.agent_id, [], NEWEST) == []
    assert filter_period(None, None, NEWEST) == []


def test_plan_page__one_filter_in_the_order_of_the_list_is_one_statement() -> None:
    for alone in (OF_B, OF_A, YOUNG):
        assert plan([alone], []).is_exact
    # Sorted by the agent, which all rows share.
    assert plan([OF_A], [], [AlertRule.agent_id, *NEWEST]).is_exact


def test_plan_page__a_period_limits_the_index_of_a_value() -> None:
    in_period = plan([OF_B, YOUNG], [])
    assert in_period.is_exact
    assert in_period.prefix == [(AlertRule.benchmark_id, "b")]
    assert in_period.period == (AlertRule.created_at, SINCE, None)


def test_plan_page__the_first_of_two_large_filters_selects_the_rows() -> None:
    both = plan([OF_B, OF_A], [FEW_ROWS, FEW_ROWS])
    assert (both.is_few, both.is_exact) == (False, False)
    assert both.prefix == [(AlertRule.benchmark_id, "b")]
    assert texts(both.tested) == ["(alert_rules.agent_id = :agent_id_1) IS true"]


def test_plan_page__a_filter_with_few_rows_selects_them() -> None:
    both = plan([OF_B, OF_A, OLD], [FEW_ROWS, FEW_ROWS - 1, FEW_ROWS])
    assert both.is_few
    assert texts(both.selecting) == ["alert_rules.agent_id = :agent_id_1"]
    assert len(both.tested) == 2


def test_plan_page__several_values_or_another_order_are_tested_on_all_rows() -> None:
    assert plan([OF_TWO], [2 * FEW_ROWS]).prefix == []
    assert plan([OF_B], [FEW_ROWS], [AlertRule.name, *NEWEST]).prefix == []
    assert plan([OF_TWO], [FEW_ROWS - 1]).is_few


def where_and_order(statement: Any) -> tuple[str, str]:
    where, _, order = str(statement).partition(" \nWHERE ")[2].partition(" ORDER BY ")
    return where.replace("alert_rules.", ""), order.replace("alert_rules.", "")


@pytest.mark.parametrize(
    ("descending", "after", "last", "expected"),
    [
        (True, None, None, "agent_id <= :param_1 AND (agent_id, created_at) >= (:param_2, :param_3)"),
        (False, None, None, "(agent_id, created_at) >= (:param_1, :param_2) AND agent_id <= :param_3"),
        (
            True,
            [SINCE, "r"],
            None,
            ("(agent_id, created_at, id) < (:param_1, :param_2, :param_3)"
            " AND (agent_id, created_at) >= (:param_4, :param_5)"),
        ),
        (
            False,
            [SINCE, "r"],
            [SINCE, "s"],
            ("(agent_id, created_at, id) > (:param_1, :param_2, :param_3)"
            " AND (agent_id, created_at, id) <= (:param_4, :param_5, :param_6)"),
        ),
    ],
)  # fmt: skip
def test_select_range__has_one_limit_on_each_side_with_the_prefix(
    *, descending: bool, after: Any, last: Any, expected: str
) -> None:
    of_agent = plan([OF_A, YOUNG], [])
    statement = of_agent.select_range(
        select(AlertRule.id), NEWEST, after, last, descending=descending
    )
    where, order = where_and_order(statement)
    assert where == f"{expected} AND agent_id IS NOT NULL"
    direction = "DESC" if descending else "ASC"
    assert order == f"agent_id {direction}, created_at {direction}, id {direction}"


def test_select_range__a_period_ends_before_its_last_time() -> None:
    period = plan([OLD], [])
    statement = period.select_range(select(AlertRule.id), NEWEST, None, descending=True)
    assert where_and_order(statement)[0] == "created_at < :param_1"


def test_intersect_filters__several_values_of_one_column_stay_apart() -> None:
    [both] = intersect_filters([OF_B, OF_A], NEWEST)
    assert both.is_sorted_by(NEWEST)
    assert both.columns == [AlertRule.benchmark_id, AlertRule.agent_id]
    assert both.alternatives == [["b", "a"]]
    assert intersect_filters([OF_B, OF_TWO], NEWEST) == []
