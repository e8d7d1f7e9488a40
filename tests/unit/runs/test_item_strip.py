"""The strip of an item over nights; the states are by hand."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from mosaico.run_store.deciding_metric import DecidingMetric
from mosaico.run_store.item_nights import ItemNight
from mosaico.runs.pages.item_strip import build_strip, find_fall

ROME = ZoneInfo("Europe/Rome")
FIRST = datetime(2026, 11, 1, 6, tzinfo=UTC)
DECIDER = DecidingMetric("ACCURACY")


def nights(marks: str, agent: str = "a") -> list[ItemNight]:
    """One night for each mark: ✓ right, ✗ wrong, e not measured, - without a trace."""
    values: dict[str, list[float | None]] = {"✓": [1.0], "✗": [0.0], "e": [None]}
    return [
        ItemNight(
            run_id=f"{agent}-{day}",
            agent_id=agent,
            created_at=FIRST + timedelta(days=day),
            values=values.get(mark),
            traces=int(mark != "-"),
        )
        for day, mark in enumerate(marks)
    ]


def states(marks: str) -> list[str]:
    strip = build_strip(
        nights(marks), DECIDER, {}, ROME, (None, "a-0"), "a", lambda night: night.run_id
    )
    return [cell.state if cell else "" for cell in strip.rows[0].cells]


def test_strip__wrong_after_three_right_nights_fell() -> None:
    assert states("✓✓✗✓✓✓✗✗") == [
        "right", "right", "wrong", "right", "right", "right", "fell", "wrong",
    ]  # fmt: skip


def test_strip__a_night_without_a_trace_or_a_value_is_neither() -> None:
    assert states("✓✓-✓e✗") == ["right", "right", "none", "right", "unknown", "fell"]


def test_strip__agents_have_the_same_days_and_the_own_agent_is_first() -> None:
    both = [*nights("✓✗", "a"), *nights("-✓✓", "b")]
    strip = build_strip(
        both, DECIDER, {"a": "Alpha"}, ROME, ("b-1", "b-2"), "b", lambda n: n.run_id
    )
    assert strip.days == ["1 Nov", "2 Nov", "3 Nov"]
    assert [row.agent for row in strip.rows] == ["b", "Alpha"]
    assert [(row.right, row.measured) for row in strip.rows] == [(2, 2), (1, 2)]
    assert strip.rows[1].cells[2] is None
    assert [cell.mark for cell in strip.rows[0].cells if cell] == ["", "A", "B"]


def test_strip__of_several_runs_on_one_day_the_newest_counts() -> None:
    first, second = nights("✓✗")
    same_day = [first, second._replace(created_at=first.created_at + timedelta(hours=1))]
    strip = build_strip(same_day, DECIDER, {}, ROME, (None, ""), "a", lambda n: n.run_id)
    assert [cell.url for cell in strip.rows[0].cells if cell] == ["a-1"]
    assert strip.cut_days == 1


def test_find_fall__is_the_last_right_night_before_a_wrong_one() -> None:
    fall = find_fall(nights("✓✗✓-✗✗"), DECIDER, "a")
    assert fall is not None
    assert [night.run_id for night in fall] == ["a-2", "a-4"]
    assert find_fall(nights("✓✓"), DECIDER, "a") is None
    assert find_fall(nights("✓✗"), None, "a") is None
