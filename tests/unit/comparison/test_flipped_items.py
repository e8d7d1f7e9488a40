"""Flipped items, their causes, constant items and item attributes."""

import math

import pytest

from mosaico.items.attributes import AttributeRow, attributes_of_rows
from mosaico.items.flipped import (
    ConstantItemIds,
    FlipCause,
    PeerMeans,
    explain_regression,
    find_constant_items,
    find_flips,
    item_means,
)
from mosaico.items.matrix import ItemRow, matrix_of_rows
from mosaico.statistics.verdict_rules import Scale
from mosaico.traces.types import TraceOutcome


def test_item_means__average_the_trials_with_a_value() -> None:
    rows = [("a", 1.0), ("a", 0.0), ("b", None), ("c", 1.0), ("c", None)]
    table = matrix_of_rows(
        [ItemRow(0, item, "r", [], [value]) for item, value in rows], {0: ["M"]}, ["M"]
    )
    assert item_means(table, "M") == {"a": 0.5, "c": 1.0}


def test_find_flips__half_of_the_range_is_a_flip() -> None:
    base = {"fell": 1.0, "half": 1.0, "less": 1.0, "rose": 0.0, "gone": 1.0}
    now = {"fell": 0.0, "half": 0.5, "less": 0.6, "rose": 1.0, "new": 0.0}
    flips = find_flips(base, now, Scale.RATE, less_is_better=False)
    assert [(flip.item_id, flip.harm) for flip in flips] == [
        ("fell", 1.0),
        ("half", 0.5),
        ("rose", -1.0),
    ]


def test_find_flips__amounts_flip_by_half_of_the_baseline() -> None:
    base, now = {"a": 100.0, "b": 100.0, "c": 0.0, "d": 0.0}, {"a": 150, "b": 149, "c": 1, "d": 0}
    flips = find_flips(base, now, Scale.RATIO, less_is_better=True)
    assert [flip.item_id for flip in flips] == ["a", "c"]


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
def test_explain_regression__distinguishes_agent_and_environment(
    peers: list[PeerMeans], cause: FlipCause | None, agents: list[str]
) -> None:
    regression = explain_regression("i", peers, Scale.RATE, less_is_better=False)
    assert (regression.cause, list(regression.agents)) == (cause, agents)


def test_find_constant_items__same_result_in_every_run() -> None:
    runs = [{"a": 1.0, "b": 0.0, "c": 1.0, "d": 1.0}, {"a": 1.0, "b": 0.0, "c": 0.5}]
    assert find_constant_items(runs, less_is_better=False) == ConstantItemIds(["a"], ["b"])
    assert find_constant_items(runs, less_is_better=True) == ConstantItemIds(["b"], ["a"])
    assert find_constant_items([], less_is_better=False) == ConstantItemIds([], [])


def test_attributes__tags_tools_and_outcomes_are_features() -> None:
    def row(
        item: str, tools: list[str], outcome: TraceOutcome, latency: float | None
    ) -> AttributeRow:
        return AttributeRow(item, "r", ["kind:sum"], outcome, tools, (latency, None, None))

    attributes = attributes_of_rows(
        [
            row("a", ["search", "search"], TraceOutcome.SCORED, 10.0),
            row("a", [], TraceOutcome.TIMEOUT, None),
            row("b", ["fetch"], TraceOutcome.SCORED, 30.0),
        ]
    )
    assert attributes.features == {
        "tag:kind:sum": {"a", "b"},
        "tool:search": {"a"},
        "tool:fetch": {"b"},
        "ended:timeout": {"a"},
    }
    latency = attributes.usage.values["LATENCY_MS"]
    assert [value for value in latency if not math.isnan(value)] == [10.0, 30.0]
