"""Acceptance criteria about browsers: themes, keyboard, no JavaScript, zoom, tabs and Swagger UI.

The docstring of a test names its criterion in `docs/page-criteria.md`.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.browser.axe import find_violations
from tests.browser.conftest import Site
from tests.browser.keyboard import focus_by_tab, press
from tests.support.described_api import api_document
from tests.support.page_alerts import write_open_alert
from tests.support.page_data import write_month, write_traces

RUN, BASE = "run-billing-support-0", "run-billing-support-1"
# More than the six connections that a browser opens to a host
# over HTTP/1.1: ten streams would block it.
TABS = 10
DARK, LIGHT = "rgb(15, 18, 22)", "rgb(251, 251, 250)"
HIDE_PAGE = "Object.defineProperty(document, 'hidden', {get: () => window.isHidden ?? true})"
SHOW_PAGE = """isHidden => {
  window.isHidden = isHidden;
  document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
}"""
TREND = "/benchmarks/support/kpis/support-pass"
MOVING = """() => [...document.querySelectorAll("*")].flatMap(part => [part, part, part].map(
  (part, index) => getComputedStyle(part, [null, "::before", "::after"][index]))).filter(style => {
  return style.animationName !== "none" || parseFloat(style.transitionDuration) > 0 || style.scrollBehavior === "smooth";
}).length"""
# Controls outside of the page, besides those in boxes that scroll.
UNREACHABLE = """() => [...document.querySelectorAll("a, button, input, select, textarea")].filter(part => {
  const box = part.getBoundingClientRect();
  const isShown = part.checkVisibility() && box.width && !part.matches(".skip");
  return isShown && !part.closest(".scroll, .chart-box, nav") && (box.left < 0 || box.right > innerWidth);
}).map(part => part.outerHTML.slice(0, 100))"""
# As a browser with blocked cookies does.
BLOCKED_STORAGE = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("Access is denied for this document.", "SecurityError"); } })"""
SCHEMAS: Final = re.compile(r'"#/components/schemas/([^"]+)"')
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
    # Without the script of the pages, which runs after the first paint, the theme is right from the beginning.
    page.context.route("**/app.js", lambda route: route.abort())
    page.reload()
    assert background(page) == LIGHT


def test_theme__changes_with_the_system(month: Site, site: Site) -> None:
    """Criterion 30: without a choice of the reader."""
    page = site.open("/")
    page.emulate_media(color_scheme="dark")
    assert background(page) == DARK
    page.emulate_media(color_scheme="light")
    assert background(page) == LIGHT


def test_pages__work_where_the_browser_refuses_its_storage(month: Site, site: Site) -> None:
    """Criterion 30 and the shortcuts: both hold until the page is left. The site fails on any error of a script."""
    context = site.context(color_scheme="dark")
    context.add_init_script(BLOCKED_STORAGE)
    page = site.open("/runs", context=context)
    page.get_by_role("button", name="Change between light and dark").click()
    assert background(page) == LIGHT
    page.keyboard.press("j")
    expect(page.locator("[data-row][aria-current]")).to_have_count(1)
    page.keyboard.press("?")
    page.get_by_label("Use these shortcuts").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_rows__are_chosen_for_a_comparison_by_keyboard(month: Site, site: Site) -> None:
    """Criterion 32: `g r`, Space on two runs and Enter compare them; `j` and `o` open a row."""
    page = site.open("/")
    press(page, "g", "r")
    expect(page).to_have_url(re.compile("/runs$"))
    press(page, "/")
    page.keyboard.type("billing-support")
    press(page, "Enter")
    expect(page).to_have_url(re.compile("/search.text=billing-support"))
    page.wait_for_load_state()
    focus_by_tab(page, page.get_by_role("link", name="all runs with this text"))
    press(page, "Enter")
    expect(page).to_have_url(re.compile("/runs.text=billing-support"))
    page.wait_for_load_state()
    for run_id in (RUN, BASE):
        focus_by_tab(page, page.locator(f"input[value='{run_id}']"))
        press(page, "Space")
    press(page, "Enter")
    expect(page.get_by_role("heading", level=2).first).to_contain_text("Flipped items")
    press(page, "g", "m")
    expect(page.locator("h1")).to_contain_text("got worse")
    press(page, "j", "o")
    expect(page).to_have_url(re.compile(RUN))


def test_pages__work_without_javascript(month: Site, site: Site) -> None:
    """Criterion 33: lists, filters, trend picture, run page, acknowledgement and cancel."""
    with site.service.resources.db.begin() as session:
        write_open_alert(session)
    page = site.open("/runs", context=site.context(java_script_enabled=False))
    page.locator("form.filter select[name=verdict]").select_option("REGRESSED")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#run-count")).to_have_text("1 run")
    page.locator("tbody a").first.click()
    expect(page.locator("h1")).to_contain_text("regressed")
    expect(page.locator("svg.chart polyline").first).to_be_visible()
    page.goto(f"{site.url}/benchmarks/support/kpis/support-pass?agent=billing")
    expect(page.locator("svg.chart polyline.line").first).to_be_visible()
    expect(page.locator("svg.chart .m-regressed")).to_be_visible()
    page.goto(f"{site.url}/runs/{RUN}/traces")
    page.get_by_label("Below").fill("0.5")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr")).to_have_count(30)
    for path, name in (
        ("/agents", "Billing bot"),
        ("/benchmarks", "Support, nightly"),
        ("/alerts", "pass rate regressed"),
    ):
        page.goto(f"{site.url}{path}")
        expect(page.locator("tbody")).to_contain_text(name)
    page.goto(f"{site.url}/inbox")
    page.get_by_role("button", name=re.compile("^It was real")).first.click()
    expect(page).to_have_url(re.compile(r"/inbox(\?done=note-\d+)?$"))
    assert site.service.get("/alerts/alert-0")["verdict"] == "true"
    page.goto(f"{site.url}/runs/run-in-progress")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("h1")).to_have_text("Cancel this run?")
    assert site.service.get("/benchmark-runs/run-in-progress")["status"] != "CANCELLED"
    page.get_by_role("button", name="Confirm").click()
    expect(page.locator("#state")).to_contain_text("CANCELLED")
    assert site.service.get("/benchmark-runs/run-in-progress")["status"] == "CANCELLED"


def test_pages__fit_at_double_size_and_rest(month: Site, site: Site) -> None:
    """Criterion 35: at a zoom of 200 % nothing is cut or covered, and nothing moves."""
    # A zoom of 200 % halves the width in CSS pixels: this is a screen of 1440 × 900.
    context = site.context(viewport={"width": 720, "height": 450}, device_scale_factor=2)
    page = site.open("/healthz", context=context)
    compare = f"/compare?base={BASE}&run={RUN}"
    for path in ("/", "/runs", f"/runs/{RUN}", "/inbox", TREND, compare, "/new/benchmark"):
        page.goto(f"{site.url}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 720, path
        assert page.evaluate(UNREACHABLE) == [], path
        for motion in ("reduce", "no-preference"):
            page.emulate_media(reduced_motion=motion)
            assert page.evaluate(MOVING) == 0, path


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


def test_live__updates_are_off_after_three_failures(month: Site, site: Site) -> None:
    """6.4: after three failures the page asks every 10 s, and says so."""
    run_id = site.service.post("/benchmark-runs", {"benchmarkId": "support", "agentId": "sql"})[
        "id"
    ]
    context = site.context()
    context.clock.install()
    context.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    requests: list[str] = []

    def refuse(route: Route) -> None:
        requests.append(route.request.url)
        route.fulfill(status=503)

    context.route("**/events", refuse)
    page = site.open(f"/runs/{run_id}", context=context)
    # The part of the page that was shown before the next try is marked.
    note = page.locator("#progress:not(.before) [data-live-note]")
    for _ in range(2):
        expect(note).to_have_text("reconnecting …")
        page.locator("#progress").evaluate("part => part.classList.add('before')")
        context.clock.run_for(1000)
    expect(note).to_have_text("live updates off: the page asks every 10 s")
    assert len(requests) == 3
    site.service.post(f"/benchmark-runs/{run_id}/cancel")
    # Just before the 10 s, and below just after them.
    context.clock.run_for(9500)
    expect(page.locator("#state")).to_contain_text("PENDING")
    context.clock.run_for(1000)
    expect(page.locator("#state")).to_contain_text("CANCELLED")


def test_swagger__executes_under_the_policy(month: Site, site: Site) -> None:
    """Criterion 38: Execute returns 200, and the key is not stored. Its other address, /docs, gives the same page."""
    context = site.context(login=False)
    context.route("**/openapi.json", answer_with_one_path)
    page = site.open("/swagger-ui.html", context=context)
    operation = page.locator("#operations-agents-listAgents")
    page.get_by_role("button", name="Authorize").first.click()
    page.locator(".modal-ux input").first.fill(site.key)
    page.locator(".modal-ux button[type=submit]").first.click()
    expect(page.locator(".modal-ux h6")).to_have_text("Authorized")
    page.locator(".modal-ux .btn-done").first.click()
    operation.locator(".opblock-summary-control").click()
    page.get_by_role("button", name="Execute").click()
    expect(page.locator(".live-responses-table tbody .response-col_status").first).to_contain_text(
        "200"
    )
    assert site.key not in page.evaluate("JSON.stringify(localStorage)")


def answer_with_one_path(route: Route) -> None:
    """One path of the description with its schemas: to show all of them takes ten seconds of processor time."""
    document = api_document()
    path = "/api/v1/agents"
    paths, components = {path: document["paths"][path]}, dict(document["components"])
    schemas = components.pop("schemas")
    used_schemas: dict[str, Any] = {}
    waiting = SCHEMAS.findall(json.dumps([paths, components]))
    while waiting:
        name = waiting.pop()
        if name not in used_schemas:
            used_schemas[name] = schemas[name]
            waiting += SCHEMAS.findall(json.dumps(schemas[name]))
    components["schemas"] = used_schemas
    route.fulfill(json={**document, "paths": paths, "components": components})


@pytest.mark.prove
def test_swagger__every_operation_is_accessible(month: Site, site: Site) -> None:
    """Criterion 31, for the operations of all tags, and with the colors of each method opened."""
    page = site.open("/swagger-ui.html", context=site.context(login=False))
    page.locator("#operations-agents-listAgents").wait_for()
    page.get_by_role("button", name="Authorize").first.click()
    assert find_violations(page) == []
    page.locator(".modal-ux .btn-done").first.click()
    open_operations(page, "agents-createAgent", "agents-replaceAgent", "agents-deleteAgent")
    assert find_violations(page) == []


def open_operations(page: Page, *names: str) -> None:
    for name in names:
        page.locator(f"#operations-{name} .opblock-summary-control").click()
        page.locator(f"#operations-{name} .responses-inner").wait_for()
