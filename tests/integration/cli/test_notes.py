"""`mosaico notes`, owners of agents, `mosaico incidents assign` and `mosaico inbox list --mine`."""

import json
from dataclasses import replace
from typing import Any

from tests.integration.cli.conftest import Shell
from tests.support.people import create_person
from tests.support.service import Service, pair


def list_json(mosaico: Shell, *words: str) -> list[Any]:
    items: list[Any] = json.loads(mosaico.ok(*words, "--json").stdout)["items"]
    return items


def fail_run(service: Service) -> dict[str, Any]:
    """A run that opens an incident."""
    service.create_agent()
    service.create_benchmark(metrics=["EXACT_MATCH"])
    rule = {"id": "r-1", "name": "wrong", "benchmarkId": "bench-001", "metric": "EXACT_MATCH"}
    service.post("/alert-configs", {**rule, "condition": "LESS_THAN", "threshold": 0.5})
    service.upload([pair(1, "yes", "no")])
    return service.complete_run()


def test_notes__are_written_listed_and_deleted(mosaico: Shell, service: Service) -> None:
    run = fail_run(service)
    [incident] = service.list_items("/incidents")
    of_run = mosaico.ok("notes", "add", "The tool was down.", "--run", run["id"])
    note_id = of_run.stdout.strip()
    assert service.get(f"/notes/{note_id}")["text"] == "The tool was down."
    assert f"/runs/{run['id']}#notes" in of_run.stderr
    [item] = service.list_items(f"/benchmark-runs/{run['id']}/results")
    words = ("notes", "add", "Wrong reference", "--run", run["id"], "--item", item["itemId"])
    mosaico.ok(*words)
    mosaico.ok("notes", "add", "Known since Monday", "--incident", incident["id"])
    assert len(list_json(mosaico, "notes", "list")) == 3
    filters = (("--text", "TOOL"), ("--item", item["itemId"]), ("--incident", incident["id"]))
    for name, value in filters:
        assert len(list_json(mosaico, "notes", "list", name, value)) == 1, name
    author = service.get(f"/notes/{note_id}")["createdBy"]
    [note, *_] = list_json(mosaico, "notes", "list", "--by", author)
    assert note["incidentId"] == incident["id"]
    assert list_json(mosaico, "notes", "list", "--by", "nobody") == []
    mosaico.ok("notes", "delete", note_id, "--yes")
    assert len(list_json(mosaico, "notes", "list")) == 2
    assert mosaico("notes", "add", "About nothing").exit_code == 2
    assert mosaico("notes", "add", "About two", "--run", "a", "--incident", "b").exit_code == 2


def test_mine__needs_a_person_and_follows_owners_and_assignments(
    mosaico: Shell, service: Service
) -> None:
    fail_run(service)
    [incident] = service.list_items("/incidents")
    person = create_person(service)
    key = service.post("/keys", {"name": "Ana's", "role": "run", "personId": person})["token"]
    as_ana = replace(mosaico, variables={**mosaico.variables, "MOSAICO_API_KEY": key})
    refused = mosaico("inbox", "list", "--mine")
    assert refused.exit_code != 0
    assert "person" in refused.output

    def count_mine() -> int:
        return len(list_json(as_ana, "inbox", "list", "--mine"))

    assert (count_mine(), len(list_json(as_ana, "inbox", "list", "--unread"))) == (0, 1)
    owners = ("--owner", "ANA@example.org", "--owner", "bo@example.org")
    mosaico.ok("agents", "update", "agent-001", *owners)
    assert service.get("/agents/agent-001")["owners"] == ["ana@example.org", "bo@example.org"]
    assert count_mine() == 1
    mosaico.ok("agents", "update", "agent-001", "--clear", "owner")
    assert count_mine() == 0
    assigned = mosaico.ok("incidents", "assign", incident["id"], "--to", "ana@example.org")
    assert "is assigned to Ana Rossi" in assigned.stderr
    assert count_mine() == 1
    assert "is assigned to nobody" in mosaico.ok("incidents", "unassign", incident["id"]).stderr
    assert count_mine() == 0
