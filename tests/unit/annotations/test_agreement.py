"""Agreement of annotators: published and hand-computed values, references of three libraries, and what is not defined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.annotations.agreement import measure_agreement
from tests.support.references import IN_ONE_PROCESS, Reference

metrics = Reference("sklearn.metrics")
inter_rater = Reference("statsmodels.stats.inter_rater")
nltk_agreement = Reference("nltk.metrics.agreement")

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C: four observers, twelve units, gaps.
PUBLISHED = (
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)


def answers_of(*rows: str) -> list[dict[str, str]]:
    """What each annotator says of each answer; a dot is no annotation."""
    columns = zip(*(row.split() for row in rows), strict=True)
    return [
        {f"annotator-{place}": label for place, label in enumerate(labels) if label != "."}
        for labels in columns
    ]


def test_alpha__is_the_published_value_with_missing_annotations() -> None:
    alpha = measure_agreement(answers_of(*PUBLISHED)).alpha
    assert alpha.value == pytest.approx(0.743, abs=0.0005)
    # The last unit has one annotation.
    assert alpha.answers == 11
    assert alpha.low is not None
    assert alpha.high is not None
    assert alpha.low < 0.743 < alpha.high


@IN_ONE_PROCESS
def test_kappa__is_that_of_both_references() -> None:
    first = "right " * 8 + "wrong " * 9 + "partly " * 3
    second = "right " * 6 + "partly " * 2 + "wrong " * 8 + "right " * 2 + "partly " * 2
    [pair] = measure_agreement(answers_of(first, second)).pairs
    assert pair.kappa.value == pytest.approx(
        metrics.cohen_kappa_score(first.split(), second.split())
    )
    table, _ = inter_rater.to_table(
        list(
            zip(
                *(
                    [["right", "partly", "wrong"].index(label) for label in row.split()]
                    for row in (first, second)
                ),
                strict=True,
            )
        )
    )
    reference = inter_rater.cohens_kappa(table)
    # The reference has a standard error for large samples: a normal interval, of nearly the same width.
    assert pair.kappa.low == pytest.approx(reference.kappa_low, abs=0.05)
    assert pair.kappa.high == pytest.approx(min(1.0, reference.kappa_upp), abs=0.05)
    assert (pair.equal, pair.kappa.answers) == (6 + 8 + 2, 20)


def test_kappa__of_a_pair_is_about_the_answers_that_both_judged() -> None:
    # Of the first four, two are equal, as many as by chance: both say right of half of them.
    agreement = measure_agreement(
        answers_of("right right wrong wrong right", "right wrong wrong right .", ". . . . right")
    )
    pair = next(pair for pair in agreement.pairs if pair.second == "annotator-1")
    assert (pair.equal, pair.kappa.answers) == (2, 4)
    assert pair.kappa.value == pytest.approx(0.0)
    assert pair.kappa.low is None
    assert pair.kappa.reason is not None


def test_agreement__of_one_word_is_not_defined() -> None:
    agreement = measure_agreement(answers_of("right " * 12, "right " * 12))
    [pair] = agreement.pairs
    for measure in (agreement.alpha, pair.kappa):
        assert measure.value is None
        assert measure.reason is not None
    assert pair.equal == 12


def test_agreement__that_is_full_has_no_interval() -> None:
    words = "right " * 6 + "wrong " * 6
    alpha = measure_agreement(answers_of(words, words)).alpha
    assert (alpha.value, alpha.low) == (1.0, None)
    assert alpha.reason is not None


def test_agreement__without_a_shared_answer_has_no_value() -> None:
    agreement = measure_agreement(answers_of("right .", ". wrong"))
    assert (agreement.alpha.value, agreement.alpha.answers, agreement.pairs) == (None, 0, [])


labels = st.sampled_from(["right", "wrong", "partly", ""])


@IN_ONE_PROCESS
@given(st.lists(st.tuples(labels, labels, labels), min_size=2, max_size=30))
def test_agreement__equals_nltk(rows: list[tuple[str, str, str]]) -> None:
    """Of three annotators, who left some answers out."""
    answers = [{f"a{n}": label for n, label in enumerate(row) if label} for row in rows]
    shared = [answer for answer in answers if len(answer) > 1]
    if len({label for answer in shared for label in answer.values()}) < 2:
        return
    agreement = measure_agreement(answers)
    task = nltk_agreement.AnnotationTask(
        [(name, n, label) for n, answer in enumerate(shared) for name, label in answer.items()]
    )
    assert agreement.alpha.value == pytest.approx(task.alpha(), abs=1e-12)
    for pair in agreement.pairs:
        both = [answer for answer in answers if {pair.first, pair.second} <= answer.keys()]
        if len({answer[name] for answer in both for name in (pair.first, pair.second)}) < 2:
            assert pair.kappa.value is None
            continue
        pairwise = nltk_agreement.AnnotationTask(
            [
                (name, n, answer[name])
                for n, answer in enumerate(both)
                for name in (pair.first, pair.second)
            ]
        )
        assert pair.kappa.value == pytest.approx(
            pairwise.kappa_pairwise(pair.first, pair.second), abs=1e-12
        )
