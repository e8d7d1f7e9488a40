"""A request of deletion: the texts of an item or of a user are erased everywhere, values and verdicts stay."""

import json
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from sqlalchemy import text
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.runs import erasure
from tests.support.otlp import PROTOBUF, export, span
from tests.support.service import JSON, Service, pair

SECRET = "My name is Ada Lovelace"
# No ID can contain it by chance.
ACTOR = "ada.l"


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
    tables = (
        *("collected_traces", "trace_transcripts", "trace_results", "otel_spans", "audit_log"),
        *("run_attributes", "stored_comparisons", "benchmark_runs", "kpi_history", "notes"),
    )
    with service.resources.db.read() as session:
        return "".join(
            row
            for table in tables
            for row in session.execute(text(f"SELECT t::text FROM {table} t")).scalars()
        )


def purge(service: Service, body: JSON) -> tuple[int, int]:
    """The numbers of erased traces and deleted spans."""
    erased = service.post("/local-datasets/purge", body)
    assert "backups" in erased["notReached"]
    return erased["traces"], erased["spans"]


@pytest.mark.parametrize("by", ["item", "user"])
def test_purge__erases_texts_everywhere_and_keeps_values(
    service: Service, run: JSON, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "BATCH_ROWS", 1)
    for number, words in ((3, f"It says: {SECRET}"), (5, "slow")):
        service.post(
            f"/benchmark-runs/{run['id']}/notes",
            {"itemId": traces()[number]["itemId"], "text": words},
        )
    assert SECRET in stored_texts(service)
    metrics = service.get(f"/benchmark-runs/{run['id']}/metrics")
    body = {"itemId": traces()[3]["itemId"]} if by == "item" else {"userId": ACTOR}
    assert purge(service, body) == (2, 0)
    assert SECRET not in stored_texts(service)
    assert service.get(f"/benchmark-runs/{run['id']}/metrics") == metrics
    [trace] = [
        row
        for row in service.list_items(f"/benchmark-runs/{run['id']}/results")
        if row["traceId"] == traces()[3]["traceId"]
    ]
    assert (trace["input"], trace["output"], trace["values"]["ACCURACY"]) == (None, None, 0.0)
    assert [*trace["attributes"]] == ["erased"]
    assert [note["text"] for note in service.list_items("/notes")] == ["slow"]
    # Others keep theirs, and nothing is left to erase.
    assert "bob" in stored_texts(service)
    assert purge(service, body) == (0, 0)


def test_purge__forgets_what_runs_record_of_the_user_alone(service: Service) -> None:
    def night(number: int, note: str, model: str) -> JSON:
        rows = [pair(place, "yes", "yes") for place in range(10)]
        for place, row in enumerate(rows):
            row |= {"traceId": f"{number}-{place}", "attributes": {"model": model, "user": "bob"}}
        for row in rows[:3]:
            row["attributes"] |= {"user": ACTOR, "note": note}
        service.upload(rows, run_name=f"night {number}")
        return service.complete_run(runName=f"night {number}")

    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    first, second = night(1, "calm", "m-1"), night(2, SECRET, "m-2")
    pages = [f"/benchmark-runs/{run['id']}/attributes" for run in (first, second)]

    def compare() -> JSON:
        path = "/benchmark-runs/compare"
        return service.get(path, candidate=second["id"], baseline=first["id"])

    for stored in (compare(), service.get(pages[1]), second["verdict"]):
        assert SECRET in json.dumps(stored)
    assert purge(service, {"userId": ACTOR}) == (6, 0)
    everything = stored_texts(service)
    assert (SECRET in everything, "calm" in everything) == (False, False)
    # What others have, too, stays.
    [change] = service.get(pages[1])["whatChanged"]["differences"]
    assert (change["name"], change["before"], change["after"]) == ("model", "m-1", "m-2")
    assert service.get(pages[0])["profile"]["values"]["model"] == [{"value": "m-1", "items": 10}]
    assert (
        "model m-1 → m-2"
        in service.get(f"/benchmark-runs/{second['id']}")["verdict"]["differences"]
    )
    assert SECRET not in json.dumps(compare())


def test_purge__of_an_item_is_that_of_one_dataset(service: Service, run: JSON) -> None:
    rows = [row | {"traceId": f"c-{row['traceId']}"} for row in traces()]
    service.upload(rows, name="elsewhere", run_name="sunday")
    item = traces()[3]["itemId"]
    problem = service.expect_problem(409, "POST", "/local-datasets/purge", {"itemId": item})
    assert "'elsewhere' and 'support'" in problem["detail"]
    assert purge(service, {"itemId": item, "dataset": "elsewhere"}) == (1, 0)
    assert SECRET in stored_texts(service)
    # The two uploads of this dataset, one of which is the collection of the run.
    assert purge(service, {"itemId": item, "dataset": "support"}) == (2, 0)
    assert SECRET not in stored_texts(service)
    assert purge(service, {"itemId": item, "dataset": "unknown"}) == (0, 0)


def test_purge__of_a_deleted_upload_is_that_of_its_run(service: Service, run: JSON) -> None:
    for upload in service.list_items("/local-datasets"):
        service.delete(f"/local-datasets/{upload['id']}")
    service.work()
    assert purge(service, {"itemId": traces()[3]["itemId"], "dataset": "support"}) == (1, 0)


def test_purge__keeps_the_spans_of_others_in_a_trace(service: Service) -> None:
    def item(span_id: str, item_id: str, user: str, parent: str | None = None) -> Span:
        named: dict[str, Any] = {
            "mosaico__dataset": "d",
            "mosaico__run": "r",
            "mosaico__item_id": item_id,
        }
        return span(trace="1", span_id=span_id, parent=parent, user__id=user, **named)

    sent = [
        span("whole run", trace="1", span_id="a"),
        item("b", "1", ACTOR, "a"),
        span("chat", trace="1", span_id="c", parent="b"),
        item("d", "2", "bob", "a"),
        span("chat", trace="1", span_id="e", parent="d"),
        # Its parents form a circle.
        span("lost", trace="1", span_id="f", parent="f"),
        span("other trace", trace="2", span_id="a", user__id="bob"),
    ]

    def stored() -> set[str]:
        with service.resources.db.read() as session:
            rows = session.execute(text("SELECT trace_id, span_id FROM otel_spans"))
            return {f"{trace_id[-1]}{span_id[-1]}" for trace_id, span_id in rows}

    for body in ({"userId": ACTOR}, {"itemId": "1"}, {"itemId": "1", "dataset": "d"}):
        service.client.post("/v1/traces", content=export(sent), headers=PROTOBUF)
        assert purge(service, body) == (0, 4)
        assert stored() == {"1d", "1e", "2a"}
    assert purge(service, {"itemId": "2", "dataset": "other"}) == (0, 0)


def test_purge__is_in_the_audit_log_without_the_id(service: Service, run: JSON) -> None:
    service.post("/local-datasets/purge", {"userId": ACTOR})
    entries = service.get("/audit")["items"]
    assert (entries[0]["action"], entries[0]["fields"]) == ("purge_texts", ["userId"])
    assert ACTOR not in json.dumps(entries)


@pytest.mark.parametrize(
    "body", [{}, {"itemId": "a", "userId": "b"}, {"itemId": ""}, {"userId": "a", "dataset": "b"}]
)
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
    assert "Not reached: backups" in done.output
    assert SECRET not in stored_texts(service)
    assert service.get("/audit")["items"][0]["fields"] == ["userId"]
    neither = CliRunner().invoke(cli, ["datasets", "purge", "--yes"], env=env)
    assert neither.exit_code == 2
