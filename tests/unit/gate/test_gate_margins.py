"""Limits that a gate is given: the largest drop, and a margin of non-inferiority."""

import pytest

from mosaico.gating.rules import GateOutcome, GateTerms, decide
from mosaico.statistics.verdict_rules import (
    ChangeVerdict,
    Side,
    VerdictNote,
)
from tests.unit.gate.changes import SAME, UNSURE, WORSE, compared, judged


@pytest.mark.parametrize(
    ("change", "max_drop", "outcome"),
    [
        # -0.3 … -0.1: proved; it reaches 0.2 and 0.15, and 0.31 rules out more.
        (WORSE, 0.15, GateOutcome.REGRESSION),
        (WORSE, 0.2, GateOutcome.REGRESSION),
        (WORSE, 0.31, GateOutcome.PASS),
        # Proved, but below the limit, which the interval exceeds: neither is proved.
        (WORSE, 0.25, GateOutcome.INCONCLUSIVE),
        (UNSURE, 0.05, GateOutcome.INCONCLUSIVE),
        (UNSURE, 0.14, GateOutcome.PASS),
    ],
)
def test_max_drop__fails_on_proof_and_passes_on_proof(
    change: ChangeVerdict, max_drop: float, outcome: GateOutcome
) -> None:
    terms = GateTerms(max_drop={"quality": max_drop})
    assert decide(compared({"quality": change}), terms).outcome is outcome


@pytest.mark.parametrize(
    ("kpi", "outcome"),
    [
        # The interval of the change: -0.01…0.01, -0.13…0.07, -0.3…-0.1; and of a price its mirror.
        (SAME, GateOutcome.PASS),
        (UNSURE, GateOutcome.INCONCLUSIVE),
        (WORSE, GateOutcome.REGRESSION),
        (judged(0.2, 0.1, 0.001, side=Side.HIGH), GateOutcome.REGRESSION),
        (judged(-0.2, 0.1, 0.001, side=Side.HIGH), GateOutcome.PASS),
        (judged(0.0, 0.01, 0.9, side=Side.BOTH), GateOutcome.PASS),
        (judged(0.2, 0.1, 0.001, side=Side.BOTH), GateOutcome.CHANGED),
    ],
)
def test_non_inferiority__follows_the_interval(kpi: ChangeVerdict, outcome: GateOutcome) -> None:
    result = decide(
        compared({"quality": kpi}), GateTerms(non_inferiority_margins={"quality": 0.05})
    )
    assert result.outcome is outcome


def test_non_inferiority__too_few_items_prove_nothing() -> None:
    alike = judged(0.0, 0.0, 1.0, items=3, notes=(VerdictNote.IDENTICAL, VerdictNote.FEW_ITEMS))
    result = decide(
        compared({"quality": alike}), GateTerms(non_inferiority_margins={"quality": 0.05})
    )
    assert result.outcome is GateOutcome.INCONCLUSIVE
    assert "items are too few" in result.checks[0].reason


@pytest.mark.parametrize(
    ("items", "outcome"),
    [
        # Of items of which none among n changed, so many may: 1 - 0.025 ** (1 / n).
        (20, GateOutcome.INCONCLUSIVE),  # 16.8 %
        # Beside the margin of 5 %.
        (71, GateOutcome.INCONCLUSIVE),  # 5.06 %
        (72, GateOutcome.PASS),  # 4.99 %
    ],
)
def test_non_inferiority__unchanged_items_prove_it_when_there_are_many(
    items: int, outcome: GateOutcome
) -> None:
    like = judged(0.0, 0.0, 1.0, items=items, notes=(VerdictNote.IDENTICAL,))
    result = decide(
        compared({"quality": like}), GateTerms(non_inferiority_margins={"quality": 0.05})
    )
    assert result.outcome is outcome
