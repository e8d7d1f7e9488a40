"""Uploads that would outgrow the service are refused by limit and setting, whatever entrance they come through."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from typing import NamedTuple

import httpx
import pyarrow as pa
import pytest
from pyarrow import parquet

from mosaico.jobs.child_process import ChildProcesses
from mosaico.traces.uploads import encoding
from tests.support.service import Service, ndjson, pair

MIB = 1024**2
DATASETS = "/local-datasets"
RUN = {"name": "support", "runName": "run-1"}
LIMITS = {
    "import_part_mb": "1",
    "import_unpacked_mb": "2",
    "import_values": "1000",
    "import_columns": "10",
}


def limit(service: Service, options: Mapping[str, str]) -> None:
    stored = service.resources.options
    assert isinstance(stored, dict)
    stored.update(options)


def send_form(service: Service, name: str, content: bytes) -> httpx.Response:
    return service.client.post(
        "/datasets",
        data={"name": "support", "runName": "form"},
        files={"file": (name, content)},
        headers={"Origin": str(service.client.base_url).rstrip("/")},
        follow_redirects=True,
    )


def send_lines(service: Service, content: bytes) -> httpx.Response:
    return service.send(
        "POST",
        DATASETS,
        content=content,
        params=RUN,
        headers={"Content-Type": "application/x-ndjson"},
    )


def send_results(service: Service, content: bytes) -> httpx.Response:
    return service.send(
        "POST",
        f"{DATASETS}/import",
        content=content,
        params=RUN,
        headers={"Content-Type": "application/json"},
    )


def zipped(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def inspect_log(*samples: bytes) -> bytes:
    """A log of Inspect AI with these samples."""
    header = b'{"status": "success", "eval": {"model": "m"}}'
    members = {f"samples/{number}.json": sample for number, sample in enumerate(samples)}
    return zipped({"header.json": header, **members})


def with_small_directory(archive: bytes, member_bytes: int) -> bytes:
    """An archive whose directory says that each member of this size has one byte."""
    sizes = member_bytes.to_bytes(4, "little")
    head, mark, directory = archive.partition(b"PK\x01\x02")
    return head + mark + directory.replace(sizes, (1).to_bytes(4, "little"))


def table(**columns: list[str]) -> bytes:
    packed = io.BytesIO()
    parquet.write_table(pa.table(columns), packed, compression="zstd")
    return packed.getvalue()


SAMPLE = json.dumps({"id": "1", "epoch": 1, "input": "q" * 900_000, "output": {}}).encode()
VALUES = b"[" + b"[]," * 1000 + b"[]]"
DEEP = b"[" * 100_000 + b"]" * 100_000


class Bomb(NamedTuple):
    """A file with its name, and what its refusal says."""

    name: str
    make: Callable[[], bytes]
    reason: str
    setting: str | None


PART, UNPACKED = "MOSAICO_IMPORT_PART_MB", "MOSAICO_IMPORT_UNPACKED_MB"
COUNT, COLUMNS = "MOSAICO_IMPORT_VALUES", "MOSAICO_IMPORT_COLUMNS"
FILES = [
    Bomb("values.json", lambda: VALUES, "more than 1,000 JSON values", COUNT),
    Bomb("values.jsonl", lambda: b'{"id": ' + VALUES + b"}\n{}\n", "1,000 JSON values", COUNT),
    Bomb(
        "values.eval",
        lambda: inspect_log(b'{"id": ' + VALUES + b"}"),
        "samples/0.json has more than 1,000 JSON values",
        COUNT,
    ),
    Bomb(
        "long.json",
        lambda: b'[{"id": "1", "output": "' + b"a" * MIB + b'"}]',
        "the document has more than 1 MiB",
        PART,
    ),
    Bomb(
        "member.eval",
        lambda: inspect_log(b'{"id": "' + b"a" * MIB + b'"}'),
        "samples/0.json has more than 1 MiB",
        PART,
    ),
    Bomb(
        "lying.eval",
        lambda: with_small_directory(inspect_log(b'"' + b"a" * MIB + b'"'), MIB + 2),
        "samples/0.json has more than 1 MiB",
        PART,
    ),
    Bomb("many.eval", lambda: inspect_log(*[SAMPLE] * 3), "unpacked file has more than 2", UNPACKED),
    Bomb(
        "lying-many.eval",
        lambda: with_small_directory(inspect_log(*[SAMPLE] * 3), len(SAMPLE)),
        "unpacked file has more than 2 MiB",
        UNPACKED,
    ),
    Bomb(
        "sheet.xlsx",
        lambda: zipped({"xl/workbook.xml": b"<workbook/>", "xl/sharedStrings.xml": b" " * MIB}),
        "the spreadsheet has more than 1 MiB",
        PART,
    ),
    Bomb(
        "cell.parquet",
        lambda: table(id=["1"], input=["q"], output=["a" * MIB]),
        "row group 1 has more than 1 MiB",
        PART,
    ),
    Bomb(
        "repeated.parquet",
        lambda: table(id=[str(n) for n in range(30)], input=["q"] * 30, output=["a" * 100_000] * 30),
        "unpacked file has more than 2 MiB",
        UNPACKED,
    ),
    Bomb("wide.csv", lambda: b",".join(b"c%d" % n for n in range(11)) + b"\n" + b"," * 10 + b"1\n",
         "more than 10 columns", COLUMNS),
    Bomb("wide.parquet", lambda: table(**{f"c{n}": ["1"] for n in range(11)}), "10 columns", COLUMNS),
    Bomb("wide.jsonl", lambda: ndjson([{f"c{n}": 1 for n in range(11)}] * 2), "10 columns", COLUMNS),
    Bomb("deep.json", lambda: DEEP, "nested too deep", None),
    Bomb("deep.eval", lambda: inspect_log(b'{"id": ' + DEEP + b"}"), "nested too deep", None),
]  # fmt: skip


@pytest.mark.parametrize("bomb", FILES, ids=lambda bomb: bomb.name)
def test_form__file_beyond_a_limit_is_refused_with_its_setting(
    service: Service, bomb: Bomb
) -> None:
    limits = {**LIMITS, "import_values": "4000000"} if bomb.name.startswith("deep") else LIMITS
    limit(service, limits)
    page = send_form(service, bomb.name, bomb.make())
    assert page.status_code == 422
    assert bomb.reason in page.text
    assert bomb.setting is None or bomb.setting in page.text
    assert service.list_items(DATASETS) == []


@pytest.mark.parametrize(
    ("send", "content"),
    [
        (send_lines, b'{"traceId": "t", "transcript": ' + VALUES + b"}\n"),
        (send_results, b'{"results": ' + VALUES + b"}"),
    ],
)
def test_api__values_beyond_the_limit_are_refused_unparsed(
    service: Service, send: Callable[[Service, bytes], httpx.Response], content: bytes
) -> None:
    limit(service, LIMITS)
    answer = send(service, content)
    assert answer.status_code == 422
    assert "more than 1,000 JSON values" in answer.json()["detail"]
    assert "MOSAICO_IMPORT_VALUES" in answer.json()["detail"]


@pytest.mark.parametrize(
    "send",
    [
        lambda service, content: send_form(service, "rows.jsonl", content),
        send_lines,
        lambda service, _: send_results(
            service, b'{"results": [' + b'"' + b"a" * 40 * MIB + b'"]}'
        ),
    ],
    ids=["form", "lines", "results"],
)
def test_every_entrance__reading_has_a_memory_limit(
    service: Service, send: Callable[[Service, bytes], httpx.Response]
) -> None:
    """The process that reads may not even hold this line twice."""
    limit(service, {"import_memory_mb": "16"})
    answer = send(service, ndjson([{"traceId": "t", "output": "a" * 15 * MIB}]))
    assert answer.status_code == 413
    assert "more than 16 MiB of memory" in answer.text
    assert "MOSAICO_IMPORT_MEMORY_MB" in answer.text
    # The service and its next reader are as before.
    limit(service, {"import_memory_mb": ""})
    assert send_lines(service, ndjson([pair(1)])).status_code == 201


def test_every_entrance__reading_has_a_time_limit(service: Service) -> None:
    limit(service, {"import_timeout_s": "0.001"})
    answer = send_lines(service, ndjson([pair(number) for number in range(20_000)]))
    assert answer.status_code == 413
    assert "MOSAICO_IMPORT_TIMEOUT_S" in answer.json()["detail"]
    limit(service, {"import_timeout_s": ""})
    assert send_lines(service, ndjson([pair(1)])).status_code == 201


def test_upload__busy_readers_refuse_it_for_now(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    none_free = ChildProcesses(0, warm_up=lambda: None, kept_s=None, wait_s=0.0, waiting=0)
    with monkeypatch.context() as patch:
        patch.setattr(encoding, "READERS", none_free)
        busy = send_lines(service, ndjson([pair(1)]))
        assert (busy.status_code, busy.headers["Retry-After"]) == (503, "10")
        page = send_form(service, "a.jsonl", ndjson([pair(1)]))
        assert page.status_code == 503
        assert "Other uploads are being read" in page.text
    assert send_form(service, "a.jsonl", ndjson([pair(1)])).status_code == 200
