"""Acceptance criteria about browsers: themes, keyboard, no JavaScript, zoom, tabs and Swagger UI.

The docstring of a test names its criterion of issue 20.
"""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.support.page_data import write_month, write_traces

RUN = "run-billing-support-0"
TABS = 10
DARK, LIGHT = "rgb(15, 18, 22)", "rgb(251, 251, 250)"
HIDE_PAGE = "Object.defineProperty(document, 'hidden', {get: () => window.isHidden ?? true})"
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


def test_pages__work_without_javascript(month: Site, site: Site) -> None:
    """Criterion 33: filter, trend picture, run page, acknowledgement and cancel."""
    page = site.open("/runs", context=site.context(java_script_enabled=False))
    page.locator("select[name=verdict]").select_option("REGRESSED")
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
    """Criterion 36: ten tabs of a live run load, and a hidden one asks for no events."""
    run_id = site.service.post("/benchmark-runs", {"benchmarkId": "support", "agentId": "triage"})[
        "id"
    ]
    context = site.context()
    context.add_init_script(HIDE_PAGE)
    streams: list[Page] = []
    context.on(
        "request",
        lambda request: streams.append(request.frame.page) if "/events" in request.url else None,
    )
    tabs = [site.open(f"/runs/{run_id}", context=context) for _ in range(TABS)]
    for tab in tabs:
        expect(tab.locator("#state")).to_contain_text("PENDING")
    assert streams == []
    show = "isHidden => { window.isHidden = isHidden; document.dispatchEvent(new Event('visibilitychange')); }"
    with tabs[3].expect_request("**/events"):
        tabs[3].evaluate(show, False)
    with tabs[3].expect_event("requestfailed"):
        tabs[3].evaluate(show, True)
    assert streams == [tabs[3]]
