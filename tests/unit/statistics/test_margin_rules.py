"""The gate rule: the interval of a harm against a margin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.statistics.margins import (
    Harm,
    MarginOutcome,
    assess_drop,
    assess_non_inferiority,
    harm_of,
)
from mosaico.statistics.verdict_rules import Side

SEVERITY = {MarginOutcome.PASS: 0, MarginOutcome.INCONCLUSIVE: 1, MarginOutcome.FAIL: 2}
NUMBERS = st.floats(-1, 1)


@st.composite
def harms(draw: st.DrawFn) -> Harm:
    low, estimate, high = sorted(draw(st.tuples(NUMBERS, NUMBERS, NUMBERS)))
    return Harm(low, estimate, high)


@pytest.mark.parametrize(
    ("harm", "margin", "outcome"),
    [
        (Harm(0.05, 0.2, 0.35), 0.2, MarginOutcome.FAIL),
        (Harm(0.05, 0.2, 0.35), 0.21, MarginOutcome.INCONCLUSIVE),
        (Harm(0.05, 0.1, 0.15), 0.15, MarginOutcome.PASS),
        (Harm(-0.05, 0.3, 0.65), 0.2, MarginOutcome.INCONCLUSIVE),
        (Harm(-0.3, -0.1, 0.02), 0.02, MarginOutcome.PASS),
        (Harm(None, 0.0, None), 0.02, MarginOutcome.INCONCLUSIVE),
    ],
)
def test_assess_drop__by_hand(harm: Harm, margin: float, outcome: MarginOutcome) -> None:
    assert assess_drop(harm, margin) is outcome


@pytest.mark.parametrize(
    ("harm", "outcome"),
    [
        (Harm(-0.02, 0.0, 0.02), MarginOutcome.PASS),
        (Harm(-0.02, 0.0, 0.05), MarginOutcome.INCONCLUSIVE),
        (Harm(0.06, 0.1, 0.2), MarginOutcome.FAIL),
        (Harm(None, 0.0, None), MarginOutcome.INCONCLUSIVE),
    ],
)
def test_assess_non_inferiority__by_hand(harm: Harm, outcome: MarginOutcome) -> None:
    assert assess_non_inferiority(harm, 0.05) is outcome


def test_harm_of__is_positive_for_the_worse() -> None:
    assert harm_of(-0.2, -0.3, -0.1, Side.LOW) == Harm(0.1, 0.2, 0.3)
    assert harm_of(-0.2, -0.3, -0.1, Side.HIGH) == Harm(-0.3, -0.2, -0.1)
    assert harm_of(-0.2, -0.3, 0.1, Side.BOTH) == Harm(0.0, 0.2, 0.3)
    assert harm_of(-0.2, -0.3, -0.1, Side.BOTH) == Harm(0.1, 0.2, 0.3)


@given(harms(), NUMBERS.map(abs), st.tuples(*[NUMBERS.map(abs)] * 3), NUMBERS.map(abs))
def test_margin_rules__are_monotone(
    harm: Harm, margin: float, more: tuple[float, float, float], wider: float
) -> None:
    assert harm.low is not None
    assert harm.high is not None
    larger = Harm(harm.low + more[0], harm.estimate + more[1], harm.high + more[2])
    for judge in (assess_drop, assess_non_inferiority):
        outcome = SEVERITY[judge(harm, margin)]
        assert SEVERITY[judge(larger, margin)] >= outcome
        assert SEVERITY[judge(harm, margin + wider)] <= outcome
