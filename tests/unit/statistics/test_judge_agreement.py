"""A judge against people."""

import numpy as np
import pytest

from mosaico.statistics.judge_agreement import AnnotatedAnswers, JudgeAgreement, measure_agreement


def agreement(both: int, kind: int, strict: int, neither: int, trials: int = 1) -> JudgeAgreement:
    """Answers that are right by both, by the judge only, by people only, and by neither."""
    scores = [1.0] * (both + kind) + [0.0] * (strict + neither)
    people = [1.0] * both + [0.0] * kind + [1.0] * strict + [0.0] * neither
    units = np.arange(len(scores)) // trials
    return measure_agreement(AnnotatedAnswers(np.array(scores), np.array(people), units))


def test_agreement__has_the_numbers_of_a_textbook() -> None:
    # Of 50: 20 and 15 agreed, 5 and 10 not. 35/50 equal; by chance 0.5 * 0.6 + 0.5 * 0.4 = 0.5.
    found = agreement(20, 5, 10, 15)
    assert found.share.value == pytest.approx(0.7)
    assert found.kappa.value == pytest.approx(0.4)
    assert found.bias.value == pytest.approx(-0.1)
    # The determinant of the table over the root of the product of its margins.
    assert found.correlation.value == pytest.approx(250 / (25 * 600**0.5))
    assert (found.too_kind, found.too_strict) == (5, 10)


def test_intervals__are_those_of_the_closed_forms() -> None:
    found = agreement(200, 50, 100, 150)
    # Cohen's large-sample error of kappa 0.4 with these margins, after Fleiss 1969, is about 0.040.
    interval = found.kappa.interval
    assert interval is not None
    assert (interval.high - interval.low) / 2 == pytest.approx(1.965 * 0.0405, rel=0.03)
    # 150 of 500 answers differ by 1, and their mean is -0.1: a variance of 0.3 - 0.01.
    assert found.bias.interval is not None
    assert found.bias.interval.high + 0.1 == pytest.approx(1.965 * (0.29 / 500) ** 0.5, rel=0.01)


def test_trials_of_one_item__widen_the_interval() -> None:
    single, repeated = agreement(20, 10, 10, 20).share, agreement(20, 10, 10, 20, trials=5).share
    assert single.value == repeated.value
    assert single.interval is not None
    assert repeated.interval is not None
    assert (
        repeated.interval.high - repeated.interval.low > single.interval.high - single.interval.low
    )


def test_few_items__have_no_interval_and_the_reason() -> None:
    found = agreement(5, 1, 1, 2)
    assert found.share.value == pytest.approx(7 / 9)
    assert found.share.interval is None
    assert "9 of at least 10" in (found.share.reason or "")


def test_few_wrong_answers__have_no_interval_of_kappa() -> None:
    found = agreement(40, 1, 2, 3)
    assert found.share.interval is not None
    assert found.kappa.value is not None
    assert found.kappa.interval is None
    assert "4 answers wrong" in (found.kappa.reason or "")


def test_full_agreement_about_right_answers__has_no_kappa() -> None:
    found = agreement(30, 0, 0, 0)
    assert found.share.value == 1.0
    assert found.share.interval is not None
    assert found.share.interval.low < 0.9
    assert found.kappa.value is None
    assert found.correlation.value is None


def test_no_annotation__has_no_measure() -> None:
    found = agreement(0, 0, 0, 0)
    measures = (found.share, found.kappa, found.bias, found.correlation)
    assert all(measure.value is None and measure.reason for measure in measures)


def test_large_scores__keep_their_correlation() -> None:
    scores = 1e9 + np.arange(20.0)
    found = measure_agreement(AnnotatedAnswers(scores, scores + 1, np.arange(20), limit=1e9 + 10))
    assert found.bias.value == pytest.approx(-1.0)
    assert found.correlation.value == pytest.approx(1.0)
