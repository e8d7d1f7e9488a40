"""Takes pictures of pages: `python -m tests.support.page_pictures FOLDER [PATH…]`.

Each page is taken at 1440 and 390 pixels, light and dark, with the data of a month. With
`--data empty`, `--data many` (10,000 runs), `--data fleet` (108 pairs in 60 nights) or
`--data hostile` the data is another.
`--docs` takes the pictures of `docs/pictures/` instead.
"""

import argparse
import base64
import importlib
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from playwright.sync_api import Browser, Page, sync_playwright
from sqlalchemy.orm import Session
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.core.db import Database
from mosaico.core.encryption import SecretBox
from mosaico.core.migrations import upgrade
from mosaico.core.network_policy import PRIVATE_SERVERS
from mosaico.core.resources import Resources
from mosaico.jobs.process_pool import ProcessPool
from mosaico.plugin_loading import load_plugins
from tests.support.chromium import INSTALL_ADVICE, find_chromium, launch_chromium
from tests.support.every_page import BASE as BASE_ID
from tests.support.every_page import RUN as RUN_ID
from tests.support.every_page import page_paths, write_every_page, write_hostile_pages
from tests.support.many_runs import write_many_runs
from tests.support.page_fleet import write_fleet
from tests.support.postgres import cluster, make_database
from tests.support.service import Service, running_service

Theme: TypeAlias = Literal["light", "dark"]

WIDTHS: Final = (1440, 390)
MAX_HEIGHT: Final = 2400
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")
RUN: Final = f"/runs/{RUN_ID}"
WIDE, NARROW = WIDTHS
COMPARE: Final = f"/compare?base={BASE_ID}&run={RUN_ID}"
TRACE: Final = f"{RUN}/traces/{RUN_ID}%2Ft-0"
TREND: Final = "/benchmarks/support/kpis/support-pass?agent=billing&days=30"
BACKTEST: Final = "/alerts/rule-1?days=30&agent=billing"
# Name, path, width and theme. All of them are smaller than a megabyte together.
DOCS: Final[tuple[tuple[str, str, int, Theme], ...]] = (
    ("morning-light", "/", WIDE, "light"),
    ("morning-narrow-dark", "/", NARROW, "dark"),
    ("run-dark", RUN, WIDE, "dark"),
    ("run-narrow-light", RUN, NARROW, "light"),
    ("compare-light", COMPARE, WIDE, "light"),
    ("trace-dark", TRACE, WIDE, "dark"),
    ("trend-light", TREND, WIDE, "light"),
    ("trend-narrow-dark", TREND, NARROW, "dark"),
    ("inbox-dark", "/inbox", WIDE, "dark"),
    ("inbox-narrow-light", "/inbox", NARROW, "light"),
    ("alert-light", "/alerts/events/alert-0", WIDE, "light"),
    ("rule-light", BACKTEST, WIDE, "light"),
    ("system-dark", "/system", WIDE, "dark"),
)
# Two files of the demo, whose comparison is a page without the service.
DEMO_FILES: Final = tuple(Path(__file__).parents[2] / f"demo/traces/run-{n}.jsonl" for n in (1, 2))
FILES_PICTURE: Final = "compare-files-light"
DOCS_HEIGHT: Final = 1400
DOCS_QUALITY: Final = 50
DOCS_FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures"


DATA: Final[Mapping[str, Callable[[Session], None]]] = MappingProxyType(
    {
        "month": write_every_page,
        "empty": lambda _: None,
        "many": write_many_runs,
        "fleet": write_fleet,
        "hostile": write_hostile_pages,
    }
)


@contextmanager
def served(write: Callable[[Session], None]) -> Iterator[Service]:
    """The service on a server of its own, with the rows that `write` adds."""
    load_plugins()
    importlib.import_module("mosaico.worker")  # declares the handlers of jobs
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster(Path(folder)) as lease,
        closing(ProcessPool(1, warm_up=load_plugins)) as pool,
    ):
        url = make_database(lease.url, "pictures")
        upgrade(url)
        db = Database(url, pool_size=10, name="pictures")
        with db.begin() as session:
            write(session)
        resources = Resources(
            db=db,
            secrets=SecretBox.from_keys([base64.b64encode(secrets.token_bytes(32)).decode()]),
            data_dir=Path(folder),
            outbound=PRIVATE_SERVERS,
            options={"langfuse_default_url": "https://cloud.langfuse.com"},
        )
        with running_service(resources, pool) as service:
            yield service
        db.dispose()


@contextmanager
def opened_page(browser: Browser, service: Service) -> Iterator[Page]:
    """A page of a browser that is logged in, and whose zone the service knows."""
    url = str(service.client.base_url).rstrip("/")
    context = browser.new_context(base_url=url, timezone_id="Europe/Rome")
    key = service.client.headers["Authorization"].removeprefix("Bearer ")
    # The service refuses a form without the origin of its own page.
    context.request.post(f"{url}/login", form={"key": key}, headers={"Origin": url})
    page = context.new_page()
    # A comparison takes long on a busy machine.
    page.set_default_timeout(180_000)
    # The browser tells the service its zone with the first page.
    page.goto("/")
    yield page
    context.close()


def open_path(page: Page, path: str) -> None:
    """Open a page, and wait for what it computes."""
    page.goto(path)
    page.locator("[data-poll=page]").wait_for(state="detached")


def take_picture(
    page: Page,
    file: Path,
    *,
    width: int,
    theme: Theme,
    max_height: int = MAX_HEIGHT,
    quality: int = 70,
) -> int:
    """Store the page as a picture, in the format that the name of the file says; returns by how many pixels it is too wide."""
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    size = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    )
    clip = {"x": 0, "y": 0, "width": width, "height": min(size[1], max_height), "scale": 1}
    options = {
        "format": file.suffix[1:],
        "quality": quality,
        "clip": clip,
        "captureBeyondViewport": True,
    }
    shot = page.context.new_cdp_session(page).send("Page.captureScreenshot", options)
    file.write_bytes(base64.b64decode(shot["data"]))
    return int(size[0]) - width


def take_docs_pictures(page: Page) -> None:
    """The pictures of `docs/pictures/`."""

    def store(name: str, width: int, theme: Theme) -> None:
        file = DOCS_FOLDER / f"{name}.webp"
        take_picture(
            page, file, width=width, theme=theme, max_height=DOCS_HEIGHT, quality=DOCS_QUALITY
        )

    for name, path, width, theme in DOCS:
        open_path(page, path)
        store(name, width, theme)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "comparison.html"
        words = ["compare", *map(str, DEMO_FILES), "--metrics", "ROUGE", "--html", str(file)]
        CliRunner().invoke(cli, words, catch_exceptions=False)
        page.goto(file.as_uri())
        store(FILES_PICTURE, WIDE, "light")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--data", choices=DATA, default="month")
    parser.add_argument("--docs", action="store_true")
    options = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit(INSTALL_ADVICE)
    with served(DATA[options.data]) as service, sync_playwright() as playwright:
        browser = launch_chromium(playwright, chromium)
        with opened_page(browser, service) as page:
            if options.docs:
                take_docs_pictures(page)
                return
            options.folder.mkdir(parents=True, exist_ok=True)
            for path in options.paths or page_paths():
                open_path(page, path)
                for width in WIDTHS:
                    for theme in THEMES:
                        name = path.strip("/").translate(str.maketrans("/?&=", "____")) or "morning"
                        file = options.folder / f"{name}-{width}-{theme}.png"
                        extra = take_picture(page, file, width=width, theme=theme)
                        note = f", {extra} px too wide" if extra > 0 else ""
                        sys.stdout.write(f"{file.name}{note}\n")


if __name__ == "__main__":
    main()
