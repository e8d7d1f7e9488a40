"""A request of deletion: the texts of an item or of a user are erased everywhere, values and verdicts stay."""

import json

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.runs import erasure
from tests.support.service import JSON, Service, pair

SECRET = "My name is Ada Lovelace"
ACTOR = "ada"


def traces() -> list[JSON]:
    rows = [pair(number, "yes", "yes") for number in range(10)]
    rows[3] |= {
        "input": SECRET,
        "output": "no",
        "error": SECRET,
        "attributes": {"user": ACTOR, "note": SECRET},
        "toolCalls": [{"name": "mail", "arguments": {"to": SECRET}, "ok": True}],
    }
    rows[4] |= {"attributes": {"user": "bob"}}
    return rows


@pytest.fixture
def run(service: Service) -> JSON:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    service.upload(traces(), run_name="monday")
    completed = service.complete_run(runName="monday")
    # Another upload with the same user.
    service.upload([row | {"traceId": f"b-{row['traceId']}"} for row in traces()], run_name="other")
    return completed


def stored_texts(service: Service) -> str:
    """Everything that is stored of traces, as one text."""
    tables = ("collected_traces", "trace_transcripts", "trace_results", "otel_spans", "audit_log")
    with service.resources.db.read() as session:
        return "".join(
            str(session.execute(text(f"SELECT t::text FROM {table} t")).all()) for table in tables
        )


@pytest.mark.parametrize("by", ["item", "user"])
def test_purge__erases_texts_everywhere_and_keeps_values(
    service: Service, run: JSON, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "BATCH_ROWS", 1)
    assert SECRET in stored_texts(service)
    metrics = service.get(f"/benchmark-runs/{run['id']}/metrics")
    body = {"itemId": traces()[3]["itemId"]} if by == "item" else {"userId": ACTOR}
    erased = service.post("/local-datasets/purge", body)
    assert erased == {"traces": 2, "spans": 0}
    assert SECRET not in stored_texts(service)
    assert service.get(f"/benchmark-runs/{run['id']}/metrics") == metrics
    [trace] = [
        row
        for row in service.list_items(f"/benchmark-runs/{run['id']}/results")
        if row["traceId"] == traces()[3]["traceId"]
    ]
    assert (trace["input"], trace["output"], trace["values"]["ACCURACY"]) == (None, None, 0.0)
    assert [*trace["attributes"]] == ["erased"]
    # Others keep theirs, and nothing is left to erase.
    assert "bob" in stored_texts(service)
    assert service.post("/local-datasets/purge", body) == {"traces": 0, "spans": 0}


def test_purge__is_in_the_audit_log_without_the_id(service: Service, run: JSON) -> None:
    service.post("/local-datasets/purge", {"userId": ACTOR})
    entries = service.get("/audit")["items"]
    assert (entries[0]["action"], entries[0]["fields"]) == ("purge_texts", ["userId"])
    assert ACTOR not in json.dumps(entries)


@pytest.mark.parametrize("body", [{}, {"itemId": "a", "userId": "b"}, {"itemId": ""}])
def test_purge__needs_one_subject(service: Service, body: JSON) -> None:
    service.expect_problem(422, "POST", "/local-datasets/purge", body)


def test_purge__command_asks_and_says_what_was_erased(service: Service, run: JSON) -> None:
    env = {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    refused = CliRunner().invoke(cli, ["datasets", "purge", "--user", ACTOR], env=env, input="n\n")
    assert refused.exit_code != 0
    assert SECRET in stored_texts(service)
    done = CliRunner().invoke(cli, ["datasets", "purge", "--user", ACTOR, "--yes"], env=env)
    assert done.exit_code == 0, done.output
    assert "traces erased: 2" in done.output
    assert SECRET not in stored_texts(service)
    assert service.get("/audit")["items"][0]["fields"] == ["userId"]
    neither = CliRunner().invoke(cli, ["datasets", "purge", "--yes"], env=env)
    assert neither.exit_code == 2
