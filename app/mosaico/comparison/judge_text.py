"""The sentences about a judge whose scores of equal answers changed; pure."""

from mosaico.comparison.change_text import format_amount
from mosaico.core.text import count_noun, format_decimal
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
