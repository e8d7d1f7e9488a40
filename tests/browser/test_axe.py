"""What our use of axe-core finds: a wrong color in either theme, also beside texts of the same kind."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.axe import find_color_violations, find_violations
from tests.browser.conftest import Site

pytestmark = pytest.mark.xdist_group("browser")
# A black text and another one, in the other theme both as they should be.
ADD_TEXTS = """([color, theme, background]) => {
  const sheet = new CSSStyleSheet(), kind = `kind-${document.adoptedStyleSheets.length}`;
  sheet.replaceSync(`p.${kind} { color: #000; background: #fff }
    @media (prefers-color-scheme: ${theme}) {
      p.${kind} { background: ${background} }
      p.${kind}.other { color: ${color} }
    }`);
  document.adoptedStyleSheets.push(sheet);
  for (const [classes, text] of [[kind, "a black text"], [`${kind} other`, `a text in ${color}`]]) {
    const element = document.createElement("p");
    element.className = classes;
    element.textContent = text;
    document.querySelector("main").append(element);
  }
}"""


@pytest.fixture
def page(site: Site) -> Iterator[Page]:
    page = site.open("/")
    assert find_violations(page) == []
    page.emulate_media(color_scheme="light")
    yield page
    page.emulate_media(color_scheme="light")


def test_menu__is_accessible_when_it_is_open(page: Page) -> None:
    """Criterion 31: the checks of pages leave menus closed, because an open one covers other parts."""
    page.locator(".top details.menu > summary").click()
    assert page.locator(".top details.menu a").last.is_visible()
    assert find_violations(page) == []


def test_violations__faint_text_of_the_dark_theme_is_found(page: Page) -> None:
    page.evaluate(ADD_TEXTS, ["#ccc", "dark", "#fff"])

    # Pages are judged per style, and a style with a violation must not count as found right.
    for _ in range(2):
        [violation] = find_violations(page)
        assert violation.startswith("color-contrast: ")
        assert "a text in #ccc" in violation
    assert len(find_color_violations(page)) == 1
