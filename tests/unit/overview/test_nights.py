"""The last nights of a pair: how far each is from usual, and what happened in it."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mosaico.overview.nights import (
    NightBounds,
    UsualLevel,
    build_nights,
    describe_nights,
    list_nights,
)
from mosaico.statistics.verdict_rules import Scale, Side, Verdict

RATE = UsualLevel(0.90, 0.10, Scale.RATE, Side.LOW)
COST = UsualLevel(0.004, 0.20, Scale.RATIO, Side.HIGH)


@pytest.mark.parametrize(
    ("usual", "value", "step"),
    [
        # 0.05, 0.1 and 0.15 are half, once and one and a half times what a run can show.
        (RATE, 0.86, 0), (RATE, 0.84, -1), (RATE, 0.79, -2), (RATE, 0.74, -3), (RATE, 0.97, 1), (RATE, 1.0, 2),
        # A cost of 0.0052 is 30 % more: one and a half times 20 %. Less is better.
        (COST, 0.0043, 0), (COST, 0.00521, -3), (COST, 0.003, 2),
        (RATE, None, None), (UsualLevel(0.9, None, Scale.RATE, Side.LOW), 0.1, 0),
    ],
)  # fmt: skip
def test_step__counts_from_the_usual_level(
    usual: UsualLevel, value: float | None, step: int | None
) -> None:
    assert usual.step_of(value) == step


def test_nights__are_the_days_of_the_reader() -> None:
    newest = datetime(2026, 11, 28, 23, 30, tzinfo=UTC)
    rome = list_nights(newest, ZoneInfo("Europe/Rome"), 2)
    assert [night.day for night in rome] == [date(2026, 11, 28), date(2026, 11, 29)]
    assert rome[0].since == datetime(2026, 11, 27, 23, tzinfo=UTC)
    assert rome[1].until == datetime(2026, 11, 29, 23, tzinfo=UTC)
    assert list_nights(newest, ZoneInfo("UTC"), 2)[-1].day == date(2026, 11, 28)


def test_drop__is_marked_in_the_night_in_which_it_began() -> None:
    start = datetime(2026, 11, 24, tzinfo=UTC)
    bounds = [
        NightBounds((start + timedelta(days=n)).date(), start + timedelta(days=n), start + timedelta(days=n + 1))
        for n in range(5)
    ]  # fmt: skip
    days = [night.day for night in bounds]
    values = {
        days[0]: (0.9, Verdict.NO_EVIDENCE),
        days[1]: (0.7, Verdict.REGRESSED),
        days[3]: (0.7, Verdict.REGRESSED),
    }
    nights = build_nights(bounds, values, {days[4]: ["FAILED", "SAME_ANSWERS"]}, RATE)
    assert [night.outcome for night in nights] == [None, "REGRESSED", None, None, "FAILED"]
    assert [night.step for night in nights] == [0, -3, None, -3, None]
    assert [text for _, text in describe_nights(nights)] == [
        "much worse, regressed", "no run", "much worse", "failed",
    ]  # fmt: skip
