"""The judges of a run that ends, against people. Imports numpy; call it only in a process that computes."""

from collections.abc import Mapping, Sequence

import numpy as np

from mosaico.annotations.judge_answers import AnnotatedAnswer
from mosaico.annotations.measured_judge import CorrectedShare, JudgeScores, MeasuredJudge
from mosaico.kpis.judge_types import PeopleAgreement
from mosaico.run_store.deciding_metric import RIGHT_FROM
from mosaico.statistics.carried_correction import JudgedRun, carry_correction
from mosaico.statistics.judge_agreement import AnnotatedAnswers, measure_agreement


def measure_run_judge(judge: JudgeScores, min_agreement: float | None) -> MeasuredJudge:
    """The agreement of a judge, and the corrected mean of its scores where they were read, or could be if somebody had
    annotated an answer.
    """
    has_correction = judge.scores or not judge.answers
    corrected = _correct(judge) if has_correction else CorrectedShare()
    return MeasuredJudge(_agreement(judge, min_agreement), corrected)


def _agreement(judge: JudgeScores, min_agreement: float | None) -> PeopleAgreement:
    measured = measure_agreement(_as_arrays(judge.answers, judge.clusters, {}))
    share, interval = measured.share.value, measured.share.interval
    return PeopleAgreement(
        metric=judge.column,
        share=share,
        low=interval and interval.low,
        high=interval and interval.high,
        answers=measured.answers,
        items=measured.items,
        reason=f"{measured.share.reason}: annotate answers that it scored"
        if share is None
        else None,
        min_agreement=min_agreement,
    )


def _correct(judge: JudgeScores) -> CorrectedShare:
    if judge.left_out:
        return CorrectedShare(
            reason=f"the run has {judge.left_out:,} more items than are read",
            remedy="test fewer items, or fewer trials of each",
        )
    numbers: dict[str, int] = {}
    units = [_number(judge.clusters, numbers, item) for item in judge.scores]
    correction = carry_correction(
        JudgedRun(
            scores=np.array([*judge.scores.values()], dtype=np.float64),
            units=np.array(units, dtype=np.intp),
            answered=_as_arrays(judge.answers, judge.clusters, numbers),
        )
    )
    low, high = (
        (None, None)
        if correction.interval is None
        else (correction.interval.low, correction.interval.high)
    )
    return CorrectedShare(correction.value, low, high, correction.reason, correction.remedy)


def _as_arrays(
    answers: Sequence[AnnotatedAnswer], clusters: Mapping[str, str], numbers: dict[str, int]
) -> AnnotatedAnswers:
    """What a judge and people say of the same answers, by the cluster or the item; `numbers` get those that are new."""
    return AnnotatedAnswers(
        scores=np.array([answer.score for answer in answers], dtype=np.float64),
        annotations=np.array([answer.annotation for answer in answers], dtype=np.float64),
        units=np.array(
            [_number(clusters, numbers, answer.item_id) for answer in answers], dtype=np.intp
        ),
        limit=RIGHT_FROM,
    )


def _number(clusters: Mapping[str, str], numbers: dict[str, int], item: str) -> int:
    return numbers.setdefault(clusters.get(item, item), len(numbers))
