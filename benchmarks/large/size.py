"""Constants of `mosaico.sizing`, measured again: the CPU of each metric per trace."""

import io
import json
import time
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.result_rows import BenchRow
from benchmarks.traces import long_pair
from mosaico.core.batches import batched
from mosaico.metrics.engine import score_chunk
from mosaico.metrics.registry import default_refs, load_metrics
from mosaico.runs.scoring import MAX_CHUNK_SIZE
from mosaico.sizing import METRIC_CPU, metrics_cpu
from mosaico.traces.files.ndjson import iter_traces
from mosaico.traces.types import Trace

TRACES: Final = 4_000
ROUNDS: Final = 3
# The model promises no more; a machine may be half as fast as the one that was measured.
TOLERANCE: Final = 2.0


def measure() -> Iterator[BenchRow]:
    load_metrics()
    lines = (json.dumps(long_pair(number)).encode() + b"\n" for number in range(TRACES))
    traces = list(iter_traces(io.BytesIO(b"".join(lines))))
    # Each metric alone, and all together: they share the words of a trace.
    for names in (*((name,) for name in METRIC_CPU), tuple(METRIC_CPU)):
        expected_micros, micros = metrics_cpu(names), _measured_micros(traces, names)
        ratio = micros / expected_micros
        yield BenchRow(
            names[0] if len(names) == 1 else "together",
            f"{expected_micros:g} µs of CPU per trace, within {TOLERANCE:g}×",
            ratio,
            1 / TOLERANCE <= ratio <= TOLERANCE,
            f"{micros:.1f} µs",
        )


def _measured_micros(traces: Sequence[Trace], names: Sequence[str]) -> float:
    """The CPU of some metrics per trace, in calls as large as those of a worker."""
    refs = default_refs(names)
    score_chunk(traces[:100], refs)
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for chunk in batched(traces, MAX_CHUNK_SIZE):
            score_chunk(chunk, refs)
        seconds.append(time.process_time() - began)
    return min(seconds) / len(traces) * 1e6
