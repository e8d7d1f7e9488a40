"""A person logs in at a real provider, opens Morning, logs out, and is blocked by an admin."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.support.openid_provider import provider_settings, running_provider, served
from tests.support.serve import free_port

pytestmark = pytest.mark.xdist_group("browser")


def log_in(page: Page) -> None:
    """Follow the button of the login page, and fill the forms of the provider that it shows."""
    page.get_by_role("link", name="Log in with 127.0.0.1").click()
    for name, value in (("login", "ana"), ("password", "password of ana")):
        page.locator(f"input[name={name}]").fill(value)
        page.locator(f"form:has(input[name={name}]) [type=submit]").last.click()
    # Consent that the provider tells this service who logs in.
    page.locator("[name=answer][value=accept]").click()


def test_person__logs_in_opens_morning_logs_out_and_is_blocked(site: Site) -> None:
    port = free_port()
    with served(site.service, provider_settings(f"http://127.0.0.1:{port}")) as client:
        # Another site than the provider, which the browser tells apart by its name.
        address = str(client.base_url).rstrip("/").replace("127.0.0.1", "localhost")
        with running_provider(port, address):
            context = site.context(login=False, base_url=address)
            page = context.new_page()
            page.goto("/")
            log_in(page)
            expect(page).to_have_url(f"{address}/")
            expect(page.get_by_role("heading", level=1)).to_have_text("No run has ended")
            [person] = site.service.list_items("/people")
            assert person["name"] == "Ana Rossi"

            page.get_by_role("button", name=re.compile("Log out")).click()
            page.wait_for_load_state()
            page.goto("/")
            expect(page.get_by_label("API key")).to_be_visible()

            site.service.patch(f"/people/{person['id']}", {"blocked": True})
            # The provider remembers the person and their consent.
            page.get_by_role("link", name="Log in with 127.0.0.1").click()
            expect(page.get_by_role("alert")).to_contain_text("blocked")
            page.goto("/")
            expect(page.get_by_label("API key")).to_be_visible()
