"""Waits until a run can be read: it has all items, or gets no new ones, and is told apart from earlier
runs of its name.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

from app.traces.registry import TraceQuery
from app.traces.sources.langfuse.catalog import count_dataset_items, settle_for_ms
from app.traces.sources.langfuse.client import LangfuseClient
from app.traces.sources.langfuse.reader import ExperimentRun, RunReader
from app.traces.sources.langfuse.retry import LangfusePolicy
from app.traces.sources.langfuse.reused_names import (
    INTERVALS_OF_QUIET,
    MIN_PAUSE_MS,
    ROWS_OF_PACE,
    settle_time_ms,
)

log = logging.getLogger(__name__)


def is_active(now_ms: Callable[[], int], policy: LangfusePolicy, run: ExperimentRun) -> bool:
    """Whether the run may have rows that cannot be read yet: writes are visible late."""
    return now_ms() - run.end < policy.active_run_s * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettler:
    """Polls one run; `clock` is monotonic and `now_ms` the time of day."""

    client: LangfuseClient
    reader: RunReader
    query: TraceQuery
    policy: LangfusePolicy
    pause: Callable[[float], None]
    clock: Callable[[], float]
    now_ms: Callable[[], int]

    def wait(self, run: ExperimentRun) -> ExperimentRun:
        """Poll a run until it has all items and is unchanged for some polls, or until it has settled
        without them. Returns the newest of the runs that share its name.
        """
        stable_run = self._narrow(self._wait_until_stable(run))
        settled_run = self._wait_for_items(stable_run)
        return settled_run if settled_run == stable_run else self._narrow(settled_run)

    def find_again(self, run: ExperimentRun) -> ExperimentRun:
        """The run as it is now; unchanged when the server does not return it."""
        current = self.reader.look_again(run)
        if current is None:
            return run
        items = run.dataset_items if current.since == run.since else None
        return replace(current, dataset_items=items)

    def _narrow(self, run: ExperimentRun) -> ExperimentRun:
        counted_run = self._count_items(run)
        expected = self._expected_items(counted_run)
        newest_run = self.reader.narrow(counted_run, expected)
        return self._count_items(newest_run)

    def _count_items(self, run: ExperimentRun) -> ExperimentRun:
        """The run with the number of items of its dataset when it began."""
        has_number = run.dataset_items is not None or self.query.expect_items is not None
        if run.dataset_name is None or has_number:
            return run
        items = count_dataset_items(self.client, run.dataset_name, run.start)
        return replace(run, dataset_items=items)

    def _wait_until_stable(self, run: ExperimentRun) -> ExperimentRun:
        deadline_s, equal_polls = self.clock() + self.policy.stable_deadline_s, 1
        while is_active(self.now_ms, self.policy, run) and equal_polls < self.policy.stable_polls:
            if self.clock() >= deadline_s:
                log.warning("the run %r is still growing; it is read as it is now", run.name)
                break
            current = self._look_again(run)
            equal_polls = equal_polls + 1 if current == run else 1
            run = current
        return run

    def _wait_for_items(self, run: ExperimentRun) -> ExperimentRun:
        """Poll a run that lacks items until it has them, or has had no new item for some time."""
        if not self._lacks_items(run):
            return run
        quiet_s = self._quiet_s(run)
        started_s = changed_s = self.clock()
        idle_s = (self.now_ms() - run.end) / 1000
        limit_s = max(self.policy.settle_limit_s, quiet_s)
        while self._lacks_items(run) and idle_s + self.clock() - changed_s < quiet_s:
            if self.clock() - started_s >= limit_s:
                break
            current = self._look_again(run)
            if current != run:
                if settle_for_ms(self.query) is None:
                    # The run may become slower than its first items were.
                    waited_s = idle_s + self.clock() - changed_s
                    interval_s = waited_s / max(current.item_count - run.item_count, 1)
                    quiet_s = max(quiet_s, INTERVALS_OF_QUIET * interval_s)
                run, changed_s, idle_s = current, self.clock(), 0.0
        return run

    def _expected_items(self, run: ExperimentRun) -> int | None:
        expected = self.query.expect_items or run.dataset_items
        return expected if isinstance(expected, int) else None

    def _lacks_items(self, run: ExperimentRun) -> bool:
        expected = self._expected_items(run)
        return expected is not None and run.item_count < self.query.min_coverage * expected

    def _quiet_s(self, run: ExperimentRun) -> float:
        """How long a run without a new item is waited for."""
        settle_ms = settle_for_ms(self.query)
        if settle_ms is None:
            rows = list(islice(self.reader.iter_rows(run), ROWS_OF_PACE))
            settle_ms = settle_time_ms(rows) if rows else MIN_PAUSE_MS
        return settle_ms / 1000

    def _look_again(self, run: ExperimentRun) -> ExperimentRun:
        self.pause(self.policy.poll_s)
        return self.find_again(run)
