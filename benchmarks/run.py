"""Whole runs of growing size: time and CPU per trace, memory of each process, and a peer in pandas."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx
import psycopg

from benchmarks.processes import cpu_seconds_by_role, peak_mib_by_role
from benchmarks.result_rows import BenchRow
from benchmarks.running_service import RunningService, run_to_end, served
from benchmarks.traces import long_pair
from mosaico.postgres.server import EmbeddedPostgres

SIZES: Final = tuple(
    int(size) for size in os.environ.get("MOSAICO_BENCH_SIZES", "10000,100000").split(",")
)
METRICS: Final = ("ROUGE", "BLEU", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE")
PROCESSES: Final = 2  # metric processes of the service, and processes of the peer
WARM_UP: Final = 2_000
# The first runs that are compared import numpy into each metric process, once.
WARM_UP_RUNS: Final = 4
IDLE_S: Final = 20.0
# The peer of a larger run would take most of an hour; its time grows with the number of traces.
PEER_LIMIT: Final = int(os.environ.get("MOSAICO_BENCH_PEER_LIMIT", "100000"))
FINISH_LIMIT_S: Final = 60
PEER_GOAL: Final = 3
LIMIT_MIB: Final = {"api": 300, "scheduler": 150, "worker": 300, "metric child": 200}

PHASES: Final = """
    SELECT extract(epoch FROM max(shard.done_at) - run.started_at)::float8,
           extract(epoch FROM run.completed_at - max(shard.done_at))::float8
    FROM benchmark_runs AS run JOIN run_shards AS shard ON shard.run_seq = run.seq
    WHERE run.run_name = %s GROUP BY run.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedRun:
    """What one run of a size cost; `cpu_s` by role from POST to COMPLETED, peaks in MiB so far."""

    size: int
    whole_s: float
    cpu_s: dict[str, float]
    peaks: dict[str, float]

    @property
    def whole_cpu_s(self) -> float:
        return sum(self.cpu_s.values())

    def micros(self, seconds: float) -> float:
        """Microseconds per trace."""
        return seconds / self.size * 1e6

    def cpu_text(self) -> str:
        """The CPU of each role per trace."""
        return ", ".join(f"{role} {self.micros(s):.0f}" for role, s in self.cpu_s.items()) + " µs"


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedRun(SizedRun):
    """A run with its upload, which `whole_s` includes."""

    upload_s: float
    upload_cpu_s: float
    score_s: float
    finish_s: float


def measure() -> Iterator[BenchRow]:
    with served() as service, TemporaryDirectory() as folder:
        benchmark = {"id": "large", "datasetRef": "large", "metrics": [*METRICS]}
        service.client.post("/agents", json={"id": "large", "name": "l"}).raise_for_status()
        service.client.post("/benchmarks", json=benchmark).raise_for_status()
        for number in range(WARM_UP_RUNS):
            _measured_run(service, write_traces(Path(folder), WARM_UP, f"warm-{number}"), WARM_UP)
        # Only now: the scheduler imports its modules when the API is ready.
        yield _idle_row(service)
        runs = list[SizedRun]()
        for size in SIZES:
            file = write_traces(Path(folder), size, str(size))
            run = _measured_run(service, file, size)
            runs.append(run)
            yield from _rows(run)
            if size <= PEER_LIMIT:
                yield _peer_row(run, _peer_seconds(file))
        yield from growth_rows(runs)


def _idle_row(service: RunningService) -> BenchRow:
    """Heartbeats, polls and checks, which cost by the second, also during a run."""
    before, began = cpu_seconds_by_role(service), time.perf_counter()
    time.sleep(IDLE_S)
    after, seconds = cpu_seconds_by_role(service), time.perf_counter() - began
    cpu_shares = {role: (after[role] - before.get(role, 0.0)) / seconds for role in sorted(after)}
    parts = ", ".join(f"{role} {share:.2%}" for role, share in cpu_shares.items())
    total = sum(cpu_shares.values())
    return BenchRow("idle", "CPU of a service without work is printed", total, True, parts)


def _measured_run(service: RunningService, file: Path, size: int) -> UploadedRun:
    client = service.client
    idle = cpu_seconds_by_role(service)
    upload_s = upload_traces(client, file)
    before = cpu_seconds_by_role(service)
    body = {"benchmarkId": "large", "agentId": "large", "runName": file.stem}
    run_to_end(client, body)
    after = cpu_seconds_by_role(service)
    with psycopg.connect(EmbeddedPostgres(service.data_dir).url()) as connection:
        phases = connection.execute(PHASES, [file.stem]).fetchone()
    assert phases is not None
    return UploadedRun(
        size=size,
        whole_s=upload_s + phases[0] + phases[1],
        upload_s=upload_s,
        upload_cpu_s=sum(before.values()) - sum(idle.values()),
        score_s=phases[0],
        finish_s=phases[1],
        cpu_s={role: after[role] - before.get(role, 0.0) for role in sorted(after)},
        peaks=peak_mib_by_role(service),
    )


def write_traces(folder: Path, size: int, name: str) -> Path:
    """A file of traces whose texts no file of another name has."""
    file = folder / f"{name}.jsonl"
    with file.open("w") as lines:
        # Texts that no other file has: nothing may be found in a cache.
        lines.writelines(
            json.dumps({**long_pair(number), "input": f"{name}-{number}"}) + "\n"
            for number in range(size)
        )
    return file


def upload_traces(client: httpx.Client, file: Path) -> float:
    """Upload a file as a run of its name; returns the seconds."""
    began = time.perf_counter()
    with file.open("rb") as lines:
        client.post(
            "/local-datasets",
            params={"name": "large", "runName": file.stem},
            content=lines,
            headers={"Content-Type": "application/x-ndjson"},
            timeout=None,
        ).raise_for_status()
    return time.perf_counter() - began


def _peer_seconds(file: Path) -> float:
    """Seconds of pandas, rouge-score and sacrebleu in a pool of processes, from file to means."""
    import pandas as pd

    with ProcessPoolExecutor(PROCESSES) as pool:
        pool.submit(_peer_scores, [("a", "a")]).result()
        began = time.perf_counter()
        frame = pd.read_json(file, lines=True)
        pairs = list(zip(frame["expectedOutput"], frame["output"], strict=True))
        chunks = [pairs[start : start + 500] for start in range(0, len(pairs), 500)]
        rows = [row for chunk in pool.map(_peer_scores, chunks) for row in chunk]
        pd.DataFrame(rows, columns=[*METRICS]).mean()
        return time.perf_counter() - began


def _peer_scores(pairs: list[tuple[str, str]]) -> list[tuple[float, ...]]:
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu import sentence_bleu

    from benchmarks.metrics import Pair, naive_overlap

    scorer = RougeScorer(["rougeL"])
    return [
        (
            scorer.score(expected, output)["rougeL"].fmeasure,
            sentence_bleu(output, [expected], use_effective_order=True).score / 100,
            *naive_overlap(Pair(expected, output)),
        )
        for expected, output in pairs
    ]


def _rows(run: UploadedRun) -> Iterator[BenchRow]:
    yield BenchRow(
        f"upload {run.size}",
        "≤ 1/3 of the whole",
        run.upload_s / run.whole_s,
        run.upload_s <= run.whole_s / 3,
        f"{run.upload_s:.1f} of {run.whole_s:.1f} s;"
        f" {run.upload_cpu_s / run.size * 1e6:.0f} µs of CPU per trace",
    )
    yield BenchRow(
        f"finish {run.size}",
        f"the finishing step ≤ {FINISH_LIMIT_S} s",
        run.finish_s / FINISH_LIMIT_S,
        run.finish_s <= FINISH_LIMIT_S,
        f"{run.finish_s:.1f} s (score {run.score_s:.1f})",
    )
    yield from memory_rows(run.size, run.peaks)


def memory_rows(size: int, peaks: Mapping[str, float]) -> Iterator[BenchRow]:
    """The peak memory of each role beside its limit."""
    for role, limit in LIMIT_MIB.items():
        mib = peaks.get(role, 0.0)
        yield BenchRow(
            f"{role} {size}", f"≤ {limit} MiB", mib / limit, mib <= limit, f"{mib:.0f} MiB"
        )


def _peer_row(run: UploadedRun, peer_s: float) -> BenchRow:
    whole_s = run.whole_s
    return BenchRow(
        f"peer {run.size}",
        f"upload and run ≥ {PEER_GOAL}× faster than pandas, rouge-score and sacrebleu",
        peer_s / whole_s,
        peer_s >= PEER_GOAL * whole_s,
        f"{whole_s:.1f} s (upload {run.upload_s:.1f}, score {run.score_s:.1f},"
        f" finish {run.finish_s:.1f}) beside {peer_s:.1f} s in {PROCESSES} processes",
    )


def growth_rows(runs: Sequence[SizedRun]) -> Iterator[BenchRow]:
    """The processor time of a trace does not depend on what else the machine does, unlike its seconds."""
    yield _growth_row("time per trace", {run.size: run.micros(run.whole_s) for run in runs})
    yield _growth_row("CPU per trace", {run.size: run.micros(run.whole_cpu_s) for run in runs})
    for run in runs:
        yield BenchRow(
            f"CPU {run.size}", "CPU per trace by process is printed", 0.0, True, run.cpu_text()
        )


def _growth_row(name: str, micros: Mapping[int, float]) -> BenchRow:
    """The cost of a trace by size of its run."""
    ratio = max(micros.values()) / min(micros.values())
    sizes = ", ".join(f"{amount:.0f} at {size:,}" for size, amount in micros.items())
    return BenchRow(name, "within 1.2× of each other", ratio, ratio <= 1.2, f"µs: {sizes}")
