"""Pages of `mosaico serve`: the printed link, and live pages across a kill and a stop."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from mosaico.jobs.process_pool import ProcessPool
from tests.browser.conftest import Site
from tests.support.deployment import TRACES
from tests.support.gated_source import SHARD_TRACES
from tests.support.processes import ROOT, lives, until
from tests.support.serve import ServiceProcesses, running_processes

STREAMS, TABS = 20, 2
# What a reader could have seen in the page, from now on.
RECORD = """() => {
  window.seen = { state: [], note: [], progress: [] };
  const note = (name, value) => value !== undefined && window.seen[name].at(-1) !== value && window.seen[name].push(value);
  const look = () => {
    note("state", document.querySelector("#state")?.textContent.trim());
    note("note", document.querySelector("[data-live-note]")?.textContent);
    note("progress", document.querySelector("progress[value]")?.value);
  };
  look();
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
}"""
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def processes(
    tmp_path_factory: pytest.TempPathFactory, plugins: None, metric_pool: ProcessPool
) -> Iterator[ServiceProcesses]:
    folder = tmp_path_factory.mktemp("serve")
    path = [ROOT / "tests/support/blocked_network", ROOT / "app", ROOT, folder / "plugins"]
    with running_processes(
        folder,
        metric_pool,
        MOSAICO_METRIC_PROCESSES="2",
        MOSAICO_TEST_HOSTS=str(folder / "hosts"),
        PYTHONPATH=os.pathsep.join(map(str, path)),
    ) as started:
        yield started


@pytest.fixture
def served(processes: ServiceProcesses, chromium: Browser) -> Iterator[Site]:
    site = Site(processes.deployment.service, chromium)
    yield site
    site.close_browsers()


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
    expect(page.get_by_role("link", name="Report")).to_be_visible()
    assert page.evaluate("window.isSamePage")


def record_live_states(page: Page) -> None:
    """Note each text of `SEEN` and each value of the progress from now on, also short ones."""
    page.evaluate(RECORD)


def seen(page: Page, name: str) -> list[Any]:
    values: list[Any] = page.evaluate("name => window.seen[name]", name)
    return values


def test_serve__printed_link_opens_morning(processes: ServiceProcesses, chromium: Browser) -> None:
    """Criterion 1: with the network blocked, the printed link logs in by itself and opens Morning."""
    [link] = re.findall(r"open +(http://\S+/login\?once=\S+)", processes.serve.log)
    page = chromium.new_page()
    hosts: list[str | None] = []
    page.on("request", lambda request: hosts.append(urlsplit(request.url).hostname))
    page.goto(link)
    expect(page.get_by_role("heading", level=1)).to_contain_text("No run has ended")
    assert urlsplit(page.url).path == "/"
    expect(page.locator("input[name=key]")).to_have_count(0)
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    assert set(hosts) == {"127.0.0.1"}
    page.close()
    resolved_hosts = processes.data_dir.parent / "hosts"
    assert not resolved_hosts.exists(), resolved_hosts.read_text()


def test_run__started_from_its_page_completes_without_a_reload(
    processes: ServiceProcesses, served: Site
) -> None:
    """Criterion 7: PENDING, RUNNING, COMPLETED, and a progress that has a name and only grows."""
    deployment, worker = processes.deployment, processes.child("worker")
    collected, scored = (deployment.programs.gate(name) for name in ("begun", "half"))
    # The last trace waits at the second gate; those before it are scored.
    deployment.upload("gate:begun", tags=["gate:half"], tagged=TRACES - 1)
    page = served.open("/runs")
    page.get_by_text("Start a run", exact=True).click()
    page.get_by_label("Run name of the dataset").fill("gate:begun")
    os.kill(worker, signal.SIGSTOP)
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page).to_have_url(re.compile("/runs/.+"))
    record_live_states(page)
    expect(page.locator("#state")).to_contain_text("PENDING")
    os.kill(worker, signal.SIGCONT)
    until(collected.is_reached)
    expect(page.locator("#state")).to_contain_text("RUNNING")
    collected.open()
    until(scored.is_reached)
    progress = page.get_by_role("progressbar", name="Scored traces")
    expect(progress).to_have_js_property("value", SHARD_TRACES)
    expect(progress).to_have_js_property("max", TRACES)
    expect(page.locator("#progress")).to_contain_text(f"{SHARD_TRACES} of {TRACES} traces")
    scored.open()
    expect(page.locator("#state")).to_contain_text("COMPLETED")
    shown_states = (re.search(r"PENDING|RUNNING|COMPLETED", text) for text in seen(page, "state"))
    states = list(dict.fromkeys(state and state[0] for state in shown_states))
    assert states == ["PENDING", "RUNNING", "COMPLETED"]
    values = seen(page, "progress")
    assert SHARD_TRACES in values
    assert values == sorted(values)


def test_run__killed_server_is_reconnected_without_a_reload(
    processes: ServiceProcesses, served: Site
) -> None:
    """Criterion 8: the page says that it reconnects, and goes on with another process of the server."""
    page = open_interrupted_run(processes, served, "killed-server")
    record_live_states(page)
    api = processes.child("api")
    processes.serve.kill()
    until(lambda: not lives(api))
    expect(page.locator("[data-live-note]")).not_to_be_empty()
    processes.restart()
    assert processes.child("api") != api
    expect(page.locator("[data-live-note]")).to_be_empty()
    complete_run(processes, page, "killed-server")
    assert "reconnecting …" in seen(page, "note")


def test_serve__stops_while_streams_are_open_and_browsers_reconnect(
    processes: ServiceProcesses, served: Site
) -> None:
    """Criterion 37: SIGTERM with 20 open streams ends the service."""
    address = f"/runs/{start_postponed_run(processes)}"
    page = served.open(address)
    # A tab of another window, so that each of them is visible.
    pages = [page, *(served.open(address, context=served.context()) for _ in range(TABS - 1))]
    for tab in pages:
        tab.evaluate("window.isSamePage = true")
    events = str(page.locator("main [data-events]").get_attribute("data-events"))
    stop_with_open_streams(processes, served, events)
    processes.restart()
    served.service.post(f"/benchmark-runs/{address.rpartition('/')[2]}/cancel")
    for tab in pages:
        expect(tab.locator("#state")).to_contain_text("CANCELLED")
        assert tab.evaluate("window.isSamePage")


def start_postponed_run(processes: ServiceProcesses) -> str:
    """A run that waits for its job: a worker in the middle of a run takes its time to stop."""
    deployment, worker = processes.deployment, processes.child("worker")
    os.kill(worker, signal.SIGSTOP)
    run_id = deployment.start("gate:postponed")
    deployment.database.execute(
        "UPDATE procrastinate_jobs SET scheduled_at = now() + interval '1 day'"
        " WHERE args ->> 'run_id' = %s",
        run_id,
    )
    os.kill(worker, signal.SIGCONT)
    return run_id


def stop_with_open_streams(processes: ServiceProcesses, served: Site, events: str) -> None:
    with ExitStack() as streams:
        for _ in range(STREAMS):
            stream = streams.enter_context(served.service.client.stream("GET", events))
            assert stream.status_code == HTTPStatus.OK
        processes.serve.send(signal.SIGTERM)
        assert processes.serve.wait_for_exit() == 0
