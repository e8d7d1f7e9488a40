"""Pages of errors: each names a next step."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from mosaico.core.errors import Unavailable
from mosaico.overview import queries
from tests.browser.axe import find_violations
from tests.browser.conftest import Site
from tests.support.browser_sessions import HTML
from tests.support.page_data import write_month
from tests.support.service import Service

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def month(module_site: Site) -> Site:
    with module_site.service.resources.db.begin() as session:
        write_month(session, nights=2)
    return module_site


def enter_wrong_key(page: Page) -> None:
    page.context.clear_cookies()
    page.goto("/login")
    page.get_by_label("API key").fill("mosaico_wrong")
    page.get_by_role("button", name="Log in").click()


def delete_used_agent(page: Page) -> None:
    page.goto("/agents/billing")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()


OPENED: dict[int, Callable[[Page], object]] = {
    401: enter_wrong_key,
    403: lambda page: page.goto("/keys"),
    404: lambda page: page.goto("/runs/no-such-run"),
    409: delete_used_agent,
    422: lambda page: page.goto("/runs?sort=color"),
    500: lambda page: page.goto("/"),
    503: lambda page: page.goto("/"),
}
FAILURES = {500: RuntimeError("a mistake"), 503: Unavailable("the database does not answer")}


@pytest.mark.parametrize("status", OPENED)
def test_error_page__names_the_next_step(
    status: int, month: Site, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong, the id of the request to copy, a link back; criterion 31 for a refused login. The others have the
    template of `/no-such-page`, which `test_page__is_accessible_in_both_themes` judges."""
    key = site.service.post("/keys", {"name": "a reader", "role": "read"})["token"]
    page = site.open("/system", context=site.context(key=key) if status == 403 else None)
    if status in FAILURES:

        def fail(*_: object) -> None:
            raise FAILURES[status]

        monkeypatch.setattr(queries, "read_overview", fail)
    with page.expect_response(lambda response: response.status == status):
        OPENED[status](page)
    if status == 401:
        assert find_violations(page) == []
        expect(page.get_by_label("API key")).to_have_attribute("aria-invalid", "true")
        return
    expect(page.locator("main")).to_contain_text(f"Error {status}")
    expect(page.locator("main").get_by_role("link", name="Morning")).to_be_visible()
    request_id = page.locator("main code").last.inner_text()
    page.get_by_role("button", name=f"Copy {request_id}").click()
    expect(page.locator("#live")).to_have_text("Copied")
    content = page.content()
    # The text of an unexpected error may contain a secret.
    assert "a mistake" not in content
    # Errors of the API have Markdown: a page shows code as an element.
    assert "`" not in page.locator("main").inner_text()


@pytest.mark.parametrize(
    ("path", "title", "section"),
    [
        ("/keys/no-such-key", "Unknown API key", "API keys"),
        ("/alerts/no-such-rule", "Alert rule not found", "Alerts"),
        ("/incidents/no-such-incident", "Incident not found", "Alerts"),
        ("/compare", "The input is not valid", "Runs"),
        (f"/search?text={'x' * 201}", "The input is not valid", "Morning"),
    ],
)
def test_error_page__is_titled_in_plain_words_and_links_to_its_section(
    path: str, title: str, section: str, module_service: Service
) -> None:
    html = module_service.client.get(path, headers=HTML).text
    main = re.search("<main.*</main>", html, re.DOTALL)
    assert main is not None
    assert re.search(f"<h1[^>]*>{title}</h1>", main[0])
    assert re.search(f"<a [^>]*>{section}</a>", main[0])
    assert "`" not in main[0]
