"""Calls of metrics are counted."""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from mosaico.jobs.lost_calls import CallTimeout
from mosaico.jobs.process_pool import ProcessPool
from mosaico.metrics.engine import score_within_limits
from mosaico.metrics.run_value import summarize_traces
from tests.support.service import JSON, pair

R = TypeVar("R")
RUNS = "/benchmark-runs"
PAIRS = [
    pair(1, "the boats sail", "boats sailed"),
    pair(2, "a", "a"),
    pair(3, "a", "b"),
    # No output: the one pair of five whose values no metric computes.
    pair(4, "b", None),
    pair(5, "b", "b"),
]


class CountingPool(ProcessPool):
    """A pool without child processes that counts computed values by metric; `lost` metrics hang."""

    def __init__(self) -> None:
        self.computed: Counter[str] = Counter()
        self.summarized: Counter[str] = Counter()
        self.lost: set[tuple[str, str]] = set()

    def run(self, function: Callable[..., R], *arguments: Any, timeout_s: float) -> R:
        if function is score_within_limits:
            traces, refs = arguments
            calls = {(ref.key, trace.trace_id) for ref in refs for trace in traces}
            # The whole batch fails, as in a real pool: its process is
            # killed with all values of the call.
            if calls & self.lost:
                raise CallTimeout(f"no answer within {timeout_s:g} s")
            self.computed.update(key for key, _ in calls)
        if function is summarize_traces:
            self.summarized[arguments[0].key] += 1
        return function(*arguments)

    def take_counts(self) -> dict[str, int]:
        """What was computed since this was asked last."""
        computed, self.computed = self.computed, Counter()
        return dict(computed)


def counts(run: JSON) -> tuple[int, int]:
    return run["metricsComputed"], run["metricsReused"]
