"""What changed between the traces of a run and its baseline: stored, in the API, in alerts and on pages."""

from collections.abc import Collection, Mapping

import pytest

from tests.integration.verdicts.conftest import CompleteRun, traces
from tests.support.service import JSON, Service

RULE = {
    "id": "worse",
    "name": "worse",
    "benchmarkId": "bench-001",
    "kpi": "quality",
    "condition": "REGRESSED",
}
BEFORE = {"model": "gpt-5.1", "promptVersion": "v14"}
AFTER = {"model": "gpt-5.2-mini", "promptVersion": "v15"}


def _night(failed: Collection[int], attributes: Mapping[str, str]) -> list[JSON]:
    return [trace | {"attributes": dict(attributes)} for trace in traces(failed)]


def test_run__says_what_changed_and_what_of_the_drop_it_covers(
    service: Service, complete_run: CompleteRun
) -> None:
    """Five items fail on Monday and 25 on Tuesday: 20 of 40 fall, and all have the new model and prompt."""
    service.post("/alert-configs", RULE)
    monday = complete_run("monday", _night(range(5), BEFORE))
    tuesday = complete_run("tuesday", _night(range(25), AFTER))

    record = service.get(f"/benchmark-runs/{tuesday['id']}/attributes")
    changed = record["whatChanged"]
    assert (changed["baselineRunId"], changed["fell"], changed["others"]) == (monday["id"], 20, 20)
    model, prompt = changed["differences"]
    assert (model["name"], model["before"], model["after"]) == ("model", "gpt-5.1", "gpt-5.2-mini")
    assert (model["fell"], model["others"], model["isConcentrated"]) == (20, 20, False)
    assert prompt["sameItemsAs"] == "model"
    assert record["profile"]["values"]["model"] == [{"value": "gpt-5.2-mini", "items": 40}]
    assert service.get(f"/benchmark-runs/{monday['id']}/attributes")["whatChanged"] is None
    compared = service.get(
        "/benchmark-runs/compare", baseline=monday["id"], candidate=tuesday["id"]
    )
    assert compared["whatChanged"]["differences"] == changed["differences"]

    [alert] = service.list_items("/alerts")
    assert alert["details"]["whatChanged"]["differences"] == changed["differences"]
    [message] = service.list_items("/inbox")
    sentences = " ".join(message["items"][0]["sentences"])
    assert "gpt-5.1 → gpt-5.2-mini" in sentences
    assert "v14 → v15" in sentences
    for page in (f"/runs/{tuesday['id']}", f"/alerts/events/{alert['id']}", "/"):
        html = service.client.get(page).text
        assert "gpt-5.2-mini" in html, page
        assert "no recorded change" not in html, page
    assert tuesday["verdict"]["differences"][0] == "model gpt-5.1 → gpt-5.2-mini"


def test_run__without_attributes_says_what_to_record(
    service: Service, complete_run: CompleteRun
) -> None:
    complete_run("monday", traces(range(5)))
    tuesday = complete_run("tuesday", traces(range(25)))

    changed = service.get(f"/benchmark-runs/{tuesday['id']}/attributes")["whatChanged"]
    assert (changed["hasAttributes"], changed["differences"]) == (False, [])
    html = service.client.get(f"/runs/{tuesday['id']}").text
    assert "no recorded change" not in html
    assert "promptVersion" in html
    versions = service.get("/agents/agent-001/versions", benchmarkId="bench-001")
    assert (versions["versions"], versions["unknownRuns"]) == ([], 2)
    assert "promptVersion" in service.client.get("/agents/agent-001").text


def test_run__no_recorded_change_names_what_is_the_same(
    service: Service, complete_run: CompleteRun
) -> None:
    complete_run("monday", _night(range(5), BEFORE))
    tuesday = complete_run("tuesday", _night(range(25), BEFORE))

    html = service.client.get(f"/runs/{tuesday['id']}").text
    assert "no recorded change" in html
    assert "model, promptVersion" in html


def test_alert__names_the_slice_that_fell_alone(
    service: Service, complete_run: CompleteRun
) -> None:
    """16 of 40 items are about refunds: 15 of them fall, and no other one."""
    service.post("/alert-configs", RULE)
    for night, failed in (("monday", range(0)), ("tuesday", range(15))):
        topics = (
            trace | {"attributes": {"topic": "refund" if number < 16 else f"other-{number % 3}"}}
            for number, trace in enumerate(traces(failed))
        )
        complete_run(night, list(topics))

    [alert] = service.list_items("/alerts")
    fallen = alert["details"]["fallenSlice"]
    assert (fallen["tag"], fallen["items"], fallen["otherChange"]) == ("topic:refund", 16, 0.0)
    [message] = service.list_items("/inbox")
    assert "topic:refund" in " ".join(message["items"][0]["sentences"])
    assert "topic:refund" in service.client.get(f"/alerts/events/{alert['id']}").text


def test_agent_versions__have_their_runs_and_kpis_and_are_compared(
    service: Service, complete_run: CompleteRun
) -> None:
    """Version v14 passes 35 and 34 of 40 items, a mean of 0.8625; v15 passes 15 of 40."""
    complete_run("sunday", _night(range(5), BEFORE))
    monday = complete_run("monday", _night(range(6), BEFORE))
    tuesday = complete_run("tuesday", _night(range(25), AFTER))

    versions = service.get("/agents/agent-001/versions", benchmarkId="bench-001")
    newest, before = versions["versions"]
    assert (newest["model"], newest["prompt"], newest["runs"]) == ("gpt-5.2-mini", "v15", 1)
    assert (before["prompt"], before["runs"], before["lastRunId"]) == ("v14", 2, monday["id"])
    assert before["kpis"][0]["mean"] == pytest.approx(0.8625)
    assert newest["kpis"][0]["mean"] == pytest.approx(0.375)
    assert newest["kpis"][0]["intervalLow"] < 0.375 < newest["kpis"][0]["intervalHigh"]
    assert [night["runId"] for night in versions["nights"]][-1] == tuesday["id"]

    html = service.client.get(
        "/agents/agent-001", params={"benchmark": "bench-001", "a": before["id"], "b": newest["id"]}
    ).text
    assert "Never seen apart" in html
    assert "regressed" in html
    same = {"benchmark": "bench-001", "a": newest["id"], "b": newest["id"]}
    assert "two different versions" in service.client.get("/agents/agent-001", params=same).text


def test_agent_versions__a_run_with_the_old_prompt_tells_model_and_prompt_apart(
    service: Service, complete_run: CompleteRun
) -> None:
    complete_run("monday", _night(range(5), BEFORE))
    complete_run("tuesday", _night(range(6), {**AFTER, "promptVersion": "v14"}))
    complete_run("wednesday", _night(range(25), AFTER))

    versions = service.get("/agents/agent-001/versions", benchmarkId="bench-001")["versions"]
    chosen = {"benchmark": "bench-001", "a": versions[2]["id"], "b": versions[0]["id"]}
    html = service.client.get("/agents/agent-001", params=chosen).text
    assert "gpt-5.2-mini" in html
    assert "Never seen apart" not in html
