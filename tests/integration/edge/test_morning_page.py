"""Morning leads to the next step: missed schedules, another run instead of a failed one, the expected end."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Final

import pytest
from sqlalchemy import text

from mosaico.run_store.models import BenchmarkRun
from tests.support.every_page import write_every_page
from tests.support.service import Service

HTML: Final = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def morning(service: Service) -> Service:
    """A failed run, an invalid one, one in progress, and a missed time of a schedule."""
    with service.resources.db.begin() as session:
        write_every_page(session)
    return service


def read_page(service: Service, path: str) -> str:
    response = service.client.get(path, headers=HTML)
    assert response.status_code == 200, response.text
    return unescape(re.sub(r"\s+", " ", str(response.text)))


def read_card(service: Service, outcome: str) -> str:
    """The card of the first run with an outcome."""
    cards = re.findall(r"<article.*?</article>", read_page(service, "/?hours=168"))
    return next(str(card) for card in cards if outcome in card)


def press(service: Service, card: str, label: str) -> str:
    """Send the form of a button; returns the address of the answer."""
    forms = re.findall(r"<form.*?</form>", card)
    form = next(form for form in forms if f">{label}<" in form)
    [address] = re.findall(r'action="([^"]+)"', form)
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
    response = service.client.post(address, data=fields, headers=HTML, follow_redirects=False)
    assert response.status_code == 303, response.text
    return str(response.headers["location"])


def test_morning__missed_times_link_to_their_schedule(morning: Service) -> None:
    page = read_page(morning, "/?hours=168")
    assert re.search(
        r'<a href="/schedules">1 due time</a> in this period: <a href="/schedules/nightly">', page
    )
    [schedule] = morning.get("/overview", hours=168)["missedSchedules"]
    assert (schedule["scheduleId"], schedule["missed"]) == ("nightly", 1)
    assert "nothing in this period" in read_page(morning, "/?hours=24")


def test_morning__failed_run_is_run_again_as_its_next_attempt(morning: Service) -> None:
    address = press(morning, read_card(morning, "</span> failed</span>"), "Run again")
    run = morning.get(f"/benchmark-runs/{address.removeprefix('/runs/')}")
    assert (run["retryOf"], run["retryCount"]) == ("run-failed", 1)


def test_morning__run_without_further_attempts_starts_a_new_run(morning: Service) -> None:
    with morning.resources.db.begin() as session:
        # MAX_RETRIES: it cannot be retried any more.
        session.execute(text("UPDATE benchmark_runs SET retry_count = 3 WHERE id = 'run-failed'"))
    for outcome, pair in (
        ("</span> failed</span>", ("support", "sql")),
        ("invalid: no number", ("tickets", "triage")),
    ):
        address = press(morning, read_card(morning, outcome), "Run again")
        run = morning.get(f"/benchmark-runs/{address.removeprefix('/runs/')}")
        assert (run["benchmarkId"], run["agentId"]) == pair
        assert (run["status"], run["retryOf"]) == ("PENDING", None)


def test_morning__run_in_progress_has_its_expected_end(morning: Service) -> None:
    """362 of 584 traces in 4 minutes: the rest takes 2.45 minutes."""
    for path in ("/", "/runs/run-in-progress"):
        assert re.search(
            r"expected end <time [^>]*>in (\d+ s|[12] min)</time> \(about\)",
            read_page(morning, path),
        )
    [run] = morning.get("/overview")["activeRuns"]
    remaining = datetime.fromisoformat(run["expectedEndAt"]) - datetime.now(UTC)
    assert timedelta(minutes=2) < remaining < timedelta(minutes=4)


def test_morning__more_runs_in_progress_than_shown_are_counted(morning: Service) -> None:
    with morning.resources.db.begin() as session:
        session.add_all(
            BenchmarkRun(
                id=f"waits-{number}", benchmark_id="support", agent_id="sql", status="PENDING",
                triggered_by="MANUAL",
            )
            for number in range(25)
        )  # fmt: skip
    assert "20 of 26 runs in progress" in read_page(morning, "/")
    assert morning.get("/overview")["activeCount"] == 26
