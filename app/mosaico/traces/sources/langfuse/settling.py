"""Which rows of a run belong to its newest run, and when that run can be read.

An experiment is one run name of one dataset: runs that repeat the name add their rows to it. Runs are
told apart by time: the rows after a pause are a new run if they repeat items.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from statistics import median
from typing import Final, NamedTuple

from mosaico.traces.production import parse_duration
from mosaico.traces.registry import TraceQuery
from mosaico.traces.sources.langfuse.client import (
    LangfuseClient,
    Parameters,
    get_meta,
)
from mosaico.traces.sources.langfuse.failures import (
    LangfusePolicy,
    NotFoundError,
)
from mosaico.traces.sources.langfuse.json_fields import (
    format_time,
    parse_number,
)
from mosaico.traces.sources.langfuse.reader import (
    ExperimentRun,
    ItemAnswer,
    RunReader,
)

# The shortest pause after which a run can have ended.
MIN_PAUSE_MS: Final = 60_000
INTERVALS_OF_QUIET: Final = 3
# Evaluations of an item end after its row; the pause has room for them.
EVALUATION_MS: Final = 30_000
# A run without activity for so long is complete. A repetition after a shorter pause can be a trial.
COMPLETE_MS: Final = 900_000
# Intervals between more rows than these say nothing more about a run.
ROWS_OF_PACE: Final = 100
# A run may be slower at its beginning than at its end, without another run before it.
PACE_TOLERANCE: Final = 3
# One repeated item is a trial that a pause has interrupted; a new run repeats most of its items.
MIN_REPEATED_SHARE: Final = 0.5
MAX_ITEMS_SHOWN: Final = 3
log = logging.getLogger(__name__)


class NewestRun(NamedTuple):
    """The rows of the newest run in order of time; `earlier_end` is when the run before it ended, None
    if there is none.
    """

    rows: list[ItemAnswer]
    earlier_end: int | None
    earlier_rows: int = 0


def settle_time_ms(rows: Sequence[ItemAnswer]) -> int:
    """The wait after the newest of these rows: three times the usual interval."""
    ends = sorted(row.end for row in rows)[-ROWS_OF_PACE:]
    intervals = [later - earlier for earlier, later in pairwise(ends)]
    # One row says nothing about an interval, except that it took that long.
    interval = median(intervals) if intervals else max(row.end - row.start for row in rows)
    return max(MIN_PAUSE_MS, round(INTERVALS_OF_QUIET * interval))


def select_newest_run(rows: Iterable[ItemAnswer], settle_ms: int | None = None) -> NewestRun:
    """The newest run among the rows of an experiment, in any order.

    Parameters: `settle_ms` is the pause after which a run has ended; None: `settle_time_ms`.
    """
    current: list[ItemAnswer] = []
    earlier_end, earlier_rows = None, 0
    for burst in _iter_bursts(rows, settle_ms):
        if _repeats_most_items(burst, current):
            earlier_end, earlier_rows = max(row.end for row in current), len(current)
            current = []
        current += burst
    return NewestRun(current, earlier_end, earlier_rows)


def leaves_room(
    start: int, row_count: int, newest_rows: Sequence[ItemAnswer], expected_items: int | None
) -> bool:
    """Return whether an experiment can have an earlier run before its newest rows: it has more rows
    than items, or the pace of the newest rows leaves time for a pause.
    """
    first, last = min(row.start for row in newest_rows), max(row.start for row in newest_rows)
    unread_ms, unread_rows = first - start, max(row_count - len(newest_rows), 0)
    if unread_ms <= MIN_PAUSE_MS:
        return False
    if expected_items is not None and row_count > expected_items:
        return True
    interval_ms = (last - first) / len(newest_rows)
    return unread_ms > MIN_PAUSE_MS + PACE_TOLERANCE * interval_ms * unread_rows


def first_time_ms(earlier_end: int, settle_ms: int | None = None) -> int:
    """A time between two runs: the first one has ended, and the second one has not begun.

    It depends on the end of the first run only, so that it identifies the second one while that grows.
    """
    pause_ms = MIN_PAUSE_MS if settle_ms is None else settle_ms
    return earlier_end + 1 + min(EVALUATION_MS, pause_ms // 2)


def find_newest_links(
    created: int, links: Sequence[ItemAnswer], settle_ms: int | None
) -> int | None:
    """When the newest run of a name began in API v3; None if it is the first one.

    A dataset run has the newest link of each item only. It was created with its first link: if that is
    gone, a later run has replaced it, and links before the last pause are what it has not replaced.
    """
    starts = sorted(row.start for row in links)
    if not starts or starts[0] - created <= MIN_PAUSE_MS:
        return None
    pause_ms = settle_time_ms(links) if settle_ms is None else settle_ms
    ends = [later for earlier, later in pairwise(starts) if later - earlier > pause_ms]
    return max(ends, default=starts[0])


def describe_old_links(links: Sequence[ItemAnswer]) -> str | None:
    """The warning about a run of API v3 that cannot be separated from an earlier run."""
    starts = sorted(row.start for row in links)
    pauses = [(later - earlier, later) for earlier, later in pairwise(starts)]
    pause_ms, end = max(pauses, default=(0, 0))
    if pause_ms < COMPLETE_MS:
        return None
    old_count = sum(start < end for start in starts)
    return (
        f"{old_count} of {len(starts)} traces are older than a pause of {pause_ms // 60_000} minutes. API v3"
        " does not tell whether they belong to an earlier run of the same name: give each run its own name"
    )


def describe_doubts(newest: NewestRun, row_count: int) -> str | None:
    """The warning about a run that shares its name with others; None if there is none.

    `row_count` is the number of rows of all these runs: of the earlier ones only the last pages are read.
    """
    if repeated := _find_repeated_items(newest.rows):
        examples = ", ".join(map(repr, repeated[:MAX_ITEMS_SHOWN]))
        return (
            f"{len(repeated)} items occur more than once in the run of the source without a number in"
            f" `trial` of their metadata ({examples}{', …' if repeated[MAX_ITEMS_SHOWN:] else ''}), and count"
            " as trials. Runs with one name that overlap in time look the same: give each run its own name"
        )
    if newest.earlier_end is None:
        return None
    pause_ms = newest.rows[0].start - newest.earlier_end
    if pause_ms >= COMPLETE_MS:
        return None
    left_out = max(row_count - len(newest.rows), newest.earlier_rows)
    return (
        f"{left_out} traces are left out as earlier runs of the same name, because their items"
        f" come again after a pause of {pause_ms // 1000} s. If they are trials, set settleFor to more than"
        " that; otherwise give each run its own name"
    )


def _iter_bursts(rows: Iterable[ItemAnswer], settle_ms: int | None) -> Iterator[list[ItemAnswer]]:
    """The rows between two pauses, in order of time."""
    burst: list[ItemAnswer] = []
    last_end = 0
    for row in sorted(rows, key=lambda row: (row.start, row.end)):
        pause_ms = row.start - last_end
        if burst and _has_ended(burst, pause_ms, settle_ms):
            yield burst
            burst = []
        burst.append(row)
        last_end = max(last_end, row.end)
    if burst:
        yield burst


def _has_ended(burst: Sequence[ItemAnswer], pause_ms: int, settle_ms: int | None) -> bool:
    if settle_ms is not None:
        return pause_ms > settle_ms
    # The pace is computed for long pauses only: it costs a sort.
    return pause_ms > MIN_PAUSE_MS and pause_ms > settle_time_ms(burst[-ROWS_OF_PACE:])


def _repeats_most_items(burst: Sequence[ItemAnswer], earlier: Sequence[ItemAnswer]) -> bool:
    earlier_keys = {(row.item_id, row.trial) for row in earlier}
    keys = {(row.item_id, row.trial) for row in burst}
    return bool(earlier_keys) and len(keys & earlier_keys) >= MIN_REPEATED_SHARE * len(keys)


def _find_repeated_items(rows: Iterable[ItemAnswer]) -> list[str]:
    """The items with two rows of one trial number, each once."""
    keys: set[tuple[str, int]] = set()
    repeated: dict[str, None] = {}
    for row in rows:
        if (row.item_id, row.trial) in keys:
            repeated[row.item_id] = None
        keys.add((row.item_id, row.trial))
    return list(repeated)


def is_active(now_ms: Callable[[], int], policy: LangfusePolicy, run: ExperimentRun) -> bool:
    """Return whether the run may have rows that cannot be read yet: writes are visible late."""
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
        current = self.reader.refresh_run(run)
        if current is None:
            return run
        items = run.dataset_items if current.since == run.since else None
        return replace(current, dataset_items=items)

    def _narrow(self, run: ExperimentRun) -> ExperimentRun:
        """The newest of the runs that share the name of a run."""
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
        """Poll a run with recent activity until it is unchanged for some polls."""
        deadline_s, equal_polls = self.clock() + self.policy.stable_deadline_s, 1
        while is_active(self.now_ms, self.policy, run) and equal_polls < self.policy.stable_polls:
            if self.clock() >= deadline_s:
                log.warning("the run %r is still growing; it is read as it is now", run.name)
                break
            current = self._poll(run)
            equal_polls = equal_polls + 1 if current == run else 1
            run = current
        return run

    def _wait_for_items(self, run: ExperimentRun) -> ExperimentRun:
        """Poll a run that lacks items until it has them, or has had no new item for some time."""
        if not self._lacks_items(run):
            return run
        quiet_s = self._quiet_s(run)
        ends_s = self.clock() + max(self.policy.settle_limit_s, quiet_s)
        newest_item_s = self.clock() - (self.now_ms() - run.end) / 1000
        while self._lacks_items(run) and self.clock() < min(newest_item_s + quiet_s, ends_s):
            current = self._poll(run)
            if current == run:
                continue
            if settle_for_ms(self.query) is None:
                # The run may become slower than its first items were.
                new_items = max(current.item_count - run.item_count, 1)
                interval_s = (self.clock() - newest_item_s) / new_items
                quiet_s = max(quiet_s, INTERVALS_OF_QUIET * interval_s)
            run, newest_item_s = current, self.clock()
        return run

    def _expected_items(self, run: ExperimentRun) -> int | None:
        expected = self.query.expect_items or run.dataset_items
        return expected if isinstance(expected, int) else None

    def _lacks_items(self, run: ExperimentRun) -> bool:
        expected = self._expected_items(run)
        return expected is not None and run.item_count < self.query.min_coverage * expected

    def _quiet_s(self, run: ExperimentRun) -> float:
        """The wait for a run without a new item, in seconds."""
        settle_ms = settle_for_ms(self.query)
        if settle_ms is None:
            rows = list(islice(self.reader.iter_rows(run), ROWS_OF_PACE))
            settle_ms = settle_time_ms(rows) if rows else MIN_PAUSE_MS
        return settle_ms / 1000

    def _poll(self, run: ExperimentRun) -> ExperimentRun:
        self.pause(self.policy.poll_s)
        return self.find_again(run)


def count_dataset_items(client: LangfuseClient, dataset_name: str, at_ms: int) -> int | None:
    """The number of active items of a dataset at a time; None when the server does not say."""
    parameters: Parameters = {
        "datasetName": dataset_name,
        "version": format_time(at_ms),
        "limit": 1,
    }
    try:
        meta = get_meta(client.get("/dataset-items", parameters))
    except NotFoundError:
        return None
    count = parse_number(meta.get("totalItems"))
    return int(count) if count else None


def settle_for_ms(query: TraceQuery) -> int | None:
    """The pause in milliseconds after which a run has ended, if the benchmark sets one."""
    if query.settle_for is None:
        return None
    return round(parse_duration(query.settle_for).total_seconds() * 1000)
