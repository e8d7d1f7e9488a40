"""How long a run that lacks items is waited for."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from app.traces.registry import TraceQuery
from app.traces.sources.langfuse.reader import ExperimentRun
from app.traces.sources.langfuse.retry import LangfusePolicy
from app.traces.sources.langfuse.reused_names import RunRow
from app.traces.sources.langfuse.settling import RunSettler

RUN = ExperimentRun(
    id="e", name="night", dataset_name="support", start=0, end=0, item_count=0, dataset_items=8
)


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

    def look_again(self, run: ExperimentRun) -> ExperimentRun:
        done = [end for end in self.ends if end <= self.now]
        return replace(run, item_count=len(done), end=round(done[-1] * 1000))

    def narrow(self, run: ExperimentRun, _: int | None, /) -> ExperimentRun:
        return run

    def iter_rows(self, run: ExperimentRun) -> Iterator[RunRow]:
        return (
            RunRow(f"i-{number}", 0, round(end * 1000))
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
    return settler.wait(run.look_again(RUN)).item_count, run.now


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
    assert now == pytest.approx(ended_s, abs=15)


def test_settler__settle_for_is_exact() -> None:
    run = GrowingRun((1, 2, 50, 150, 300))
    items, now = wait(run, settle_for="2m")
    assert items == 4
    assert now == pytest.approx(270, abs=10)
