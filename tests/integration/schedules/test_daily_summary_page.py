"""The page of a day: its runs, and what went wrong."""

import re
from datetime import UTC, datetime
from html import unescape

import pytest
from sqlalchemy import text

from mosaico.run_store.models import BenchmarkRun
from mosaico.schedules import daily_summary
from tests.support import page_reads
from tests.support.every_page import write_every_page
from tests.support.service import Service


@pytest.fixture(scope="module")
def service(module_service: Service) -> Service:
    with module_service.resources.db.begin() as session:
        write_every_page(session)
        session.execute(
            text(
                "UPDATE schedule_configs SET disabled_at = now() - interval '1 day', enabled = false,"
                " disabled_reason = '3 failures in a row'"
            )
        )
    return module_service


def read_page(service: Service, path: str) -> str:
    return unescape(page_reads.read_page(service, path))


def test_daily_summary_page__names_the_failed_run_and_its_cause(service: Service) -> None:
    today = datetime.now(UTC).date()
    page = read_page(service, f"/daily-summary?date={today}")
    row = page[page.index("run failed") :].partition("</tr>")[0]
    assert 'href="/runs/run-failed"' in row
    assert "SQL copilot on Support, nightly" in row
    assert "Langfuse answered 503 for 10 minutes." in row
    assert f'href="/runs?from={today}&to={today}&status=FAILED"' in page
    counted = service.get("/daily-summary", date=today.isoformat())["runs"]
    for status, count in counted.items():
        assert f">{count} {status.lower()}</a>" in page


def test_daily_summary_page__says_in_words_why_a_schedule_started_no_run(service: Service) -> None:
    fires = service.get("/schedule-configs/nightly/fires")["items"]
    [missed] = [fire for fire in fires if fire["reason"] == "MISSED"]
    page = read_page(service, f"/daily-summary?date={missed['dueAt'][:10]}")
    assert "1 × no scheduler was running at that time, and the schedule skips missed times" in page
    disabled_at = service.get("/schedule-configs/nightly")["disabledAt"]
    assert "3 failures in a row" in read_page(service, f"/daily-summary?date={disabled_at[:10]}")


def test_daily_summary_page__leads_to_the_days_beside_it_and_from_morning(service: Service) -> None:
    page = read_page(service, "/daily-summary?date=2026-03-01")
    assert "<h1>Summary of 2026-03-01</h1>" in page
    assert "No run failed" in page
    assert "verdict=REGRESSED" in page
    before, after = (
        re.search(rf'href="([^"]+)">{name} day</a>', page) for name in ("Previous", "Next")
    )
    assert before
    assert after
    assert before[1] == "/daily-summary?date=2026-02-28"
    assert "<h1>Summary of 2026-03-02</h1>" in read_page(service, after[1])
    assert 'href="/daily-summary"' in read_page(service, "/")
    assert read_page(service, "/daily-summary?date=0001-01-01")


def test_daily_summary_page__day_is_that_of_the_reader(service: Service) -> None:
    cookie = {**page_reads.HTML, "Cookie": "mosaico_zone=Asia/Tokyo"}
    page = service.client.get("/daily-summary?date=2026-03-01", headers=cookie).text
    assert "timezone=Asia%2FTokyo" in page


def test_daily_summary_page__says_what_it_leaves_out(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = datetime.now(UTC).date()
    with service.resources.db.begin() as session:
        session.add(
            BenchmarkRun(
                id="also-failed", benchmark_id="support", agent_id="sql", status="FAILED", triggered_by="MANUAL"
            )
        )  # fmt: skip
    monkeypatch.setattr(daily_summary, "MAX_LISTED", 1)
    page = read_page(service, f"/daily-summary?date={today}")
    assert "1 of 2 failed runs" in page
    assert "all failed runs" in page
    assert page.count("run failed") == 1


def test_daily_summary__names_what_regressed_with_its_numbers(service: Service) -> None:
    run = service.get("/benchmark-runs/run-billing-support-0")
    day = run["createdAt"][:10]
    changed = service.get("/daily-summary", date=day)["changedRuns"]
    fallen = [row for row in changed if row["outcome"] == "REGRESSED"]
    assert [(row["id"], row["agentName"], row["kpiName"]) for row in fallen] == [
        ("run-billing-support-0", "Billing bot", "pass rate")
    ]
    # The pass rate of the month is 0.895, and 0.15 lower in the last night.
    assert fallen[0]["change"]["effect"] < -0.1
    page = read_page(service, f"/daily-summary?date={day}")
    row = page[page.index('id="changes"') :].partition("</tr>")[2].partition("</tr>")[0]
    for fact in (
        "Billing bot",
        "Support, nightly",
        'href="/runs/run-billing-support-0"',
        "pass rate",
        "95",
    ):
        assert fact in row, fact
    with service.resources.db.read() as session:
        summary_day = daily_summary.get_day(
            datetime.fromisoformat(day).date(), "UTC", datetime.now(UTC)
        )
        summary = daily_summary.summarize_day(session, summary_day)
    message = daily_summary.build_summary_message(summary, daily_summary.DayAlerts(0, []))
    assert "Billing bot regressed on Support, nightly" in message.title
    assert message.items[0].link == "/runs/run-billing-support-0"
    assert "pass rate" in message.items[0].sentences[0]
