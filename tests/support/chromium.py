"""The Chromium of the machine, started for tests and pictures of pages."""

import shutil
from typing import Final

from playwright.sync_api import Browser, Playwright

# The shell has the same engine without the window, and takes half of the processor time.
CHROMIUM_NAMES: Final = (
    *("chromium-headless-shell", "chrome-headless-shell"),
    *("chromium", "chromium-browser", "google-chrome"),
)
# The milliseconds from the begin of a load to the paint of its largest content: nothing of the page is missing then.
COMPLETE_PAINT: Final = """() => new Promise((done) => {
  let painted = 0;
  new PerformanceObserver((list) => {
    painted = Math.max(painted, ...list.getEntries().map((entry) => entry.startTime));
    // A script of the page could paint more in the next frame.
    requestAnimationFrame(() => requestAnimationFrame(() => done(painted)));
  }).observe({ type: "largest-contentful-paint", buffered: true });
})"""
INSTALL_ADVICE: Final = "no Chromium found; `apt-get install chromium-headless-shell` installs one"


def find_chromium() -> str | None:
    """The path of a Chromium; None without one."""
    return next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)


def launch_chromium(playwright: Playwright, path: str, *arguments: str) -> Browser:
    return playwright.chromium.launch(
        executable_path=path,
        # Containers have neither user namespaces nor much shared memory.
        args=[
            "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
            # Otherwise a heap of less than 10 MB counts as 10.
            "--enable-precise-memory-info",
            # A name on plain HTTP is no secure context; an address of this machine is one.
            "--host-resolver-rules=MAP mosaico.internal 127.0.0.1",
            *arguments,
        ],
    )  # fmt: skip
