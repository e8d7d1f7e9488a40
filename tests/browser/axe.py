"""Accessibility of a page as axe-core judges it (WCAG 2.2 AA and its best practices)."""

from typing import Any, Final

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

TAGS: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
# The themes differ in colors only.
COLOR_RULES: Final = ("color-contrast", "link-in-text-block")
WITHOUT_COLORS: Final[dict[str, Any]] = {
    "runOnly": {"type": "tag", "values": TAGS},
    "rules": {rule: {"enabled": False} for rule in COLOR_RULES},
}
WITHOUT_COLORS_AND_SIZES: Final[dict[str, Any]] = {
    **WITHOUT_COLORS,
    "rules": {**WITHOUT_COLORS["rules"], "target-size": {"enabled": False}},
}
ONLY_COLORS: Final[dict[str, Any]] = {"runOnly": {"type": "rule", "values": COLOR_RULES}}
RUN: Final = """([elements, options]) => axe.run(
  elements ? { include: elements.map(index => window.elementsOfStyles[index]) } : document,
  {...options, preload: false, resultTypes: ["violations"]}
).then(results => results.violations.flatMap(
  rule => rule.nodes.map(node => `${rule.id}: ${node.html.slice(0, 200)}`)))"""
# Everything that the contrast of a text depends on, and whether axe-core judges it: it skips disabled
# fields, signs and single letters. An element outside of the flow may cover others: its classes say
# which.
FIND_STYLES: Final = """() => {
  const found = new Map(), stylesOfBoxes = new Map();
  // Neighbors are in the same boxes: on a large page, to look at all of them again took most of the time.
  const styleOfBoxes = box => {
    if (!box) return "";
    if (!stylesOfBoxes.has(box)) {
      const { backgroundColor, backgroundImage, opacity, filter, position } = getComputedStyle(box);
      const style = [backgroundColor, backgroundImage, opacity, filter];
      if (box instanceof SVGElement || !["static", "relative"].includes(position)) style.push(box.getAttribute("class"));
      stylesOfBoxes.set(box, [...style, styleOfBoxes(box.parentElement)].join(" "));
    }
    return stylesOfBoxes.get(box);
  };
  const elements = new Set(document.querySelectorAll("input, select, textarea, button"));
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) if (texts.currentNode.data.trim()) elements.add(texts.currentNode.parentElement);
  for (const element of elements) {
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    const own = getComputedStyle(element), hasLetters = /[\\p{L}\\p{N}].*?[\\p{L}\\p{N}]/su.test(element.textContent);
    const key = [element.localName, element.matches(":disabled, [aria-disabled=true] *"), hasLetters, own.color, own.fill, own.fontSize, own.fontWeight, own.textShadow,
      own.textDecorationLine, element.parentElement && getComputedStyle(element.parentElement).color, styleOfBoxes(element)].join(" ");
    if (!found.has(key)) found.set(key, element);
  }
  window.elementsOfStyles = [...found.values()];
  return [...found.keys()];
}"""

_checked_styles: set[str] = set()


def find_violations(page: Page, *, has_sizes: bool = True) -> list[str]:
    """The violations of a page, those of its colors in the light and the dark theme, which stays.

    A combination of colors and font that was found right is not checked again, on any page: that
    would take most of the time. `find_color_violations` checks all texts. The sizes of links and
    buttons, which take axe-core as long as all other rules, can be left out. Closed parts are opened;
    an open menu would cover others.
    """
    _prepare(page)
    page.emulate_media(color_scheme="light")
    rules = WITHOUT_COLORS if has_sizes else WITHOUT_COLORS_AND_SIZES
    violations: list[str] = page.evaluate(RUN, [None, rules])
    violations += _find_new_color_violations(page)
    page.emulate_media(color_scheme="dark")
    return violations + _find_new_color_violations(page)


def find_color_violations(page: Page) -> list[str]:
    """The violations of the colors of all texts, in the light and the dark theme, which stays."""
    _prepare(page)
    page.emulate_media(color_scheme="light")
    violations: list[str] = page.evaluate(RUN, [None, ONLY_COLORS])
    page.emulate_media(color_scheme="dark")
    return violations + list(page.evaluate(RUN, [None, ONLY_COLORS]))


def _prepare(page: Page) -> None:
    page.evaluate(
        "document.querySelectorAll('details:not(.menu)').forEach(part => part.open = true)"
    )
    page.evaluate(AXE_SCRIPT)


def _find_new_color_violations(page: Page) -> list[str]:
    styles: list[str] = page.evaluate(FIND_STYLES)
    # The styles are compared here: to send all that are right to each page took as long as to judge the new ones.
    new_styles = [index for index, style in enumerate(styles) if style not in _checked_styles]
    if not new_styles:
        return []
    violations: list[str] = page.evaluate(RUN, [new_styles, ONLY_COLORS])
    if not violations:
        _checked_styles.update(styles)
    return violations
