"""Pages that answer a question about a run before it is started: its power, and its requests."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site, error_of
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse
from tests.support.langfuse.records import DEFAULT_TIME

TRACES = 12
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def langfuse() -> Iterator[FakeLangfuse]:
    with run_fake_langfuse() as running:
        yield running


def test_estimate__counts_the_requests_of_a_run_and_starts_it(
    site: Site, langfuse: FakeLangfuse
) -> None:
    service = site.service
    service.create_agent(
        "tern", name="Tern", langfuseUrl=langfuse.url, langfusePublicKey=langfuse.public_key,
        langfuseSecretKey=langfuse.secret_key,
    )  # fmt: skip
    service.create_benchmark(
        "terns",
        datasetRef=None,
        metrics=["LATENCY"],
        production={"since": "24h"},
        source="langfuse",
    )
    for number in range(TRACES):
        langfuse.production_trace(number, started=DEFAULT_TIME + timedelta(seconds=number))
    page = site.open("/benchmarks/terns", context=site.context(java_script_enabled=False))
    page.get_by_role("link", name="Estimate").click()
    page.get_by_label("Agent").select_option("tern")
    later, earlier = (f"{DEFAULT_TIME + timedelta(days=days):%Y-%m-%dT%H:%M}" for days in (1, -1))
    page.get_by_label("From", exact=True).fill(later)
    page.get_by_label("To", exact=True).fill(earlier)
    page.get_by_role("button", name="Estimate").click()
    assert "from must be before to" in error_of(page, "from")
    page.get_by_label("From", exact=True).fill(earlier)
    page.get_by_label("To", exact=True).fill(later)
    page.get_by_role("button", name="Estimate").click()
    facts = page.locator("main .facts")
    expect(facts).to_contain_text(f"{TRACES} of {TRACES} that pass the filters")
    assert service.get("/benchmark-runs", agentId="tern")["items"] == []
    page.get_by_role("button", name="Start this run").click()
    expect(page.locator("#state")).to_contain_text("PENDING")
    [run] = service.get("/benchmark-runs", agentId="tern")["items"]
    window = {name: datetime.fromisoformat(at) for name, at in run["traceWindow"].items()}
    assert window == {
        "from": datetime.fromisoformat(f"{earlier}Z"), "to": datetime.fromisoformat(f"{later}Z"),
    }  # fmt: skip
