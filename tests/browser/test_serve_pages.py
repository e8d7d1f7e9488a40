"""Pages of `mosaico serve`: the printed link, and live pages across a kill and a stop."""

import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from app.jobs.process_pool import ProcessPool
from tests.browser.conftest import Site
from tests.support.processes import until
from tests.support.serve import ServiceProcesses, running_processes

STREAMS = 20
# 5 s on an idle machine; an open stream that held the service up would hold it up for ever.
STOPS_WITHIN_S = 30.0
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def processes(
    tmp_path_factory: pytest.TempPathFactory, plugins: None, metric_pool: ProcessPool
) -> Iterator[ServiceProcesses]:
    with running_processes(tmp_path_factory.mktemp("serve"), metric_pool) as started:
        yield started


@pytest.fixture
def served(processes: ServiceProcesses, chromium: Browser) -> Iterator[Site]:
    site = Site(processes.deployment.service, chromium)
    yield site
    site.close()


def open_interrupted_run(processes: ServiceProcesses, site: Site, name: str) -> Page:
    """The page of a run that waits in the middle, until its gate is opened."""
    deployment = processes.deployment
    deployment.upload(f"gate:{name}")
    run_id = deployment.start(f"gate:{name}")
    until(deployment.programs.gate(name).is_reached)
    page = site.open(f"/runs/{run_id}")
    page.evaluate("window.isSamePage = true")
    expect(page.locator("#state")).to_contain_text("RUNNING")
    return page


def complete_run(processes: ServiceProcesses, page: Page, name: str) -> None:
    """Let the run of the page complete; the page shows it without a reload."""
    processes.deployment.programs.gate(name).open()
    expect(page.locator("#progress[data-events]")).to_have_count(0)
    expect(page.locator("#body")).to_contain_text("First run")
    assert page.evaluate("window.isSamePage")


def test_serve__printed_link_opens_morning(processes: ServiceProcesses, chromium: Browser) -> None:
    """Criterion 1: the link logs in by itself, and Morning is complete within 10 s."""
    [link] = re.findall(r"open +(http://\S+/login\?once=\S+)", processes.serve.log)
    page = chromium.new_page()
    started = time.monotonic()
    page.goto(link)
    expect(page.get_by_role("heading", level=1)).to_contain_text("No run has ended")
    assert time.monotonic() - started <= 10
    expect(page.locator("input[name=key]")).to_have_count(0)
    page.close()


def test_run__killed_server_is_reconnected_without_a_reload(
    processes: ServiceProcesses, served: Site
) -> None:
    """Criterion 8: the page says that it reconnects, and goes on after the restart."""
    page = open_interrupted_run(processes, served, "killed-server")
    processes.serve.kill()
    expect(page.locator("[data-live-note]")).to_contain_text(re.compile("reconnecting|off"))
    processes.restart()
    complete_run(processes, page, "killed-server")


def test_serve__stops_while_streams_are_open_and_browsers_reconnect(
    processes: ServiceProcesses, served: Site
) -> None:
    """Criterion 37: SIGTERM with 20 open streams."""
    page = open_interrupted_run(processes, served, "stopped-server")
    events = page.locator("[data-events]").get_attribute("data-events")
    with ExitStack() as streams:
        for _ in range(STREAMS):
            streams.enter_context(served.service.client.stream("GET", str(events)))
        processes.serve.send(signal.SIGTERM)
        assert processes.serve.wait_for_exit(STOPS_WITHIN_S) == 0
    processes.restart()
    served.service.post(f"/benchmark-runs/{page.url.rpartition('/')[2]}/cancel")
    expect(page.locator("#state")).to_contain_text("CANCELLED")
    assert page.evaluate("window.isSamePage")
