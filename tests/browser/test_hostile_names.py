"""Every page with names that an attacker chose; the docstring of a test names its criterion in
`docs/page-criteria.md`."""

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import NARROW, Site
from tests.support.every_page import page_paths, write_hostile_pages

# Of the screen of a phone: a title that is higher hides the verdict and the buttons.
MAX_TITLE_HEIGHT_PX = 300
MARKED_DIRECTION = "[U+202E]"
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def hostile(module_site: Site) -> Site:
    with module_site.service.resources.db.begin() as session:
        write_hostile_pages(session)
    return module_site


def test_every_page__of_hostile_names_shows_text_and_fits(hostile: Site, site: Site) -> None:
    """Criteria 29 and 34: names of 200 characters with markup, an override of the reading direction and one
    long word are text, widen no page, and leave room below the title."""
    page = site.open("/")
    page.set_viewport_size(NARROW)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    marked = [path for path in page_paths() if fits_with_hostile_names(page, f"{site.url}{path}")]
    assert dialogs == []
    # Pages without any hostile name would prove nothing.
    assert len(marked) > 30, "the names are on most pages"


def fits_with_hostile_names(page: Page, address: str) -> bool:
    """Check the layout of a page on a phone; returns whether a hostile name is on it."""
    response = page.goto(address)
    assert response is not None
    assert response.ok == ("/no-such-" not in address), address
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= NARROW["width"], address
    title = page.locator("h1").bounding_box()
    assert title is not None
    assert title["height"] <= MAX_TITLE_HEIGHT_PX, address
    assert page.locator("main script").count() == 0
    html = page.locator("main").inner_html()
    assert "\u202e" not in html.replace("&#8238;", "\u202e"), address
    return MARKED_DIRECTION in html
