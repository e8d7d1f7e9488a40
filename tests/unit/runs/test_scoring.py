"""A metric that is lost on every trace costs a shard a few calls, and the other metrics nothing."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

import pytest

from app.core.resources import Resources
from app.jobs.handlers import JobContext, WorkerStopping
from app.jobs.pool import CallLost, CallTimeout, ChildExited, OutOfMemory, ProcessPool
from app.metrics.engine import score_within_limits
from app.metrics.registry import load_metrics
from app.metrics.types import MetricFailed, MetricRef, MetricSkipped, SkipReason, TraceMeasurements
from app.runs.leases import RunEnded
from app.runs.scoring import score_traces, summarize
from app.traces.types import Trace, TraceOutcome

R = TypeVar("R")

BLEU, EXACT, ROUGE = MetricRef.of("BLEU"), MetricRef.of("EXACT_MATCH"), MetricRef.of("ROUGE")
MACRO_F1 = MetricRef.of("F1_SCORE", {"labels": "macro"})
NOT_TRIED: Final = "not computed: the metric was lost on 3 traces before"


class Call(NamedTuple):
    """What a child was asked to score."""

    traces: int
    refs: tuple[MetricRef, ...]


class FakePool(ProcessPool):
    """A pool without children, in which a call is lost that asks one metric for certain traces."""

    def __init__(
        self,
        *,
        metric: MetricRef = BLEU,
        on: Callable[[Trace], bool] = lambda _: True,
        how: type[CallLost] = CallTimeout,
    ) -> None:
        self.calls: list[Call] = []
        self.losses = 0
        self._metric, self._on, self._how = metric, on, how

    def run(self, function: Callable[..., R], *arguments: Any, timeout_s: float) -> R:
        if function is score_within_limits:
            traces, refs = arguments
            self.calls.append(Call(len(traces), refs))
            if self._metric in refs and any(map(self._on, traces)):
                self.losses += 1
                raise self._how(f"lost after {timeout_s:g} s")
        return function(*arguments)


def go_on() -> None:
    """The run goes on, and the shard is ours."""


def pairs(count: int) -> list[Trace]:
    return [pair(number) for number in range(count)]


def pair(
    number: int, outcome: TraceOutcome = TraceOutcome.SCORED, expected: str | None = "a b"
) -> Trace:
    name = f"t-{number}"
    return Trace(
        trace_id=name, item_id=name, outcome=outcome, expected_output=expected, output="a b"
    )


def job_of(pool: ProcessPool, *, stops: bool = False) -> JobContext:
    nothing = cast("Resources", None)  # scoring needs none of them
    return JobContext(resources=nothing, pool=pool, is_stopping=lambda: stops, call_timeout_s=60)


def scored(
    pool: FakePool,
    traces: Sequence[Trace],
    *refs: MetricRef,
    checkpoint: Callable[[], None] = go_on,
) -> list[TraceMeasurements]:
    load_metrics()
    return score_traces(traces, refs, job_of(pool), checkpoint)


def failures(rows: Sequence[TraceMeasurements], column: str = "BLEU") -> list[tuple[str, str]]:
    found = [row.missing[column] for row in rows if column in row.missing]
    return [(why.kind, why.detail) for why in found if isinstance(why, MetricFailed)]


def test_a_metric_that_hangs_on_all_of_a_thousand_traces_costs_seven_timeouts() -> None:
    # 1000 traces are 15 chunks of 64 and one of 40. The first chunk hangs (1 call); so do each of
    # its first three traces, once with both metrics and once with BLEU alone, beside one call for
    # ROUGE alone (3 × 3 calls). Its other 61 traces are asked for ROUGE one by one, the other 15
    # chunks as a whole: 1 + 9 + 61 + 15 = 86 calls, of which 1 + 3 × 2 = 7 hang.
    pool = FakePool()
    rows = scored(pool, pairs(1000), BLEU, ROUGE)
    assert (len(pool.calls), pool.losses) == (86, 7)
    assert pool.calls[10:] == [Call(1, (ROUGE,))] * 61 + [Call(64, (ROUGE,))] * 14 + [
        Call(40, (ROUGE,))
    ]
    assert [row.trace_id for row in rows] == [f"t-{number}" for number in range(1000)]
    assert [row.values for row in rows] == [(None, 1.0)] * 1000
    assert failures(rows) == [("HANG", "lost after 60 s")] * 3 + [("HANG", NOT_TRIED)] * 997


def test_a_metric_that_is_alone_is_asked_four_times() -> None:
    pool = FakePool(how=ChildExited)
    rows = scored(pool, pairs(100), BLEU)
    # The chunk, then its first three traces; the second chunk is not asked for at all.
    assert pool.calls == [Call(64, (BLEU,))] + [Call(1, (BLEU,))] * 3
    assert failures(rows) == [("DIED", "lost after 60 s")] * 3 + [("DIED", NOT_TRIED)] * 97


def test_a_metric_that_always_takes_too_much_memory_is_given_up_after_three_traces_too() -> None:
    pool = FakePool(how=OutOfMemory)
    rows = scored(pool, pairs(10), BLEU)
    # As above, but each call is made once more in an empty process.
    assert len(pool.calls) == pool.losses == 8
    assert failures(rows)[3:] == [("OUT_OF_MEMORY", NOT_TRIED)] * 7


def test_two_losses_are_no_reason_to_give_a_metric_up() -> None:
    pool = FakePool(on=lambda trace: trace.trace_id in {"t-1", "t-70"})
    rows = scored(pool, pairs(130), BLEU, ROUGE)
    assert failures(rows) == [("HANG", "lost after 60 s")] * 2
    assert [row.trace_id for row in rows if row.missing] == ["t-1", "t-70"]
    # Each of the two chunks of 64: itself, 63 sound traces, and three calls for the one that hangs.
    assert (len(pool.calls), pool.losses) == (2 * (1 + 63 + 3) + 1, 2 * 3)


def test_metrics_keep_their_places_around_one_that_is_given_up() -> None:
    # The agent says something else, so that ROUGE of "a b" and "a c" is 1/2, and they do not match.
    traces = [
        Trace(trace_id=f"t-{n}", item_id="i", expected_output="a b", output="a c")
        for n in range(70)
    ]
    rows = scored(FakePool(), traces, EXACT, BLEU, ROUGE)
    assert [row.values for row in rows] == [(0.0, None, 0.5)] * 70


def test_what_is_known_of_a_trace_without_the_metric_stays_known_when_it_is_given_up() -> None:
    known = [
        pair(3, TraceOutcome.INFRA_ERROR),
        pair(4, expected=None),
        pair(5, TraceOutcome.AGENT_ERROR),
        pair(6),
    ]
    rows = scored(FakePool(), [*pairs(3), *known], BLEU)[3:]
    assert [row.values for row in rows] == [(None,), (None,), (0.0,), (None,)]
    assert [row.missing.get("BLEU") for row in rows[:3]] == [
        MetricSkipped(SkipReason.INFRA_ERROR),
        MetricSkipped(SkipReason.NO_EXPECTED_OUTPUT),
        None,
    ]
    assert failures(rows) == [("HANG", NOT_TRIED)]


def test_a_run_that_ends_is_noticed_before_the_next_wait() -> None:
    pool = FakePool()

    def cancelled_meanwhile() -> None:
        if pool.losses:
            raise RunEnded

    with pytest.raises(RunEnded):
        scored(pool, pairs(40), BLEU, ROUGE, checkpoint=cancelled_meanwhile)
    assert pool.calls == [Call(40, (BLEU, ROUGE))]


def test_between_chunks_and_before_summaries_it_is_asked_whether_the_run_goes_on() -> None:
    # Three chunks, and the value of the run of the only metric that has one.
    asked: list[int] = []
    pool, traces = FakePool(), pairs(130)

    def checkpoint() -> None:
        asked.append(len(pool.calls))

    rows = scored(pool, traces, ROUGE, MACRO_F1, checkpoint=checkpoint)
    summarize(traces, rows, (ROUGE, MACRO_F1), job_of(pool), checkpoint)
    assert asked == [0, 1, 2, 3]


def test_a_call_that_a_stopping_worker_ended_is_not_the_fault_of_the_metric() -> None:
    load_metrics()
    pool = FakePool(how=ChildExited)
    with pytest.raises(WorkerStopping):
        score_traces(pairs(1), (BLEU,), job_of(pool, stops=True), go_on)


def test_the_value_of_a_run_is_made_of_the_traces_before_the_metric_was_given_up() -> None:
    traces = pairs(80)
    pool = FakePool(metric=MACRO_F1, on=lambda trace: trace.trace_id not in {"t-0", "t-1"})
    rows = scored(pool, traces, MACRO_F1, ROUGE)
    assert [row.values[0] is None for row in rows] == [False] * 2 + [True] * 78
    found = summarize(traces, rows, (MACRO_F1, ROUGE), job_of(pool), go_on)
    first = summarize(traces[:2], rows[:2], (MACRO_F1, ROUGE), job_of(pool), go_on)
    assert found == first
    assert found.keys() == {"F1_SCORE"}
    assert "summary" in found["F1_SCORE"]
