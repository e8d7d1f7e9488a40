"""Scoring in child processes: a metric that is lost on every trace costs a shard few calls."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

import pytest

from mosaico.core.resources import Resources
from mosaico.jobs.handlers import JobContext, WorkerStopping
from mosaico.jobs.lost_calls import CallLost, CallTimeout, ChildExited, OutOfMemory
from mosaico.jobs.process_pool import ProcessPool
from mosaico.metrics.engine import score_within_limits
from mosaico.metrics.registry import load_metrics
from mosaico.metrics.types import (
    MetricFailed,
    MetricRef,
    MetricSkipped,
    MetricSkipReason,
    TraceMeasurements,
)
from mosaico.runs.leases import RunEnded
from mosaico.runs.scoring import score_traces, summarize
from mosaico.traces.types import Trace, TraceOutcome

R = TypeVar("R")

BLEU, EXACT, ROUGE = MetricRef.of("BLEU"), MetricRef.of("EXACT_MATCH"), MetricRef.of("ROUGE")
MACRO_F1 = MetricRef.of("F1_SCORE", {"labels": "macro"})
NOT_TRIED: Final = "not computed: the metric was lost on 3 traces before"


class PoolCall(NamedTuple):
    """One call of a child process."""

    traces: int
    refs: tuple[MetricRef, ...]


class FakeProcessPool(ProcessPool):
    """A pool without child processes that loses the calls of one metric for certain traces."""

    def __init__(
        self,
        *,
        metric: MetricRef = BLEU,
        on: Callable[[Trace], bool] = lambda _: True,
        how: type[CallLost] = CallTimeout,
    ) -> None:
        self.calls: list[PoolCall] = []
        self.losses = 0
        self._metric, self._on, self._how = metric, on, how

    def run(self, function: Callable[..., R], *arguments: Any, timeout_s: float) -> R:
        if function is score_within_limits:
            traces, refs = arguments
            self.calls.append(PoolCall(len(traces), refs))
            if self._metric in refs and any(map(self._on, traces)):
                self.losses += 1
                raise self._how(f"lost after {timeout_s:g} s")
        return function(*arguments)


def valid_lease() -> None:
    """The check of a run that continues and a lease that is valid."""


def pairs(count: int) -> list[Trace]:
    return [pair(number) for number in range(count)]


def pair(
    number: int, outcome: TraceOutcome = TraceOutcome.SCORED, expected: str | None = "a b"
) -> Trace:
    name = f"t-{number}"
    return Trace(
        trace_id=name, item_id=name, outcome=outcome, expected_output=expected, output="a b"
    )


def job_context(
    pool: ProcessPool,
    *,
    stops: bool = False,
    check_lease: Callable[[], None] = valid_lease,
) -> JobContext:
    return JobContext(
        resources=cast("Resources", None),  # scoring needs none of them
        pool=pool,
        is_stopping=lambda: stops,
        call_timeout_s=60,
        check_lease=check_lease,
    )


def score_with(
    pool: FakeProcessPool,
    traces: Sequence[Trace],
    *refs: MetricRef,
    check_lease: Callable[[], None] = valid_lease,
) -> list[TraceMeasurements]:
    load_metrics()
    return score_traces(traces, refs, job_context(pool, check_lease=check_lease))


def failures(rows: Sequence[TraceMeasurements], column: str = "BLEU") -> list[tuple[str, str]]:
    missing_values = [row.missing[column] for row in rows if column in row.missing]
    return [(why.kind, why.detail) for why in missing_values if isinstance(why, MetricFailed)]


def test_score_traces__a_metric_that_hangs_on_a_thousand_traces_costs_seven_timeouts() -> None:
    # 1000 traces are 15 chunks of 64 and one of 40. The first chunk hangs (1 call); so do each of
    # its first three traces, once with both metrics and once with BLEU alone, beside one call for
    # ROUGE alone (3 × 3 calls). Its other 61 traces are asked for ROUGE one by one, the other 15
    # chunks as a whole: 1 + 9 + 61 + 15 = 86 calls, of which 1 + 3 × 2 = 7 hang.
    pool = FakeProcessPool()
    rows = score_with(pool, pairs(1000), BLEU, ROUGE)
    assert (len(pool.calls), pool.losses) == (86, 7)
    assert pool.calls[10:] == [PoolCall(1, (ROUGE,))] * 61 + [PoolCall(64, (ROUGE,))] * 14 + [
        PoolCall(40, (ROUGE,))
    ]
    assert [row.trace_id for row in rows] == [f"t-{number}" for number in range(1000)]
    assert [row.values for row in rows] == [(None, 1.0)] * 1000
    assert failures(rows) == [("HANG", "lost after 60 s")] * 3 + [("HANG", NOT_TRIED)] * 997


def test_score_traces__a_single_metric_is_tried_four_times() -> None:
    pool = FakeProcessPool(how=ChildExited)
    rows = score_with(pool, pairs(100), BLEU)
    # The chunk, then its first three traces; the second chunk is not asked for at all.
    assert pool.calls == [PoolCall(64, (BLEU,))] + [PoolCall(1, (BLEU,))] * 3
    assert failures(rows) == [("DIED", "lost after 60 s")] * 3 + [("DIED", NOT_TRIED)] * 97


def test_score_traces__a_metric_out_of_memory_is_given_up_after_three_traces() -> None:
    pool = FakeProcessPool(how=OutOfMemory)
    rows = score_with(pool, pairs(10), BLEU)
    # As above, but each call is made once more in an empty process.
    assert len(pool.calls) == pool.losses == 8
    assert failures(rows)[3:] == [("OUT_OF_MEMORY", NOT_TRIED)] * 7


def test_score_traces__two_losses_do_not_give_a_metric_up() -> None:
    pool = FakeProcessPool(on=lambda trace: trace.trace_id in {"t-1", "t-70"})
    rows = score_with(pool, pairs(130), BLEU, ROUGE)
    assert failures(rows) == [("HANG", "lost after 60 s")] * 2
    assert [row.trace_id for row in rows if row.missing] == ["t-1", "t-70"]
    # Each of the two chunks of 64: itself, 63 sound traces, and three calls for the one that hangs.
    assert (len(pool.calls), pool.losses) == (2 * (1 + 63 + 3) + 1, 2 * 3)


def test_score_traces__metrics_keep_their_columns_around_one_that_is_given_up() -> None:
    # The agent says something else, so that ROUGE of "a b" and "a c" is 1/2, and they do not match.
    traces = [
        Trace(trace_id=f"t-{n}", item_id="i", expected_output="a b", output="a c")
        for n in range(70)
    ]
    rows = score_with(FakeProcessPool(), traces, EXACT, BLEU, ROUGE)
    assert [row.values for row in rows] == [(0.0, None, 0.5)] * 70


def test_score_traces__skip_reasons_are_kept_after_a_metric_is_given_up() -> None:
    skipped_rows = [
        pair(3, TraceOutcome.INFRA_ERROR),
        pair(4, expected=None),
        pair(5, TraceOutcome.AGENT_ERROR),
        pair(6),
    ]
    rows = score_with(FakeProcessPool(), [*pairs(3), *skipped_rows], BLEU)[3:]
    assert [row.values for row in rows] == [(None,), (None,), (0.0,), (None,)]
    assert [row.missing.get("BLEU") for row in rows[:3]] == [
        MetricSkipped(MetricSkipReason.INFRA_ERROR),
        MetricSkipped(MetricSkipReason.NO_EXPECTED_OUTPUT),
        None,
    ]
    assert failures(rows) == [("HANG", NOT_TRIED)]


def test_score_traces__an_ended_run_stops_before_the_next_call() -> None:
    pool = FakeProcessPool()

    def cancelled_meanwhile() -> None:
        if pool.losses:
            raise RunEnded

    with pytest.raises(RunEnded):
        score_with(pool, pairs(40), BLEU, ROUGE, check_lease=cancelled_meanwhile)
    assert pool.calls == [PoolCall(40, (BLEU, ROUGE))]


def test_score_traces__checkpoints_between_chunks_and_before_summaries() -> None:
    # Three chunks, and the value of the run of the only metric that has one.
    checkpoints: list[int] = []
    pool, traces = FakeProcessPool(), pairs(130)

    def check_lease() -> None:
        checkpoints.append(len(pool.calls))

    rows = score_with(pool, traces, ROUGE, MACRO_F1, check_lease=check_lease)
    summarize(traces, rows, (ROUGE, MACRO_F1), job_context(pool, check_lease=check_lease))
    assert checkpoints == [0, 1, 2, 3]


def test_score_traces__a_call_lost_by_a_stopping_worker_is_no_failure_of_the_metric() -> None:
    load_metrics()
    pool = FakeProcessPool(how=ChildExited)
    with pytest.raises(WorkerStopping):
        score_traces(pairs(1), (BLEU,), job_context(pool, stops=True))


def test_summarize__uses_the_traces_before_the_metric_was_given_up() -> None:
    traces = pairs(80)
    pool = FakeProcessPool(metric=MACRO_F1, on=lambda trace: trace.trace_id not in {"t-0", "t-1"})
    rows = score_with(pool, traces, MACRO_F1, ROUGE)
    assert [row.values[0] is None for row in rows] == [False] * 2 + [True] * 78
    summaries = summarize(traces, rows, (MACRO_F1, ROUGE), job_context(pool))
    first = summarize(traces[:2], rows[:2], (MACRO_F1, ROUGE), job_context(pool))
    assert summaries == first
    assert summaries.keys() == {"F1_SCORE"}
    assert "summary" in summaries["F1_SCORE"]
