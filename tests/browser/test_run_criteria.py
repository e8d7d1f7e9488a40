"""Acceptance criteria of the pages of runs; the docstring of a test names its criterion in
`docs/page-criteria.md`."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import text

from mosaico.run_store.models import BenchmarkRun
from tests.browser.conftest import Site
from tests.support.page_data import write_month, write_names, write_run, write_traces
from tests.support.page_reads import read_page

RUN, BASE = "run-billing-support-0", "run-billing-support-1"
TREND = "/benchmarks/support/kpis/support-pass"
FAILED_RUN = "run-failed"
# Texts with a number before a part of a page; times and names of runs have numbers, too.
NUMBERS_BEFORE = r"""selector => {
  const part = document.querySelector(selector), found = [];
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode() && !part.contains(texts.currentNode)) {
    const { data, parentElement } = texts.currentNode;
    if (/\d/.test(data) && !parentElement.closest("time, option")) found.push(data.trim());
  }
  return found;
}"""
ROW_IDS = "rows => rows.map(row => row.id)"
SHORT_SERIES: dict[str, list[float | None]] = {
    "gap": [0.8, 0.82, None, 0.81, 0.8], "one": [0.8], "two": [0.8, 0.9], "equal": [0.5] * 5, "null": [None, 0.7, None],
}  # fmt: skip
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def month(module_site: Site) -> Site:
    """A month of runs, a failed one, and series of no, one, two and equal values."""
    now = datetime.now(UTC)
    with module_site.service.resources.db.begin() as session:
        write_month(session)
        write_traces(session, "run-billing-support-2", broken=0)
        session.add(
            BenchmarkRun(
                id=FAILED_RUN, benchmark_id="support", agent_id="sql", status="FAILED",
                triggered_by="MANUAL", created_at=now, started_at=now, completed_at=now,
                error_code="SOURCE_UNAVAILABLE", error_message="Langfuse answered 503 for 10 minutes.",
            )
        )  # fmt: skip
        write_names(session, agents={agent: agent for agent in SHORT_SERIES}, benchmarks={})
        for agent, values in SHORT_SERIES.items():
            for number, value in enumerate(values):
                at = now - timedelta(days=9 - number)
                is_valid = value is not None or agent != "gap"
                write_run(
                    session, f"run-{agent}-{number}", agent, "support", at, value=value, is_valid=is_valid
                )  # fmt: skip
    return module_site


def test_morning__with_nothing_changed_says_so(site: Site) -> None:
    """Criterion 6: nothing changed, and the smallest detectable drop."""
    now = datetime.now(UTC)
    with site.service.resources.db.begin() as session:
        write_names(session)
        write_run(session, "run-before", "billing", "support", now - timedelta(days=2), value=0.86)
        write_run(
            session, "run-quiet", "billing", "support", now, value=0.86, baseline_id="run-before"
        )
    page = site.open("/")
    expect(page.locator("h1")).to_contain_text("Nothing got worse")
    expect(page.locator(".calm")).to_contain_text("A drop of 0.100 or more in 1 of 1 pair")
    # A page that reads again meanwhile holds one of these tables and waits for another: a deadlock.
    page.close()
    with site.service.resources.db.begin() as session:
        session.execute(text("TRUNCATE agents, benchmarks CASCADE"))


def test_run__retry_makes_a_second_attempt(month: Site, site: Site) -> None:
    """Criterion 10: attempt 1 stays readable at its address."""
    page = site.open(f"/runs/{FAILED_RUN}")
    page.get_by_role("button", name="Run again").click()
    expect(page.locator("#body")).to_contain_text("2 of an earlier run")
    assert not page.url.endswith(FAILED_RUN)
    page.goto(f"{site.url}/runs/{FAILED_RUN}")
    expect(page.locator("#state")).to_contain_text("FAILED")
    expect(page.locator("#body")).to_contain_text("the next attempt")


def test_run__failed_shows_its_cause_and_an_error_to_copy(month: Site, site: Site) -> None:
    """Criterion 11: the sentence of the cause, and in the clipboard the ID that the lines of the log have (see
    `test_failed_run__id_on_its_page_finds_the_lines_of_the_log`)."""
    page = site.open(f"/runs/{FAILED_RUN}")
    run = site.service.get(f"/benchmark-runs/{FAILED_RUN}")
    card = page.locator(".card.news").first
    expect(card.locator("h3")).to_have_text("Langfuse answered 503 for 10 minutes.")
    assert run["errorMessage"] == "Langfuse answered 503 for 10 minutes."
    expect(card).to_contain_text(run["errorCode"])
    # The last step has the color of what failed, not that of what is in progress.
    last, error = (
        page.locator(".steps li").last,
        "getComputedStyle(document.querySelector('.error, .failed')).color",
    )
    expect(last).to_contain_text("Failed")
    color = last.evaluate("step => getComputedStyle(step).borderTopColor")
    assert color == page.evaluate(error)
    card.get_by_role("button", name=f"Copy {FAILED_RUN}").click()
    expect(page.locator("#live")).to_have_text("Copied")
    page.locator("#search").focus()
    page.keyboard.press("Control+v")
    expect(page.locator("#search")).to_have_value(FAILED_RUN)


@pytest.mark.parametrize("status", ["PENDING", "RUNNING"])
def test_run__without_times_and_results_is_complete(status: str, month: Site, site: Site) -> None:
    """Criterion 12: a run in progress has no times, KPIs or baseline yet."""
    run_id = f"run-{status.lower()}"
    with site.service.resources.db.begin() as session:
        session.merge(
            BenchmarkRun(
                id=run_id, benchmark_id="support", agent_id="sql", status=status, triggered_by="MANUAL"
            )
        )  # fmt: skip
    html = read_page(site.service, f"/runs/{run_id}")
    assert re.search(rf'id="state"[^>]*>.{{0,200}}\b{status}\b', html, re.DOTALL)
    assert "missing: the run was not compared" in html
    assert 'id="kpis"' not in html
    with site.service.resources.db.begin() as session:
        session.execute(text("DELETE FROM benchmark_runs WHERE id = :id"), {"id": run_id})


def test_traces__limit_that_is_no_number_shows_no_rows(month: Site, site: Site) -> None:
    """Rows of an earlier filter would look like the result of the one that is refused."""
    page = site.open(f"/runs/{RUN}/traces")
    expect(page.locator("tbody tr").first).to_be_visible()
    for typed in ("half", "nan"):
        page.get_by_label("Below").fill(typed)
        expect(page.locator("#traces [role=alert]")).to_contain_text(f"'{typed}' is not a number")
        expect(page.locator("tbody tr")).to_have_count(0)
    # A reader whose language has a decimal comma types one.
    page.get_by_label("Below").fill("0,5")
    # The ten broken items of the run have 3 trials each.
    expect(page.locator("tbody tr")).to_have_count(30)


def test_runs__filters_are_shared_by_their_address(month: Site, site: Site) -> None:
    """Criterion 13: table, count and address agree; reload, another browser and back do, too."""
    page = site.open("/runs")
    page.locator("form.filter select[name=agent]").select_option("billing")
    # The agent has two benchmarks of 30 nights. Three of the runs have another verdict or none: the
    # regressed one and the first of each benchmark.
    expect(page.locator("#run-count")).to_have_text("60 runs")
    assert len(site.service.list_items("/benchmark-runs", agentId="billing")) == 60
    page.locator("form.filter select[name=verdict]").select_option("NO_EVIDENCE")
    expect(page).to_have_url(re.compile("verdict=NO_EVIDENCE"))
    expect(page.locator("#run-count")).to_have_text("57 runs")
    field = page.locator("form.filter input[name=text]")
    # Somebody who thinks while typing edits one field nevertheless.
    for typed, count in (("support-2", "10 runs"), ("support-27", "1 run"), ("support-7", "1 run")):
        field.fill(typed)
        expect(page).to_have_url(re.compile(f"text={typed}(&|$)"))
        expect(page.locator("#run-count")).to_have_text(count)
    stored = site.service.list_items(
        "/benchmark-runs", agentId="billing", verdict="NO_EVIDENCE", text="support-7"
    )
    assert [f"r-{run['id']}" for run in stored] == ["r-run-billing-support-7"]
    address, row_ids = page.url, page.locator("tbody tr").evaluate_all(ROW_IDS)
    assert row_ids == ["r-run-billing-support-7"]
    assert set(parse_qsl(urlsplit(address).query)) == {
        ("agent", "billing"), ("verdict", "NO_EVIDENCE"), ("text", "support-7"),
    }  # fmt: skip
    # The link to the JSON follows the filter.
    twin = str(page.locator("footer a[type]").first.get_attribute("href"))
    rows = site.service.client.get(twin).json()["items"]
    assert [f"r-{run['id']}" for run in rows] == row_ids
    page.reload()
    expect(page.locator("#run-count")).to_have_text("1 run")
    other = site.open(address.removeprefix(site.url), context=site.context())
    expect(other.locator("#run-count")).to_have_text("1 run")
    assert other.locator("tbody tr").evaluate_all(ROW_IDS) == row_ids
    expect(other.locator("form.filter input[name=text]")).to_have_value("support-7")
    for count, text_typed, verdict in (("57 runs", "", "NO_EVIDENCE"), ("60 runs", "", "")):
        page.go_back()
        expect(page.locator("#run-count")).to_have_text(count)
        expect(field).to_have_value(text_typed)
        expect(page.locator("form.filter select[name=verdict]")).to_have_value(verdict)


def test_trend__shows_the_gap_the_fall_and_the_threshold(month: Site, site: Site) -> None:
    """Criterion 16: no line at an invalid run, a mark at the regressed one, and its link."""
    page = site.open("/benchmarks/tickets/kpis/tickets-pass?agent=triage")
    line = page.locator("svg.chart polyline.line")
    expect(line).to_have_count(1)
    # 30 nights without the invalid one.
    assert len((line.get_attribute("points") or "").split()) == 29
    expect(page.locator("svg.chart .m-invalid")).to_contain_text("×")
    page.goto(f"{site.url}{TREND}?agent=gap")
    lines = page.locator("svg.chart polyline.line")
    assert [len((line.get_attribute("points") or "").split()) for line in lines.all()] == [2, 2]
    page.goto(f"{site.url}{TREND}?agent=billing")
    expect(page.locator("svg.chart .m-regressed")).to_contain_text("▼")
    expect(page.locator("svg.chart .limit")).to_have_count(1)
    chart = page.locator("[data-chart]")
    chart.focus()
    points = [point.text_content() for point in page.locator("[data-point] > title").all()]
    assert len(points) == 30
    for text_of_point in points:
        page.keyboard.press("ArrowRight")
        expect(page.locator("output")).to_have_text(str(text_of_point))
    expect(page.locator("output")).to_contain_text("regressed")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("output")).to_contain_text("no evidence")
    page.locator("svg.chart a[data-point]").last.click()
    expect(page).to_have_url(re.compile(RUN))


@pytest.mark.parametrize(
    ("agent", "points"), [("none", 0), ("one", 1), ("two", 2), ("equal", 5), ("null", 3)]
)
def test_trend__of_few_equal_and_missing_values_is_drawn(
    agent: str, points: int, month: Site, site: Site
) -> None:
    """Criterion 17."""
    html = read_page(site.service, f"{TREND}?agent={agent}")
    charts = re.findall(r'<svg class="chart.*?</svg>', html, re.DOTALL)
    assert len(charts) == bool(points)
    assert len(re.findall(r"<\w+[^>]* data-point\b", "".join(charts))) == points
    assert html.count('class="empty"') == (not points)


def changes_of(page: Page) -> list[float]:
    """The changes of the metrics of a comparison."""
    cells = page.locator("table").last.locator("tbody tr td:nth-of-type(4)").all_inner_texts()
    numbers = (re.match(r"[+−-]?[\d.]+", cell.replace("−", "-")) for cell in cells)
    return [float(number.group()) for number in numbers if number]


def test_compare__flips_first_counts_and_swap_agree(month: Site, site: Site) -> None:
    """Criterion 18: counts equal those of the API, swapping inverts signs."""
    page = site.open(f"/compare?base={BASE}&run={RUN}")
    flips = site.service.get("/benchmark-runs/compare", baseline=BASE, candidate=RUN)[
        "flippedItems"
    ]
    heading = page.locator("h2").first
    expect(heading).to_contain_text(f"{flips['regressions']} fell, {flips['improvements']} rose")
    # The flips stand before every other table, those that fell first.
    listed = page.locator("table").first.locator("tbody tr")
    assert listed.locator("th code").all_inner_texts() == [
        item["itemId"] for item in flips["items"]
    ]
    words = [text.split()[-1] for text in listed.locator("td:nth-of-type(3)").all_inner_texts()]
    assert words == ["fell"] * flips["regressions"] + ["rose"] * flips["improvements"]
    changes = changes_of(page)
    assert any(changes)
    # The page map: paired differences, their test, and what it would have detected.
    expect(page.locator("table").last).to_contain_text(
        re.compile(r"p \d.*test: [a-z ,]+, \d+ items, reliably detects \d", re.DOTALL)
    )
    page.get_by_role("link", name="Swap").click()
    expect(heading).to_contain_text(f"{flips['improvements']} fell, {flips['regressions']} rose")
    assert changes_of(page) == [-change for change in changes]


def test_compare__pair_that_is_not_comparable_says_why_first(month: Site, site: Site) -> None:
    """Criterion 18: the reason stands above any number."""
    page = site.open("/compare?base=run-triage-tickets-1&run=run-triage-tickets-0")
    reason = page.locator(".card.invalid")
    expect(reason).to_contain_text("31.0 % of the values are missing")
    expect(page.locator("p, td.wide", has_text="31.0 % of the values are missing")).to_have_count(1)
    before = page.evaluate(NUMBERS_BEFORE, ".card.invalid")
    assert [data for data in before if not data.startswith("night of ")] == []
    assert page.locator("h3").first.inner_text() == "Not comparable"


def test_run__is_pinned_as_baseline_and_deleted(month: Site, site: Site) -> None:
    page = site.open("/runs/run-sql-tickets-3")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Set as baseline").click()
    expect(page.get_by_role("button", name="Unpin the baseline")).to_be_visible()
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    page.goto(f"{site.url}/benchmarks/tickets")
    expect(page.locator("main")).to_contain_text("SQL copilot: a run that was pinned")
    page.locator("dd").get_by_role("link", name="a run").click()
    page.get_by_role("button", name="Unpin the baseline").click()
    page.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile("/runs$"))
    assert site.service.client.get("/api/v1/benchmark-runs/run-sql-tickets-3").status_code == 404


def test_inbox__is_read_at_once_and_a_message_is_unread_again(month: Site, site: Site) -> None:
    page = site.open("/inbox")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.locator("main")).to_contain_text("No open messages")
    page.goto(f"{site.url}/inbox?tab=all")
    page.get_by_role("button", name="Unread").first.click()
    expect(page).to_have_title(re.compile(r"^\(1\) Inbox"))


def test_report__opens_from_disk_with_its_verdict_on_the_first_screen(
    month: Site, site: Site, tmp_path: Path
) -> None:
    """Criterion 40: the report of a run is one file without requests."""
    page = site.open(f"/runs/{RUN}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Report").click()
    file = tmp_path / "report.html"
    download.value.save_as(file)
    requests: list[str] = []
    opened = site.context(login=False).new_page()
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(file.as_uri())
    verdict = opened.get_by_text("regressed").first.bounding_box()
    assert verdict is not None
    # Visible without scrolling: the window is 900 high.
    assert verdict["y"] < 900
    assert requests == [file.as_uri()]
