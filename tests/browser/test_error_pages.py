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


OPENED: dict[int, Callable[[Page], object]] = {401: enter_wrong_key, 409: delete_used_agent}
PATHS = {403: "/keys", 404: "/runs/no-such-run", 422: "/runs?sort=color", 500: "/", 503: "/"}
FAILURES = {500: RuntimeError("a mistake"), 503: Unavailable("the database does not answer")}


@pytest.mark.parametrize("status", OPENED)
def test_error_page__names_the_next_step(status: int, month: Site, site: Site) -> None:
    """What is wrong, the id of the request to copy, a link back; criterion 31 for a refused login. The others have the
    template of `/no-such-page`, which `test_page__is_accessible_in_both_themes` judges."""
    page = site.open("/system")
    with page.expect_response(lambda response: response.status == status):
        OPENED[status](page)
    if status == 401:
        assert find_violations(page) == []
        expect(page.get_by_label("API key")).to_have_attribute("aria-invalid", "true")
        return
    assert_error_is_explained(page.content(), status)
    request_id = page.locator("main code").last.inner_text()
    page.get_by_role("button", name=f"Copy {request_id}").click()
    expect(page.locator("#live")).to_have_text("Copied")


@pytest.mark.parametrize("status", PATHS)
def test_error_page__of_each_status_has_the_id_of_the_request_and_a_link_back(
    status: int, module_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = dict(HTML)
    if status == 403:
        key = module_service.post("/keys", {"name": "a reader", "role": "read"})["token"]
        headers["Authorization"] = f"Bearer {key}"
    if status in FAILURES:

        def fail(*_: object) -> None:
            raise FAILURES[status]

        monkeypatch.setattr(queries, "read_overview", fail)
    response = module_service.client.get(PATHS[status], headers=headers)
    assert response.status_code == status
    assert_error_is_explained(response.text, status)


def assert_error_is_explained(html: str, status: int) -> None:
    main = main_of(html)
    assert f"Error {status}" in main
    assert re.search(r'<a [^>]*href="/"[^>]*>Morning</a>', main)
    request_id = re.findall(r"<code>([^<]+)</code>", main)[-1]
    assert f'aria-label="Copy {request_id}"' in main
    # The text of an unexpected error may contain a secret.
    assert "a mistake" not in html
    # Errors of the API have Markdown: a page shows code as an element.
    assert "`" not in main


def main_of(html: str) -> str:
    [main] = re.findall("<main.*</main>", html, re.DOTALL)
    return str(main)


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
    main = main_of(module_service.client.get(path, headers=HTML).text)
    assert re.search(f"<h1[^>]*>{title}</h1>", main)
    assert re.search(f"<a [^>]*>{section}</a>", main)
    assert "`" not in main
