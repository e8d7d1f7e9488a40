"""Growth: large runs, long histories, many workers. Each part takes minutes.

`python -m benchmarks large` measures every part, `python -m benchmarks large start` only one.
"""

from collections.abc import Callable, Iterator

from benchmarks.large import (
    api,
    environment,
    faults,
    history,
    partitions,
    run,
    schedules,
    start,
    workers,
)
from benchmarks.result_rows import BenchRow

# To add a part: a module in this folder with `measure() -> Iterator[BenchRow]`, and a line here.
PARTS: dict[str, Callable[[], Iterator[BenchRow]]] = {
    "api": api.measure,
    "environment": environment.measure,
    "run": run.measure,
    "faults": faults.measure,
    "schedules": schedules.measure,
    "history": history.measure,
    "partitions": partitions.measure,
    "start": start.measure,
    "workers": workers.measure,
}
