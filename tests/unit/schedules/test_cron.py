"""Cron expressions: reference instants, rejected expressions, and a brute-force comparison."""

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.schedules.cron import CronExpression, DstPolicy
from mosaico.schedules.cron_parser import MACROS, InvalidCron
from tests.unit.schedules.cron_fields import FieldSample, Numbers, expressions, numbers

HERE = Path(__file__).parent
VECTORS = json.loads((HERE / "cron_vectors.json").read_text())
INVALID = [case["expr"] for case in json.loads((HERE / "cron_invalid.json").read_text())]
ROME, NEW_YORK = ZoneInfo("Europe/Rome"), ZoneInfo("America/New_York")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
# Changes of half an hour (Lord Howe), of a whole day (Apia in 2011) and at midnight (Cairo,
# Santiago), and offsets of 45 and 30 minutes (Kathmandu, St. John's).
ZONES = st.sampled_from(
    [
        *("Europe/Rome", "America/New_York", "Australia/Lord_Howe", "UTC", "Africa/Cairo"),
        *("America/Santiago", "Pacific/Apia", "Asia/Kathmandu", "America/St_Johns"),
    ]
).map(ZoneInfo)
# The instants in UTC: two each of Rome, New York and Lord Howe;
# Apia, Cairo and Santiago; two of St. John's.
CHANGES = [
    *("2026-03-29T01:00", "2026-10-25T01:00", "2026-03-08T07:00", "2026-11-01T06:00"),
    *("2026-04-04T15:00", "2026-10-03T15:30", "2011-12-30T10:00", "2025-04-24T22:00"),
    *("2026-09-06T04:00", "2026-03-08T05:30", "2026-11-01T04:30"),
]
NEAR_A_CHANGE = st.sampled_from(CHANGES).flatmap(
    lambda text: st.integers(-7200, 7200).map(
        lambda shift: datetime.fromisoformat(text).replace(tzinfo=UTC) + timedelta(seconds=shift)
    )
)
# From 1990 to 2090.
ANY_INSTANT = st.integers(631_152_000, 3_786_912_000).map(lambda s: datetime.fromtimestamp(s, UTC))


def instants(
    text: str, start: str, count: int, zone: ZoneInfo, policy: DstPolicy = DstPolicy.SPRING
) -> list[str]:
    expression, at = CronExpression.parse(text), datetime.fromisoformat(start)
    instants_text = []
    for _ in range(count):
        following = expression.next(at, zone, policy=policy)
        assert following is not None
        at = following
        instants_text.append(at.isoformat())
    return instants_text


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['expr']} {v['tz']} {v['from']}")
def test_cron__expression_fires_at_given_instants(vector: dict[str, Any]) -> None:
    zone = ZoneInfo(vector["tz"])
    at: datetime | None = datetime.fromisoformat(vector["from"])
    expression = CronExpression.parse(vector["expr"])
    for expected in vector["next"]:
        assert at is not None
        at = expression.next(at, zone)
        # As text: Python calls no two instants of a repeated hour equal.
        assert at is not None
        assert at.isoformat() == datetime.fromisoformat(expected).astimezone(zone).isoformat()
    if not vector["next"]:
        assert at is not None
        assert expression.next(at, zone) is None


@pytest.mark.parametrize("text", INVALID)
def test_cron_parser__invalid_expression_names_column_and_remedy(text: str) -> None:
    with pytest.raises(InvalidCron) as refused:
        CronExpression.parse(text)
    assert refused.value.remedy
    assert 1 <= refused.value.column <= len(text) + 1
    assert f"column {refused.value.column}" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        *("+5 * * * * *", "٥ * * * * *", "0 0 0 * JAN1 *", "0 0 0 * * MONTUE"),
        *("0 0 0 * * SUN-SUN", "0 0 0 * * 7-7", "0 0 0 L-31 * *", "0 0 0 L-100 * *"),
        *("0 0 0 L-0 * *", "0 0 0 L,? * *", "0 0 0 ?,1 * *", "0 0 0 ?/2 * *", "0 0 0 l * *"),
        *("0 0 0 15w * *", "0 0 0 * * MON#0", "0x1 * * * * *", "", "   ", "0\t0 0 * * *"),
        *("0 0 0 * * *\n", "@DAİLY", "0 0 0 * * LL", "9" * 5000 + " * * * * *"),
    ],
)
def test_cron_parser__loose_forms_are_rejected(text: str) -> None:
    with pytest.raises(InvalidCron):
        CronExpression.parse(text)


@pytest.mark.parametrize("text", ["*/100 * * * * *", "0 0 0 * * fril", "0 0 0 * * SUN-FRI/2"])
def test_cron_parser__unusual_valid_forms_are_accepted(text: str) -> None:
    assert CronExpression.parse(text).next(datetime(2026, 1, 1, tzinfo=UTC)) is not None


@pytest.mark.parametrize(("macro", "text"), MACROS.items())
def test_cron_parser__macro_equals_its_expression(macro: str, text: str) -> None:
    assert CronExpression.parse(macro) == CronExpression.parse(text)
    assert CronExpression.parse(f" {macro.upper()} ") == CronExpression.parse(text)


def test_cron__days_before_last_are_skipped_in_short_months() -> None:
    # 31 − 30 = 1: only months of 31 days have such a day.
    assert instants("0 0 0 L-30 * *", "2026-02-01T00:00:00+00:00", 3, ZoneInfo("UTC")) == [
        "2026-03-01T00:00:00+00:00",
        "2026-05-01T00:00:00+00:00",
        "2026-07-01T00:00:00+00:00",
    ]


def test_cron__repeated_half_hour_fires_twice() -> None:
    assert instants("0 45 1 * * *", "2026-04-04T12:00:00+11:00", 2, LORD_HOWE) == [
        "2026-04-05T01:45:00+11:00",
        "2026-04-05T01:45:00+10:30",
    ]


@pytest.mark.parametrize(
    ("text", "zone", "start", "expected"),
    [
        (
            "0 30 2 * * *",
            ROME,
            "2026-03-28T12:00:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
        ),
        (
            "0 30 2 * * *",
            ROME,
            "2026-10-24T12:00:00+02:00",
            ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
        ),
        (
            "0 30 1 * * *",
            NEW_YORK,
            "2026-10-31T12:00:00-04:00",
            ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"],
        ),
        (  # the second pass has begun: the first one was yesterday's news
            "0 30 1 * * *",
            NEW_YORK,
            "2026-11-01T01:00:00-05:00",
            ["2026-11-02T01:30:00-05:00"],
        ),
        (  # an hourly schedule does not name its hours
            "0 0 * * * *",
            ROME,
            "2026-10-25T01:30:00+02:00",
            ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"],
        ),
        (  # two skipped times fire once, at the end of the gap
            "0 15,45 2 * * *",
            ROME,
            "2026-03-28T12:00:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:15:00+02:00"],
        ),
    ],
)
def test_dst_policy_once__clock_change_has_one_fire(
    text: str, zone: ZoneInfo, start: str, expected: list[str]
) -> None:
    assert instants(text, start, len(expected), zone, DstPolicy.ONCE) == expected


def brute_force_instants(
    sample: FieldSample, zone: ZoneInfo, start: datetime, seconds: int
) -> list[datetime]:
    """Every matching instant of the next so many seconds, looked at one by one."""
    first = start.replace(microsecond=0)
    candidates = (first + timedelta(seconds=shift) for shift in range(1, seconds + 1))
    return [at for at in candidates if sample.matches(at.astimezone(zone).replace(tzinfo=None))]


def find_instants(text: str, zone: ZoneInfo, start: datetime, until: datetime) -> list[datetime]:
    expression, fires, at = CronExpression.parse(text), [], start
    while (following := expression.next(at, zone)) is not None:
        instant = following.astimezone(UTC)
        assert instant > at
        if instant > until:
            break
        fires.append(instant)
        at = instant
    return fires


# One second of the minute: with all of them, `next` would be called 10,800 times in an example.
SPARSE = st.integers(0, 59).map(lambda n: Numbers(str(n), frozenset({n})))


@given(expressions(SPARSE, numbers(0, 59), numbers(0, 23)), ZONES, NEAR_A_CHANGE)
def test_cron__every_second_around_clock_change_matches_brute_force(
    sample: FieldSample, zone: ZoneInfo, start: datetime
) -> None:
    seconds = 3 * 3600
    until = start + timedelta(seconds=seconds)
    assert find_instants(sample.text, zone, start, until) == brute_force_instants(
        sample, zone, start, seconds
    )


# One time of day: the fields of days are tested, for years instead of hours.
NOON = st.just(Numbers("12", frozenset({12})))
ZERO = st.just(Numbers("0", frozenset({0})))


@given(expressions(ZERO, ZERO, NOON), ANY_INSTANT)
def test_cron__every_day_of_three_years_matches_brute_force(
    sample: FieldSample, start: datetime
) -> None:
    days = 3 * 366
    noon = start.replace(hour=12, minute=0, second=0, microsecond=0)
    candidates = [noon + timedelta(days=shift) for shift in range(days)]
    expected = [at for at in candidates if at > start and sample.matches(at.replace(tzinfo=None))]
    assert find_instants(sample.text, ZoneInfo("UTC"), start, candidates[-1]) == expected


@given(expressions(numbers(0, 59), numbers(0, 59), numbers(0, 23)))
def test_cron__normal_form_parses_to_same_expression(sample: FieldSample) -> None:
    expression = CronExpression.parse(sample.text)
    assert CronExpression.parse(str(expression)) == expression


@given(st.text(max_size=1000) | st.text("0123456789*/,-LW?#@ JANMOFRI", max_size=60))
def test_cron_parser__any_text_is_parsed_or_rejected(text: str) -> None:
    with suppress(InvalidCron):
        CronExpression.parse(text)


@given(
    st.sampled_from(["0 30 2 * * *", "0 15,45 1,2 * * *", "0 0 0 ? * SUN"]), ZONES, NEAR_A_CHANGE
)
def test_dst_policy_once__wall_times_fire_once_in_order(
    text: str, zone: ZoneInfo, start: datetime
) -> None:
    expression = CronExpression.parse(text)
    fires = []
    at: datetime = start - timedelta(days=2)
    for _ in range(6):
        following = expression.next(at, zone, policy=DstPolicy.ONCE)
        assert following is not None
        at = following
        fires.append(at)
    assert all(earlier < later for earlier, later in pairwise(f.astimezone(UTC) for f in fires))
    walls = [fire.replace(tzinfo=None) for fire in fires]
    assert len(set(walls)) == len(walls)
