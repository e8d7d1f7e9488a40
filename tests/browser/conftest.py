"""A served MOSAICO with data, and a Chromium that is logged in.

Tests are skipped where no Chromium is found; with MOSAICO_REQUIRE_BROWSER they fail instead.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.jobs.process_pool import ProcessPool
from tests.support.chromium import INSTALL_ADVICE, find_chromium, launch_chromium
from tests.support.scheduling import group_of
from tests.support.service import Service, new_resources, running_service
from tests.support.waiting import LIVENESS_MS

WIDE: ViewportSize = {"width": 1440, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}


expect.set_options(timeout=LIVENESS_MS)


@dataclass
class Site:
    """A running service; `open` gives a page of a logged-in browser that notes what goes wrong."""

    service: Service
    browser: Browser
    contexts: list[BrowserContext] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    shared: BrowserContext | None = None
    cookies: list[Any] = field(default_factory=list)

    @property
    def url(self) -> str:
        return str(self.service.client.base_url).rstrip("/")

    @property
    def key(self) -> str:
        return self.service.client.headers["Authorization"].removeprefix("Bearer ")

    def context(
        self, *, login: bool = True, key: str | None = None, **options: object
    ) -> BrowserContext:
        """A browser of its own; without other options it is 1440 pixels wide, and nothing on a page
        moves, which takes processor time as long as the page is open."""
        defaults = {"viewport": WIDE, "base_url": self.url, "reduced_motion": "reduce"}
        context = self.browser.new_context(**{**defaults, **options})  # type: ignore[arg-type]
        context.set_default_timeout(LIVENESS_MS)
        self.contexts.append(context)
        if login:
            response = context.request.post(
                f"{self.url}/login",
                form={"key": key or self.key},
                headers={"Origin": self.url, "Accept": "text/html"},
                max_redirects=0,
            )
            assert response.status == 303, response.text()
        return context

    def shared_context(self) -> BrowserContext:
        """A logged-in browser that tests use one after the other: a new one takes a second of
        processor time. Its first page, of text only, keeps the process that shows the others."""
        if self.shared is None:
            self.shared = self.context()
            self.contexts.remove(self.shared)
            self.shared.new_page().goto(f"{self.url}/healthz")
            self.cookies = list(self.shared.storage_state()["cookies"])
        return self.shared

    def open(self, path: str, *, context: BrowserContext | None = None) -> Page:
        """The page at a path, with every console error and refused request noted in `problems`."""
        page = (context or self.shared_context()).new_page()
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self._check_host(request.url))
        page.goto(f"{self.url}{path}")
        return page

    def close(self) -> None:
        for context in self.contexts:
            context.close()
        self.contexts.clear()
        self._leave_shared_context()
        self.problems.clear()

    def close_browsers(self) -> None:
        """Close the shared browser, too: the next module starts with fresh processes."""
        self.close()
        if self.shared is not None:
            self.shared.close()
            self.shared = None

    def _leave_shared_context(self) -> None:
        """Close the pages of a test and forget their cookies; close the browser if the test logged it
        out or stored something else in it."""
        if self.shared is None:
            return
        state = self.shared.storage_state()
        if state["origins"] or any(cookie not in state["cookies"] for cookie in self.cookies):
            self.shared.close()
            self.shared = None
            return
        for page in self.shared.pages[1:]:
            page.close()
        self.shared.clear_cookies()
        self.shared.add_cookies(self.cookies)

    def _note(self, message: ConsoleMessage) -> None:
        # A browser reports each page of an error as an error of its own; a file that the service does not have is one.
        is_file = "/static/" in message.location["url"] and "status of" in message.text
        if message.type == "error" and (is_file or "Failed to load resource" not in message.text):
            self.problems.append(f"{message.text} {message.location['url']}")

    def _check_host(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:")):
            self.problems.append(f"request to {url}")


def error_of(page: Page, name: str) -> str:
    """The text that `aria-describedby` ties to a field."""
    field = page.locator(f"[name='{name}']")
    expect(field).to_have_attribute("aria-invalid", "true")
    return page.locator(f"[id='{field.get_attribute('aria-describedby')}']").inner_text()


@pytest.fixture(scope="session")
def chromium_path() -> str:
    path = find_chromium()
    if path is None:
        if os.environ.get("MOSAICO_REQUIRE_BROWSER"):
            pytest.fail(INSTALL_ADVICE)
        pytest.skip(INSTALL_ADVICE)
    return path


class BrowserOfGroup:
    """One browser for all tests of an `xdist_group`: its start takes seconds."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._browser: Browser | None = None

    def launch(self, path: str) -> Browser:
        if self._browser is None:
            playwright = self._stack.enter_context(sync_playwright())
            self._browser = launch_chromium(
                playwright,
                path,
                # A process for each page takes half a second of processor time to start.
                "--process-per-site",
                # To optimize the code of a page takes longer than the page runs, axe-core included.
                "--js-flags=--no-maglev --no-opt",
            )
            self._stack.callback(self._browser.close)
        return self._browser

    def close(self) -> None:
        self._stack.close()
        self._browser = None


BROWSER: Final = BrowserOfGroup()


@pytest.fixture(scope="module")
def chromium(chromium_path: str) -> Browser:
    return BROWSER.launch(chromium_path)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    # Until it is closed, Playwright runs an event loop in this thread: other tests could start none.
    if nextitem is None or group_of(nextitem) != group_of(item):
        BROWSER.close()


@dataclass
class MovableClock:
    """The real time, ahead by what a test moved it."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        return utc_now() + self.ahead

    def move(self, by: timedelta) -> None:
        self.ahead += by


@pytest.fixture(scope="module")
def module_clock() -> MovableClock:
    """The clock of the module's service."""
    return MovableClock()


@pytest.fixture(scope="module")
def module_service(
    module_database: Database,
    module_clock: MovableClock,
    plugins: None,
    metric_pool: ProcessPool,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    """The API on a real port with a database that the tests of a module share."""
    resources = new_resources(module_database, tmp_path_factory.mktemp("data"), clock=module_clock)
    with running_service(resources, metric_pool) as service:
        yield service


@pytest.fixture(scope="module")
def module_site(module_service: Service, chromium: Browser) -> Iterator[Site]:
    site = Site(module_service, chromium)
    yield site
    site.close_browsers()


@pytest.fixture
def site(module_site: Site) -> Iterator[Site]:
    """The site of the module; a test fails when a page logged an error or asked another host."""
    yield module_site
    problems = list(module_site.problems)
    module_site.close()
    assert problems == []
