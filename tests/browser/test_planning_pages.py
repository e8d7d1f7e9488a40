"""Pages that answer a question about a run before it is started: its power, and its requests."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site, error_of
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse
from tests.support.langfuse.records import DEFAULT_TIME
from tests.support.processes import until
from tests.support.service import JSON, Service, pair, working

TRACES = 12
pytestmark = pytest.mark.xdist_group("browser")


def complete_run(service: Service, body: JSON) -> None:
    """Start a run and wait for its end: the browser has an event loop in this thread."""
    with working(service):
        run_id = service.post("/benchmark-runs", body)["id"]
        until(lambda: service.get(f"/benchmark-runs/{run_id}")["status"] == "COMPLETED")


def test_power__page_has_the_answer_of_the_api_and_names_the_next_step(site: Site) -> None:
    service = site.service
    service.create_agent("pelican")
    service.create_benchmark("depths", metrics=["EXACT_MATCH"], source="local", datasetRef="depths")
    page = site.open("/benchmarks/depths")
    page.get_by_role("link", name="Power").click()
    expect(page.locator(".empty")).to_contain_text("No valid run yet")
    for name, wrong in (("monday", 3), ("tuesday", 5)):
        answers = [pair(number) for number in range(30)]
        service.upload(
            [{**answer, "output": "no"} for answer in answers[:wrong]] + answers[wrong:],
            "depths",
            name,
        )
        body = {"benchmarkId": "depths", "agentId": "pelican", "runName": name}
        complete_run(service, body)
    page.get_by_label("Items").fill("1")
    page.get_by_role("button", name="Estimate").click()
    assert "greater than or equal to 2" in error_of(page, "items")
    page.get_by_label("Items").fill("200")
    page.get_by_label("Drop to detect").fill("0.1")
    page.get_by_role("button", name="Estimate").click()
    [estimate] = service.post("/benchmarks/depths/power", {"items": 200, "drop": 0.1})["items"]
    cells = page.locator("tbody tr > *").all_inner_texts()
    assert cells[0].startswith("EXACT_MATCH")
    assert float(cells[1]) == pytest.approx(estimate["minDetectableEffect"], rel=1e-3)
    assert cells[2:4] == ["200", "1"]
    for cell, name in zip(cells[4:6], ("itemsNeeded", "trialsNeeded"), strict=True):
        assert cell.startswith("–" if estimate[name] is None else str(estimate[name])), name
    assert cells[6] == estimate["explanation"]


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
