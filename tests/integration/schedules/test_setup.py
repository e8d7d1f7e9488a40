"""The guided page: from a file to a benchmark, a schedule and rules that tell a tested address."""

import html
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from mosaico.metrics.measures import list_measures
from mosaico.metrics.types import Direction
from mosaico.overview.setup_fields import DEFAULTS, Setup
from mosaico.overview.setup_message import write_bad_night
from mosaico.traces.types import Trace
from tests.support.page_reads import HTML, read_page
from tests.support.service import Service, run_mosaico

CSV = (
    b"item,question,expected,answer,topic\n"
    b"s-1,Where is my parcel?,In Turin,In Turin,delivery\n"
    b"s-2,Is it in stock?,Yes,No,stock\n"
    b"s-3,Can I return it?,No,No,returns\n"
    b"s-4,How much is it?,9 EUR,9 EUR,delivery\n"
)


def begin(service: Service, **fields: str) -> httpx.Response:
    file = {"file": ("support.csv", CSV, "text/csv")}
    return service.client.post("/setup", files=file, data=fields, headers=HTML)


def send(service: Service, path: str, **fields: Any) -> httpx.Response:
    """The form of the page with its defaults, as a browser sends it."""
    typed = {
        name: value for name, value in DEFAULTS.items() if name not in {"datasetId", "endpoints"}
    }
    return service.client.post(
        path,
        data={**typed, "datasetRef": "support", "timezone": "Europe/Rome", **fields},
        headers=HTML,
    )


@pytest.fixture
def draft(service: Service) -> str:
    answer = begin(service)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def test_measures__are_those_that_the_traces_have_values_for() -> None:
    plain = Trace(trace_id="t", item_id="i", output="a", latency_ms=3.0)
    assert [measure.key for measure in list_measures([plain])] == ["latency"]
    with_expected = Trace(trace_id="t", item_id="i", output="a", expected_output="b")
    assert [measure.key for measure in list_measures([with_expected])] == ["pass", "similarity"]
    scored = Trace(
        trace_id="t", item_id="i", output="a", expected_output="b", scores={"toxicity": 0.1}
    )
    first, *_ = list_measures([scored])
    assert (first.formula, first.direction) == ('SCORE["toxicity"]', Direction.LOWER_IS_BETTER)


def test_setup__latency_alone_decides_nothing() -> None:
    measures = list_measures([Trace(trace_id="t", item_id="i", output="a", latency_ms=3.0)])
    assert Setup.of({}, measures).decider is None


def test_page__shows_three_rows_the_role_of_each_column_and_what_decides(
    service: Service, draft: str
) -> None:
    page = read_page(service, draft)
    assert "Where is my parcel?" in page
    assert "How much is it?" not in page
    assert re.search(r">question <span class=\"tag\">input<", page)
    assert re.search(r">answer <span class=\"tag\">output<", page)
    assert "topic as category" in page
    assert "pass rate decides" in page
    # What is true of a file: nothing here asks its agent again.
    assert "A file has no agent to call" in page
    assert "mosaico datasets upload" in page


def test_page__keeps_what_was_typed_and_shows_each_step_again(service: Service, draft: str) -> None:
    send(service, draft, agentName="Billing bot", time="05:45", neverBelow="0.7", do="save")
    page = read_page(service, draft)
    assert 'value="Billing bot"' in page
    assert "at 05:45" in page
    assert 'value="0.7"' in page
    assert draft in read_page(service, "/setup")


def test_start__creates_agent_benchmark_schedule_and_rules(service: Service, draft: str) -> None:
    sent = send(service, draft, agentName="Billing bot", neverBelow="0.7", tell=["regressed", "below", "missing"], do="start")  # fmt: skip
    assert sent.status_code == 303, sent.text
    [schedule] = service.list_items("/schedule-configs")
    assert sent.headers["location"] == f"/schedules/{schedule['id']}"
    assert (schedule["cronExpression"], schedule["timezone"]) == ("0 30 06 * * *", "Europe/Rome")
    benchmark = service.get(f"/benchmarks/{schedule['benchmarkId']}")
    assert (benchmark["source"], benchmark["datasetRef"]) == ("local", "support")
    [kpi] = service.list_items(f"/benchmarks/{benchmark['id']}/kpis")
    assert (kpi["formula"], kpi["gate"], kpi["minEffect"], kpi["thresholdMin"]) == (
        "EXACT_MATCH", True, 0.02, 0.7,
    )  # fmt: skip
    rules = {rule["condition"]: rule for rule in service.list_items("/alert-configs")}
    assert rules["REGRESSED"]["maxHoursWithoutRun"] == 36
    assert rules["LESS_THAN"]["threshold"] == 0.7
    assert service.get(f"/agents/{schedule['agentId']}")["name"] == "Billing bot"
    # The draft has become these.
    assert service.client.get(draft, headers=HTML).status_code == 404


def test_run_once__starts_a_run_that_measures_the_file(service: Service, draft: str) -> None:
    sent = send(service, draft, agentName="Billing bot", do="run")
    run_id = sent.headers["location"].removeprefix("/runs/")
    service.work()
    run = service.get(f"/benchmark-runs/{run_id}")
    assert (run["status"], run["validity"]) == ("COMPLETED", "VALID")
    [kpi] = service.list_items(f"/benchmark-runs/{run_id}/kpis")
    # Three of four answers are right.
    assert kpi["value"] == 0.75


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"agentName": ""}, "name a new one"),
        ({"agentName": "Bot", "neverBelow": "much"}, "number"),
        ({"agentName": "Bot", "time": "25:00"}, "hour"),
        ({"agentName": "Bot", "minEffect": "-1"}, "greater than 0"),
    ],
)
def test_start__with_a_mistake_creates_nothing_and_keeps_the_input(
    service: Service, draft: str, fields: dict[str, str], error: str
) -> None:
    answer = send(service, draft, do="start", **fields)
    assert answer.status_code == 422
    assert error in answer.text
    for path in ("/schedule-configs", "/benchmarks", "/agents", "/alert-configs"):
        assert service.list_items(path) == []
    for value in filter(None, fields.values()):
        assert f'value="{value}"' in read_page(service, draft)


def test_address__whose_test_did_not_arrive_is_not_told(service: Service, draft: str) -> None:
    for name in ("good", "bad"):
        address = f"https://{name}.example.com/services/T0/B0"
        send(service, draft, channel="WEBHOOK", recipient=address, do="add")
    good, _ = sorted(service.list_items("/endpoints"), key=lambda e: "bad" in e["recipient"])
    with service.resources.db.begin() as session:
        session.execute(
            text("UPDATE deliveries SET status = 'DELIVERED' WHERE endpoint_id = :id"),
            {"id": good["id"]},
        )
        session.execute(
            text(
                "UPDATE deliveries SET status = 'FAILED', detail = '550' WHERE endpoint_id <> :id"
            ),
            {"id": good["id"]},
        )
    page = read_page(service, draft)
    assert "1 of 2 addresses work" in page
    assert "✗ refused" in page
    # An address may be a secret: the page and the draft have it redacted.
    assert "services/T0" not in page
    assert send(service, draft, agentName="Bot", do="start").status_code == 303
    [rule] = service.list_items("/alert-configs")
    assert rule["recipients"] == [good["recipient"]]


def test_address__that_the_channel_refuses_is_named(service: Service, draft: str) -> None:
    answer = send(service, draft, channel="EMAIL", recipient="not an address", do="add")
    assert answer.status_code == 422
    assert service.list_items("/endpoints") == []


def test_dataset_page__leads_to_a_filled_setup_and_a_filled_benchmark(
    service: Service, draft: str
) -> None:
    [dataset] = service.list_items("/local-datasets")
    assert dataset["columns"]["input"] == "question"
    page = read_page(service, f"/datasets/{dataset['id']}")
    [form] = re.findall(r'href="(/new/benchmark[^"]*)"', page)
    assert 'name="datasetRef" type="text"' in read_page(service, form)
    assert 'value="support"' in read_page(service, form)
    begun = service.client.post(f"/datasets/{dataset['id']}/setup", headers=HTML)
    assert "Where is my parcel?" in read_page(service, begun.headers["location"])


def test_other_source__says_that_its_rows_are_read_later(service: Service) -> None:
    without_name = service.client.post("/setup", data={"source": "langfuse"}, headers=HTML, files={"file": ("", b"")})  # fmt: skip
    assert without_name.status_code == 422
    answer = service.client.post(
        "/setup", data={"source": "langfuse", "name": "support"}, files={"file": ("", b"")}, headers=HTML
    )  # fmt: skip
    page = read_page(service, answer.headers["location"])
    assert "before the first run nothing is read" in page
    assert "reads the newest run of this dataset in the Langfuse project" in page


def test_page__the_command_of_a_night_uploads_a_new_run(
    service: Service, draft: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(service, draft, datasetRef="Anna's support", do="save")
    page = html.unescape(read_page(service, draft))
    [command] = re.findall(r"<code>(mosaico datasets upload .*?)</code>", page)
    _, *arguments = shlex.split(command.replace("$(date +%F)", "2026-11-29"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answers.csv").write_bytes(CSV)
    result = run_mosaico(service, *arguments)
    assert result.exit_code == 0, result.output
    uploads = {
        (upload["name"], upload["runName"]) for upload in service.list_items("/local-datasets")
    }
    assert ("Anna's support", "2026-11-29") in uploads


def test_page__shows_the_message_of_a_bad_night_as_it_will_be_sent(
    service: Service, draft: str
) -> None:
    page = read_page(service, draft)
    [shown] = re.findall(r'<div class="message">(.*?)</div>', page, re.DOTALL)
    # Three tenths below a usual pass rate of 0.9, whose interval is half as wide.
    assert "the agent: pass rate 0.900 → 0.630 (support)" in shown
    assert "change −0.270, likely −0.405 to −0.135" in shown
    # This file records its topics, and no model and prompt that could have changed.
    assert "no recorded change; the same in both runs: category" in shown

    send(service, draft, agentName="Billing bot", direction="LOWER_IS_BETTER", do="save")
    assert "Billing bot: pass rate 0.100 → 0.130" in read_page(service, draft)


@pytest.mark.parametrize(
    ("trace", "title", "changed"),
    [
        ({"scores": {"tone": 4.0}}, "tone 4 → 2.8", "promptVersion:…"),
        ({"scores": {"tone": 0.5}}, "tone 0.500 → 0.350", "promptVersion:…"),
        # Toxicity is better lower, and a share never rises above 1.
        ({"scores": {"toxicity": 0.9}}, "toxicity 0.900 → 1.000", "promptVersion:…"),
        (
            {"scores": {"tone": 4.0}, "attributes": {"model": "m-1"}},
            "tone 4",
            "model m-1 → another",
        ),
    ],
)
def test_bad_night__has_the_values_and_the_attributes_of_the_rows(
    trace: dict[str, Any], title: str, changed: str
) -> None:
    traces = [Trace(trace_id="t", item_id="i", output="a", **trace)]
    setup = Setup.of({"name": "Support"}, list_measures(traces))
    assert setup.decider is not None
    now = datetime(2026, 11, 29, tzinfo=UTC)
    layout = write_bad_night(setup, setup.decider, "Bot", traces, now, UTC, "https://m.example")
    assert title in layout.title
    text = " ".join(span.text for lines in layout.sections for line in lines for span in line)
    assert changed in text
