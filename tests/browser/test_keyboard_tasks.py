"""Five tasks of a user, done with the keyboard alone and without JavaScript.

Their keys are the table of `docs/pages.md`: a failure prints the rows that belong there.
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Site
from tests.browser.keyboard import TaskKeys
from tests.support.page_data import write_month

DOCS: Final = Path(__file__).parents[2] / "docs" / "pages.md"
ROWS_OF_TASKS: Final = re.compile(
    r"^\| Task \| Keys \| Result \|\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE
)
SILENCED_NAME: Final = "tide-*"
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def month(module_site: Site) -> Site:
    with module_site.service.resources.db.begin() as session:
        write_month(session)
    return module_site


def test_five_tasks__are_done_by_keyboard_without_javascript(month: Site, site: Site) -> None:
    """Criteria 32 and 33: no pointer, no typed address, no script, and the focus is visible at each step."""
    context = site.context(login=False, java_script_enabled=False, locale="en-US")
    page = site.open("/login", context=context)
    rows = [
        log_in_and_open_the_fallen_run(page, site),
        compare_with_the_baseline(page),
        acknowledge_an_alert(page, site),
        silence_rules_by_name(page, site),
        start_and_cancel_a_run(page, site),
    ]
    documented = ROWS_OF_TASKS.search(DOCS.read_text(encoding="utf-8"))
    assert documented is not None
    assert documented[1].splitlines() == rows, "\n".join(rows)


def log_in_and_open_the_fallen_run(page: Page, site: Site) -> str:
    keys = TaskKeys(page)
    keys.focus(page.locator("#key"), "the field")
    keys.type(site.key, "the key")
    keys.enter()
    expect(page.locator("h1")).to_contain_text("1 of 7 got worse")
    keys.follow(page.get_by_role("link", name="See why").first, '"See why"')
    expect(page.locator("h1")).to_contain_text(re.compile("Billing bot.*regressed", re.DOTALL))
    return row("Log in and open the run that got worse", keys, '"Billing bot, … ▼ regressed"')


def compare_with_the_baseline(page: Page) -> str:
    keys = TaskKeys(page)
    keys.follow(main_link(page, "compare"), '"compare"')
    expect(page.locator("h2").first).to_contain_text("Flipped items · 10 fell, 0 rose")
    keys.follow(main_link(page, "Side by side case-000"), '"Side by side case-000"')
    expect(page.locator("h1")).to_have_text("case-000")
    return row("Compare it with its baseline and read an item", keys, '"case-000", both answers')


def acknowledge_an_alert(page: Page, site: Site) -> str:
    keys = TaskKeys(page)
    keys.follow(navigation_link(page, "Inbox"), '"Inbox"')
    # The number of open alerts is in the title, which a reader hears first.
    expect(page).to_have_title(re.compile(r"^\(2\) Inbox"))
    for name in ("Skip to the content", "Skip to the messages"):
        keys.follow(page.get_by_role("link", name=name), f'"{name}"')
    keys.follow(page.get_by_role("button", name=re.compile("^It was real")).first, '"It was real"')
    expect(page).to_have_title(re.compile(r"^\(1\) Inbox"))
    assert site.service.get("/alerts/alert-0")["verdict"] == "true"
    return row("Acknowledge an alert", keys, '"(1) Inbox" instead of "(2) Inbox"')


def silence_rules_by_name(page: Page, site: Site) -> str:
    ends_at = datetime.now(UTC) + timedelta(days=2)
    keys = TaskKeys(page)
    keys.follow(page.get_by_role("link", name="New silence"), '"New silence"')
    keys.focus(page.get_by_label("Name of the rule"), '"Name of the rule"')
    keys.type(SILENCED_NAME, f"`{SILENCED_NAME}`")
    keys.focus(page.get_by_label("Ends at", exact=True), '"Ends at"')
    # The parts of a date and time in the language of the browser; the year may have six digits.
    page.keyboard.type(f"{ends_at:%m%d%Y}")
    page.keyboard.press("ArrowRight")
    keys.type("0800AM", "date and time")
    keys.follow(page.get_by_role("button", name="Silence", exact=True), '"Silence"')
    expect(page.locator("article")).to_contain_text(f"rules named {SILENCED_NAME}")
    [silence] = site.service.list_items("/silences")
    assert silence["endsAt"].startswith(f"{ends_at:%Y-%m-%dT08:00}")
    return row("Silence the rules of a name", keys, f'"rules named {SILENCED_NAME}, until …"')


def start_and_cancel_a_run(page: Page, site: Site) -> str:
    keys = TaskKeys(page)
    keys.follow(navigation_link(page, "Benchmarks"), '"Benchmarks"')
    keys.follow(main_link(page, "Support, nightly"), '"Support, nightly"')
    keys.follow(page.get_by_role("button", name="Run now"), '"Run now"')
    expect(page.locator("#state")).to_contain_text("PENDING")
    keys.follow(page.get_by_role("button", name="Cancel"), '"Cancel"')
    expect(page.locator("h1")).to_have_text("Cancel this run?")
    keys.follow(page.get_by_role("button", name="Confirm"), '"Confirm"')
    expect(page.locator("#state")).to_contain_text("CANCELLED")
    run_id = page.url.rpartition("/")[2]
    assert site.service.get(f"/benchmark-runs/{run_id}")["status"] == "CANCELLED"
    return row("Start a run and cancel it", keys, '"PENDING", then "CANCELLED"')


def row(task: str, keys: TaskKeys, result: str) -> str:
    return f"| {task} | {keys.protocol()} | {result} |"


def main_link(page: Page, name: str) -> Locator:
    return page.locator("main").get_by_role("link", name=name, exact=True).first


def navigation_link(page: Page, name: str) -> Locator:
    return page.get_by_role("navigation", name="Main").get_by_role("link", name=name)
