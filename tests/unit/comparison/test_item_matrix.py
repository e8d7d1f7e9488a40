"""Runs item by item: trials stay with their item, and only the same items are paired."""

import hashlib
import math
from array import array
from dataclasses import replace

import numpy as np

from app.comparison.comparison_spec import (
    ComparisonSpec,
    KpiComparisonSpec,
    MetricComparisonSpec,
)
from app.comparison.compute import compute, trial_statistics
from app.comparison.item_matrix import ItemMatrix, ItemRow, matrix_of_rows, pair_items
from app.kpis.verdicts import RepeatedTrials
from app.statistics.intervals import Interval
from app.statistics.trials import reduce_trials
from app.statistics.verdict import Note, Scale


def row(
    item: str, *values: float | None, tags: tuple[str, ...] = (), revision: str = "r"
) -> ItemRow:
    return ItemRow(1, item, revision, [*tags], [*values])


def table(*items: str, revision: str = "r") -> ItemMatrix:
    rows = [row(item, float(place), revision=revision) for place, item in enumerate(items)]
    return matrix_of_rows(rows, {1: ["A"]}, ["A"])


def test_trials_stay_with_their_item_and_what_is_missing_is_no_zero() -> None:
    rows = [row("a", 1.0, 2.0), row("a", None, 3.0), row("b", 0.0, None)]
    found = matrix_of_rows(rows, {1: ["A", "B"]}, ["B", "C"])
    assert (found.items, [*found.item_index]) == (["a", "b"], [0, 0, 1])
    assert [*found.values["B"]][:2] == [2.0, 3.0]
    assert math.isnan(found.values["B"][2])
    assert all(map(math.isnan, found.values["C"]))


def test_items_of_one_tag_are_a_cluster_and_others_stand_alone() -> None:
    rows = [row("a", 1.0, tags=("x", "topic:b", "topic:a")), row("b", 1.0, tags=("topics:a",))]
    found = matrix_of_rows(rows, {1: ["A"]}, ["A"], cluster_field="topic")
    assert found.clusters == ["topic:a", "b"]


def test_only_the_same_items_are_paired() -> None:
    before, after = table(*"abcdef"), table(*"bcdefg")
    found = pair_items(before, after)
    assert found.is_paired
    assert found.baseline.items == found.candidate.items == [*"bcdef"]
    assert [*found.baseline.values["A"]] == [1, 2, 3, 4, 5]
    assert [*found.candidate.values["A"]] == [0, 1, 2, 3, 4]
    assert (found.only_baseline, found.only_candidate, found.revised) == (1, 1, 0)


def test_items_with_another_expected_answer_are_other_items() -> None:
    found = pair_items(table(*"abcdef"), table(*"abcdef", revision="new"))
    assert (found.is_paired, found.revised) == (False, 6)
    assert found.candidate.items == [*"abcdef"]


def test_a_skewed_metric_of_many_items_has_an_interval() -> None:
    # 6 of 3,000 graded items are 0.1 and the others 0.9: skewed, and more than are drawn one by one.
    count = 3000
    many = ItemMatrix(
        items=[f"{number:04d}" for number in range(count)],
        revisions=["r"] * count,
        item_index=array("l", range(count)),
        values={"A": array("d", [0.1] * 6 + [0.9] * (count - 6))},
    )
    metric = MetricComparisonSpec(column="A", scale=Scale.RATE, rule=None)
    asked = ComparisonSpec(run=many, candidate=None, baseline=None, metrics=[metric], kpis=[])
    interval = compute(asked).metric_intervals["A"]
    mean = 0.9 - 0.8 * 6 / count
    assert interval.low < mean < interval.high
    assert compute(asked).metric_intervals["A"] == interval


def test_a_kpi_says_where_its_interval_is_a_point_and_where_it_hangs_on_one_trace() -> None:
    alike = matrix_of_rows([row(item, 1.0, None) for item in "abcdef"], {1: ["A", "B"]}, ["A", "B"])
    asked = ComparisonSpec(
        run=alike,
        candidate=None,
        baseline=None,
        metrics=(),
        kpis=[
            KpiComparisonSpec(id=text, formula=text, column=None, is_gate=False, rule=None)
            for text in ("A * 2", "A.max - A.std", "B * 2")
        ],
    )
    found = compute(asked).kpi_intervals
    assert found["A * 2"].interval == Interval(low=2.0, high=2.0)
    assert found["A * 2"].notes == (Note.ALL_ALIKE,)
    assert found["A.max - A.std"].notes == (Note.EXTREME, Note.ALL_ALIKE)
    assert found["B * 2"].notes == ()


def test_repeats_are_of_items_with_several_trials() -> None:
    # Item 0 passes both trials, item 1 one of two, item 2 has only one that was measured.
    places = np.array([0, 0, 1, 1, 2, 2])
    found = trial_statistics(reduce_trials(places, np.array([1.0, 1.0, 1.0, 0.0, 1.0, np.nan]), 3))
    assert found == [
        RepeatedTrials(k=1, items=3, pass_at_k=2.5 / 3, pass_hat_k=2.5 / 3, at_least_k=1.0),
        RepeatedTrials(k=2, items=2, pass_at_k=1.0, pass_hat_k=0.5, at_least_k=0.5),
    ]


def test_single_trials_and_grades_have_no_repeats() -> None:
    assert trial_statistics(reduce_trials(np.array([0, 1]), np.array([1.0, 0.0]), 2)) == []
    assert trial_statistics(reduce_trials(np.array([0, 0]), np.array([0.5, 1.0]), 1)) == []
    assert trial_statistics(reduce_trials(np.array([], dtype=np.intp), np.array([]), 0)) == []


def test_of_many_trials_ten_are_told() -> None:
    found = trial_statistics(reduce_trials(np.zeros(30, dtype=np.intp), np.ones(30), 1))
    assert [each.k for each in found] == [*range(1, 11)]


def test_items_beyond_what_one_run_shows_are_neither_new_nor_missing() -> None:
    everything = [f"item-{number}" for number in range(12)]
    by_digest = sorted(everything, key=lambda item: hashlib.md5(item.encode()).hexdigest())
    # The base shows its first 8 of 12; the candidate lacks the first, and shows 8 of 11.
    base = replace(table(*sorted(by_digest[:8])), left_out=4)
    candidate = replace(table(*sorted(by_digest[1:9])), left_out=3)
    found = pair_items(base, candidate)
    assert found.candidate.items == sorted(by_digest[1:8])
    assert (found.only_baseline, found.only_candidate, found.left_out) == (1, 0, 4)
