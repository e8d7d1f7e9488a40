"""The numbers of a change as text."""

import pytest

from mosaico.comparison.change_text import (
    describe_change,
    format_change,
    format_headline,
)
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.statistics.verdict_rules import Scale


def verdict(**numbers: float | Scale) -> ValueVerdict:
    return ValueVerdict.model_validate({"explanation": "", **numbers})


FALL = verdict(
    scale=Scale.RATE,
    baseline_value=0.925,
    value=0.625,
    effect=-0.3,
    low=-0.449,
    high=-0.145,
    p=0.0004,
    p_adjusted=0.0004,
)


def test_format_change__has_values_change_interval_and_p() -> None:
    expected = "0.925 → 0.625, −0.300 (95 % CI −0.449 to −0.145, p < 0.001)"
    assert format_change(FALL) == expected
    # A share has no unit beside it.
    assert format_change(FALL, "ratio") == expected


def test_format_change__names_what_is_adjusted() -> None:
    update = {"p": 0.01, "p_adjusted": 0.03, "low_adjusted": -0.5, "high_adjusted": -0.05}
    text = describe_change(FALL.model_copy(update=update), Scale.RATE)
    assert text is not None
    assert text.change == ("−0.300 (adjusted 95 % CI −0.500 to −0.050, adjusted p 0.03)")


def test_format_change__ratio_is_in_percent_and_values_have_their_unit() -> None:
    slower = verdict(
        scale=Scale.RATIO, baseline_value=5010.2, value=5411.0, effect=0.08, low=0.012, high=0.153
    )
    assert format_change(slower, "ms") == "5,010 ms → 5,411 ms, +8.0 % (95 % CI 1.2 % to 15.3 %)"


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("tokens", 20.0, "0 tokens → 20 tokens, +20 tokens (95 % CI 10 to 30 tokens)"),
        ("USD", 0.002, "0.000 USD → 0.002 USD, +0.002 USD (95 % CI 0.001 to 0.003 USD)"),
        ("ms", 200.0, "0 ms → 200 ms, +200 ms (95 % CI 100 to 300 ms)"),
    ],
)
def test_format_change__from_zero_is_no_percentage(unit: str, value: float, text: str) -> None:
    change = verdict(
        scale=Scale.RATIO,
        baseline_value=0.0,
        value=value,
        effect=value,
        low=value / 2,
        high=1.5 * value,
    )
    assert format_change(change, unit) == text
    assert format_change(change.model_copy(update={"unit": unit})).endswith(text.split(", ")[1])


def test_format_headline__has_the_interval_that_decides() -> None:
    update = {"low_adjusted": -0.5, "high_adjusted": -0.05}
    adjusted = FALL.model_copy(update=update)
    assert format_headline(FALL) == "0.93 → 0.62 (−0.30, 95 % CI −0.45 to −0.14)"
    assert format_headline(adjusted) == "0.93 → 0.62 (−0.30, adjusted 95 % CI −0.50 to −0.05)"
