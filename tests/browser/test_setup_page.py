"""From a CSV to a nightly with a tested message, by pages only."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Site
from tests.integration.notifications.conftest import receiving
from tests.support.processes import until
from tests.support.service import working

pytestmark = pytest.mark.xdist_group("browser")
CSV = """item,question,expected,answer
s-1,Where is my parcel?,In Turin,In Turin
s-2,Is it in stock?,Yes,No
"""
MAX_CLICKS = 12


class Clicks:
    """Counts each click, also those into a field and on a file."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.count = 0

    def press(self, target: Locator) -> None:
        self.count += 1
        target.click()

    def type(self, label: str, value: str) -> None:
        self.count += 1
        self.page.get_by_label(label, exact=True).fill(value)


@pytest.mark.parametrize("has_script", [True, False])
def test_setup__from_a_file_to_a_nightly_with_an_alert_in_twelve_clicks(
    site: Site, tmp_path: Path, *, has_script: bool
) -> None:
    file = tmp_path / f"support {has_script}.csv"
    file.write_text(CSV)
    page = site.open("/", context=site.context(java_script_enabled=has_script))
    clicks = Clicks(page)
    navigation = page.get_by_role("navigation", name="Main")
    clicks.press(navigation.get_by_role("link", name="Schedules"))
    clicks.press(page.get_by_role("link", name="Set up a nightly"))
    clicks.count += 1
    page.get_by_label("File", exact=True).set_input_files(file)
    clicks.press(page.get_by_role("button", name="Continue"))
    expect(page.get_by_role("cell", name="Where is my parcel?")).to_be_visible()
    clicks.type("Name of the new agent", "Billing bot")
    with receiving() as receiver, working(site.service):
        clicks.count += 1
        # In place of Slack, whose server no test calls.
        page.get_by_label("Add", exact=True).select_option("WEBHOOK")
        clicks.type("Address", receiver.at(f"hook-{has_script}"))
        clicks.press(page.get_by_role("button", name="Add and test"))
        until(lambda: len(receiver.calls) == 1)
        if not has_script:
            # A page without a script does not look again by itself.
            until(lambda: site.service.list_items("/deliveries")[0]["status"] == "DELIVERED")
            clicks.count += 1
            page.goto(page.url)
        expect(page.get_by_text("✓ arrived")).to_be_visible()
        expect(page.get_by_text("1 of 1 addresses work")).to_be_visible()
        clicks.press(page.get_by_role("button", name="Start tonight"))
        expect(page.get_by_role("heading", level=1)).to_contain_text("nightly")
    assert clicks.count <= MAX_CLICKS
    [benchmark] = [
        benchmark
        for benchmark in site.service.list_items("/benchmarks")
        if benchmark["datasetRef"] == file.stem
    ]
    [rule] = site.service.list_items("/alert-configs", benchmarkId=benchmark["id"])
    assert (rule["condition"], rule["channels"]) == ("REGRESSED", ["IN_APP", "WEBHOOK"])
    assert site.problems == []
