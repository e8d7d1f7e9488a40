"""What a benchmark redacts is never stored, whichever way it comes in; another redaction is another measurement."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from mosaico.harness import text_search
from mosaico.traces.otel import export_process
from mosaico.traces.redaction import MARK
from tests.support.otlp import PROTOBUF, export, json_export, span
from tests.support.service import JSON, Service, pair, run_mosaico

MAIL = "ada@example.org"
RULES = {"patterns": [r"[\w.]+@[\w.]+\.\w+"], "paths": ["user"]}
# Everything that a service stores of traces and of what was sent.
TABLES = (
    *("collected_traces", "trace_transcripts", "trace_results", "otel_spans", "otel_traces"),
    *("llm_cache", "idempotency_keys", "audit_log", "local_datasets", "collections"),
)


def stored(service: Service) -> str:
    """All of it as one text."""
    with service.resources.db.read() as session:
        return "".join(
            row
            for table in TABLES
            for row in session.execute(text(f"SELECT t::text FROM {table} t")).scalars()
        )


def traces(count: int = 10) -> list[JSON]:
    rows = [pair(number, "yes", "yes") for number in range(count)]
    rows[3] |= {
        "input": f"I am {MAIL}",
        "output": f"yes, {MAIL}",
        "attributes": {"user": "ada", "note": MAIL},
        "toolCalls": [{"name": "mail", "arguments": {"to": MAIL}, "ok": True}],
    }
    return rows


def run_of(service: Service, **fields: Any) -> JSON:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"], **fields)
    return service.complete_run()


def result(service: Service, run: JSON, trace_id: str = "t-3") -> JSON:
    return service.get(f"/benchmark-runs/{run['id']}/traces/{trace_id}")


def test_upload__is_redacted_by_the_benchmarks_of_its_dataset(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"], redact=RULES)
    service.create_benchmark("other", metrics=["ROUGE"])
    service.upload(traces())
    assert MAIL not in stored(service)
    run = service.complete_run()
    assert (run["validity"], run["redactedTexts"]) == ("VALID", 5)
    trace = result(service, run)
    assert (trace["input"], trace["output"]) == (f"I am {MARK}", f"yes, {MARK}")
    assert trace["attributes"] == {"user": MARK, "note": MARK}
    assert trace["toolCalls"][0]["arguments"] == {"to": MARK}
    # The upload is the collection of the run, and of the run of the other benchmark: nothing is copied.
    other = service.complete_run(benchmarkId="other")
    assert other["redactedTexts"] == 5
    with service.resources.db.read() as session:
        assert session.execute(text("SELECT count(*) FROM collections")).scalar_one() == 1
    # A dataset that no benchmark with rules reads stays as it is.
    service.upload(traces(), name="elsewhere")
    assert MAIL in stored(service)


def test_upload__from_before_the_rules_is_redacted_for_the_run(service: Service) -> None:
    service.upload(traces())
    run = run_of(service, redact=RULES)
    assert (run["status"], run["redactedTexts"], run["tracesTotal"]) == ("COMPLETED", 5, 10)
    assert MAIL not in json.dumps(service.list_items(f"/benchmark-runs/{run['id']}/results"))
    # The next run reads the same collection.
    again = service.complete_run()
    assert (again["sameDataAs"], again["redactedTexts"]) == (run["id"], 5)


def test_upload__without_matches_is_not_copied(service: Service) -> None:
    service.upload([pair(number, "yes", "yes") for number in range(10)])
    run = run_of(service, redact=RULES)
    assert (run["status"], run["redactedTexts"]) == ("COMPLETED", 0)
    service.work()
    with service.resources.db.read() as session:
        assert session.execute(text("SELECT count(*) FROM collections")).scalar_one() == 1


def test_file_of_the_form_and_of_a_harness__are_redacted(service: Service) -> None:
    service.create_benchmark(metrics=["ROUGE"], redact=RULES)
    table = f"question,expected,answer\nwho is {MAIL}?,ada,{MAIL}\nwho is bob@x.yz?,bob,bob\n"
    response = service.client.post(
        "/datasets",
        data={"name": "support", "runName": "form"},
        files={"file": ("a.csv", table.encode())},
    )
    assert response.status_code == 303, response.text
    assert f"who is {MARK}?" in stored(service)
    assert MAIL not in stored(service)


def test_names_of_columns_and_keys__are_redacted(service: Service) -> None:
    service.create_benchmark(metrics=["ROUGE"], redact=RULES)
    table = f"who is {MAIL}?,answer to {MAIL},{MAIL}\nwho is bob?,bob,x\n"
    response = service.client.post(
        "/datasets",
        data={"name": "support", "runName": "form"},
        files={"file": ("a.csv", table.encode())},
    )
    assert response.status_code in (303, 422), response.text
    service.upload([row | {MAIL: "x"} for row in traces()], run_name="lines")
    assert MARK in stored(service)
    assert MAIL not in stored(service)


@pytest.mark.parametrize("signal", ["traces", "json", "logs", "large"])
def test_spans__are_redacted_by_all_benchmarks_that_read_spans(
    service: Service, signal: str
) -> None:
    service.create_benchmark(source="otel", redact=RULES)
    service.create_benchmark("archived", source="otel", redact={"paths": ["model"]})
    service.patch("/benchmarks/archived", {"archived": True})
    service.create_benchmark("uploads", source="local", redact={"paths": ["model"]})
    if signal == "logs":
        record = {
            "traceId": "1" * 32,
            "spanId": "2" * 16,
            "eventName": "gen_ai.choice",
            "timeUnixNano": "1",
            "attributes": [{"key": "model", "value": {"stringValue": "kept"}}],
            "body": {"stringValue": MAIL},
        }
        body = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
        response = service.client.post("/v1/logs", json=body)
    elif signal == "json":
        attributes = {"user.id": MAIL, "input.value": f"I am {MAIL}", "model": "kept"}
        pairs = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
        response = service.client.post("/v1/traces", json=json_export({"attributes": pairs}))
    else:
        filling = "x" * (2 * 1024**2 if signal == "large" else 1)
        sent = span(user__id=MAIL, input__value=f"I am {MAIL}", model="kept", filling=filling)
        content = export([sent], {"service.name": MAIL})
        response = service.client.post("/v1/traces", content=content, headers=PROTOBUF)
    assert response.status_code == 200, response.text
    everything = stored(service)
    assert "kept" in everything
    assert MAIL not in everything


# It looks for a `z` to the end of the text, from each `c` on.
SLOW_PATTERN = "c(?:.*z)?"
SLOW_TEXT = "c" * 100_000


def test_spans__are_never_redacted_in_the_process_of_the_api(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("in the process that answers requests")

    monkeypatch.setattr(export_process, "redact_spans", fail)
    service.create_benchmark(source="otel", redact={"patterns": [SLOW_PATTERN]})
    content = export([span(input__value="c.")])
    sent = service.client.post("/v1/traces", content=content, headers=PROTOBUF)
    assert sent.status_code == 200, sent.text
    # Spans are stored as JSON.
    # In the escapes of JSON.
    assert "u27e6redacted" in stored(service)
    slow = export([span(input__value=SLOW_TEXT)])
    refused = service.client.post("/v1/traces", content=slow, headers=PROTOBUF)
    assert refused.status_code == 413
    assert SLOW_PATTERN in refused.text


def test_slow_pattern__is_named_where_uploads_and_runs_end(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In this process, which does the jobs; uploads are read in another one.
    monkeypatch.setattr(text_search, "MATCHING_S", 0.1)
    monkeypatch.setattr(text_search, "MATCHING_BYTE_S", 0.0)
    service.create_agent()
    slow_rows = [{**pair(0, "yes", "yes"), "output": SLOW_TEXT}]
    service.upload(slow_rows)
    rules = {"patterns": [SLOW_PATTERN]}
    service.create_benchmark(metrics=["ROUGE"], redact=rules)
    run = service.start_run()
    service.work()
    failed = service.get(f"/benchmark-runs/{run['id']}")
    assert failed["status"] == "FAILED"
    assert SLOW_PATTERN in failed["errorMessage"]
    refused = service.client.post(
        "/api/v1/local-datasets",
        content=json.dumps(slow_rows[0]).encode() + b"\n",
        headers={"Content-Type": "application/x-ndjson"},
        params={"name": "support", "runName": "second"},
    )
    assert refused.status_code == 413
    assert SLOW_PATTERN in refused.json()["detail"]


def test_form__sets_rules_and_days_and_says_what_is_wrong(service: Service) -> None:
    form = {
        "name": "",
        "datasetRef": "support",
        "metrics": "ROUGE",
        "minCoverage": "0.9",
        "maxErrorShare": "0.05",
    }
    wrong = service.client.post("/benchmarks", data={**form, "redact.patterns": "("})
    assert (wrong.status_code, "not a valid regular expression" in wrong.text) == (422, True)
    sent = {**form, "redact.patterns": "a+\nb+", "redact.paths": "user", "keepTextDays": "30"}
    response = service.client.post("/benchmarks", data=sent)
    assert response.status_code == 303, response.text
    [benchmark] = service.list_items("/benchmarks")
    assert benchmark["redact"] == {"patterns": ["a+", "b+"], "paths": ["user"]}
    assert benchmark["keepTextDays"] == 30
    assert "before anything is stored" in service.client.get(response.headers["location"]).text


def test_export_of_a_run__says_what_was_redacted(service: Service, tmp_path: Path) -> None:
    service.upload(traces())
    run = run_of(service, redact=RULES)
    result = run_mosaico(service, "runs", "export", run["id"], tmp_path / "run.jsonl")
    assert result.exit_code == 0, result.output
    assert "5 texts were redacted" in result.output
    assert MARK in (tmp_path / "run.jsonl").read_text()


def test_changed_rules__make_the_next_run_measured_differently(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE", "LATENCY_MS", "STATUS"])
    service.upload([row | {"latencyMs": 5} for row in traces(20)], run_name="monday")
    first = service.complete_run(runName="monday")
    service.patch("/benchmarks/bench-001", {"redact": RULES})
    service.upload([row | {"latencyMs": 5} for row in traces(20)], run_name="tuesday")
    second = service.complete_run(runName="tuesday")
    assert first["fingerprint"] != second["fingerprint"]
    differences = " ".join(second["verdict"]["differences"])
    assert "redact of the benchmark changed" in differences
    metrics = {
        row["metric"]: row["verdict"]
        for row in service.get(f"/benchmark-runs/{second['id']}/metrics")["items"]
    }
    assert metrics["ROUGE"]["verdict"] == "INVALID"
    assert "redacted by other rules" in metrics["ROUGE"]["reason"]
    assert metrics["LATENCY_MS"]["effect"] == 0


def test_rescored_run__keeps_the_redaction_of_its_origin(service: Service) -> None:
    service.upload(traces())
    run = run_of(service, redact=RULES)
    service.patch("/benchmarks/bench-001", {"redact": None})
    rescored = service.post(f"/benchmark-runs/{run['id']}/rescore")
    service.work()
    rescored = service.get(f"/benchmark-runs/{rescored['id']}")
    assert (rescored["fingerprint"], rescored["redactedTexts"]) == (run["fingerprint"], 5)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"redact": {"patterns": ["("]}}, "/redact/patterns/0"),
        ({"redact": {"patterns": ["a*"]}}, "/redact/patterns/0"),
        ({"redact": {"paths": ["$.a"]}}, "/redact/paths/0"),
        ({"redact": {"pattern": ["a"]}}, "/redact/pattern"),
        ({"redact": RULES, "clusterField": "user"}, "/clusterField"),
        (
            {
                "redact": RULES,
                "source": "otel",
                "datasetRef": None,
                "production": {"since": "1h", "itemKey": "user"},
            },
            "/production/itemKey",
        ),
    ],
)
def test_bad_rules__are_refused_with_their_place(
    service: Service, fields: JSON, pointer: str
) -> None:
    problem = service.expect_problem(
        422, "POST", "/benchmarks", {"datasetRef": "support", **fields}
    )
    assert [error["pointer"] for error in problem["errors"]] == [pointer]
