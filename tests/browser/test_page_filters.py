"""The forms of filters: their rare fields are folded, they change the list while they are used, and they work without a
script.
"""

import re

import pytest
from playwright.sync_api import expect
from sqlalchemy import text

from tests.browser.conftest import Site
from tests.support.page_data import write_month

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def month(module_site: Site) -> Site:
    with module_site.service.resources.db.begin() as session:
        write_month(session)
        session.execute(text("UPDATE alert_events SET silence_id = 'old' WHERE id = 'alert-1'"))
    return module_site


def test_filter__rare_field_is_folded_and_stays_visible_with_a_value(
    month: Site, site: Site
) -> None:
    page = site.open("/runs")
    field = page.locator("form.filter select[name=triggeredBy]")
    expect(field).to_be_hidden()
    page.get_by_text("More filters").click()
    field.select_option("MANUAL")
    expect(page).to_have_url(re.compile(r"/runs\?triggeredBy=MANUAL$"))
    expect(page.locator("#run-count")).to_have_text("1 run")
    page.reload()
    # It is set, and so no longer folded.
    expect(field).to_have_value("MANUAL")
    expect(field).to_be_visible()
    page.locator("#clear a").click()
    expect(page).to_have_url(re.compile("/runs$"))
    expect(field).to_be_hidden()


def test_filter__several_values_each_have_a_field(month: Site, site: Site) -> None:
    page = site.open("/alert-history?state=FIRING&state=RUN_INVALID&sort=created")
    states = page.locator("form.filter select[name=state]")
    expect(states).to_have_count(2)
    expect(page.locator("tbody tr")).to_have_count(2)
    states.nth(1).select_option("")
    expect(page.locator("tbody tr")).to_have_count(1)
    # The order of the list stays.
    expect(page).to_have_url(re.compile(r"state=FIRING&sort=created$"))


def test_filter__works_without_a_script(month: Site, site: Site) -> None:
    page = site.open("/alert-history", context=site.context(java_script_enabled=False))
    page.get_by_label("Agent").select_option("billing")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_text("More filters").click()
    page.get_by_label("Silence").fill("old")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".empty")).to_contain_text("No alert matches")
    page.get_by_role("link", name="Clear the filter").click()
    expect(page.locator("tbody tr")).to_have_count(2)
