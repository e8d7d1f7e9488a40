"""Use of a page by its keyboard alone: keys are pressed, and the focus is visible at each step."""

from dataclasses import dataclass, field
from typing import Final

from playwright.sync_api import Locator, Page

MAX_TABS: Final = 100
# Whether the focus can be seen: inside the window, of some size, and with an outline in another color than its ground.
FOCUS_IS_VISIBLE: Final = """() => {
  const focused = document.activeElement, style = getComputedStyle(focused), box = focused.getBoundingClientRect();
  const isInside = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  const hasOutline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  return focused !== document.body && isInside && box.width > 1 && box.height > 1 && hasOutline
    && style.outlineColor !== getComputedStyle(document.body).backgroundColor;
}"""
NAME_OF_FOCUS: Final = "document.activeElement.outerHTML.slice(0, 200)"


def press(page: Page, *keys: str) -> None:
    """Press keys after the script of the page has run, which reads them."""
    page.wait_for_load_state()
    for key in keys:
        page.keyboard.press(key)


def assert_focus_is_visible(page: Page) -> None:
    assert page.evaluate(FOCUS_IS_VISIBLE), page.evaluate(NAME_OF_FOCUS)


def focus_by_tab(page: Page, target: Locator) -> int:
    """Press Tab until the element has the focus, which is visible at each step; returns how often."""
    for presses in range(1, MAX_TABS + 1):
        page.keyboard.press("Tab")
        assert_focus_is_visible(page)
        # In one look: an element that was found first could be replaced before it is asked whether it has the focus.
        if target.and_(page.locator(":focus")).count():
            return presses
    raise AssertionError(f"{target} is not reached by Tab")


@dataclass
class TaskKeys:
    """Keys that are pressed for a task, and their protocol: `Tab ×4 to "Inbox"`."""

    page: Page
    steps: list[str] = field(default_factory=list)

    def focus(self, target: Locator, name: str) -> None:
        presses = focus_by_tab(self.page, target)
        self.steps.append(f"Tab{f' ×{presses}' if presses > 1 else ''} to {name}")

    def type(self, text: str, name: str) -> None:
        self.page.keyboard.type(text)
        self.steps.append(name)

    def enter(self) -> None:
        """Press Enter and wait for the page, or the part of it, that it opens."""
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")
        self.steps.append("Enter")

    def follow(self, target: Locator, name: str) -> None:
        """Focus a link or button and press Enter."""
        self.focus(target, name)
        self.enter()

    def protocol(self) -> str:
        return ", ".join(self.steps).replace("Enter, ", "Enter; ")
