"""The lines of the answer of a comparison of files."""

from mosaico.comparison.answer_text import display_name, draw_interval
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.statistics.verdict_rules import Scale, Side


def change(effect: float, low: float, high: float, side: Side = Side.LOW) -> ValueVerdict:
    return ValueVerdict(
        explanation="", effect=effect, low_adjusted=low, high_adjusted=high, min_effect=0.02,
        side=side, scale=Scale.RATE,
    )  # fmt: skip


def test_interval__without_direction_has_no_limit() -> None:
    assert "!" not in draw_interval(change(0.3, 0.2, 0.4, Side.BOTH))
    assert draw_interval(ValueVerdict(explanation="")) == ""


def test_display_name__of_a_score_has_no_frame() -> None:
    assert [display_name(name) for name in ('SCORE["a \\"b\\""]', "ROUGE", 'SCORE["a"]{x="1"}')] == [
        'a "b"', "ROUGE", 'SCORE["a"]{x="1"}',
    ]  # fmt: skip
