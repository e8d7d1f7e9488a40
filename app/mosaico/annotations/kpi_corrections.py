"""The KPIs of a run that annotations correct; pure.

The value of the KPI and its interval are what people would give, and so are its thresholds. Its verdict compares the
scores of the judge: the same annotations correct two runs by the same line, whose constant cancels in their difference,
so that they add nothing but their noise to the question whether the runs differ (`mosaico.statistics.carried_correction`).
For the same reason a series of runs is one of scores: a corrected value moves when somebody annotates an answer.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from mosaico.annotations.measured_judge import MeasuredJudge
from mosaico.annotations.run_judges import RunJudges
from mosaico.core.text import count_noun
from mosaico.kpis.evaluate import KpiValue
from mosaico.kpis.judge_types import KpiCorrection
from mosaico.kpis.number_text import format_value
from mosaico.kpis.verdict_types import RunVerdicts, ValueVerdict
from mosaico.statistics.intervals import Interval

COMPARES_SCORES = (
    "The value is corrected by annotations; the comparison is that of the scores of the judge, because the same annotations"
    " correct both runs alike."
)


class CorrectedKpis(NamedTuple):
    """The KPIs of a run with their verdicts, and one line about those that could not be corrected."""

    kpis: list[KpiValue]
    verdicts: RunVerdicts
    warning: str | None


def correct_kpis(
    judges: RunJudges, kpis: Sequence[KpiValue], verdicts: RunVerdicts
) -> CorrectedKpis:
    """The KPIs of a run, those that annotations correct with their corrected values and intervals; a KPI that cannot be
    corrected keeps its value, and says why.
    """
    values: list[KpiValue] = []
    intervals, value_verdicts = dict(verdicts.kpi_intervals), dict(verdicts.kpis)
    warnings = []
    for value in kpis:
        judge, kpi_id = judges.of_kpi(value.kpi), value.kpi.id
        if judge is None or value.value is None:
            values.append(value)
            continue
        interval = _interval(judge)
        correction = _correction(value, value.value, judge, interval, intervals.get(kpi_id))
        if interval is None:
            warnings.append(f"KPI {value.kpi.name}: {correction.explanation}")
            values.append(replace(value, correction=correction))
            continue
        values.append(replace(value, value=_value(judge), correction=correction))
        intervals[kpi_id] = interval
        value_verdicts[kpi_id] = _of_scores(value_verdicts[kpi_id])
    corrected = replace(verdicts, kpis=value_verdicts, kpi_intervals=intervals)
    return CorrectedKpis(values, corrected, "; ".join(warnings) or None)


def _value(judge: MeasuredJudge) -> float | None:
    share = judge.corrected.value
    return None if share is None or judge.scale is None else judge.scale.value_of(share)


def _interval(judge: MeasuredJudge) -> Interval | None:
    corrected, scale = judge.corrected, judge.scale
    if corrected.low is None or corrected.high is None or scale is None:
        return None
    low, high = sorted((scale.value_of(corrected.low), scale.value_of(corrected.high)))
    return Interval(low=low, high=high)


def _correction(
    value: KpiValue,
    raw_value: float,
    judge: MeasuredJudge,
    interval: Interval | None,
    raw: Interval | None,
) -> KpiCorrection:
    return KpiCorrection(
        raw_value=raw_value,
        raw_low=raw and raw.low,
        raw_high=raw and raw.high,
        answers=judge.agreement.answers,
        items=judge.agreement.items,
        reason=judge.corrected.reason,
        remedy=judge.corrected.remedy,
        explanation=_explain(value, raw_value, judge, interval),
    )


def _explain(
    value: KpiValue, raw_value: float, judge: MeasuredJudge, interval: Interval | None
) -> str:
    corrected, scale = judge.corrected, judge.scale
    if interval is None:
        remedy = f"; {corrected.remedy}" if corrected.remedy else ""
        return f"not corrected by annotations, the value is that of the judge alone: {corrected.reason}{remedy}"
    is_share = scale is not None and {scale.worst, scale.best} == {0.0, 1.0}
    low, high, alone = (
        format_value(number, value.kpi.unit, is_share=is_share)
        for number in (interval.low, interval.high, raw_value)
    )
    answers = count_noun(judge.agreement.answers, "annotated answer")
    return f"corrected by {answers} of the same judge (95 % CI {low} to {high}); the judge alone says {alone}"


def _of_scores(verdict: ValueVerdict) -> ValueVerdict:
    """The verdict, which says what it compares. The probability of reaching a threshold was that of the scores."""
    update: dict[str, object] = {"threshold_probability": None}
    if verdict.effect is not None:
        update["explanation"] = f"{verdict.explanation} {COMPARES_SCORES}"
        update["compares_scores"] = True
    return verdict.model_copy(update=update)
