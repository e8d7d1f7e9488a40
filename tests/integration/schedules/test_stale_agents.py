"""Agents without new data: in the inbox and on Morning, and to recipients where a rule says so."""

from datetime import UTC, datetime, timedelta

import pytest

from mosaico.alerts.freshness import stale_after
from mosaico.alerts.missing_runs import report_missing_runs
from mosaico.run_store.models import BenchmarkRun
from mosaico.schedules.stale_agents import report_stale_agents
from tests.support.page_reads import read_page
from tests.support.results import PLAN
from tests.support.service import JSON, Service, pair
from tests.support.stored import DatabaseReader

MONDAY = datetime(2026, 11, 23, 2, tzinfo=UTC)
DAY = timedelta(days=1)
RULE = {
    "name": "quality falls", "benchmarkId": "bench-001", "metric": "ROUGE", "condition": "LESS_THAN",
    "threshold": 0.1, "maxHoursWithoutRun": 26, "channels": ["WEBHOOK"],
    "recipients": ["https://hooks.example.com/a"],
}  # fmt: skip


def days(*numbers: float) -> list[datetime]:
    return [MONDAY + number * DAY for number in numbers]


@pytest.mark.parametrize(
    ("new_data", "expected"),
    [
        ((0,), None),
        # Two gaps say nothing.
        ((0, 1, 2), None),
        ((0, 1, 2, 3), 5),
        # Once it took three days.
        ((0, 1, 4, 5), 11),
        # The first gap is the eleventh last.
        ((0, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19), 21),
        ((0, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18), 36),
    ],
)
def test_stale__after_twice_the_longest_of_the_last_ten_gaps(
    new_data: tuple[float, ...], expected: float | None
) -> None:
    assert stale_after(days(*new_data)) == (None if expected is None else MONDAY + expected * DAY)


class Feed:
    """Runs of an agent at given times, as they are stored."""

    def __init__(self, service: Service, rows: DatabaseReader) -> None:
        self.service, self.rows = service, rows

    def run(self, at: datetime, name: str | None = None) -> JSON:
        """A run that ends at a time, over new data with a name; without one, over those of the run before."""
        run = BenchmarkRun(
            id=f"run at {at}", benchmark_id="bench-001", agent_id="agent-001", status="COMPLETED",
            triggered_by="SCHEDULED", validity="VALID", fingerprint="f", created_at=at,
            completed_at=at, has_new_data=name is not None, plan=PLAN,
        )  # fmt: skip
        with self.service.resources.db.begin() as session:
            session.add(run)
            session.flush()
            run.source_seq = run.seq
            return {"id": run.id}

    def fire(self, at: datetime, name: str | None = None) -> JSON:
        """A run of a schedule that is due at a time."""
        run = self.run(at + timedelta(minutes=10), name)
        self.rows.execute(
            "INSERT INTO schedule_fires (schedule_id, due_at, fired_at, triggered_by, status, run_id)"
            " VALUES ('nightly', %s, %s, 'SCHEDULED', 'STARTED', %s)",
            at, at, run["id"],
        )  # fmt: skip
        return run

    def report(self, now: datetime) -> list[JSON]:
        """The alerts about missing data after two checks, as two workers make them."""
        for _ in range(2):
            with self.service.resources.db.begin() as session:
                report_stale_agents(session, now)
                report_missing_runs(session, now)
        return self.service.list_items("/alerts", state=["STALE", "RUN_MISSED"])


class MeasuredFeed(Feed):
    """Runs that are really made, over a new upload with a name; without one, over the newest upload."""

    def run(self, at: datetime, name: str | None = None) -> JSON:
        if name is not None:
            self.service.upload([pair(1) | {"traceId": name}], run_name=name)
        run = self.service.complete_run()
        self.rows.execute(
            "UPDATE benchmark_runs SET completed_at = %s WHERE id = %s", at, run["id"]
        )
        return run


@pytest.fixture
def feed(prepared_service: Service, rows: DatabaseReader) -> Feed:
    return Feed(prepared_service, rows)


@pytest.fixture
def measured_feed(prepared_service: Service, rows: DatabaseReader) -> MeasuredFeed:
    return MeasuredFeed(prepared_service, rows)


@pytest.fixture
def nightly(prepared_service: Service) -> None:
    prepared_service.post(
        "/schedule-configs",
        {
            "id": "nightly", "name": "nightly", "benchmarkId": "bench-001", "agentId": "agent-001",
            "cronExpression": "0 0 2 * * *",
        },
    )  # fmt: skip


@pytest.mark.usefixtures("nightly")
def test_feed_that_stopped__is_stale_after_two_due_times(
    feed: Feed, measured_feed: MeasuredFeed
) -> None:
    """Fault 4: no upload for three nights, and each scheduled run is COMPLETED and VALID."""
    first = measured_feed.fire(MONDAY, "monday")
    again = measured_feed.fire(MONDAY + DAY)
    assert (again["status"], again["validity"]) == ("COMPLETED", "VALID")
    assert (again["sameDataAs"], again["hasNewData"]) == (first["id"], False)
    assert feed.report(MONDAY + DAY + timedelta(hours=1)) == []
    last = measured_feed.fire(MONDAY + 2 * DAY)
    now = MONDAY + 2 * DAY + timedelta(hours=1)
    [alert] = feed.report(now)
    assert (alert["state"], alert["agentId"], alert["runId"]) == ("STALE", "agent-001", last["id"])
    assert alert["details"]["since"] == "2026-11-23T02:10:00Z"
    assert "The last run read the same data again." in alert["explanation"]
    # In the inbox; nobody has asked to be paged.
    [note] = feed.service.list_items("/notifications")
    assert "no new data for 2 days" in note["title"]
    assert feed.service.list_items("/deliveries") == []
    # A third night is the same gap.
    feed.fire(MONDAY + 3 * DAY)
    assert len(feed.report(now + DAY)) == 1
    # New data end it, and the next gap is another one.
    feed.fire(MONDAY + 4 * DAY, "friday")
    for number in (5, 6):
        feed.fire(MONDAY + number * DAY)
    assert len(feed.report(now + 4 * DAY)) == 2


def test_rule__pages_about_new_data_only(feed: Feed) -> None:
    feed.service.post("/alert-configs", RULE)
    feed.run(MONDAY, "monday")
    for number in (1, 2, 3):
        feed.run(MONDAY + number * DAY)
    [alert] = feed.report(MONDAY + 3 * DAY)
    assert (alert["state"], alert["alertConfigId"]) != ("STALE", None)
    assert alert["state"] == "RUN_MISSED"
    assert "The last run read the same data again." in alert["explanation"]
    [delivery] = feed.service.list_items("/deliveries")
    assert "hooks.example.com" in delivery["recipient"]


def test_agent_without_a_schedule__is_stale_after_its_own_rhythm(feed: Feed) -> None:
    for number in range(3):
        feed.run(MONDAY + number * DAY, f"night {number}")
    assert feed.report(MONDAY + 20 * DAY) == []
    feed.run(MONDAY + 3 * DAY, "night 3")
    # A repeated run is no gap.
    feed.run(MONDAY + 3.1 * DAY)
    assert feed.report(MONDAY + 4.9 * DAY) == []
    [alert] = feed.report(MONDAY + 5 * DAY)
    assert (alert["state"], alert["details"]["since"]) == ("STALE", "2026-11-26T02:00:00Z")
    assert "at least every 1 day" in alert["explanation"]


@pytest.mark.usefixtures("nightly")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "validity = 'INVALID', validity_reasons = '[\"only 1 of 9 traces has texts\"]'",
            "The last run is invalid: only 1 of 9 traces has texts.",
        ),
        (
            "status = 'FAILED', error_code = 'RUN_NOT_FOUND', error_message = 'no run'",
            "The last run failed: RUN_NOT_FOUND: no run.",
        ),
    ],
)
def test_runs_without_data__say_why(
    feed: Feed, rows: DatabaseReader, change: str, words: str
) -> None:
    feed.fire(MONDAY, "monday")
    for number in (1, 2):
        run = feed.fire(MONDAY + number * DAY)
        rows.execute(f"UPDATE benchmark_runs SET {change} WHERE id = %s", run["id"])
    [alert] = feed.report(MONDAY + 2.5 * DAY)
    assert (alert["state"], alert["details"]["since"]) == ("STALE", "2026-11-23T02:10:00Z")
    assert words in alert["explanation"]


@pytest.mark.usefixtures("nightly")
def test_due_times_without_a_run__count(feed: Feed, rows: DatabaseReader) -> None:
    feed.fire(MONDAY, "monday")
    for number in (1, 2):
        rows.execute(
            "INSERT INTO schedule_fires (schedule_id, due_at, fired_at, triggered_by, status, reason)"
            " VALUES ('nightly', %s, %s, 'SCHEDULED', 'SKIPPED', 'NO_NEW_RUN')",
            *days(number, number),
        )
    [alert] = feed.report(MONDAY + 2.5 * DAY)
    assert (alert["state"], alert["runId"]) == ("STALE", None)
    assert "No run has ended since then." in alert["explanation"]


@pytest.mark.usefixtures("nightly")
def test_agents_at_rest__are_no_news(feed: Feed, rows: DatabaseReader) -> None:
    for number in range(3):
        feed.fire(MONDAY + number * DAY, "monday" if not number else None)
    for table in ("benchmarks", "agents"):
        rows.execute(f"UPDATE {table} SET archived = true")
        assert feed.report(MONDAY + 3 * DAY) == []
        rows.execute(f"UPDATE {table} SET archived = false")
    ended = "completed_at = completed_at - interval '90 days'"
    rows.execute(f"UPDATE benchmark_runs SET {ended}")
    fired = "due_at = due_at - interval '90 days', fired_at = fired_at - interval '90 days'"
    rows.execute(f"UPDATE schedule_fires SET {fired}")
    assert feed.report(MONDAY + 3 * DAY) == []
    # Without a reason to be silent it is news.
    rows.execute("UPDATE benchmark_runs SET completed_at = completed_at + interval '90 days'")
    rows.execute(f"UPDATE schedule_fires SET {fired.replace(' - ', ' + ')}")
    assert [alert["state"] for alert in feed.report(MONDAY + 3 * DAY)] == ["STALE"]


@pytest.mark.usefixtures("nightly")
def test_morning__shows_the_agents_without_new_data_until_new_data_come(
    measured_feed: MeasuredFeed,
) -> None:
    feed = measured_feed
    now = feed.service.resources.clock()
    for number in (3, 2, 1):
        again = feed.fire(now - number * DAY, "monday" if number == 3 else None)
    feed.report(now)
    overview = feed.service.get("/overview")
    [stale] = overview["stale"]
    assert (stale["agentId"], stale["runId"]) == ("agent-001", again["id"])
    [cell] = overview["cells"]
    assert cell["sameAnswers"].startswith("the same answers as on ")
    page = read_page(feed.service, "/?hours=168")
    assert "no new data since" in page
    assert cell["sameAnswers"] in page
    page = read_page(feed.service, f"/runs/{again['id']}")
    assert cell["sameAnswers"] in page
    html = feed.service.client.get(f"/runs/{again['id']}").text
    assert cell["sameAnswers"] in html.partition("<title>")[2].partition("</title>")[0]
    feed.run(now, "new")
    assert feed.service.get("/overview")["stale"] == []
