"""Means of a judge that are corrected by annotations."""

from typing import Any

import numpy as np
import pytest

from benchmarks.judges import measure_coverage
from mosaico.statistics.corrected_mean import CorrectedMean, JudgedItems, correct_mean
from mosaico.statistics.intervals import Interval


def correct(scores: list[float], annotations: list[float], **options: Any) -> CorrectedMean:
    """The annotations are those of the first items."""
    people = np.full(len(scores), np.nan)
    people[: len(annotations)] = annotations
    judged = JudgedItems(
        scores=np.array(scores),
        annotations=people,
        annotated_scores=np.where(np.isfinite(people), scores, np.nan),
        units=np.arange(len(scores)),
    )
    return correct_mean(judged._replace(**options))


def width(interval: Interval | None) -> float:
    assert interval is not None
    return interval.high - interval.low


# A judge that passes 4 of 12 wrong answers, and fails none of 28 right ones.
ANNOTATED = [1.0] * 28 + [0.0] * 12
SCORES = [1.0] * 28 + [1.0] * 4 + [0.0] * 8


def test_a_kind_judge__is_corrected_by_the_slope() -> None:
    # 90 % of 400 pass. Of the annotated 32 of 40 pass; the slope is 28/32 - 0/8.
    rest = [1.0] * 328 + [0.0] * 32
    found = correct(SCORES + rest, ANNOTATED)
    assert found.weight == pytest.approx(0.875)
    assert found.value == pytest.approx(0.7 + 0.875 * (0.9 - 0.8))
    assert found.interval is not None
    assert found.interval.low < 0.7875 < found.interval.high
    assert width(found.interval) < width(found.alone)


def test_a_judge_that_says_nothing__leaves_the_annotations_alone() -> None:
    scores = [1.0, 0.0] * 20 + [1.0] * 100
    found = correct(scores, [1.0, 1.0, 0.0, 0.0] * 10)
    assert found.weight == 0.0
    assert found.value == pytest.approx(0.5)
    assert found.interval == found.alone


def test_a_judge_that_is_always_the_same__is_not_used() -> None:
    found = correct([1.0] * 100, ANNOTATED)
    assert found.weight == 0.0
    assert found.value == pytest.approx(0.7)


def test_agreement_of_all_annotations__does_not_prove_the_judge() -> None:
    scores = ([1.0] * 16 + [0.0] * 4) * 50
    found = correct(scores, scores[:20])
    # As if the judge never erred the interval would have a width of 0.05.
    assert width(found.interval) > 0.15
    assert width(found.interval) < width(found.alone)


def test_few_annotated_items__give_no_mean() -> None:
    found = correct([1.0, 0.0] * 50, [1.0, 0.0] * 4)
    assert found.value is None
    assert found.interval is None
    assert "8 of at least 10" in (found.reason or "")


def test_items_without_a_score__give_no_mean() -> None:
    found = correct([1.0] * 99 + [np.nan], ANNOTATED)
    assert found.value is None
    assert "1 of 100" in (found.reason or "")


def test_clusters__count_as_one_each() -> None:
    scores = SCORES + [1.0] * 328 + [0.0] * 32
    single = correct(scores, ANNOTATED)
    clustered = correct(scores, ANNOTATED, units=np.arange(400) // 4)
    assert clustered.value == pytest.approx(single.value)
    assert width(clustered.interval) > width(single.interval)
    assert "clusters" in (correct(scores, ANNOTATED, units=np.arange(400) // 8).reason or "")


def test_scores_of_another_scale__are_corrected_to_that_of_annotations() -> None:
    rest = [5.0] * 328 + [1.0] * 32
    scores = [1.0 + 4.0 * score for score in SCORES] + rest
    found = correct(scores, ANNOTATED)
    assert found.value == pytest.approx(0.7 + 0.875 * (0.9 - 0.8))


def test_amounts__have_the_same_correction_without_limits() -> None:
    scores = [1e6 + 1e3 * score for score in SCORES + [1.0] * 328 + [0.0] * 32]
    people = [1e6 + 1e3 * score for score in ANNOTATED]
    found = correct(scores, people, limits=None)
    assert found.value == pytest.approx(1e6 + 787.5)
    assert width(found.interval) < width(found.alone)


def test_simulated_interval_of_a_kind_judge__has_the_truth_and_is_narrower() -> None:
    found = measure_coverage(
        (50, 200), "kind: passes 60 % of the wrong", rate=0.8, size=1, runs=200
    )
    # Of 200 runs 95 % have a standard error of 1.5.
    assert found.corrected > 0.9
    assert found.judge < 0.1
    assert found.width < 1.0
