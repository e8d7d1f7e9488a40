"""A judge of a run that ends, and what people say of its scores: what goes to a child process, and what comes back."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mosaico.annotations.judge_answers import AnnotatedAnswer
from mosaico.annotations.queues import RatedMetric
from mosaico.kpis.judge_types import PeopleAgreement


class JudgeScores(NamedTuple):
    """A judge of a run: its annotated answers, and where a KPI is corrected, its mean score of each item of the run; all as
    shares. `clusters` are those of the items, none without clusters; `left_out` items of the run are not read.
    """

    column: str
    answers: Sequence[AnnotatedAnswer]
    scores: Mapping[str, float]
    clusters: Mapping[str, str]
    left_out: int = 0


class CorrectedShare(NamedTuple):
    """The corrected mean of the scores of a run as a share, with its 95 % interval; None with a reason and a remedy."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    remedy: str | None = None


class MeasuredJudge(NamedTuple):
    """A judge of a run against people. `scale` are its worst and its best value; None where nothing says them."""

    agreement: PeopleAgreement
    corrected: CorrectedShare
    scale: RatedMetric | None = None
