"""Which rows belong to the newest run, and how long a run that lacks items is waited for."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.traces.registry import TraceQuery
from mosaico.traces.sources.langfuse.failures import LangfusePolicy
from mosaico.traces.sources.langfuse.reader import ExperimentRun, ItemAnswer
from mosaico.traces.sources.langfuse.settling import (
    RunSettler,
    describe_doubts,
    first_time_ms,
    select_newest_run,
)

HOUR = 3_600_000
RUN = ExperimentRun(
    id="e", name="night", dataset_name="support", start=0, end=0, item_count=0, dataset_items=8
)


def night(
    start: int, items: int = 5, *, every: int = 5000, trials: int = 1, numbered: bool = False
) -> list[ItemAnswer]:
    """A run over the items, one after the other, each for a second; the trials in passes."""
    return [
        ItemAnswer(
            f"item-{n % items}", start + n * every, start + n * every + 1000, n // items * numbered
        )
        for n in range(items * trials)
    ]


def test_select_newest_run__repeated_items_after_a_pause_are_a_new_run() -> None:
    first, second = night(0), night(24 * HOUR)
    newest = select_newest_run([*first, *second])
    assert (newest.rows, newest.earlier_end, newest.earlier_rows) == (second, 21_000, 5)
    assert describe_doubts(newest, 10) is None
    # Evaluators of the last item have 30 seconds.
    assert first_time_ms(21_000) == 51_001


def test_select_newest_run__new_items_after_a_pause_continue_the_run() -> None:
    rows = [
        ItemAnswer(f"item-{n}", (n // 3) * HOUR + n * 1000, (n // 3) * HOUR + n * 1000)
        for n in range(9)
    ]
    assert select_newest_run(rows).rows == rows
    # A provider was away in the middle of the trials of one item: that is one repeated item of four.
    resumed = [*rows[:4], *(ItemAnswer(f"item-{n}", 5 * HOUR, 5 * HOUR) for n in (3, 4, 5, 6))]
    assert select_newest_run(resumed).earlier_end is None


def test_select_newest_run__overlapping_runs_are_trials_with_a_doubt() -> None:
    # The first run lasts 21 s.
    rows = [*night(0), *night(7000)]
    newest = select_newest_run(rows)
    assert (len(newest.rows), newest.earlier_end) == (10, None)
    doubt = describe_doubts(newest, 10)
    assert doubt is not None
    assert doubt.startswith("5 items occur more than once")
    assert "'item-0', 'item-1', 'item-2', …" in doubt


def test_select_newest_run__short_pause_is_a_doubt_and_settle_for_decides() -> None:
    rows = [*night(0), *night(5 * 60_000)]
    newest = select_newest_run(rows)
    assert len(newest.rows) == 5
    # The first run ends after 21 s, the second one begins after 300 s.
    doubt = describe_doubts(newest, 10)
    assert doubt is not None
    assert doubt.startswith("5 traces are left out")
    assert "279 s" in doubt
    assert len(select_newest_run(rows, settle_ms=279_000).rows) == 10
    assert len(select_newest_run(rows, settle_ms=278_999).rows) == 5


nights = st.lists(
    st.tuples(
        st.integers(1, 8),  # items
        st.integers(1, 20_000),  # milliseconds between two items
        # Beyond every settle time here, which is a minute or three intervals of 20 s.
        st.integers(400_000, 10**8),  # pause before the run
    ),
    min_size=1,
    max_size=5,
)


@given(nights, st.randoms(use_true_random=False))
def test_select_newest_run__is_the_last_of_separate_runs(
    runs: list[tuple[int, int, int]], random: object
) -> None:
    rows, clock, last, before = list[ItemAnswer](), 10**9, list[ItemAnswer](), None
    for items, every, pause in runs:
        before = max((row.end for row in last), default=None)
        clock += pause
        # All items of a run are in the run before it, or the other way round: most of them repeat.
        last = night(clock, items=items, every=every)
        clock = last[-1].end
        rows += last
    random.shuffle(rows)  # type: ignore[attr-defined]  # Hypothesis gives a random.Random
    newest = select_newest_run(rows)
    shifted = [row._replace(start=row.start + 7, end=row.end + 7) for row in rows]
    assert [row.start + 7 for row in newest.rows] == [
        row.start for row in select_newest_run(shifted).rows
    ]
    # Otherwise less than half of the rows repeat an item, and continue the run before.
    if all(later <= 2 * earlier for (earlier, *_), (later, *_) in pairwise(runs)):
        assert (newest.rows, newest.earlier_end) == (last, before)


rows_of_any_kind = st.lists(
    st.builds(
        lambda item, start, length: ItemAnswer(f"item-{item}", start, start + length),
        st.integers(0, 6),
        st.integers(0, 10**7),
        st.integers(0, 10**6),
    ),
    min_size=1,
    max_size=30,
)


@given(rows_of_any_kind)
def test_select_newest_run__earlier_rows_have_ended_before_it(rows: list[ItemAnswer]) -> None:
    newest = select_newest_run(rows)
    earlier = list(rows)
    for row in newest.rows:
        earlier.remove(row)
    if newest.earlier_end is None:
        assert earlier == []
        return
    assert max(row.end for row in earlier) == newest.earlier_end
    since = first_time_ms(newest.earlier_end)
    assert newest.earlier_end < since <= min(row.start for row in newest.rows)
    # What is read again since then is the same run.
    assert select_newest_run([row for row in rows if row.start >= since]).rows == newest.rows


@dataclass
class GrowingRun:
    """A reader of one run, whose items end at these seconds; a pause moves its clock."""

    ends: tuple[float, ...]
    now: float = 0.0

    def clock(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return round(self.now * 1000)

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def refresh_run(self, run: ExperimentRun) -> ExperimentRun:
        done = [end for end in self.ends if end <= self.now]
        return replace(run, item_count=len(done), end=round(done[-1] * 1000))

    def narrow(self, run: ExperimentRun, _: int | None, /) -> ExperimentRun:
        return run

    def iter_rows(self, run: ExperimentRun) -> Iterator[ItemAnswer]:
        return (
            ItemAnswer(f"i-{number}", 0, round(end * 1000))
            for number, end in enumerate(self.ends[: run.item_count])
        )


def wait(run: GrowingRun, **fields: Any) -> tuple[int, float]:
    """The number of items that are read, and the seconds until then."""
    run.now = 2.0
    query = TraceQuery(dataset_ref="support", run_name=None, **fields)
    settler = RunSettler(
        client=cast("Any", None),
        reader=cast("Any", run),
        query=query,
        policy=LangfusePolicy(),
        pause=run.pause,
        clock=run.clock,
        now_ms=run.now_ms,
    )
    return settler.wait(run.refresh_run(RUN)).item_count, run.now


@pytest.mark.parametrize(
    ("ends", "items", "ended_s"),
    [
        ((1, 2), 2, 62),  # at least a minute
        ((1, 2, *range(30, 181, 25), 300), 8, 157),  # until no item lacks: 9 of 10 suffice
        ((1, 2, 50, 150, 300, 550), 6, 1300),  # three times the interval, which grew to 250 s
    ],
)
def test_settler__waits_three_intervals_after_the_newest_item(
    ends: tuple[float, ...], items: int, ended_s: float
) -> None:
    read_items, now = wait(GrowingRun(ends))
    assert read_items == items
    # The run is looked at every 5 s.
    assert now == pytest.approx(ended_s, abs=15)


def test_settler__settle_for_is_exact() -> None:
    run = GrowingRun((1, 2, 50, 150, 300))
    items, now = wait(run, settle_for="2m")
    assert items == 4
    assert now == pytest.approx(270, abs=10)
