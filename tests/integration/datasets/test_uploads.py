"""Uploads: streamed, atomic, one at a time; the runs that read them keep their traces."""

import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyarrow import parquet
from sqlalchemy import text

from mosaico.items.queries import ALL_TAGS
from mosaico.overview import dataset_pages
from mosaico.traces import trial_numbers
from mosaico.traces.files.read_options import SERVICE_LIMITS
from mosaico.traces.registry import CollectionFailed, TraceQuery
from mosaico.traces.sources.local import find_upload, iter_uploaded_traces
from mosaico.traces.storable_traces import MAX_TEXT_CHARS
from mosaico.traces.trial_numbers import TrialCounts
from mosaico.traces.uploads import queries
from mosaico.traces.uploads.queries import read_uploaded_traces
from tests.support.service import JSON, Service, ndjson, pair

DATASETS = "/local-datasets"
RUN_1 = {"name": "support", "runName": "run-1"}
NDJSON = {"Content-Type": "application/x-ndjson"}


def upload(service: Service, content: bytes, **more: Any) -> Any:
    more.setdefault("params", RUN_1)
    more.setdefault("headers", NDJSON)
    return service.send("POST", DATASETS, content=content, **more)


def refused(service: Service, status: int, content: bytes, **more: Any) -> JSON:
    more.setdefault("params", RUN_1)
    more.setdefault("headers", NDJSON)
    return service.expect_problem(status, "POST", DATASETS, content=content, **more)


def rows(service: Service, table: str) -> int:
    with service.resources.db.read() as session:
        return session.scalar(text(f"SELECT count(*) FROM {table}")) or 0


def test_upload__is_stored_listed_shown_and_deleted(service: Service) -> None:
    content = b"\xef\xbb\xbf" + ndjson([pair(1)]) + b"\r\n   \n" + ndjson([pair(2)]).rstrip()
    answer = upload(service, content)
    dataset = answer.json()
    assert (answer.status_code, answer.headers["Location"]) == (
        201,
        f"/api/v1{DATASETS}/{dataset['id']}",
    )
    assert (dataset["name"], dataset["runName"]) == ("support", "run-1")
    assert (dataset["traceCount"], dataset["sizeBytes"]) == (2, len(content))
    other = service.upload([pair(1)], name="other", run_name="é 😀 '; --")
    assert service.get(DATASETS) == {"items": [other, dataset], "nextCursor": None}
    assert service.list_items(DATASETS, limit=1) == [other, dataset]
    assert service.get(DATASETS, name="support")["items"] == [dataset]
    assert service.get(f"{DATASETS}/{dataset['id']}") == dataset
    service.delete(f"{DATASETS}/{dataset['id']}")
    for method in ("GET", "DELETE"):
        problem = service.expect_problem(404, method, f"{DATASETS}/{dataset['id']}")
        assert problem["type"] == "/problems/dataset-not-found"
    service.work()
    assert rows(service, "collected_traces") == 1


def test_upload__invalid_line_rejects_the_whole_upload(service: Service) -> None:
    good = [ndjson([pair(number)]) for number in (1, 2)]
    flaws = {
        b"{\n": "not valid JSON",
        b"[1]\n": "a trace must be an object",
        b"{}\n": "traceId is missing",
        b'{"traceId": ""}\n': "traceId",
        b'{"traceId": 7}\n': "traceId must be a text",
        b'{"traceId": "x", "output": NaN}\n': "",
        b'{"traceId": "x", "costUsd": 1e999}\n': "",
        b'{"traceId": "x", "inputTokens": 123456789012345678901234567890}\n': "",
        b'{"traceId": "x", "output": "\\u0000"}\n': "",
        b'{"traceId": "x", "output": "\\ud800"}\n': "",
        b'{"traceId": "x", "outcome": "great"}\n': "one of scored",
        b'{"traceId": "x", "scores": {"a": "b"}}\n': "must be a number",
        b'{"traceId": "x", "traceId": "y"}\n': "",
        b"\xff\n": "UTF-8",
        b"\x00\n": "",
        b"[" * 100_000: "",
        gzip.compress(b"\n".join(good)) + b"\n": "",
    }
    for flaw, expected_detail in flaws.items():
        problem = refused(service, 422, b"".join([good[0], b"\n", flaw, good[1]]))
        assert re.match("line 3(, column [0-9]+)?: ", problem["detail"]), flaw[:80]
        assert expected_detail in problem["detail"]
    assert rows(service, "local_datasets") == rows(service, "collected_traces") == 0
    assert upload(service, b"".join(good)).status_code == 201


def test_upload__invalid_uploads_are_rejected(service: Service) -> None:
    upload = ndjson([pair(1)])
    for content in (b"", b"\n\n  \n", b"\xef\xbb\xbf\n"):
        problem = refused(service, 422, content)
        assert problem["type"] in ("/problems/no-traces", "/problems/invalid-trace")
    twice = refused(service, 422, ndjson([pair(1), pair(2), pair(1)]))
    assert twice["type"] == "/problems/duplicate-trace"
    assert twice["detail"] == "the traceId 't-1' occurs twice; give each trace a unique ID"
    for content_type in ("application/json", "multipart/form-data", ""):
        problem = refused(service, 415, upload, headers={"Content-Type": content_type})
        assert "application/x-ndjson" in problem["detail"]
    for params in (
        {"name": "support"},
        {"runName": "run-1"},
        {"name": "", "runName": "x"},
        {"name": "x" * 201, "runName": "x"},
        {"name": "a\nb", "runName": "x"},
        {**RUN_1, "replace": "perhaps"},
    ):
        refused(service, 422, upload, params=params)
    refused(service, 400, upload, params={"name": "a\u0000b", "runName": "x"})
    assert rows(service, "local_datasets") == 0


def test_upload__line_over_16_mib_is_rejected(service: Service) -> None:
    line = b'{"traceId": "t-2", "output": "' + b"x" * (16 * 1024**2) + b'"}\n'
    problem = refused(service, 413, ndjson([pair(1)]) + line)
    assert "line 2 is longer" in problem["detail"]
    assert rows(service, "collected_traces") == 0
    # The limit is of the whole line, with its other 33 bytes.
    nearly = b'{"traceId": "t-2", "unused": "' + b"x" * (16 * 1024**2 - 50) + b'"}\n'
    assert upload(service, ndjson([pair(1)]) + nearly).json()["traceCount"] == 2


def test_upload__existing_run_needs_replace(service: Service) -> None:
    first = service.upload([pair(1), pair(2)])
    problem = refused(service, 409, ndjson([pair(3)]))
    assert problem["type"] == "/problems/dataset-exists"
    assert "replace=true" in problem["detail"]
    replacing = {"params": {**RUN_1, "replace": "true"}}
    refused(service, 422, ndjson([pair(3)]) + b"{", **replacing)
    assert service.get(DATASETS)["items"] == [first]
    assert rows(service, "collected_traces") == 2
    second = upload(service, ndjson([pair(3)]), **replacing).json()
    assert second["id"] != first["id"]
    assert service.get(DATASETS)["items"] == [second]
    service.work()
    assert rows(service, "collected_traces") == 1


def test_deleted_upload__no_trace_is_read_while_the_job_deletes_them(service: Service) -> None:
    """Who reads the upload at this moment must not continue with the rest of its traces."""
    dataset = service.upload([pair(1), pair(2)])
    with service.resources.db.read() as session:
        assert len(read_uploaded_traces(session, dataset["id"], 0, 10)) == 2
    upload = find_upload(service.resources, TraceQuery(dataset_ref="support", run_name=None))

    service.delete(f"{DATASETS}/{dataset['id']}")

    assert rows(service, "collected_traces") == 2
    with service.resources.db.read() as session:
        assert not read_uploaded_traces(session, dataset["id"], 0, 10)
    with pytest.raises(CollectionFailed, match="was deleted or replaced"):
        list(iter_uploaded_traces(service.resources, upload))


def test_read_uploaded_traces__counts_all_that_it_reads(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts that compress well count as they are in memory; tool calls and errors are not read."""
    monkeypatch.setattr(queries, "MAX_PAGE_BYTES", 8000)
    long = "x" * 9000
    calls = [{"name": "grep", "arguments": {"q": long}}]
    traces = [
        pair(1, attributes={"context": long}),
        pair(2, tags=[long]),
        *(pair(number, toolCalls=calls, error=long, scores={long: 1}) for number in (3, 4)),
    ]
    dataset = service.upload(traces)
    with service.resources.db.read() as session:
        sizes = [
            len(read_uploaded_traces(session, dataset["id"], position, 10)) for position in range(3)
        ]
        [trace] = read_uploaded_traces(session, dataset["id"], 2, 1)
    assert sizes == [1, 1, 2]
    assert (trace.tool_calls, trace.error, trace.scores) == (None, None, {})


def test_upload__another_transcript_is_stored(service: Service) -> None:
    for answer in ("one", "two"):
        step = {"kind": "message", "role": "assistant", "text": answer}
        trace = pair(1, transcript={"steps": [step]})
        assert upload(service, ndjson([trace]), params={**RUN_1, "replace": "true"}).is_success
    service.work()
    with service.resources.db.read() as session:
        [stored] = session.scalars(text("SELECT transcript::text FROM trace_transcripts"))
    assert '"two"' in stored


def test_upload__equal_traces_are_stored_once(service: Service) -> None:
    trace = pair(1, input="?")
    first, second = (service.upload([trace], run_name=name) for name in ("run-1", "run-2"))
    service.upload([pair(1, output="x")], run_name="run-3")
    assert rows(service, "collections") == rows(service, "collected_traces") == 2
    service.delete(f"{DATASETS}/{first['id']}")
    service.work()
    assert len(service.list_items(f"{DATASETS}/{second['id']}/items")) == 1
    service.delete(f"{DATASETS}/{second['id']}")
    service.work()
    assert rows(service, "collections") == rows(service, "collected_traces") == 1


def test_upload__repeated_trials_of_an_item_are_numbered(service: Service) -> None:
    items = ["a", "b", "a", "a"]
    dataset = service.upload([pair(number, itemId=item) for number, item in enumerate(items)])
    with service.resources.db.read() as session:
        traces = read_uploaded_traces(session, dataset["id"], 0, 10)
    assert [(trace.item_id, trace.trial) for trace in traces] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
        ("a", 2),
    ]


def test_upload__text_over_a_million_characters_is_rejected(service: Service) -> None:
    long = "x" * (MAX_TEXT_CHARS + 1)
    for fields in ({"expectedOutput": long}, {"tags": [long]}, {"attributes": {"context": long}}):
        problem = refused(service, 422, ndjson([pair(1), pair(2, **fields)]))
        [name] = fields
        assert problem["detail"].startswith(f"line 2: {name} has a text of more than 1,000,000")
    assert service.upload([pair(1, output=long[1:])])["traceCount"] == 1


def test_upload__attributes_are_stored_whole_and_are_short_tags(service: Service) -> None:
    """A context that the agent must read; a comparison needs only its beginning."""
    attributes = {f"name-{number}": "é" for number in range(70)}
    whole = service.upload([pair(1, input="?", attributes=attributes)], name="many")
    [item] = service.list_items(f"{DATASETS}/{whole['id']}/items")
    assert item["attributes"] == attributes
    service.delete(f"{DATASETS}/{whole['id']}")
    service.work()

    dataset = service.upload([pair(1, input="?", tags=["a"], attributes={"context": "é" * 3000})])

    [item] = service.list_items(f"{DATASETS}/{dataset['id']}/items")
    assert item["attributes"] == {"context": "é" * 3000}
    with service.resources.db.read() as session:
        [trace] = read_uploaded_traces(session, dataset["id"], 0, 10)
        tags = session.scalar(text(f"SELECT {ALL_TAGS} FROM collected_traces AS trace"))
    assert tags == [*trace.all_tags] == ["a", f"context:{'é' * 256}"]


class CountsOnFullDisk(TrialCounts):
    """The temporary file has no second page."""

    def __init__(self) -> None:
        super().__init__()
        self._database.execute("PRAGMA max_page_count = 1")


def test_upload__full_disk_while_trials_are_numbered_is_unavailable(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_numbers, "TrialCounts", CountsOnFullDisk)
    content = ndjson(pair(number, itemId=f"i-{number // 2}") for number in range(2000))
    assert "disk" in refused(service, 503, content)["detail"]
    assert rows(service, "local_datasets") == 0


def test_upload__runs_keep_the_traces(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    dataset = service.upload([pair(1)])
    run = service.complete_run()
    service.delete(f"{DATASETS}/{dataset['id']}")
    [row] = service.get(f"/benchmark-runs/{run['id']}/results")["items"]
    assert row["output"] == "a b c d"
    service.work()
    assert rows(service, "collected_traces") == 1
    assert service.complete_run()["errorCode"] == "DATASET_NOT_FOUND"


def test_upload__one_of_concurrent_uploads_is_stored(service: Service) -> None:
    content = ndjson(pair(number) for number in range(2000))
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: upload(service, content), range(6)))
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [201, 409, 409, 409, 409, 409]
    kinds = {answer.json()["type"] for answer in answers if answer.status_code == 409}
    # A request finds the upload in progress or stored, whichever it is in time for.
    assert kinds <= {"/problems/upload-in-flight", "/problems/dataset-exists"}
    assert rows(service, "collected_traces") == 2000
    with ThreadPoolExecutor(4) as threads:
        names = [{"name": "support", "runName": f"other-{number}"} for number in range(4)]
        answers = list(threads.map(lambda p: upload(service, content, params=p), names))
    assert [answer.status_code for answer in answers] == [201] * 4


def test_upload__idempotency_key_stores_once(service: Service) -> None:
    headers = {**NDJSON, "Idempotency-Key": "upload-1"}
    first, again = (upload(service, ndjson([pair(1)]), headers=headers) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["Location"] == first.headers["Location"]
    other = refused(service, 422, ndjson([pair(2)]), headers=headers)
    assert other["type"] == "/problems/idempotency-key-reused"
    elsewhere = {**RUN_1, "runName": "run-2"}
    refused(service, 422, ndjson([pair(1)]), headers=headers, params=elsewhere)
    assert rows(service, "local_datasets") == 1


def test_upload__large_upload_is_streamed(service: Service) -> None:
    traces = [pair(number, output="word " * 2000) for number in range(400)]
    # The length of a generator is unknown: the request has no Content-Length.
    pieces = (json.dumps(trace).encode() + b"\n" for trace in traces)
    answer = service.client.post(f"/api/v1{DATASETS}", content=pieces, params=RUN_1, headers=NDJSON)
    assert answer.status_code == 201
    assert (answer.json()["traceCount"], answer.json()["sizeBytes"] > 4 * 10**6) == (400, True)


def send_form(service: Service, name: str, content: bytes, **fields: str) -> httpx.Response:
    """Send a file with the form of the page."""
    return service.client.post(
        "/datasets",
        data={"name": "support", "runName": "form", **fields},
        files={"file": (name, content)},
        headers={"Origin": str(service.client.base_url).rstrip("/")},
        follow_redirects=True,
    )


def test_form__reads_a_file_as_its_fields_say(service: Service) -> None:
    rows = [
        {"id": 1, "grade": "A", "answer": "<think>t</think>x", "gold": ["x", "y"], "note": "n"},
        {"id": 2, "grade": "B", "answer": None, "gold": ["z", "w"], "error": "pump 7 is broken"},
    ]
    content = ndjson(rows)
    refused = send_form(service, "a.jsonl", content)
    assert refused.status_code == 422
    assert "the field Several expected answers" in refused.text
    page = send_form(
        service,
        "a.jsonl",
        content,
        expected="any",
        labels="grade=A:1,B:0",
        infraErrors="^pump",
        stripThinking="1",
    )
    assert page.status_code == 200, page.text
    [dataset] = service.list_items(DATASETS)
    # What the file has and nothing reads is said.
    assert any("note" in text for text in dataset["ignoredKeys"])
    with service.resources.db.read() as session:
        first, second = read_uploaded_traces(session, dataset["id"], 0, 10)
        [scores, _] = session.scalars(text("SELECT scores FROM collected_traces ORDER BY position"))
    assert (first.output, first.expected_any, scores) == ("x", ("x", "y"), {"TASK_SCORE": 1.0})
    assert second.outcome == "infra_error"


@pytest.mark.parametrize(
    ("field", "value"),
    [("labels", "grade=A"), ("infraErrors", "pump ("), ("columns", "nothing=x")],
)
def test_form__shows_an_error_beside_its_field(service: Service, field: str, value: str) -> None:
    page = send_form(service, "a.csv", b"id,answer\n1,x\n", **{field: value})
    assert page.status_code == 422
    assert f'id="{field}-error"' in page.text
    assert service.list_items(DATASETS) == []


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def inspect_log(*samples: bytes) -> bytes:
    """A log of Inspect AI with these samples."""
    header = b'{"status": "success", "eval": {"model": "m"}}'
    members = {f"samples/{number}.json": sample for number, sample in enumerate(samples)}
    return zipped({"header.json": header, **members})


def table_of_one_cell(text_bytes: int) -> bytes:
    packed = io.BytesIO()
    columns = {"id": ["1"], "input": ["q"], "output": ["a" * text_bytes]}
    parquet.write_table(pa.table(columns), packed, compression="zstd")
    return packed.getvalue()


MIB = 1024**2
VALUES = b"[" + b"[]," * 2_100_000 + b"[]]"
BOMBS: dict[str, Callable[[], tuple[bytes, str]]] = {
    "values.json": lambda: (VALUES, "more than 4,000,000 JSON values"),
    "values.jsonl": lambda: (b'{"id": ' + VALUES + b"}\n{}\n", "more than 4,000,000 JSON values"),
    "long.json": lambda: (
        b'[{"id": "1", "output": "' + b"a" * (65 * MIB) + b'"}]',
        "larger than 67108864 bytes",
    ),
    "member.eval": lambda: (
        inspect_log(b'{"id": "' + b"a" * (65 * MIB) + b'"}'),
        "samples/0.json unpacks to more than 64 MiB",
    ),
    "values.eval": lambda: (
        inspect_log(b'{"id": ' + VALUES + b"}"),
        "samples/0.json has more than 4,000,000 JSON values",
    ),
    "sheet.xlsx": lambda: (
        zipped({"xl/workbook.xml": b"<workbook/>", "xl/sharedStrings.xml": b" " * (65 * MIB)}),
        "the spreadsheet unpacks to more than 64 MiB",
    ),
    "cell.parquet": lambda: (
        table_of_one_cell(65 * MIB),
        "row group 1 unpacks to more than 64 MiB",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_form__file_that_would_fill_the_memory_is_refused_unparsed(
    service: Service, name: str
) -> None:
    content, reason = BOMBS[name]()
    page = send_form(service, name, content)
    assert page.status_code == 422
    assert reason in page.text
    assert service.list_items(DATASETS) == []


def test_form__archive_is_refused_at_its_limit(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = replace(SERVICE_LIMITS, archive_bytes=MIB)
    monkeypatch.setattr(dataset_pages, "SERVICE_LIMITS", limits)
    sample = json.dumps({"id": "1", "epoch": 1, "input": "q" * 400_000, "output": {}}).encode()
    page = send_form(service, "log.eval", inspect_log(sample, sample, sample))
    assert page.status_code == 422
    assert "the archive unpacks to more than 1 MiB" in page.text
