"""Acceptance criteria about browsers: themes, keyboard, no JavaScript, zoom, tabs and Swagger UI.

The docstring of a test names its criterion of issue 20.
"""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Request, expect

from tests.browser.conftest import Site
from tests.support.page_data import write_month, write_traces

RUN, BASE = "run-billing-support-0", "run-billing-support-1"
TABS = 10
DARK, LIGHT = "rgb(15, 18, 22)", "rgb(251, 251, 250)"
HIDE_PAGE = "Object.defineProperty(document, 'hidden', {get: () => window.isHidden ?? true})"
SHOW_PAGE = """isHidden => {
  window.isHidden = isHidden;
  document.dispatchEvent(new Event("visibilitychange"));
}"""
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def month(module_site: Site) -> Site:
    with module_site.service.resources.db.begin() as session:
        write_month(session)
        write_traces(session, "run-billing-support-2", broken=0)
    return module_site


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_theme__follows_the_system_and_the_button_overrides_it(month: Site, site: Site) -> None:
    """Criterion 30: dark by system, kept after a reload, set before the first paint."""
    page = site.open("/", context=site.context(color_scheme="dark"))
    assert background(page) == DARK
    page.get_by_role("button", name="Change between light and dark").click()
    assert background(page) == LIGHT
    page.reload()
    assert background(page) == LIGHT
    script = page.locator("head script[src*='theme.js']")
    # A deferred script or a module would run after the first paint.
    assert script.evaluate("script => script.async || script.defer || script.type") == ""


def press(page: Page, *keys: str) -> None:
    """Press keys after the script of the page has run, which reads them."""
    page.wait_for_load_state()
    for key in keys:
        page.keyboard.press(key)


def focus_by_tab(page: Page, selector: str) -> None:
    """Press Tab until the element has the focus, which is visible at each step."""
    for _ in range(200):
        page.keyboard.press("Tab")
        is_visible = page.evaluate(
            "(() => { const style = getComputedStyle(document.activeElement);"
            " return document.activeElement === document.body || style.outlineStyle !== 'none'; })()"
        )
        assert is_visible, page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} is not reached by Tab")


def test_journey__by_keyboard_only(month: Site, site: Site) -> None:
    """Criterion 32: login, run, comparison and acknowledgement; the focus is always visible."""
    page = site.open("/login", context=site.context(login=False))
    focus_by_tab(page, "#key")
    page.keyboard.type(site.key)
    press(page, "Enter")
    expect(page.locator("h1")).to_contain_text("got worse")
    page.wait_for_load_state()
    press(page, "Tab")
    expect(page.locator(".skip")).to_be_focused()
    press(page, "Enter")
    expect(page.locator("#main")).to_be_focused()
    press(page, "j", "o")
    expect(page).to_have_url(re.compile(RUN))
    press(page, "g", "r")
    expect(page).to_have_url(re.compile("/runs$"))
    for run_id in (RUN, BASE):
        page.goto(f"{site.url}/runs?agent=billing&benchmark=support") if run_id == RUN else None
        focus_by_tab(page, f"input[value='{run_id}']")
        press(page, "Space")
    press(page, "Enter")
    expect(page.get_by_role("heading", level=2).first).to_contain_text("Flipped items")
    press(page, "g", "i")
    expect(page).to_have_title(re.compile(r"^\(2\) Inbox"))
    press(page, "j", "a")
    expect(page).to_have_title(re.compile(r"^\(1\)"))


def test_pages__work_without_javascript(month: Site, site: Site) -> None:
    """Criterion 33: filter, trend picture, run page, acknowledgement and cancel."""
    page = site.open("/runs", context=site.context(java_script_enabled=False))
    page.locator("form.filter select[name=verdict]").select_option("REGRESSED")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#run-count")).to_have_text("1 run")
    page.locator("tbody a").first.click()
    expect(page.locator("h1")).to_contain_text("regressed")
    expect(page.locator("svg.chart polyline").first).to_be_visible()
    page.goto(f"{site.url}/inbox")
    page.get_by_role("button", name="Done").first.click()
    expect(page).to_have_url(re.compile("/inbox$"))
    page.goto(f"{site.url}/runs/run-in-progress")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#state")).to_contain_text("CANCELLED")


@pytest.mark.parametrize("path", ["/", "/runs", f"/runs/{RUN}", "/inbox"])
def test_page__fits_at_double_size_and_rests(path: str, month: Site, site: Site) -> None:
    """Criterion 35: zoom of 200 % and reduced motion."""
    context = site.context(
        viewport={"width": 720, "height": 450}, device_scale_factor=2, reduced_motion="reduce"
    )
    page = site.open(path, context=context)
    assert page.evaluate("document.documentElement.scrollWidth") <= 720
    moving = "[...document.querySelectorAll('*')].filter(one => getComputedStyle(one).animationName !== 'none').length"
    assert page.evaluate(moving) == 0


def test_tabs__only_the_visible_one_streams(month: Site, site: Site) -> None:
    """Criterion 36: ten tabs of ten live runs load, and the stream follows the visible one."""
    body = {"benchmarkId": "support", "agentId": "triage"}
    runs = [site.service.post("/benchmark-runs", body)["id"] for _ in range(TABS)]
    context = site.context()
    context.add_init_script(HIDE_PAGE)
    streams: list[Page] = []

    def note(request: Request, change: Callable[[Page], None]) -> None:
        if "/events" in request.url:
            change(request.frame.page)

    context.on("request", lambda request: note(request, streams.append))
    context.on("requestfailed", lambda request: note(request, streams.remove))
    tabs = [site.open(f"/runs/{run_id}", context=context) for run_id in runs]
    for tab in tabs:
        expect(tab.locator("#state")).to_contain_text("PENDING")
    assert streams == []
    for tab in tabs:
        with tab.expect_request("**/events"):
            tab.evaluate(SHOW_PAGE, False)
        assert streams == [tab]
        with tab.expect_event("requestfailed"):
            tab.evaluate(SHOW_PAGE, True)
        assert streams == []
    # What happened to a run while its tab was hidden is shown with the tab.
    site.service.post(f"/benchmark-runs/{runs[0]}/cancel")
    tabs[0].evaluate(SHOW_PAGE, False)
    expect(tabs[0].locator("#state")).to_contain_text("CANCELLED")


@pytest.mark.parametrize("path", ["/swagger-ui.html", "/docs"])
def test_swagger__authorize_and_execute_under_the_policy(
    path: str, month: Site, site: Site
) -> None:
    """Criterion 38: Execute returns 200, and the key is not stored."""
    page = site.open(path, context=site.context(login=False))
    page.get_by_role("button", name="Authorize").first.click()
    page.locator(".modal-ux input").first.fill(site.key)
    page.locator(".modal-ux button[type=submit]").first.click()
    page.locator(".modal-ux .btn-done").first.click()
    page.locator("#operations-agents-listAgents .opblock-summary-control").click()
    page.get_by_role("button", name="Execute").click()
    expect(page.locator(".live-responses-table tbody .response-col_status").first).to_contain_text(
        "200"
    )
    assert site.key not in page.evaluate("JSON.stringify(localStorage)")
