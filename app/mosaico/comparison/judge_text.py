"""The sentences about a judge: whose scores of equal answers changed, or which agrees too little with people; pure."""

from collections.abc import Iterable

from mosaico.comparison.change_text import format_amount
from mosaico.core.text import count_noun, format_decimal
from mosaico.kpis.judge_types import PeopleAgreement
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.statistics.verdict_rules import ChangeVerdict, Scale


def describe_judge(change: ChangeVerdict, scale: Scale) -> str:
    """What the judge did on equal answers; empty if it did nothing."""
    judge = change.judge
    if judge is None or judge.changed == 0:
        return ""
    share = format_decimal(100 * judge.changed / judge.answers, ".0f")
    shift = format_amount(judge.shift, scale, has_sign=True)
    consequence = (
        "This is the judge and not the agent: the interval takes it into account."
        if judge.counts
        else "If a judge gave these scores, it is not the same; the interval does not take that into account."
    )
    return (
        f"Of {count_noun(judge.answers, 'answer')} that did not change by a byte, {judge.changed} ({share} %) have another"
        f" score, by {shift} on average over all of them. {consequence}"
    )


def moved_scores(verdict: ValueVerdict) -> str:
    """What a judge did on equal answers, in a few words: "9 of 20 equal answers (45 %) have another score"; empty if it
    did nothing.
    """
    judged = verdict.judged_answers
    if judged is None or judged.changed == 0:
        return ""
    share = format_decimal(100 * judged.changed / judged.answers, ".0f")
    return (
        f"{judged.changed} of {count_noun(judged.answers, 'equal answer')} ({share} %)"
        f" {'has' if judged.changed == 1 else 'have'} another score"
    )


def describe_weak_judges(judges: Iterable[PeopleAgreement]) -> list[str]:
    """One sentence about each judge that agrees with people less than the benchmark requires."""
    return [_describe_weak(judge) for judge in judges]


def _describe_weak(judge: PeopleAgreement) -> str:
    required = f"the benchmark requires {_percent(judge.min_agreement or 0.0)} %"
    # The reason of an unknown agreement says what to do.
    remedy = "" if judge.share is None else "; check its scores"
    return f"{judge.metric} {describe_agreement(judge)}, and {required}{remedy}."


def describe_agreement(judge: PeopleAgreement) -> str:
    """How far a judge agrees with people, as a clause without its name."""
    if judge.share is None:
        return f"has no known agreement with people ({judge.reason or 'no answer is annotated'})"
    interval = ""
    if judge.low is not None and judge.high is not None:
        interval = f" (95 % CI {_percent(judge.low)} to {_percent(judge.high)} %)"
    answers = count_noun(judge.answers, "annotated answer")
    return f"agrees with people on {_percent(judge.share)} % of {answers}{interval}"


def _percent(share: float) -> str:
    """With a digit where the whole number would say another share."""
    return format_decimal(100 * share, ".1f").removesuffix(".0")
