"""What a judge did on answers that did not change is no change of the agent."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

from mosaico.comparison.child_computation import compute
from mosaico.comparison.comparison_spec import ComparisonSpec, MetricComparisonSpec
from mosaico.comparison.verdict_text import render_verdict
from mosaico.items.matrix import ItemMatrix, ItemRow, answer_digest, matrix_of_rows
from mosaico.statistics.judge_drift import AnswerScores, measure_drift
from mosaico.statistics.verdict_rules import (
    About,
    ChangeVerdict,
    Judgement,
    Scale,
    Side,
    Verdict,
    VerdictRule,
)
from tests.support.compared_runs import RATE


class Scored(NamedTuple):
    answer: str
    score: float


def run_of(items: Sequence[Sequence[Scored]]) -> ItemMatrix:
    """A run with the scored answers of the trials of each item."""
    rows = [
        ItemRow(0, f"q{item:03d}", "r", [], [trial.score], answer=answer_digest(trial.answer))
        for item, trials in enumerate(items)
        for trial in trials
    ]
    return matrix_of_rows(rows, {0: ["LLM_JUDGE"]}, ["LLM_JUDGE"])


def change_of(
    before: ItemMatrix,
    after: ItemMatrix,
    about: About | None = None,
    judgement: Judgement | None = Judgement.JUDGE,
) -> ChangeVerdict:
    metric = MetricComparisonSpec(
        column="LLM_JUDGE",
        rule=VerdictRule(side=Side.LOW),
        limits=RATE,
        is_judged=True,
        judgement=judgement,
    )
    spec = ComparisonSpec(
        run=after, candidate=after, baseline=before, metrics=[metric], kpis=(), about=about
    )
    return compute(spec).metrics["LLM_JUDGE"]


def stricter(trials: int, new_answers: int) -> tuple[ItemMatrix, ItemMatrix]:
    """Forty items whose scores fall from about 0.9 to about 0.6; `new_answers` of them have other answers."""
    random = np.random.default_rng(43)
    runs = [
        [
            [
                Scored(
                    f"{night if item < new_answers else 'same'} {item}",
                    float(np.clip(level + random.normal(0, 0.05), 0, 1)),
                )
                for _ in range(trials)
            ]
            for item in range(40)
        ]
        for night, level in (("monday", 0.9), ("tuesday", 0.6))
    ]
    return run_of(runs[0]), run_of(runs[1])


@pytest.mark.parametrize(("trials", "about"), [(1, About.POPULATION), (3, About.TASKS)])
def test_stricter_judge__is_no_regression_of_the_agent(trials: int, about: About) -> None:
    runs = stricter(trials, new_answers=20)
    change = change_of(*runs)
    assert change.about is about
    assert change.verdict is Verdict.INCONCLUSIVE
    assert change.judge is not None
    assert (change.judge.answers, change.judge.changed) == (20, 20)
    assert change.judge.shift == pytest.approx(-0.3, abs=0.03)
    assert change_of(*runs, judgement=None).verdict is Verdict.REGRESSED
    verdict = render_verdict("LLM_JUDGE", change, Scale.RATE)
    assert verdict.judged_answers is not None
    assert verdict.judged_answers.changed == 20
    assert "20 (100 %)" in verdict.explanation


def test_steady_judge__leaves_the_verdict_as_it_is() -> None:
    before = [[Scored(f"a{item}", 0.9)] for item in range(40)]
    # Half of the answers are other ones, and worse; the scores of equal answers are equal.
    after = [[Scored(f"b{item}", 0.4)] if item % 2 else before[item] for item in range(40)]
    change = change_of(run_of(before), run_of(after))
    plain = change_of(run_of(before), run_of(after), judgement=None)
    assert (change.verdict, change.p, change.low) == (Verdict.REGRESSED, plain.p, plain.low)
    assert change.judge is not None
    assert (change.judge.answers, change.judge.changed) == (20, 0)
    assert "judge" not in render_verdict("LLM_JUDGE", change, Scale.RATE).explanation


def judged(scores: Sequence[float], answers: Sequence[int] | None = None) -> AnswerScores:
    items = np.arange(len(scores))
    digests = items + 1 if answers is None else np.array(answers)
    return AnswerScores(np.array(scores), items, digests)


def test_drift__by_hand() -> None:
    found = measure_drift(judged([1.0, 1.0, 1.0, 1.0]), judged([0.0, 0.5, 0.0, 0.5]))
    assert found is not None
    assert found.drift[:3] == (4, 4, -0.75)
    # The changes have the variance 1/12 (four deviations of 0.25, three degrees), of which a quarter is chance.
    assert found.variance == pytest.approx(0.75**2 - (1 / 12) / 4)


def test_drift__that_goes_both_ways_is_chance() -> None:
    found = measure_drift(judged([0.5, 0.5, 0.5, 0.5]), judged([1.0, 0.0, 1.0, 0.0]))
    assert found is not None
    assert (found.drift.changed, found.variance) == (4, 0.0)


def test_checks_of_the_source__may_check_more_than_the_answer() -> None:
    before, after = (
        run_of([[Scored(f"a{item}", float(item >= failed))] for item in range(40)])
        for failed in (0, 20)
    )
    checks = change_of(before, after, judgement=Judgement.SOURCE)
    judge = change_of(before, after)
    assert (checks.verdict, judge.verdict) == (Verdict.REGRESSED, Verdict.INCONCLUSIVE)
    assert checks.judge is not None
    assert (checks.judge.changed, checks.judge.counts) == (20, False)
    assert "50 %" in render_verdict("SCORE", checks, Scale.RATE).explanation


@pytest.mark.parametrize(
    ("new_answers", "verdict"), [(20, Verdict.INCONCLUSIVE), (10, Verdict.REGRESSED)]
)
def test_graded_scores_of_the_source__are_a_judge_unless_most_answers_are_equal(
    new_answers: int, verdict: Verdict
) -> None:
    """They may judge what is not in the answer, such as the documents that were found."""
    change = change_of(*stricter(1, new_answers), judgement=Judgement.SOURCE)
    assert change.verdict is verdict
    assert change.judge is not None
    assert change.judge.changed == 40 - new_answers


def test_one_answer_to_all_items__says_nothing_about_the_judge() -> None:
    before, after = (run_of([[Scored("done", level)] for _ in range(40)]) for level in (0.9, 0.4))
    change = change_of(before, after)
    assert (change.verdict, change.judge) == (Verdict.REGRESSED, None)


def test_drift__needs_equal_answers_of_the_same_item() -> None:
    assert measure_drift(judged([1.0, 1.0], [1, 2]), judged([0.0, 0.0], [2, 1])) is None
    assert measure_drift(judged([1.0], [0]), judged([0.0], [0])) is None
    single = measure_drift(judged([1.0, 1.0], [1, 2]), judged([0.0, 1.0], [1, 3]))
    assert single is not None
    # One answer does not tell a shift from chance.
    assert (single.drift[:3], single.variance) == ((1, 1, -1.0), 0.0)


def test_shift__has_an_interval_by_items() -> None:
    def judged(scores: list[float], items: Sequence[int]) -> AnswerScores:
        return AnswerScores(np.array(scores), np.array(items), np.arange(1, len(scores) + 1))

    moves = [0.1, 0.3] * 10
    single = measure_drift(
        judged([0.5] * 20, range(20)), judged([0.5 + m for m in moves], range(20))
    )
    assert single is not None
    assert single.interval is not None
    # 0.2 and 2.093 times 0.1 * sqrt(20 / 19) / sqrt(20)
    assert (single.interval.low, single.interval.high) == pytest.approx((0.152, 0.248), abs=0.001)
    unmoved = measure_drift(judged([0.5] * 20, range(20)), judged([0.5] * 20, range(20)))
    assert unmoved is not None
    assert unmoved.interval is None
