"""Items that turned round, and for whom."""

import math

import pytest

from app.comparison.flipped_items import (
    ConstantItemIds,
    FlipCause,
    PeerMeans,
    explain_regression,
    find_constant_items,
    find_flips,
    item_means,
)
from app.comparison.item_attributes import AttributeRow, attributes_of_rows
from app.comparison.item_matrix import ItemRow, matrix_of_rows
from app.statistics.verdict import Scale
from app.traces.types import TraceOutcome


def test_trials_of_an_item_are_averaged_and_missing_ones_left_out() -> None:
    rows = [("a", 1.0), ("a", 0.0), ("b", None), ("c", 1.0), ("c", None)]
    table = matrix_of_rows(
        [ItemRow(0, item, "r", [], [value]) for item, value in rows], {0: ["M"]}, ["M"]
    )
    assert item_means(table, "M") == {"a": 0.5, "c": 1.0}


def test_an_item_turns_round_when_half_of_its_trials_do() -> None:
    base = {"fell": 1.0, "half": 1.0, "less": 1.0, "rose": 0.0, "gone": 1.0}
    now = {"fell": 0.0, "half": 0.5, "less": 0.6, "rose": 1.0, "new": 0.0}
    found = find_flips(base, now, Scale.RATE, less_is_better=False)
    assert [(flip.item_id, flip.harm) for flip in found] == [
        ("fell", 1.0),
        ("half", 0.5),
        ("rose", -1.0),
    ]


def test_less_may_be_better_and_an_amount_turns_by_half_of_itself() -> None:
    base, now = {"a": 100.0, "b": 100.0, "c": 0.0, "d": 0.0}, {"a": 150, "b": 149, "c": 1, "d": 0}
    found = find_flips(base, now, Scale.RATIO, less_is_better=True)
    assert [flip.item_id for flip in found] == ["a", "c"]


GOOD, BAD = {"i": 1.0}, {"i": 0.0}


@pytest.mark.parametrize(
    ("peers", "cause", "agents"),
    [
        ([], None, []),
        ([PeerMeans("x", {}, BAD)], None, []),
        ([PeerMeans("x", GOOD, BAD), PeerMeans("y", GOOD, BAD)], FlipCause.ENVIRONMENT, ["x", "y"]),
        ([PeerMeans("x", GOOD, BAD), PeerMeans("y", GOOD, GOOD)], FlipCause.SOME_AGENTS, ["x"]),
        # One that rose did not fall.
        ([PeerMeans("x", BAD, GOOD), PeerMeans("y", GOOD, GOOD)], FlipCause.AGENT, []),
    ],
)
def test_what_falls_for_all_is_the_environment(
    peers: list[PeerMeans], cause: FlipCause | None, agents: list[str]
) -> None:
    found = explain_regression("i", peers, Scale.RATE, less_is_better=False)
    assert (found.cause, list(found.agents)) == (cause, agents)


def test_items_that_come_out_the_same_everywhere_are_find_constant_items() -> None:
    runs = [{"a": 1.0, "b": 0.0, "c": 1.0, "d": 1.0}, {"a": 1.0, "b": 0.0, "c": 0.5}]
    assert find_constant_items(runs, less_is_better=False) == ConstantItemIds(["a"], ["b"])
    assert find_constant_items(runs, less_is_better=True) == ConstantItemIds(["b"], ["a"])
    assert find_constant_items([], less_is_better=False) == ConstantItemIds([], [])


def test_tags_tools_and_bad_ends_are_features_of_an_item() -> None:
    def row(
        item: str, tools: list[str], outcome: TraceOutcome, latency: float | None
    ) -> AttributeRow:
        return AttributeRow(item, "r", ["kind:sum"], outcome, tools, (latency, None, None))

    found = attributes_of_rows(
        [
            row("a", ["search", "search"], TraceOutcome.SCORED, 10.0),
            row("a", [], TraceOutcome.TIMEOUT, None),
            row("b", ["fetch"], TraceOutcome.SCORED, 30.0),
        ]
    )
    assert found.features == {
        "tag:kind:sum": {"a", "b"},
        "tool:search": {"a"},
        "tool:fetch": {"b"},
        "ended:timeout": {"a"},
    }
    latency = found.usage.values["latency_ms"]
    assert [each for each in latency if not math.isnan(each)] == [10.0, 30.0]
