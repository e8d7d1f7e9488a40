"""The plan of one tick for a due schedule."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.schedules.clock_changes import clock_notes
from mosaico.schedules.cron import CronExpression, DstPolicy
from mosaico.schedules.preview import describe
from mosaico.schedules.rules import (
    FIRE_ALL_LIMIT,
    RECORDED_LIMIT,
    FireSkipReason,
    MisfirePolicy,
    MisfireRules,
    NeverFires,
    ScheduleTiming,
    TickPlan,
    first_instant,
    plan_tick,
    should_disable,
)
from mosaico.schedules.time_zones import UnknownTimeZone, get_time_zone
from tests.support.texts import assert_names

# A tick is never exactly on time: 12:00 counts as on time, not as missed.
NOW = datetime(2026, 11, 22, 12, 0, 0, 400_000, tzinfo=UTC)


def timing(cron: str, zone: str = "UTC") -> ScheduleTiming:
    return ScheduleTiming(cron_expression=cron, timezone=zone, dst_policy=DstPolicy.SPRING)


def plan(
    cron: str, due: datetime, policy: MisfirePolicy, window: timedelta = timedelta(days=1)
) -> TickPlan:
    return plan_tick(timing(cron), MisfireRules(policy=policy, catchup_window=window), due, NOW)


def at(hour: int, minute: int = 0, day: int = 22) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize("policy", MisfirePolicy)
def test_plan_tick__instant_on_time_fires_with_every_policy(policy: MisfirePolicy) -> None:
    tick_plan = plan("0 0 * * * *", at(12), policy)
    assert (tick_plan.fire, tick_plan.skip, tick_plan.next_run_at) == ((at(12),), (), at(13))


def test_plan_tick__skip_records_missed_and_fires_on_time() -> None:
    tick_plan = plan("0 0 * * * *", at(9), MisfirePolicy.SKIP)
    assert tick_plan.fire == (at(12),)
    assert [skipped.due_at for skipped in tick_plan.skip] == [at(9), at(10), at(11)]
    assert {skipped.reason for skipped in tick_plan.skip} == {FireSkipReason.MISSED}


def test_plan_tick__fire_once_fires_newest_missed_instant() -> None:
    tick_plan = plan("0 30 * * * *", at(8, 30), MisfirePolicy.FIRE_ONCE)
    assert tick_plan.fire == (at(11, 30),)
    assert [skipped.due_at for skipped in tick_plan.skip] == [at(8, 30), at(9, 30), at(10, 30)]
    assert {skipped.reason for skipped in tick_plan.skip} == {FireSkipReason.COALESCED}
    assert tick_plan.next_run_at == at(12, 30)


def test_plan_tick__fire_once_skips_missed_if_one_is_on_time() -> None:
    tick_plan = plan("0 0 * * * *", at(10), MisfirePolicy.FIRE_ONCE)
    assert tick_plan.fire == (at(12),)
    assert [skipped.due_at for skipped in tick_plan.skip] == [at(10), at(11)]


def test_plan_tick__fire_all_fires_up_to_limit() -> None:
    tick_plan = plan("0 * * * * *", at(10), MisfirePolicy.FIRE_ALL)
    # 10:00 to 11:59 are 120 missed minutes; 12:00 is on time.
    assert len(tick_plan.fire) == FIRE_ALL_LIMIT + 1
    assert tick_plan.fire[0] == at(10, 20)
    assert [skipped.reason for skipped in tick_plan.skip] == [FireSkipReason.FIRE_ALL_LIMIT] * 20


def test_plan_tick__instants_outside_catchup_window_share_one_row() -> None:
    tick_plan = plan("0 0 * * * *", at(12, day=1), MisfirePolicy.FIRE_ALL, timedelta(hours=3))
    [skipped] = tick_plan.skip
    assert (skipped.due_at, skipped.reason) == (
        at(12, day=1),
        FireSkipReason.OUTSIDE_CATCHUP_WINDOW,
    )
    # 12:00:00.4 less three hours: 09:00:00 is the first instant of the window.
    assert skipped.range_end == at(8, 59) + timedelta(seconds=59)
    assert tick_plan.fire == (at(9), at(10), at(11), at(12))


@given(
    st.sampled_from(["* * * * * *", "*/7 * * * * *", "0 */5 * * * *", "0 0 0 * * *"]),
    st.sampled_from(MisfirePolicy),
    st.integers(0, 7 * 86_400),
    st.integers(0, 8 * 86_400),
)
def test_plan_tick__every_instant_is_in_plan_once(
    cron: str, policy: MisfirePolicy, late_s: int, window_s: int
) -> None:
    expression = CronExpression.parse(cron)
    due = expression.next(NOW - timedelta(seconds=late_s + 1))
    assert due is not None
    if due > NOW:
        return
    tick_plan = plan(cron, due, policy, timedelta(seconds=window_s))
    rows = sorted(
        [
            *((skipped.due_at, skipped.range_end or skipped.due_at) for skipped in tick_plan.skip),
            *((instant, instant) for instant in tick_plan.fire),
        ]
    )
    assert len(rows) <= RECORDED_LIMIT + 20
    assert rows[0][0] == due
    for (_, end), (start, _) in itertools.pairwise(rows):
        assert expression.next(end) == start
    assert expression.next(rows[-1][1]) == tick_plan.next_run_at
    assert tick_plan.next_run_at is not None
    assert tick_plan.next_run_at > NOW


def test_first_instant__expression_that_never_fires_is_rejected() -> None:
    for cron, says in (("0 0 0 30 2 *", "never fires"), ("0 0 0 ? * MON,TUE#6", "TUE#6")):
        with pytest.raises(NeverFires, match=says):
            first_instant(timing(cron), NOW)


@pytest.mark.parametrize("zone", ["Mars/Phobos", "", "../UTC", "europe/rome", "Europe", "/etc/x"])
def test_get_time_zone__unknown_name_is_rejected(zone: str) -> None:
    with pytest.raises(UnknownTimeZone):
        get_time_zone(zone)


def test_should_disable__at_last_failure_if_auto_disable() -> None:
    assert [should_disable(failures=n, max_failures=3, auto_disable=True) for n in (1, 2, 3)] == [
        False,
        False,
        True,
    ]
    assert not should_disable(failures=9, max_failures=3, auto_disable=False)


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 0 7 * * *", "at 07:00, every day"),
        ("0 0 7 * * MON-FRI", "at 07:00, Monday to Friday"),
        ("0 0 9,12,18 * * *", "at 09:00, 12:00 and 18:00, every day"),
        ("30 15 2 * * SUN", "at 02:15:30, Sunday"),
        ("@hourly", "every hour, on the hour"),
        ("0 */30 * * * *", "every 30 minutes"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("* * * * * *", "every second"),
        ("0 * * * * *", "every minute"),
        ("0 0 0 1 1 *", "at 00:00, on day 1, in January"),
        ("0 0 0 LW * *", "at 00:00, on the last weekday of the month"),
        (
            "0 0 0 L-3,15W * ?",
            "at 00:00, 3 days before the last of the month and on the weekday nearest to day 15",
        ),
        ("0 0 0 ? * FRIL", "at 00:00, the last Friday of the month"),
        ("0 0 0 ? * MON#2", "at 00:00, the second Monday of the month"),
        ("0 0 0 13 * FRI", "at 00:00, Friday, on day 13, if the weekday matches too"),
        ("0 0 */2 * * *", "every 2 hours"),
        (
            "0 */5 9-17 * * MON-FRI",
            "every 5 minutes, at hours 9 to 17 of the day, Monday to Friday",
        ),
    ],
)
def test_describe__expression_in_english(cron: str, words: str) -> None:
    assert describe(CronExpression.parse(cron)) == words


@pytest.mark.parametrize(
    ("cron", "zone", "policy", "notes"),
    [
        (
            "0 30 2 * * *",
            "Europe/Rome",
            DstPolicy.SPRING,
            [
                ("2026-03-29", "forward from 02:00 to 03:00", "does not fire"),
                ("2026-10-25", "back from 03:00 to 02:00", "fires twice"),
            ],
        ),
        (
            "0 30 1 * * *",
            "America/New_York",
            DstPolicy.ONCE,
            [("2026-11-01", "back from 02:00 to 01:00", "the first time only")],
        ),
        ("0 0 12 * * *", "Europe/Rome", DstPolicy.SPRING, []),
    ],
)
def test_clock_notes__clock_changes_are_described(
    cron: str, zone: str, policy: DstPolicy, notes: list[tuple[str, ...]]
) -> None:
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 12, 31, tzinfo=UTC)
    clock_changes = clock_notes(CronExpression.parse(cron), get_time_zone(zone), start, end, policy)
    for note, facts in zip(clock_changes, notes, strict=True):
        assert_names(note.text, *facts)
