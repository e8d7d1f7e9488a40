"""What our use of axe-core finds: a wrong color in either theme, also beside texts of the same kind."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.axe import find_color_violations, find_violations
from tests.browser.conftest import Site

pytestmark = pytest.mark.xdist_group("browser")
ADD_TEXTS = """([text, theme, background]) => {
  for (const color of ["#000", text]) {
    const element = document.createElement("p"), isAsked = matchMedia(`(prefers-color-scheme: ${theme})`);
    element.textContent = `a text in ${color}`;
    const paint = () => {
      element.style.color = isAsked.matches ? color : isAsked.media.includes("dark") ? "#000" : "#fff";
      element.style.backgroundColor = isAsked.matches ? background : isAsked.media.includes("dark") ? "#fff" : "#000";
    };
    paint();
    isAsked.addEventListener("change", paint);
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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_violations__faint_text_of_one_theme_is_found(page: Page, theme: str) -> None:
    page.evaluate(ADD_TEXTS, ["#ccc", theme, "#fff"])

    for _ in range(2):
        [violation] = find_violations(page)
        assert violation.startswith("color-contrast: ")
        assert "a text in #ccc" in violation
    assert len(find_color_violations(page)) == 1


def test_violations__same_color_is_judged_by_its_background(page: Page) -> None:
    page.evaluate(ADD_TEXTS, ["#767676", "light", "#fff"])
    assert find_violations(page) == []
    page.evaluate(ADD_TEXTS, ["#767676", "light", "#eee"])

    assert [text.partition(":")[0] for text in find_violations(page)] == ["color-contrast"]
