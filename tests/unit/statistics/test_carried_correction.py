"""Means of a judge that annotations of other answers correct."""

import numpy as np
import pytest

from benchmarks.judges import measure_carried
from mosaico.statistics.carried_correction import (
    CarriedCorrection,
    JudgedRun,
    carry_correction,
)
from mosaico.statistics.judge_agreement import AnnotatedAnswers

# A judge that passes 27 of 30 right answers and 2 of 10 wrong ones.
ANNOTATIONS = [1.0] * 30 + [0.0] * 10
SCORES = [1.0] * 27 + [0.0] * 3 + [1.0] * 2 + [0.0] * 8


def correct(
    run: list[float], scores: list[float], annotations: list[float], units: list[int] | None = None
) -> CarriedCorrection:
    """The annotated answers are those of other items unless `units` says of which."""
    numbers = units or [*range(len(run), len(run) + len(scores))]
    answered = AnnotatedAnswers(np.array(scores), np.array(annotations), np.array(numbers))
    return carry_correction(JudgedRun(np.array(run), np.arange(len(run)), answered))


def test_line_of_the_judge__gives_the_mean_of_people() -> None:
    # Right answers have 0.9 on average, wrong ones 0.2: 55 % passed are (0.55 - 0.2) / 0.7 = 50 % right answers, although
    # people call 75 % of the annotated ones right.
    corrected = correct([1.0] * 110 + [0.0] * 90, SCORES, ANNOTATIONS)
    assert corrected.value == pytest.approx(0.5)
    assert corrected.interval is not None
    assert corrected.interval.low < 0.5 < corrected.interval.high < 0.8


def test_more_wrong_answers_among_the_annotated__keep_the_value_and_narrow_the_interval() -> None:
    run = [1.0] * 110 + [0.0] * 90
    few = correct(run, SCORES, ANNOTATIONS)
    chosen = correct(run, SCORES + SCORES[30:] * 4, ANNOTATIONS + ANNOTATIONS[30:] * 4)
    assert chosen.value == pytest.approx(0.5)
    assert few.interval is not None
    assert chosen.interval is not None
    assert chosen.interval.high - chosen.interval.low < few.interval.high - few.interval.low


def test_judge_that_never_contradicts__keeps_an_interval_of_errors_that_nobody_saw() -> None:
    corrected = correct([1.0] * 200, ANNOTATIONS, ANNOTATIONS)
    assert corrected.value == 1.0
    assert corrected.interval is not None
    assert corrected.interval.low < 0.97
    assert corrected.interval.high == 1.0


def test_graded_scores__are_corrected_by_their_means() -> None:
    # Right answers have 0.8 and 0.9 in turn, wrong ones 0.4 and 0.5: (0.65 - 0.45) / 0.4 = 0.5.
    scores = [0.8, 0.9] * 15 + [0.4, 0.5] * 5
    corrected = correct([0.65] * 50 + [0.6, 0.7] * 25, scores, ANNOTATIONS)
    assert corrected.value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("scores", "annotations", "words"),
    [
        ([], [], "0 of at least 10"),
        (SCORES[:9], ANNOTATIONS[:9], "9 of at least 10"),
        # Four wrong answers say too little of how the judge scores wrong ones.
        (SCORES[:34], ANNOTATIONS[:34], "4 of at least 5 annotated answers wrong"),
        # It passes half of the right and half of the wrong answers.
        ([1.0, 0.0] * 20, ANNOTATIONS, "do not show"),
        # It scores wrong answers higher.
        ([1.0 - score for score in SCORES], ANNOTATIONS, "do not show"),
    ],
)
def test_too_little_known_of_the_judge__has_a_reason_and_no_value(
    scores: list[float], annotations: list[float], words: str
) -> None:
    corrected = correct([1.0] * 50 + [0.0] * 50, scores, annotations)
    assert (corrected.value, corrected.interval) == (None, None)
    assert corrected.reason is not None
    assert words in corrected.reason
    assert corrected.remedy is not None


def test_scores_that_no_mixture_of_answers_has__are_not_corrected() -> None:
    # Wrong answers have 0.5 or 0.6, so that a run of 0.1 is another kind of answers.
    scores = [0.9, 1.0] * 15 + [0.5, 0.6] * 5
    corrected = correct([0.1, 0.12] * 50, scores, ANNOTATIONS)
    assert corrected.value is None
    assert corrected.reason is not None
    assert "lower than" in corrected.reason


def test_answers_of_one_item__are_one_piece_of_evidence() -> None:
    run = [1.0] * 110 + [0.0] * 90
    alone = correct(run, SCORES, ANNOTATIONS)
    # Each annotated item in four runs, with the same answer.
    again = correct(run, SCORES * 4, ANNOTATIONS * 4, [*range(200, 240)] * 4)
    assert alone.interval is not None
    assert again.interval is not None
    widths = [one.high - one.low for one in (alone.interval, again.interval)]
    # Only the contradictions that nobody saw are fewer.
    assert widths[1] == pytest.approx(widths[0], rel=0.35)
    assert widths[1] > 0.6 * widths[0]


def test_coverage__holds_where_the_agent_changed() -> None:
    found = measure_carried(50, "good: errs in 5 %", (0.8, 0.6), runs=100)
    assert found.corrected >= 0.9
    # What a sample of the run would have needed says something else of another run.
    assert found.as_a_sample < 0.8
