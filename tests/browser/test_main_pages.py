"""Morning, runs, traces, comparison, trend and inbox, in a browser and without JavaScript."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app.core.web.security_headers import CONTENT_SECURITY_POLICY
from tests.browser.conftest import NARROW, Site
from tests.support.page_data import HOSTILE, write_month, write_schedule, write_traces

RUN = "/runs/run-billing-support-0"
PATHS = (
    "/", "/runs", RUN, "/runs/run-triage-tickets-0", "/runs/run-in-progress", f"{RUN}/traces",
    f"{RUN}/traces/run-billing-support-0/t-0", "/benchmarks/support/kpis/support-pass",
    f"{RUN}/items?item=case-000&base=run-billing-support-1", "/inbox", "/inbox?tab=silenced",
    "/agents", "/agents/billing", "/benchmarks", "/benchmarks/support", "/schedules", "/schedules/nightly",
    "/alerts", "/alerts/rule-1", "/alerts/events/alert-0", "/incidents", "/incidents/alert-0",
    "/endpoints", "/endpoints/endpoint-1", "/keys", "/providers", "/system", "/datasets",
    "/formulas?formula=AVERAGE(EXACT_MATCH,ROUGE)&run=run-billing-support-0",
)  # fmt: skip
# A form has no data of its own, and so no twin in the API.
FORM_PATHS = (
    "/new/agent", "/agents/billing/edit", "/new/benchmark", "/benchmarks/support/edit",
    "/benchmarks/support/new-kpi", "/benchmarks/support/kpis/support-pass/edit", "/new/schedule",
    "/schedules/nightly/edit", "/new/endpoint", "/new/key",
    "/new/alert-rule?benchmark=support", "/alerts/rule-1/edit",
)  # fmt: skip
EMPTY_PATHS = (
    "/", "/runs", "/inbox", "/agents", "/benchmarks", "/schedules", "/alerts", "/incidents", "/endpoints",
    "/datasets",
)  # fmt: skip
# One worker starts one Chromium.
pytestmark = pytest.mark.xdist_group("browser")
every_page = pytest.mark.parametrize("path", [*PATHS, *FORM_PATHS])


@pytest.fixture(scope="module")
def month(module_site: Site) -> Site:
    """A month of runs in the database of the module."""
    for path in EMPTY_PATHS:
        html = module_site.service.client.get(path, headers={"Accept": "text/html"}).text
        assert 'class="empty"' in html, f"{path} shows no empty state"
    with module_site.service.resources.db.begin() as session:
        write_month(session)
        write_schedule(session)
        write_traces(session, "run-sql-support-0", broken=0, text=HOSTILE)
    return module_site


@every_page
def test_page__has_no_inline_script_style_or_handler(path: str, month: Site) -> None:
    response = month.service.client.get(path, headers={"Accept": "text/html"})
    assert response.status_code == 200
    assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe-" not in CONTENT_SECURITY_POLICY
    assert not re.search(r"<script>|<style|\sstyle=|\son[a-z]+=", response.text)
    assert len(response.content) <= 60_000


@pytest.mark.parametrize("path", PATHS)
def test_page__json_twin_answers(path: str, month: Site) -> None:
    html = month.service.client.get(path, headers={"Accept": "text/html"}).text
    [twin] = re.findall(r'<link rel="alternate" type="application/json" href="([^"]+)"', html)
    response = month.service.client.get(twin.replace("&amp;", "&"))
    assert response.status_code == 200, response.text
    assert "curl -H" in html


def test_morning__names_the_regressed_pair_first_and_opens_its_run(month: Site, site: Site) -> None:
    page = site.open("/")
    expect(page.locator("h1")).to_contain_text("1 of 7 got worse")
    first = page.locator(".card.news").first
    expect(first).to_contain_text("Billing bot")
    first.get_by_role("link").click()
    expect(page).to_have_url(re.compile("run-billing-support-0"))
    expect(page.locator("h1")).to_contain_text("regressed")


def test_runs__filter_is_in_the_address_and_back_undoes_it(month: Site, site: Site) -> None:
    page = site.open("/runs")
    page.locator("select[name=verdict]").select_option("REGRESSED")
    expect(page.locator("#run-count")).to_have_text("1 run")
    assert "verdict=REGRESSED" in page.url
    page.reload()
    expect(page.locator("#run-count")).to_have_text("1 run")
    page.go_back()
    expect(page.locator("#run-count")).to_have_text("211 runs")


@pytest.mark.parametrize(
    "sort", ["created", "completed", "benchmark", "agent", "status", "verdict", "traces"]
)
def test_runs__sorted_pages_share_no_run(sort: str, month: Site) -> None:
    for order, aria in ((sort, "ascending"), (f"-{sort}", "descending")):
        html = month.service.client.get("/runs", params={"sort": order}).text
        assert html.count(f'aria-sort="{aria}"') == 1
        [cursor] = re.findall(r'cursor=([^"&]+)" rel="next"', html.replace("&amp;", "&"))
        after = month.service.client.get("/runs", params={"sort": order, "cursor": cursor}).text
        first, second = (set(re.findall(r'id="r-([^"]+)"', text)) for text in (html, after))
        assert len(first) == len(second) == 50
        assert not first & second


def test_run__cancel_asks_and_a_second_cancel_is_impossible(month: Site, site: Site) -> None:
    run_id = site.service.post("/benchmark-runs", {"benchmarkId": "support", "agentId": "triage"})[
        "id"
    ]
    page = site.open(f"/runs/{run_id}")
    expect(page.locator("progress")).to_have_attribute("aria-label", "Scored traces")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#state")).to_contain_text("CANCELLED")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    assert site.service.get(f"/benchmark-runs/{run_id}")["status"] == "CANCELLED"


def test_run__changes_of_the_run_arrive_without_a_reload(month: Site, site: Site) -> None:
    run_id = site.service.post("/benchmark-runs", {"benchmarkId": "support", "agentId": "sql"})[
        "id"
    ]
    page = site.open(f"/runs/{run_id}")
    page.evaluate("window.isSamePage = true")
    expect(page.locator("#state")).to_contain_text("PENDING")
    site.service.post(f"/benchmark-runs/{run_id}/cancel")
    expect(page.locator("#state")).to_contain_text("CANCELLED")
    assert page.evaluate("window.isSamePage")


def test_trace__hostile_text_is_shown_and_nothing_runs(month: Site, site: Site) -> None:
    page = site.open("/runs/run-sql-support-0/traces/run-sql-support-0/t-0")
    expect(page.locator("pre").first).to_contain_text("<script>alert(1)</script>")
    expect(page.locator("pre").first).to_contain_text("[U+202E]")


def test_reader__sees_no_button_and_is_refused(month: Site, site: Site) -> None:
    key = site.service.post("/keys", {"name": "a reader", "role": "read"})["token"]
    context = site.context(key=key)
    page = site.open("/runs/run-in-progress", context=context)
    expect(page.locator(".actions button")).to_have_count(0)
    response = context.request.post(
        f"{site.url}/runs/run-in-progress/cancel",
        headers={"Origin": site.url, "Accept": "text/html"},
    )
    assert response.status == 403


def test_forms__of_another_site_change_nothing(month: Site, site: Site) -> None:
    context = site.context()
    for path in (
        "/runs/run-in-progress/cancel",
        "/runs",
        "/inbox/note-1/ack",
        "/inbox/note-1/silence",
    ):
        response = context.request.post(
            f"{site.url}{path}",
            headers={"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        )
        assert response.status == 403
    assert site.service.get("/benchmark-runs/run-in-progress")["status"] == "RUNNING"


def test_trend__arrow_keys_read_the_points(month: Site, site: Site) -> None:
    page = site.open("/benchmarks/support/kpis/support-pass?agent=billing")
    page.locator("[data-chart]").focus()
    page.keyboard.press("End")
    expect(page.locator("output")).to_contain_text("regressed")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("run-billing-support-0"))


def test_inbox__keyboard_acknowledges_and_the_badge_falls(month: Site, site: Site) -> None:
    page = site.open("/inbox")
    expect(page).to_have_title(re.compile(r"^\(2\)"))
    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(page).to_have_title(re.compile(r"^\(1\)"))
    assert site.service.get("/alerts/alert-0")["verdict"] == "true"


@every_page
def test_page__is_accessible(
    path: str, month: Site, site: Site, axe: Callable[[Page], list[str]]
) -> None:
    assert axe(site.open(path)) == []


@every_page
def test_page__fits_a_narrow_dark_screen_without_javascript(
    path: str, month: Site, site: Site
) -> None:
    context = site.context(viewport=NARROW, color_scheme="dark", java_script_enabled=False)
    page = site.open(path, context=context)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_formulas__mistake_is_underlined_and_a_missing_metric_is_named(
    month: Site, site: Site
) -> None:
    page = site.open("/formulas")
    page.get_by_label("Formula").fill("AVERAGE(EXACT_MATCH, ROUG)")
    expect(page.locator("#preview mark")).to_have_text("ROUG")
    expect(page.locator("#preview .error")).to_contain_text("1:22: unknown metric ROUG")
    page.get_by_label("Formula").fill("AVERAGE(EXACT_MATCH, ROUGE)")
    page.get_by_label("In the run").select_option(index=1)
    expect(page.locator("#result")).to_contain_text("undefined: ROUGE has no value")
    page.get_by_label("Formula").fill("EXACT_MATCH")
    expect(page.locator("#result b")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Formula")).to_have_value("EXACT_MATCH")
