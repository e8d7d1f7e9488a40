"""Whole runs of growing size: time and CPU per trace, memory of each process, and a peer in pandas."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx
import psycopg

from benchmarks.large.floor import FloorCost, measure_floor
from benchmarks.large.growth_plot import write_growth_plot
from benchmarks.large.processes import cpu_seconds_by_role, peak_mib_by_role
from benchmarks.large.run_table import RunFigures, render_run_table
from benchmarks.memory import RunningService, run_to_end, served
from benchmarks.result_rows import BenchRow
from benchmarks.traces import long_pair
from mosaico.metrics.engine import score_chunk
from mosaico.metrics.registry import default_refs, load_metrics
from mosaico.postgres.server import EmbeddedPostgres
from mosaico.runs.scoring import MAX_CHUNK_SIZE
from mosaico.traces.files.ndjson import iter_traces

SIZES: Final = tuple(
    int(size) for size in os.environ.get("MOSAICO_BENCH_SIZES", "10000,100000").split(",")
)
METRICS: Final = ("ROUGE", "BLEU", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE")
PROCESSES: Final = 2  # metric processes of the service, and processes of the peer
WARM_UP: Final = 2_000
# The first runs that are compared import numpy and scipy into each metric process, once.
WARM_UP_RUNS: Final = 4
IDLE_S: Final = 20.0
# The peer of a larger run would take most of an hour; its time grows with the number of traces.
PEER_LIMIT: Final = int(os.environ.get("MOSAICO_BENCH_PEER_LIMIT", "100000"))
# The metrics alone cost as much per trace in a larger file: their time is measured up to here.
METRICS_LIMIT: Final = 100_000
FINISH_LIMIT_S: Final = 60
E1_GOAL: Final = 2.0
PEER_GOAL: Final = 8
LIMIT_MIB: Final = {"api": 150, "scheduler": 150, "worker": 300, "metric child": 200}

PHASES: Final = """
    SELECT extract(epoch FROM max(shard.done_at) - run.started_at)::float8,
           extract(epoch FROM run.completed_at - max(shard.done_at))::float8
    FROM benchmark_runs AS run JOIN run_shards AS shard ON shard.run_seq = run.seq
    WHERE run.run_name = %s GROUP BY run.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeRun:
    """What one run of a size cost; `cpu_s` by role from POST to COMPLETED, peaks in MiB so far."""

    size: int
    upload_s: float
    upload_cpu_s: float
    score_s: float
    finish_s: float
    cpu_s: dict[str, float]
    peaks: dict[str, float]

    @property
    def whole_s(self) -> float:
        return self.upload_s + self.score_s + self.finish_s

    @property
    def whole_cpu_s(self) -> float:
        return sum(self.cpu_s.values())


def measure() -> Iterator[BenchRow]:
    with served() as service, TemporaryDirectory() as folder:
        benchmark = {"id": "large", "datasetRef": "large", "metrics": [*METRICS]}
        service.client.post("/agents", json={"id": "large", "name": "l"}).raise_for_status()
        service.client.post("/benchmarks", json=benchmark).raise_for_status()
        for number in range(WARM_UP_RUNS):
            _measured_run(service, write_traces(Path(folder), WARM_UP, f"warm-{number}"), WARM_UP)
        # Only now: the scheduler imports its modules when the API is ready.
        yield _idle_row(service)
        runs, figures = [], []
        for size in SIZES:
            file = write_traces(Path(folder), size, str(size))
            runs.append(_measured_run(service, file, size))
            metrics_cpu_s = _metrics_cpu_s(file, size)
            yield from _rows(runs[-1], metrics_cpu_s)
            peer_s = _peer_seconds(file) if size <= PEER_LIMIT else None
            if size <= METRICS_LIMIT:
                yield from _floor_rows(_floor(service, file), metrics_cpu_s, peer_s)
            if peer_s is not None:
                yield from _peer_rows(runs[-1], peer_s, metrics_cpu_s)
            figures.append(_figures(runs[-1], metrics_cpu_s, peer_s))
        yield from _growth(runs)
        print(f"\n{render_run_table(figures)}\n")


def _figures(run: LargeRun, metrics_cpu_s: float, peer_s: float | None) -> RunFigures:
    return RunFigures(
        size=run.size,
        whole_s=run.whole_s,
        finish_s=run.finish_s,
        cpu_s=run.cpu_s,
        metrics_cpu_s=metrics_cpu_s,
        peer_s=peer_s,
        peaks=run.peaks,
    )


def _idle_row(service: RunningService) -> BenchRow:
    """Heartbeats, polls and checks, which cost by the second, also during a run."""
    before, began = cpu_seconds_by_role(service), time.perf_counter()
    time.sleep(IDLE_S)
    after, seconds = cpu_seconds_by_role(service), time.perf_counter() - began
    cpu_shares = {role: (after[role] - before.get(role, 0.0)) / seconds for role in sorted(after)}
    parts = ", ".join(f"{role} {share:.2%}" for role, share in cpu_shares.items())
    total = sum(cpu_shares.values())
    return BenchRow("idle", "CPU of a service without work is printed", total, True, parts)


def _measured_run(service: RunningService, file: Path, size: int) -> LargeRun:
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
    return LargeRun(
        size=size,
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


def _metrics_cpu_s(file: Path, size: int) -> float:
    """CPU seconds of the metrics alone: one process, no database, after a warm-up."""
    load_metrics()
    refs = default_refs(METRICS)
    with file.open("rb") as lines:
        traces = iter_traces(islice(lines, METRICS_LIMIT))
        score_chunk(list(islice(traces, 100)), refs)
        seconds, count = 0.0, 0
        while chunk := list(islice(traces, MAX_CHUNK_SIZE)):
            began = time.process_time()
            score_chunk(chunk, refs)
            seconds += time.process_time() - began
            count += len(chunk)
    return seconds / count * size


def _floor(service: RunningService, file: Path) -> FloorCost:
    url = EmbeddedPostgres(service.data_dir).url()
    return measure_floor(file, url, lambda: cpu_seconds_by_role(service)["database"])


def _floor_rows(floor: FloorCost, metrics_cpu_s: float, peer_s: float | None) -> Iterator[BenchRow]:
    """Whether E1 and the goal beside the peer are possible: what costs more without a service is not."""
    ratio = floor.run_s / metrics_cpu_s
    micros = [seconds / floor.size * 1e6 for seconds in (floor.run_s, metrics_cpu_s)]
    yield BenchRow(
        f"floor {floor.size}",
        f"E1 ≤ {E1_GOAL:g} is {'possible' if ratio <= E1_GOAL else 'impossible'}: CPU of the steps"
        " without the service, compared with the metrics alone, is printed",
        ratio,
        True,
        f"µs per trace: {floor}; together {micros[0]:.1f} beside {micros[1]:.1f} of the metrics alone",
    )
    if peer_s is not None:
        floor_s = floor.whole_s / PROCESSES
        yield BenchRow(
            f"limit {floor.size}",
            f"how many times faster than the peer the same libraries are without a service (goal with it:"
            f" {PEER_GOAL}) is printed",
            peer_s / floor_s,
            True,
            f"{floor_s:.1f} s of upload and steps if none of {PROCESSES} cores ever waited, beside"
            f" {peer_s:.1f} s",
        )


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


def _rows(run: LargeRun, metrics_cpu_s: float) -> Iterator[BenchRow]:
    cpu_s = run.whole_cpu_s
    parts = ", ".join(f"{role} {seconds:.1f}" for role, seconds in run.cpu_s.items())
    yield BenchRow(
        f"E1 {run.size}",
        f"CPU of all processes ≤ {E1_GOAL:g}× that of the metrics alone",
        cpu_s / metrics_cpu_s,
        cpu_s <= E1_GOAL * metrics_cpu_s,
        f"{cpu_s:.1f} s ({parts}) beside {metrics_cpu_s:.1f} s",
    )
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


def _peer_rows(run: LargeRun, peer_s: float, metrics_cpu_s: float) -> Iterator[BenchRow]:
    whole_s, metrics_s = run.whole_s, metrics_cpu_s / PROCESSES
    cpu_s = run.upload_cpu_s + run.whole_cpu_s
    yield BenchRow(
        f"peer {run.size}",
        f"upload and run ≥ {PEER_GOAL}× faster than pandas, rouge-score and sacrebleu",
        peer_s / whole_s,
        peer_s >= PEER_GOAL * whole_s,
        f"{whole_s:.1f} s (upload {run.upload_s:.1f}, score {run.score_s:.1f},"
        f" finish {run.finish_s:.1f}) beside {peer_s:.1f} s"
        f" in {PROCESSES} processes; the metrics alone take {metrics_s:.1f} s in as many"
        f" ({peer_s / metrics_s:.1f}×), upload and run {cpu_s / PROCESSES:.1f} s if none of"
        f" {PROCESSES} cores ever waited ({peer_s / cpu_s * PROCESSES:.1f}×)",
    )


def _growth(runs: list[LargeRun]) -> Iterator[BenchRow]:
    """The processor time of a trace does not depend on what else the machine does, unlike its seconds."""
    seconds = {run.size: run.whole_s / run.size * 1e6 for run in runs}
    cpu_s = {run.size: run.whole_cpu_s / run.size * 1e6 for run in runs}
    lines = {"time with upload": seconds, "CPU of the run": cpu_s}
    write_growth_plot("growth", "Cost of a trace, by traces of the run", "µs", lines)
    peaks = {role: {run.size: run.peaks.get(role, 0.0) for run in runs} for role in LIMIT_MIB}
    write_growth_plot("growth-memory", "Peak memory, by traces of the run", "MiB", peaks)
    yield growth_row("time per trace", seconds)
    yield growth_row("CPU per trace", cpu_s)


def growth_row(name: str, micros: Mapping[int, float]) -> BenchRow:
    """The cost of a trace by size of its run."""
    ratio = max(micros.values()) / min(micros.values())
    sizes = ", ".join(f"{amount:.0f} at {size:,}" for size, amount in micros.items())
    return BenchRow(name, "within 1.2× of each other", ratio, ratio <= 1.2, f"µs: {sizes}")
