"""Constants of `app.sizing`, measured again: the CPU of each metric per trace."""

import io
import json
import time
from collections.abc import Iterator
from typing import Final

from app.metrics.engine import score_chunk
from app.metrics.registry import default_refs, load_metrics
from app.sizing import METRIC_CPU
from app.traces.files.ndjson import iter_traces
from benchmarks.result_rows import BenchRow
from benchmarks.traces import long_pair

TRACES: Final = 4_000
ROUNDS: Final = 3
# The model promises no more; a machine may be half as fast as the one that was measured.
TOLERANCE: Final = 2.0


def measure() -> Iterator[BenchRow]:
    load_metrics()
    lines = (json.dumps(long_pair(number)).encode() + b"\n" for number in range(TRACES))
    traces = list(iter_traces(io.BytesIO(b"".join(lines))))
    for name, constant in METRIC_CPU.items():
        refs = default_refs([name])
        score_chunk(traces[:100], refs)
        seconds = []
        for _ in range(ROUNDS):
            began = time.process_time()
            score_chunk(traces, refs)
            seconds.append(time.process_time() - began)
        micros = min(seconds) / TRACES * 1e6
        ratio = micros / constant.value
        yield BenchRow(
            name,
            f"{constant.value:g} {constant.unit}, within {TOLERANCE:g}×",
            ratio,
            1 / TOLERANCE <= ratio <= TOLERANCE,
            f"{micros:.1f} µs",
        )
