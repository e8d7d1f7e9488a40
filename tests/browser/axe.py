"""Accessibility of a page as axe-core judges it (WCAG 2.2 AA and its best practices)."""

from typing import Any, Final

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

TAGS: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
# The themes differ in colors only.
COLOR_RULES: Final = ("color-contrast", "link-in-text-block")
# It compares each target with all others: most of the time of a page with a long list.
SIZE_RULES: Final = ("target-size",)
OTHER_RULES: Final[dict[str, Any]] = {
    "runOnly": {"type": "tag", "values": TAGS},
    "rules": {rule: {"enabled": False} for rule in (*COLOR_RULES, *SIZE_RULES)},
}
ONLY_COLORS: Final[dict[str, Any]] = {"runOnly": {"type": "rule", "values": COLOR_RULES}}
ONLY_SIZES: Final[dict[str, Any]] = {"runOnly": {"type": "rule", "values": SIZE_RULES}}
RUN: Final = """([elements, options]) => axe.run(
  elements ? { include: elements.map(index => window.elementsOfKinds[index]) } : document,
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
    const own = getComputedStyle(element), letters = element.textContent.match(/[\\p{L}\\p{N}]/gu) ?? [];
    const key = [element.localName, element.matches(":disabled, [aria-disabled=true] *"), letters.length > 1, own.color, own.fill, own.fontSize, own.fontWeight, own.textShadow,
      own.textDecorationLine, element.parentElement && getComputedStyle(element.parentElement).color, styleOfBoxes(element)].join(" ");
    if (!found.has(key)) found.set(key, element);
  }
  window.elementsOfKinds = [...found.values()];
  return [...found.keys()];
}"""

# Everything that the rule about the size of a target depends on: its own size, and what is around it. Rows of a list are
# alike; a distance of 24 pixels or more is enough, whatever it is.
FIND_TARGETS: Final = """() => {
  const found = new Map(), enough = 24;
  const targets = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [role], [tabindex]")]
    .filter(element => element.checkVisibility({ visibilityProperty: true }));
  const boxes = targets.map(element => element.getBoundingClientRect());
  const measure = pixels => Math.min(Math.round(pixels), enough);
  const distance = (box, other) => other ? [measure(Math.abs(other.left - box.right)), measure(Math.abs(other.right - box.left)),
    measure(Math.abs(other.top - box.bottom)), measure(Math.abs(other.bottom - box.top)), measure(Math.abs(other.top - box.top))] : [];
  const path = element => element ? `${path(element.parentElement)}>${element.localName}.${element.getAttribute("class") ?? ""}` : "";
  targets.forEach((element, index) => {
    const box = boxes[index];
    const key = [path(element), measure(box.width), measure(box.height), distance(box, boxes[index - 1]), distance(box, boxes[index + 1])].join(" ");
    if (!found.has(key)) found.set(key, element);
  });
  window.elementsOfKinds = [...found.values()];
  return [...found.keys()];
}"""

_checked_styles: set[str] = set()
_checked_targets: set[str] = set()


def find_violations(page: Page) -> list[str]:
    """The violations of a page, those of its colors in the light and the dark theme, which stays.

    A combination of colors and font, or a target of a size with its neighbors, that was found right is not checked again, on
    any page: that would take most of the time. `find_all_violations` checks all of them. Closed parts are opened; an
    open menu would cover others.
    """
    _prepare(page)
    page.emulate_media(color_scheme="light")
    violations: list[str] = page.evaluate(RUN, [None, OTHER_RULES])
    violations += _find_new_violations(page, FIND_TARGETS, ONLY_SIZES, _checked_targets)
    violations += _find_new_violations(page, FIND_STYLES, ONLY_COLORS, _checked_styles)
    page.emulate_media(color_scheme="dark")
    return violations + _find_new_violations(page, FIND_STYLES, ONLY_COLORS, _checked_styles)


def find_all_violations(page: Page) -> list[str]:
    """The violations of all targets, and of the colors of all texts in the light and the dark theme, which stays."""
    _prepare(page)
    page.emulate_media(color_scheme="light")
    violations: list[str] = page.evaluate(RUN, [None, ONLY_SIZES])
    violations += page.evaluate(RUN, [None, ONLY_COLORS])
    page.emulate_media(color_scheme="dark")
    return violations + list(page.evaluate(RUN, [None, ONLY_COLORS]))


def _prepare(page: Page) -> None:
    page.evaluate(
        "document.querySelectorAll('details:not(.menu)').forEach(part => part.open = true)"
    )
    page.evaluate(AXE_SCRIPT)


def _find_new_violations(
    page: Page, find_kinds: str, rules: dict[str, Any], checked: set[str]
) -> list[str]:
    kinds: list[str] = page.evaluate(find_kinds)
    # They are compared here: to send all that are right to each page took as long as to judge the new ones.
    new_kinds = [index for index, kind in enumerate(kinds) if kind not in checked]
    if not new_kinds:
        return []
    violations: list[str] = page.evaluate(RUN, [new_kinds, rules])
    if not violations:
        checked.update(kinds)
    return violations
