"""The lines of the answer of a comparison of files."""

import pytest

from mosaico.comparison.answer_text import display_name, draw_interval
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.statistics.verdict_rules import Scale, Side


def change(effect: float, low: float, high: float, side: Side = Side.LOW) -> ValueVerdict:
    return ValueVerdict(
        explanation="", effect=effect, low_adjusted=low, high_adjusted=high, min_effect=0.02,
        side=side, scale=Scale.RATE,
    )  # fmt: skip


@pytest.mark.parametrize("effect", [-0.3, -0.15, 0.2])
def test_interval__marks_are_in_the_order_of_their_values(effect: float) -> None:
    line = draw_interval(change(effect, effect - 0.05, effect + 0.05))
    bar = line.partition(" (")[0]
    order = sorted(
        [(effect - 0.05, "["), (effect, "o"), (effect + 0.05, "]"), (0.0, "0"), (-0.02, "!")]
    )
    places = [bar.index(mark) for _, mark in order if mark != "0"]
    assert places == sorted(places)


def test_interval__without_direction_has_no_limit() -> None:
    assert "!" not in draw_interval(change(0.3, 0.2, 0.4, Side.BOTH))
    assert draw_interval(ValueVerdict(explanation="")) == ""


def test_interval__without_direction_begins_at_0_without_a_sign() -> None:
    number = change(30.0, 20.0, 40.0, Side.BOTH).model_copy(update={"scale": Scale.NUMBER})
    assert draw_interval(number).startswith("0 ")


def test_display_name__of_a_score_has_no_frame() -> None:
    assert [display_name(name) for name in ('SCORE["a \\"b\\""]', "ROUGE", 'SCORE["a"]{x="1"}')] == [
        'a "b"', "ROUGE", 'SCORE["a"]{x="1"}',
    ]  # fmt: skip
