"""A due time that the clocks skip is told when the schedule is made, on its page, and on its day.

In Europe/Rome the clocks go forward from 02:00 to 03:00 on 28 March 2027, at 01:00 UTC, and back from 03:00 to 02:00 on
31 October 2027.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest

from mosaico.overview.queries import read_overview
from mosaico.schedules.cron import CronExpression, DstPolicy
from mosaico.schedules.daily_summary import (
    DayAlerts,
    build_summary_message,
    get_day,
    summarize_day,
)
from mosaico.schedules.nonexistent_times import find_nonexistent_time, record_nonexistent_times
from mosaico.schedules.time_zones import find_offset_change, get_time_zone
from tests.support.page_reads import read_page
from tests.support.schedule_fires import fires
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

CHANGE = datetime(2027, 3, 28, 1, tzinfo=UTC)
BEFORE = datetime(2027, 3, 20, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NIGHTLY = {
    "name": "nightly",
    "benchmarkId": "bench-001",
    "agentId": "agent-001",
    "cronExpression": "0 30 2 * * *",
    "timezone": "Europe/Rome",
}
SENTENCE = "did not run: 02:30 does not exist on 28 March 2027"


@pytest.fixture
def record(service: Service) -> Callable[[datetime], None]:
    """What a worker does each minute."""

    def at(now: datetime) -> None:
        with service.resources.db.begin() as session:
            record_nonexistent_times(session, now)

    return at


@pytest.fixture
def create(prepared_service: Service, rows: DatabaseReader) -> Callable[..., JSON]:
    """A schedule that exists since before the change."""

    def make(schedule_id: str = "s-1", **fields: object) -> JSON:
        created = prepared_service.post(
            "/schedule-configs", {"id": schedule_id, **NIGHTLY, **fields}
        )
        rows.execute("UPDATE schedule_configs SET created_at = %s, updated_at = %s", BEFORE, BEFORE)
        return created

    return make


def skipped(service: Service, schedule_id: str = "s-1") -> list[str]:
    return [
        fire["detail"]
        for fire in fires(service, schedule_id)
        if fire["reason"] == "NONEXISTENT_TIME"
    ]


def find(expression: str, policy: DstPolicy = DstPolicy.SPRING) -> str | None:
    zone = get_time_zone("Europe/Rome")
    start = datetime(2027, 3, 27, 12)  # noqa: DTZ001 - as the function takes it
    change = find_offset_change(start, start + timedelta(days=1), zone)
    assert change is not None
    found = find_nonexistent_time(CronExpression.parse(expression), zone, policy, change)
    return found and found.detail


@pytest.mark.parametrize(
    ("expression", "times"),
    [
        ("0 30 2 * * *", "02:30 does not exist"),
        ("0 0 2 * * *", "02:00 does not exist"),
        ("0 15,30 2 * * *", "02:15 and 02:30 do not exist"),
        # Of a day with other times too, which are plain numbers.
        ("0 30 2,14 * * *", "02:30 does not exist"),
        # Its only times of the day.
        ("0 */20 2 * * *", "02:00, 02:20 and 02:40 do not exist"),
        ("0 0 3 * * *", None),
        ("0 30 2 * * MON", None),
        # Goes on at 03:00.
        ("0 */15 * * * *", None),
    ],
)
def test_find_nonexistent_time__names_the_skipped_times(expression: str, times: str | None) -> None:
    found = find(expression)
    assert found is None if times is None else found is not None and times in found


def test_find_nonexistent_time__policy_once_fires_at_the_end_of_the_gap() -> None:
    assert find("0 30 2 * * *", DstPolicy.ONCE) is None
    assert find("0 */20 2 * * *", DstPolicy.ONCE) is not None


def test_record__each_schedule_once_and_no_other(
    prepared_service: Service,
    create: Callable[..., JSON],
    record: Callable[[datetime], None],
    rows: DatabaseReader,
) -> None:
    create()
    create("later", cronExpression="0 30 3 * * *")
    create("once", dstPolicy="ONCE")
    create("elsewhere", timezone="UTC")
    create("disabled", enabled=False)
    create("edited")
    rows.execute("UPDATE schedule_configs SET updated_at = %s WHERE id = 'edited'", CHANGE + MINUTE)
    record(CHANGE - MINUTE)
    assert skipped(prepared_service) == []
    for now in (CHANGE + MINUTE, CHANGE + 2 * MINUTE, CHANGE + timedelta(days=2)):
        record(now)
    [sentence] = skipped(prepared_service)
    assert sentence.startswith(SENTENCE)
    for other in ("later", "once", "elsewhere", "disabled", "edited"):
        assert skipped(prepared_service, other) == []


def test_record__takes_the_place_of_no_instant(
    prepared_service: Service,
    create: Callable[..., JSON],
    record: Callable[[datetime], None],
    tick: Callable[[datetime], int],
    rows: DatabaseReader,
) -> None:
    # Fires at 03:00, the end of the gap, on the same day.
    create(cronExpression="0 0,30 2,3 * * *")
    record(CHANGE)
    rows.execute("UPDATE schedule_configs SET next_run_at = %s", CHANGE)
    tick(CHANGE)
    assert [(fire["status"], fire["reason"]) for fire in fires(prepared_service)] == [
        ("PENDING", None),
        ("SKIPPED", "NONEXISTENT_TIME"),
    ]


def test_day__summary_and_morning_say_that_it_did_not_run(
    prepared_service: Service,
    create: Callable[..., JSON],
    record: Callable[[datetime], None],
    rows: DatabaseReader,
) -> None:
    create()
    record(CHANGE + MINUTE)
    now = CHANGE + timedelta(hours=6)
    with prepared_service.resources.db.read() as session:
        summary = summarize_day(session, get_day(date(2027, 3, 28), "Europe/Rome", now))
        overview = read_overview(session, now - timedelta(days=1), now)
    [idle] = summary.idle_schedules
    assert idle.id == "s-1"
    assert idle.details[0].startswith(SENTENCE)
    message = build_summary_message(summary, DayAlerts(0, []))
    assert message.title.endswith("1 schedule without a run")
    assert any(SENTENCE[1:] in sentence for item in message.items for sentence in item.sentences)
    [missed] = overview.missed_schedules
    assert (missed.schedule_id, missed.missed) == ("s-1", 1)
    assert (missed.detail or "").startswith(SENTENCE)
    # Pages show them; nobody is paged.
    page = prepared_service.client.get("/daily-summary", params={"date": "2027-03-28"})
    assert SENTENCE in page.text
    assert SENTENCE in prepared_service.client.get("/schedules/s-1").text
    assert prepared_service.list_items("/alerts") == []
    # Morning, on the day: the page has the clock of the database.
    rows.execute("UPDATE schedule_fires SET due_at = now() - interval '1 hour', fired_at = now()")
    morning = read_page(prepared_service, "/")
    assert SENTENCE in morning


def test_schedule__says_the_next_change_when_it_is_made(
    prepared_service: Service, create: Callable[..., JSON]
) -> None:
    created = create()
    # In any 400 days the clocks go forward at least once and back at least once.
    texts = [change["text"] for change in created["clockChanges"]]
    assert any("02:30 does not exist" in text for text in texts)
    assert any("02:30 occurs twice" in text and "fires twice" in text for text in texts)
    read = prepared_service.get("/schedule-configs/s-1")
    assert read["clockChanges"] == created["clockChanges"]
    page = prepared_service.client.get("/schedules/s-1").text
    assert "02:30 does not exist" in page
    other = create("later", cronExpression="0 30 4 * * *")
    assert other["clockChanges"] == []
