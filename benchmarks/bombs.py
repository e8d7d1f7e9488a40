"""Uploads that would outgrow the service, all at once: memory of the API, and how long `/readyz` takes meanwhile.

`python -m benchmarks bombs`; `MOSAICO_BENCH_BOMBS=small` sends a tenth of the sizes.
"""

import gzip
import io
import json
import multiprocessing
import os
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http import HTTPStatus
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from typing import Final, NamedTuple

import httpx
import psutil
import pyarrow as pa
from pyarrow import parquet

from benchmarks.processes import peak_mib, process_of_role
from benchmarks.result_rows import BenchRow
from benchmarks.running_service import RunningService, served

MIB: Final = 1024**2
SCALE: Final = 10 if os.environ.get("MOSAICO_BENCH_BOMBS") == "small" else 1
MAX_API_MIB: Final = 400
MAX_READY_S: Final = 1.0
# The limit of a child process, and what it needs to start.
MAX_CHILD_MIB: Final = 1024 + 128
PAUSE_S: Final = 0.05
IDLE_S: Final = 5.0
TIMEOUT_S: Final = 900
BUSY: Final = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS)


class Bomb(NamedTuple):
    """A request body and where it is sent."""

    name: str
    path: str
    content: bytes
    content_type: str
    encoding: str = ""
    is_file: bool = False


def measure() -> Iterator[BenchRow]:
    bombs = list(_bombs())
    with served() as service:
        with _watched(service) as idle:
            time.sleep(IDLE_S)
        with _watched(service) as watch, ThreadPoolExecutor(len(bombs)) as senders:
            answers = list(senders.map(lambda bomb: _send_until_read(service, bomb), bombs))
        api_mib = peak_mib(process_of_role(service, "api").pid)
    print("; ".join(answers))
    note = f"{len(answers)} uploads at once"
    yield _row("bombs-api", api_mib, MAX_API_MIB, "MiB of the API process", note)
    compared = f"{note}; {idle.ready_s.value:.2f} s without any"
    yield _row("bombs-ready", watch.ready_s.value, MAX_READY_S, "s for /readyz", compared)
    yield _row(
        "bombs-failures", watch.failures.value, 0.5, "answers of /readyz that are not 200", note
    )
    yield _row("bombs-reader", watch.child_mib, MAX_CHILD_MIB, "MiB of a process that reads", note)


def _row(name: str, measured: float, most: float, unit: str, note: str) -> BenchRow:
    goal = f"at most {most:g} {unit}"
    return BenchRow(name, goal, measured / most, measured <= most, f"{measured:.2f} {unit}, {note}")


def _bombs() -> Iterator[Bomb]:
    small_values = b"[" + b"[]," * (38 * MIB // SCALE) + b"[]]"
    unpacked = b'{"id": "' + b"a" * (250 * MIB // SCALE) + b'"}'
    samples = {f"samples/{number}.json": unpacked for number in range(20)}
    header = {"header.json": b'{"status": "success", "eval": {}}'}
    lines = "/api/v1/local-datasets?name=bomb&runName=1&replace=true"
    ndjson, otlp = "application/x-ndjson", "application/json"
    yield _file("one.eval", _zipped({**header, "samples/1.json": unpacked}))
    yield _file("twenty.eval", _zipped({**header, **samples}))
    yield _file("values.json", small_values)
    yield _file("cell.parquet", _table(100 * MIB // SCALE, rows=1))
    yield _file("repeated.parquet", _table(MIB, rows=100_000 // SCALE))
    yield _file("sheet.xlsx", _zipped({"xl/workbook.xml": b"", "xl/sharedStrings.xml": unpacked}))
    yield _file("deep.json", b"[" * 10 * MIB)
    yield _file(
        "wide.csv", b",".join(b"c%d" % number for number in range(MIB)) + b"\n1" + b"," * (MIB - 1)
    )
    yield Bomb(
        "long line",
        lines,
        b'{"traceId": "t", "scores": {' + b'"a":[],' * (15 * MIB // 7) + b'"b":1}}\n',
        ndjson,
    )
    yield Bomb(
        "results",
        "/api/v1/local-datasets/import?name=bomb&replace=true",
        small_values[: 63 * MIB],
        "application/json",
    )
    otlp_values = b'{"resourceSpans": [' + b"{}," * (6 * MIB) + b"{}]}"
    yield Bomb("otlp json", "/v1/traces", gzip.compress(otlp_values, 1), otlp, "gzip")
    yield Bomb(
        "otlp spans",
        "/v1/traces",
        gzip.compress(_many_attributes(18 * MIB), 1),
        "application/x-protobuf",
        "gzip",
    )
    yield Bomb(
        "otlp empty messages",
        "/v1/traces",
        gzip.compress(b"\x0a\x00" * (5 * MIB // SCALE), 1),
        "application/x-protobuf",
        "gzip",
    )
    yield Bomb("otlp gzip", "/v1/traces", gzip.compress(bytes(300 * MIB // SCALE), 1), otlp, "gzip")
    body = json.dumps({f"k{number}": {} for number in range(60_000)}).encode()
    for number in range(8):
        yield Bomb(f"body {number}", "/api/v1/agents", body, "application/json")


def _file(name: str, content: bytes) -> Bomb:
    return Bomb(name, "/datasets", content, "", is_file=True)


def _zipped(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _table(cell_bytes: int, *, rows: int) -> bytes:
    packed = io.BytesIO()
    text = pa.array(["a" * cell_bytes]).dictionary_encode()
    answers = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), text.dictionary)
    columns = {"id": pa.array(range(rows)), "input": pa.array(["q"] * rows), "output": answers}
    parquet.write_table(pa.table(columns), packed, compression="zstd")
    return packed.getvalue()


def _many_attributes(size: int) -> bytes:
    """One span in protobuf with very many empty attributes (field 9), in its resource and scope."""
    content = b"\x4a\x00" * (size // 2)
    for field in (b"\x12", b"\x12", b"\x0a"):
        content = field + _varint(len(content)) + content
    return content


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number >= 128:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def _send_until_read(service: RunningService, bomb: Bomb) -> str:
    """Send a bomb again while the service is busy; returns its name, its answer and the seconds of that."""
    while True:
        began = time.perf_counter()
        status = _send(service, bomb)
        if status not in BUSY:
            return f"{bomb.name} {status} in {time.perf_counter() - began:.1f} s"
        time.sleep(1)


def _send(service: RunningService, bomb: Bomb) -> int:
    base = _base(service)
    headers = {**service.client.headers, "Origin": base}
    with httpx.Client(base_url=base, headers=headers, trust_env=False, timeout=TIMEOUT_S) as client:
        if bomb.is_file:
            data = {"name": "bomb", "replace": "1"}
            files = {"file": (bomb.name, bomb.content)}
            return client.post(bomb.path, data=data, files=files).status_code
        typed = {"Content-Type": bomb.content_type}
        if bomb.encoding:
            typed["Content-Encoding"] = bomb.encoding
        return client.post(bomb.path, content=bomb.content, headers=typed).status_code


class _Watch:
    """The longest time of `/readyz` in a process of its own, its other answers, and the largest child of the API."""

    def __init__(self, base: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.ready_s = context.Value("d", 0.0)
        self.failures = context.Value("i", 0)
        self.child_mib = 0.0
        self.ended = context.Event()
        self.process = context.Process(
            target=_ask, args=(base, self.ended, self.ready_s, self.failures)
        )

    def weigh(self, service: RunningService) -> None:
        while not self.ended.wait(PAUSE_S):
            for child in process_of_role(service, "api").children(recursive=True):
                with suppress(psutil.NoSuchProcess, FileNotFoundError, ValueError):
                    self.child_mib = max(self.child_mib, peak_mib(child.pid))


def _ask(
    base: str, ended: Event, ready_s: "Synchronized[float]", failures: "Synchronized[int]"
) -> None:
    with httpx.Client(base_url=base, trust_env=False, timeout=TIMEOUT_S) as client:
        while not ended.wait(PAUSE_S):
            began = time.perf_counter()
            failures.value += client.get("/readyz").status_code != HTTPStatus.OK
            ready_s.value = max(ready_s.value, time.perf_counter() - began)


@contextmanager
def _watched(service: RunningService) -> Iterator[_Watch]:
    watch = _Watch(_base(service))
    thread = threading.Thread(target=watch.weigh, args=(service,))
    watch.process.start()
    thread.start()
    try:
        yield watch
    finally:
        watch.ended.set()
        thread.join()
        watch.process.join()


def _base(service: RunningService) -> str:
    return str(service.client.base_url).removesuffix("/api/v1/")
