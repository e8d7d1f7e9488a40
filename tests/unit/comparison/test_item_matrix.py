"""Item matrices: trials belong to their item, and only shared items are paired."""

import hashlib
import math
from array import array
from dataclasses import replace

import numpy as np

from mosaico.comparison.child_computation import compute
from mosaico.comparison.comparison_spec import (
    ComparisonSpec,
    KpiComparisonSpec,
    MetricComparisonSpec,
)
from mosaico.comparison.run_estimates import trial_statistics
from mosaico.items.formulas.properties import ValueRange
from mosaico.items.matrix import ItemMatrix, ItemRow, matrix_of_rows, pair_items
from mosaico.kpis.verdict_types import RepeatedTrials
from mosaico.statistics.trials import reduce_trials
from mosaico.statistics.verdict_rules import VerdictNote


def row(
    item: str, *values: float | None, tags: tuple[str, ...] = (), revision: str = "r"
) -> ItemRow:
    return ItemRow(1, item, revision, [*tags], [*values])


def table(*items: str, revision: str = "r") -> ItemMatrix:
    rows = [row(item, float(index), revision=revision) for index, item in enumerate(items)]
    return matrix_of_rows(rows, {1: ["A"]}, ["A"])


def test_matrix__missing_values_are_nan() -> None:
    rows = [row("a", 1.0, 2.0), row("a", None, 3.0), row("b", 0.0, None)]
    matrix = matrix_of_rows(rows, {1: ["A", "B"]}, ["B", "C"])
    assert (matrix.items, [*matrix.item_index]) == (["a", "b"], [0, 0, 1])
    assert [*matrix.values["B"]][:2] == [2.0, 3.0]
    assert math.isnan(matrix.values["B"][2])
    assert all(map(math.isnan, matrix.values["C"]))


def test_matrix__clusters_come_from_tags() -> None:
    rows = [row("a", 1.0, tags=("x", "topic:b", "topic:a")), row("b", 1.0, tags=("topics:a",))]
    matrix = matrix_of_rows(rows, {1: ["A"]}, ["A"], cluster_field="topic")
    assert matrix.clusters == ["topic:a", "b"]


def test_pair_items__pairs_the_shared_items() -> None:
    before, after = table(*"abcdef"), table(*"bcdefg")
    pairing = pair_items(before, after)
    assert pairing.is_paired
    assert pairing.baseline.items == pairing.candidate.items == [*"bcdef"]
    assert [*pairing.baseline.values["A"]] == [1, 2, 3, 4, 5]
    assert [*pairing.candidate.values["A"]] == [0, 1, 2, 3, 4]
    assert (pairing.only_baseline, pairing.only_candidate, pairing.revised) == (1, 1, 0)


def test_pair_items__revised_items_are_not_paired() -> None:
    pairing = pair_items(table(*"abcdef"), table(*"abcdef", revision="new"))
    assert (pairing.is_paired, pairing.revised) == (False, 6)
    assert pairing.candidate.items == [*"abcdef"]


def test_pair_items__samples_of_overlapping_windows_are_not_paired() -> None:
    samples = [replace(table(*items), is_sample=True) for items in ("abcdefg", "bcdefgh")]
    pairing = pair_items(*samples)
    assert (pairing.is_paired, pairing.are_samples) == (False, True)
    assert [len(side.items) for side in (pairing.baseline, pairing.candidate)] == [7, 7]
    assert (pairing.only_baseline, pairing.only_candidate) == (0, 0)


def test_metric_interval__of_a_skewed_metric() -> None:
    # 6 of 3,000 graded items are 0.1 and the others 0.9: skewed, and more than are drawn one by one.
    count = 3000
    many = ItemMatrix(
        items=[f"{number:04d}" for number in range(count)],
        revisions=["r"] * count,
        item_index=array("l", range(count)),
        values={"A": array("d", [0.1] * 6 + [0.9] * (count - 6))},
    )
    metric = MetricComparisonSpec(column="A", rule=None, limits=ValueRange(0.0, 1.0))
    spec = ComparisonSpec(run=many, candidate=None, baseline=None, metrics=[metric], kpis=[])
    interval = compute(spec).metric_intervals["A"]
    mean = 0.9 - 0.8 * 6 / count
    assert interval.low < mean < interval.high
    assert compute(spec).metric_intervals["A"] == interval


def test_kpi_interval__notes_points_and_extremes() -> None:
    alike = matrix_of_rows([row(item, 1.0, None) for item in "abcdef"], {1: ["A", "B"]}, ["A", "B"])
    spec = ComparisonSpec(
        run=alike,
        candidate=None,
        baseline=None,
        metrics=(),
        kpis=[
            KpiComparisonSpec(
                id=text,
                formula=text,
                is_judged=False,
                rule=None,
                limits=ValueRange(None, None),
            )
            for text in ("A * 2", "A.max - A.std", "B * 2")
        ],
    )
    intervals = compute(spec).kpi_intervals
    # Six equal values without limits say nothing of others.
    assert intervals["A * 2"].interval is None
    assert intervals["A * 2"].notes == (VerdictNote.ALL_ALIKE,)
    assert intervals["A.max - A.std"].notes == (VerdictNote.EXTREME,)
    assert intervals["B * 2"].notes == ()


def test_trial_statistics__of_items_with_several_trials() -> None:
    # Item 0 passes both trials, item 1 one of two, item 2 has only one that was measured.
    item_index = np.array([0, 0, 1, 1, 2, 2])
    statistics = trial_statistics(
        reduce_trials(item_index, np.array([1.0, 1.0, 1.0, 0.0, 1.0, np.nan]), 3)
    )
    assert statistics == [
        RepeatedTrials(k=1, items=3, pass_at_k=2.5 / 3, pass_hat_k=2.5 / 3, at_least_k=1.0),
        RepeatedTrials(k=2, items=2, pass_at_k=1.0, pass_hat_k=0.5, at_least_k=0.5),
    ]


def test_trial_statistics__none_for_single_trials_and_grades() -> None:
    assert trial_statistics(reduce_trials(np.array([0, 1]), np.array([1.0, 0.0]), 2)) == []
    assert trial_statistics(reduce_trials(np.array([0, 0]), np.array([0.5, 1.0]), 1)) == []
    assert trial_statistics(reduce_trials(np.array([], dtype=np.intp), np.array([]), 0)) == []


def test_trial_statistics__at_most_ten_rows() -> None:
    statistics = trial_statistics(reduce_trials(np.zeros(30, dtype=np.intp), np.ones(30), 1))
    assert [row_k.k for row_k in statistics] == [*range(1, 11)]


def test_pair_items__items_beyond_the_limit_are_neither_new_nor_missing() -> None:
    everything = [f"item-{number}" for number in range(12)]
    # Items beyond the limit are left out by their digest, so
    # that both runs leave out the same ones.
    by_digest = sorted(everything, key=lambda item: hashlib.md5(item.encode()).hexdigest())
    # The base shows its first 8 of 12; the candidate lacks the first, and shows 8 of 11.
    base = replace(table(*sorted(by_digest[:8])), left_out=4)
    candidate = replace(table(*sorted(by_digest[1:9])), left_out=3)
    pairing = pair_items(base, candidate)
    assert pairing.candidate.items == sorted(by_digest[1:8])
    assert (pairing.only_baseline, pairing.only_candidate, pairing.left_out) == (1, 0, 4)
