"""Metrics that are the opinion of a judge."""

from typing import Final

from mosaico.statistics.verdict_rules import Judgement

_JUDGEMENTS: Final = {"LLM_JUDGE": Judgement.JUDGE, "SCORE": Judgement.SOURCE}


def judgement_of(column: str) -> Judgement | None:
    """Who gave the scores of a metric, which should not change while the answer does not; None for a value that is
    computed.
    """
    return _JUDGEMENTS.get(column.partition("[")[0].partition("{")[0])
