"""Accessibility of a page as axe-core judges it (WCAG 2.2 AA and its best practices)."""

from typing import Final

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

TAGS: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
# The themes differ in colors only.
COLOR_RULES: Final = ("color-contrast", "link-in-text-block")
RUN: Final = """options => axe.run(document, {...options, resultTypes: ["violations"]}).then(results =>
  results.violations.flatMap(rule => rule.nodes.map(node => `${rule.id}: ${node.html.slice(0, 200)}`)))"""


def find_violations(page: Page) -> list[str]:
    """The violations of a page in the light theme, then those of its colors in the dark one, which stays.

    Closed parts are opened; an open menu would cover others.
    """
    page.evaluate(
        "document.querySelectorAll('details:not(.menu)').forEach(part => part.open = true)"
    )
    page.evaluate(AXE_SCRIPT)
    page.emulate_media(color_scheme="light")
    violations: list[str] = page.evaluate(RUN, {"runOnly": {"type": "tag", "values": TAGS}})
    page.emulate_media(color_scheme="dark")
    violations += page.evaluate(RUN, {"runOnly": {"type": "rule", "values": COLOR_RULES}})
    return violations
