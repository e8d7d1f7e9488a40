"""The judges of a run that ends, against people."""

from mosaico.annotations.judge_answers import AnnotatedAnswer
from mosaico.annotations.measured_judge import JudgeScores
from mosaico.annotations.run_judge_measures import measure_run_judge

ITEMS = 40


def judge(left_out: int) -> JudgeScores:
    """A judge that is always right, of ten wrong answers among forty."""
    scores = {f"i-{number}": float(number % 4 != 0) for number in range(ITEMS)}
    answers = [AnnotatedAnswer("run", item, score, score) for item, score in scores.items()]
    return JudgeScores("LLM_JUDGE", answers, scores, {}, left_out)


def test_run_with_more_items_than_are_read__is_not_corrected_and_says_so() -> None:
    measured = measure_run_judge(judge(left_out=1_200), None)
    assert (measured.corrected.value, measured.agreement.share) == (None, 1.0)
    assert measured.corrected.reason is not None
    assert "1,200 more items" in measured.corrected.reason
    assert measured.corrected.remedy is not None
    assert measure_run_judge(judge(left_out=0), None).corrected.value == 0.75
