"""Morning, runs, traces, comparison, trend and inbox, in a browser and without JavaScript."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from playwright.sync_api import Page, Route, expect
from sqlalchemy import text

from mosaico.core.postgres_notify import notify_streams
from mosaico.core.text import replace_unstorable
from tests.browser.conftest import Site
from tests.support.page_data import HOSTILE, write_month, write_traces
from tests.support.service import working

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The sortable columns of runs, and how a cell is sorted: words by name, traces by their total.
SORTED_COLUMNS: Final[Mapping[str, Callable[[str], Any]]] = {
    "Status": lambda text: text.split()[-1],
    "Verdict": lambda text: text.partition("–")[0].lstrip("▼▲○■× "),
    "Agent": str.lower,
    "Benchmark": str.lower,
    "Traces": lambda text: int(text.partition(" of ")[2] or 0),
    "Started": datetime.fromisoformat,
    # A run in progress has no end, and stands before the first.
    "Ended": lambda text: datetime.fromisoformat(text) if text[:1].isdigit() else EPOCH,
}
# One with times, one that a run in progress lacks; `make prove` sorts by the others, too.
SORTED_EVERY_TIME: Final = ("Verdict", "Started")
# A second click, as soon as the script of the page has seen the first one.
CLICK_TWICE: Final = """() => addEventListener("submit", event => setTimeout(() => {
  sessionStorage.second = event.submitter.disabled ? "refused" : "taken";
  event.submitter.click();
}))"""
READ_CELLS: Final = """heading => {
  const index = [...document.querySelectorAll("thead th")].findIndex(head => head.textContent.includes(heading));
  return [...document.querySelectorAll("tbody tr")].map(row => {
    const cell = row.cells[index];
    return [row.id, (cell.querySelector("time")?.dateTime ?? (cell.querySelector("a") ?? cell).textContent)];
  });
}"""
# One worker starts one Chromium.
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def month(module_site: Site) -> Site:
    """A month of runs in the database of the module."""
    with module_site.service.resources.db.begin() as session:
        write_month(session)
        write_traces(session, "run-sql-support-0", broken=0, text=HOSTILE)
    return module_site


def test_morning__names_the_regressed_pair_first_and_opens_its_run(month: Site, site: Site) -> None:
    """Criterion 6: the regressed pair is the first card, and its link opens that run."""
    page = site.open("/")
    expect(page.locator("h1")).to_contain_text("1 of 7 got worse")
    first = page.locator(".card.case").first
    expect(first).to_contain_text("Billing bot")
    expect(first).to_contain_text("Support, nightly")
    first.get_by_role("link", name="See why").click()
    expect(page).to_have_url(re.compile("run-billing-support-0"))
    expect(page.locator("h1")).to_contain_text("regressed")


def test_runs__each_sortable_column_is_tested(month: Site, site: Site) -> None:
    """Criterion 14: the columns below are all of them."""
    sortable = site.open("/runs").locator("thead th[aria-sort]").all_inner_texts()
    assert {text.split()[0].capitalize() for text in sortable} == set(SORTED_COLUMNS)


@pytest.mark.parametrize(
    "heading",
    [
        pytest.param(heading, marks=[] if heading in SORTED_EVERY_TIME else pytest.mark.prove)
        for heading in SORTED_COLUMNS
    ],
)
def test_runs__are_sorted_by_each_column_while_runs_arrive(
    heading: str, month: Site, site: Site
) -> None:
    """Criterion 14: both ways, with `aria-sort`, and the second page continues the first."""
    page = site.open("/runs")
    header = page.get_by_role("columnheader", name=heading)
    for order in ("descending", "ascending"):
        if header.get_attribute("aria-sort") != order:
            header.get_by_role("link").click()
        expect(header).to_have_attribute("aria-sort", order)
        expect(page.locator("th[aria-sort$=ending]")).to_have_count(1)
        address, rows = page.url, read_rows(page, heading)
        month.service.post("/benchmark-runs", {"benchmarkId": "support", "agentId": "triage"})
        page.get_by_role("link", name="Next page").click()
        expect(page.get_by_role("link", name="First page")).to_be_visible()
        expect(header).to_have_attribute("aria-sort", order)
        rows += read_rows(page, heading)
        # Two pages of 50. The cursor of the second must not count from
        # the start: the new run would shift it.
        assert len(dict(rows)) == 100, "a run is on both pages"
        values = [value for _, value in rows]
        assert values == sorted(values, reverse=order == "descending")
        page.goto(address)


def read_rows(page: Page, heading: str) -> list[tuple[str, Any]]:
    """The ID of each row, and its value in a column as it is sorted."""
    cells: list[tuple[str, str]] = page.evaluate(READ_CELLS, heading)
    return [(run_id, SORTED_COLUMNS[heading](text.strip())) for run_id, text in cells]


def test_run__cancel_asks_and_a_second_cancel_is_impossible(month: Site, site: Site) -> None:
    """Criterion 9: it asks, a second click sends nothing, CANCELLED on the page and in the API."""
    cancel_requests: list[str] = []
    run_id = site.service.post("/benchmark-runs", {"benchmarkId": "support", "agentId": "triage"})[
        "id"
    ]
    page = site.open(f"/runs/{run_id}")
    expect(page.locator("progress")).to_have_attribute("aria-label", "Scored traces")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Cancel").click()
    assert site.service.get(f"/benchmark-runs/{run_id}")["status"] == "PENDING", "not asked"
    page.once("dialog", lambda dialog: dialog.accept())
    page.evaluate(CLICK_TWICE)
    page.on("request", lambda request: cancel_requests.append(f"{request.method} {request.url}"))
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#state")).to_contain_text("CANCELLED")
    assert page.evaluate("sessionStorage.second") == "refused"
    assert cancel_requests.count(f"POST {site.url}/runs/{run_id}/cancel") == 1
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    expect(page.locator("#body")).to_contain_text("missing: the run has no results")
    assert site.service.get(f"/benchmark-runs/{run_id}")["status"] == "CANCELLED"


def test_trace__with_every_hostile_text_is_shown_as_text(month: Site, site: Site) -> None:
    """Criterion 29: from the upload over a real run to a page, which cuts the long text."""
    service = site.service
    service.create_benchmark(
        "hostile", source="local", datasetRef="hostile", metrics=["EXACT_MATCH"]
    )
    trace = {
        "traceId": "t-1", "input": replace_unstorable(HOSTILE + "\u0000end"), "expectedOutput": "<img src=x onerror=alert(2)>",
        "output": "word " * 200_000, "url": "javascript:alert(3)",
    }  # fmt: skip
    # A source's NUL, which no column can hold, is replaced as the source is read; an upload's is refused.
    assert "\0" not in str(trace["input"])
    service.upload([trace], "hostile")
    with working(service):
        run_id = service.post("/benchmark-runs", {"benchmarkId": "hostile", "agentId": "sql"})["id"]
        page = site.open(f"/runs/{run_id}")
        expect(page.locator("#state")).to_contain_text("COMPLETED")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    with service.resources.db.begin() as session:
        # Sources of traces write links; an upload has none.
        session.execute(
            text("UPDATE collected_traces SET url = 'javascript:alert(3)' WHERE trace_id = 't-1'")
        )
    page.goto(f"{site.url}/runs/{run_id}/traces/t-1")
    content = page.locator("main").inner_text()
    assert "<script>alert(1)</script>[U+202E]" in content
    assert "<img src=x onerror=alert(2)>" in content
    assert "\0" not in page.content()
    expect(page.locator("a[href^='javascript']")).to_have_count(0)
    expect(page.locator("main img, main script")).to_have_count(0)
    assert page.content().count("word ") < 10_000
    assert dialogs == []


def test_inbox__keyboard_acknowledges_and_the_badge_falls(month: Site, site: Site) -> None:
    """Criterion 19: the badge in the head and the title fall, and stay so after a reload."""
    # Runs that other tests of the module ended sent messages, too.
    for message in site.service.list_items("/notifications?unread=true"):
        if "run failed" in message["title"]:
            site.service.post(f"/notifications/{message['id']}/read")
    page = site.open("/inbox")
    badge = page.get_by_role("navigation", name="Main").locator(".count")
    expect(page).to_have_title(re.compile(r"^\(2\)"))
    expect(badge).to_contain_text("2")
    page.wait_for_load_state()
    # No message is chosen: the key acknowledges none, not even the first.
    page.keyboard.press("a")
    page.keyboard.press("j")
    expect(page.locator("[aria-current=true][data-row]")).to_have_count(1)
    assert site.service.get("/alerts/alert-0")["verdict"] is None
    page.keyboard.press("a")
    expect(page).to_have_title(re.compile(r"^\(1\)"))
    expect(badge).to_contain_text("1")
    page.reload()
    expect(page).to_have_title(re.compile(r"^\(1\)"))
    expect(badge).to_contain_text("1")
    assert site.service.get("/alerts/alert-0")["verdict"] == "true"
    # The page says what the key did, and takes it back.
    notice = page.locator(".notice[role=status]")
    expect(notice).to_contain_text("acknowledged as real")
    notice.get_by_role("button", name="Undo").click()
    expect(notice).to_have_count(0)
    expect(page).to_have_title(re.compile(r"^\(2\)"))
    assert site.service.get("/alerts/alert-0")["verdict"] is None


def test_formulas__mistake_is_underlined_and_a_missing_metric_is_named(
    month: Site, site: Site
) -> None:
    """Criterion 24: the mistake is underlined with its position; an undefined result names the metric."""
    page = site.open("/formulas")
    page.get_by_label("Formula").fill("AVERAGE(EXACT_MATCH, ROUG)")
    expect(page.locator("#preview mark")).to_have_text("ROUG")
    expect(page.locator("#preview mark")).to_have_css("text-decoration-line", "underline")
    expect(page.locator("#preview .error")).to_contain_text("1:22: unknown metric ROUG")
    page.get_by_label("Formula").fill("AVERAGE(EXACT_MATCH, ROUGE)")
    page.get_by_label("In the run").select_option("run-billing-support-0")
    expect(page.locator("#result")).to_contain_text("undefined: ROUGE has no value")
    page.get_by_label("Formula").fill("EXACT_MATCH")
    expect(page).to_have_url(re.compile("formula=EXACT_MATCH&"))
    expect(page.locator("#result b")).to_have_count(1)
    page.reload()
    expect(page.get_by_label("Formula")).to_have_value("EXACT_MATCH")
    page.get_by_label("Formula").fill("MAX(, 0.1)")
    # The preview of what was typed replaces the links; a click on one that is just replaced is lost.
    expect(page).to_have_url(re.compile(r"formula=MAX"))
    page.get_by_label("Formula").evaluate("text => text.setSelectionRange(4, 4)")
    page.get_by_role("link", name="EXACT_MATCH", exact=True).click()
    expect(page.get_by_label("Formula")).to_have_value("MAX(EXACT_MATCH, 0.1)")
    expect(page.locator("#result .tree > li > ul > li")).to_contain_text("EXACT_MATCH = 0.")


def test_formulas__metric_is_inserted_without_javascript(month: Site, site: Site) -> None:
    context = site.context(java_script_enabled=False)
    page = site.open("/formulas?formula=2%20*&run=run-billing-support-0", context=context)
    page.get_by_role("link", name="EXACT_MATCH", exact=True).click()
    expect(page.locator("#result .tree")).to_contain_text("2 * EXACT_MATCH = ")


# Last, because it makes a run.
def test_morning__runs_in_progress_are_live_and_what_ended_is_offered(
    month: Site, site: Site
) -> None:
    """Progress arrives without a reload; a run that ended does not change the order of the page."""
    page = site.open("/")
    page.evaluate("window.isSamePage = true")
    now = page.locator("#now")
    expect(now).to_contain_text("362 of 584 traces")
    with site.service.resources.db.begin() as session:
        session.execute(
            text("UPDATE benchmark_runs SET traces_processed = 400 WHERE id = 'run-in-progress'")
        )
        notify_streams(session, "run-in-progress")
    expect(now).to_contain_text("400 of 584 traces")
    expect(now.locator("progress")).to_have_js_property("value", 400)
    started = {"benchmarkId": "support", "agentId": "triage"}
    run_id = site.service.post("/benchmark-runs", started)["id"]
    expect(now.locator("[data-run]")).to_have_count(2)
    expect(page.locator("#new-rows")).to_be_hidden()

    def end_the_other(route: Route) -> None:
        """The other run ends between the event of the first and the page that is fetched because of it."""
        with site.service.resources.db.begin() as session:
            session.execute(
                text("UPDATE benchmark_runs SET status = 'CANCELLED' WHERE id = 'run-in-progress'")
            )
            notify_streams(session, "run-in-progress")
        route.continue_()

    page.route(page.url, end_the_other, times=1)
    site.service.post(f"/benchmark-runs/{run_id}/cancel")
    expect(now).to_contain_text("nothing")
    expect(page.locator("#new-rows")).to_have_text("2 ended – show")
    assert page.evaluate("window.isSamePage")
    with site.service.resources.db.begin() as session:
        session.execute(
            text("UPDATE benchmark_runs SET status = 'RUNNING' WHERE id = 'run-in-progress'")
        )
