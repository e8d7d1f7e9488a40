"""The conditions that the filters of a list become, and the one that an index serves."""

from datetime import UTC, datetime
from typing import Any, Final

import pytest
from sqlalchemy import select
from sqlalchemy.dialects import postgresql

from mosaico.alerts.models import AlertRule
from mosaico.core.keyset import ListRows, sort_rows
from mosaico.core.list_filters import (
    Period,
    ValueFilter,
    filter_enabled,
    match_columns,
    match_period,
    split_filters,
)

NEWEST: Final = (AlertRule.created_at, AlertRule.id)
SORT_KEYS: Final = {
    "created": NEWEST,
    "agent": (AlertRule.agent_id, *NEWEST),
    "name": (AlertRule.name, *NEWEST),
}
SINCE: Final = datetime(2026, 11, 24, tzinfo=UTC)
OF_BENCHMARK: Final[ValueFilter] = (AlertRule.benchmark_id, ["b"])
OF_AGENT: Final[ValueFilter] = (AlertRule.agent_id, ["a"])
OF_TWO_AGENTS: Final[ValueFilter] = (AlertRule.agent_id, ["a", "b"])
OF_NO_AGENT: Final[ValueFilter] = (AlertRule.agent_id, [])


def texts(conditions: Any) -> list[str]:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    compiled = (
        condition.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
        for condition in conditions
    )
    return [str(condition).replace("alert_rules.", "") for condition in compiled]


def test_match_columns__no_value_is_no_condition() -> None:
    assert match_columns((AlertRule.agent_id, None), (AlertRule.benchmark_id, None)) == []


def test_match_columns__each_column_equals_its_value() -> None:
    conditions = match_columns((AlertRule.benchmark_id, "b"), (AlertRule.agent_id, None))
    assert texts(conditions) == ["benchmark_id = 'b'"]


def test_match_period__includes_its_first_time_and_not_its_last() -> None:
    assert match_period(AlertRule.created_at, Period()) == []
    since, until = match_period(AlertRule.created_at, Period(SINCE, SINCE))
    assert (" >= " in str(since), " < " in str(until)) == (True, True)


def test_filter_enabled__false_is_the_condition_of_the_partial_index() -> None:
    rules = select(AlertRule.id)
    statement, conditions = filter_enabled(rules, AlertRule.enabled, enabled=False)
    [index] = [
        index for index in AlertRule.metadata.tables["alert_rules"].indexes
        if index.name == "ix_alert_rules_disabled"
    ]  # fmt: skip
    where = f"WHERE alert_rules.{index.dialect_options['postgresql']['where']}"
    assert (where in str(statement), conditions) == (True, [])


def test_filter_enabled__no_index_serves_enabled_rows() -> None:
    rules = select(AlertRule.id)
    statement, conditions = filter_enabled(rules, AlertRule.enabled, enabled=True)
    assert (statement, texts(conditions)) == (rules, ["enabled IS true"])
    assert filter_enabled(rules, AlertRule.enabled, enabled=None) == (rules, [])


def test_split_filters__first_filter_of_one_value_selects_the_rows() -> None:
    prefix, conditions = split_filters([OF_TWO_AGENTS, OF_BENCHMARK])
    assert prefix == [(AlertRule.benchmark_id, "b")]
    assert texts(conditions) == ["agent_id IN ('a', 'b')"]
    assert split_filters([OF_NO_AGENT, OF_AGENT]) == ([(AlertRule.agent_id, "a")], [])
    assert split_filters([OF_NO_AGENT]) == ([], [])


def test_split_filters__index_of_two_columns_needs_a_value_of_both() -> None:
    both = (AlertRule.benchmark_id, AlertRule.agent_id)
    prefix, conditions = split_filters([OF_AGENT, OF_BENCHMARK], [both])
    assert (prefix, conditions) == ([(AlertRule.benchmark_id, "b"), (AlertRule.agent_id, "a")], [])
    prefix, conditions = split_filters([OF_AGENT, OF_NO_AGENT], [both, [AlertRule.agent_id]])
    assert (prefix, conditions) == ([(AlertRule.agent_id, "a")], [])
    assert split_filters([OF_AGENT], []).prefix == []


def sorted_rows(sort: str, *filters: ValueFilter) -> ListRows:
    return sort_rows(select(AlertRule), SORT_KEYS, sort, filters, period=Period(SINCE))


def test_sort_rows__default_order_is_that_of_the_index_of_a_filter() -> None:
    rows = sorted_rows("-created", OF_AGENT)
    assert (rows.keys, rows.descending, rows.prefix) == (NEWEST, True, [(AlertRule.agent_id, "a")])
    assert (rows.period, rows.conditions) == (Period(SINCE), [])


def test_sort_rows__order_by_the_only_value_is_the_default_order() -> None:
    rows = sorted_rows("agent", OF_AGENT)
    assert (rows.keys, rows.descending, rows.prefix) == (NEWEST, False, [(AlertRule.agent_id, "a")])


def test_sort_rows__filters_and_period_are_tested_in_another_order() -> None:
    rows = sorted_rows("-name", OF_AGENT)
    assert (rows.keys, rows.prefix, rows.period) == (SORT_KEYS["name"], [], Period())
    assert len(rows.conditions) == 2


def where_and_order(rows: ListRows, after: Any) -> tuple[str, str]:
    statement = rows._select_after(select(AlertRule.id), after)
    where, _, order = str(statement).partition(" \nWHERE ")[2].partition(" ORDER BY ")
    return where.replace("alert_rules.", ""), order.replace("alert_rules.", "")


@pytest.mark.parametrize(
    ("descending", "after", "expected"),
    [
        (True, None, "(agent_id, created_at) >= (:param_1, :param_2) AND agent_id <= :param_3"),
        (False, None, "(agent_id, created_at) >= (:param_1, :param_2) AND agent_id <= :param_3"),
        (
            True,
            [SINCE, "r"],
            ("(agent_id, created_at) >= (:param_1, :param_2)"
            " AND (agent_id, created_at, id) < (:param_3, :param_4, :param_5)"
            " AND (agent_id, created_at) <= (:param_6, :param_7)"),
        ),
        (
            False,
            [SINCE, "r"],
            ("(agent_id, created_at, id) > (:param_1, :param_2, :param_3)"
            " AND (agent_id, created_at) >= (:param_4, :param_5) AND agent_id <= :param_6"),
        ),
    ],
)  # fmt: skip
def test_list_rows__prefix_is_part_of_the_order_and_of_both_limits(
    *, descending: bool, after: Any, expected: str
) -> None:
    rows = ListRows(
        statement=select(AlertRule),
        keys=NEWEST,
        descending=descending,
        prefix=[(AlertRule.agent_id, "a")],
        period=Period(SINCE),
    )
    where, order = where_and_order(rows, after)
    assert where == expected
    direction = "DESC" if descending else "ASC"
    assert order == f"agent_id {direction}, created_at {direction}, id {direction}"


def test_list_rows__period_ends_before_its_last_time() -> None:
    rows = ListRows(statement=select(AlertRule), keys=NEWEST, period=Period(until=SINCE))
    assert where_and_order(rows, None)[0] == "created_at < :param_1"
