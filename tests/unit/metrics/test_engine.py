"""The engine returns a row for every trace, whatever a provider does."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.metrics import engine
from mosaico.metrics.engine import (
    measure,
    measure_all,
    measure_chunk,
    score_chunk,
    score_within_limits,
)
from mosaico.metrics.registry import load_metrics
from mosaico.metrics.types import (
    MetricFailed,
    MetricFailureKind,
    MetricRef,
    MetricSkipped,
    MetricSkipReason,
    MetricSpec,
    Need,
)
from mosaico.traces.types import Trace, TraceOutcome

FAKE = MetricSpec(key="FAKE", description="", source="")


@dataclass
class FakeMetric:
    answer: Callable[[Trace], float] = lambda _: 0.5
    spec: MetricSpec = FAKE
    accepts: bool = True

    def supports(self, trace: Trace) -> bool:  # noqa: ARG002
        return self.accepts

    def compute(self, trace: Trace) -> float:
        return self.answer(trace)


@dataclass
class FakeBatch(FakeMetric):
    batch: Callable[[Sequence[Trace]], Sequence[float]] = lambda traces: [0.25] * len(traces)
    sizes: list[int] = field(default_factory=list)

    def compute_batch(self, traces: Sequence[Trace]) -> Sequence[float]:
        self.sizes.append(len(traces))
        return self.batch(traces)


def spec(
    *, worst: float | None = None, maximum: float | None = 1.0, needs: frozenset[Need] = frozenset()
) -> MetricSpec:
    return MetricSpec(
        key="FAKE", description="", source="", worst=worst, maximum=maximum, needs=needs
    )


def trace(
    trace_id: str = "t",
    *,
    outcome: TraceOutcome = TraceOutcome.SCORED,
    expected: str | None = "a b",
    output: str | None = "a c",
) -> Trace:
    return Trace(
        trace_id=trace_id,
        item_id=trace_id,
        outcome=outcome,
        expected_output=expected,
        output=output,
        scores={},
    )


BOTH = frozenset(Need)


def raising(_: Trace) -> float:
    raise ValueError("the model is out to lunch")


def quitting(_: Trace) -> float:
    raise SystemExit(0)


def hoarding(_: Trace) -> float:
    raise MemoryError("too much")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (raising, MetricFailureKind.RAISED),
        # A plugin that calls `sys.exit` must not end the worker.
        (quitting, MetricFailureKind.RAISED),
        (hoarding, MetricFailureKind.OUT_OF_MEMORY),
        (lambda _: math.nan, MetricFailureKind.NON_FINITE),
        (lambda _: math.inf, MetricFailureKind.NON_FINITE),
        (lambda _: -math.inf, MetricFailureKind.NON_FINITE),
        (lambda _: True, MetricFailureKind.NOT_A_NUMBER),
        (lambda _: "0.5", MetricFailureKind.NOT_A_NUMBER),
        (lambda _: None, MetricFailureKind.NOT_A_NUMBER),
        (lambda _: 10**400, MetricFailureKind.NOT_A_NUMBER),
        # No tolerance: a provider that exceeds its own maximum is wrong.
        (lambda _: 1.0000001, MetricFailureKind.OUT_OF_RANGE),
        (lambda _: -0.1, MetricFailureKind.OUT_OF_RANGE),
    ],
)
def test_measure__invalid_value_fails_for_its_trace_only(
    answer: Callable[[Trace], float], kind: MetricFailureKind
) -> None:
    sound = FakeMetric(spec=MetricSpec(key="SOUND", description="", source=""))
    row = measure(trace(), [FakeMetric(answer), sound])
    assert row.values == (None, 0.5)
    failure = row.missing["FAKE"]
    assert isinstance(failure, MetricFailed)
    assert failure.kind is kind
    assert "SOUND" not in row.missing


def test_measure__failure_detail_is_short() -> None:
    def answer(_: Trace) -> float:
        raise ValueError("x" * 5000)

    failure = measure(trace(), [FakeMetric(answer)]).missing["FAKE"]
    assert isinstance(failure, MetricFailed)
    assert failure.detail.startswith("ValueError: xxx")
    assert len(failure.detail) == 300


def test_measure__exception_in_supports_is_a_failure() -> None:
    class Broken(FakeMetric):
        def supports(self, trace: Trace) -> bool:  # noqa: ARG002
            raise KeyError("oops")

    assert measure(trace(), [Broken()]).missing["FAKE"] == MetricFailed(
        MetricFailureKind.RAISED, "KeyError: 'oops'"
    )


def test_measure__accepts_integers_and_open_ranges_and_removes_negative_zero() -> None:
    row = measure(trace(), [FakeMetric(lambda _: 7, spec(maximum=None))])
    assert row.values == (7.0,)
    assert type(row.values[0]) is float
    zero = measure(trace(), [FakeMetric(lambda _: -0.0)]).values[0]
    assert zero == 0.0
    # A sum or a text of -0.0 would show a minus sign.
    assert math.copysign(1.0, zero) == 1.0


@pytest.mark.parametrize("outcome", [TraceOutcome.AGENT_ERROR, TraceOutcome.TIMEOUT])
def test_measure__failed_agent_gets_the_worst_value(
    outcome: TraceOutcome,
) -> None:
    failed = trace(outcome=outcome, output=None)
    assert measure(failed, [FakeMetric(raising, spec(worst=0.0, needs=BOTH))]).values == (0.0,)


def test_measure__failed_agent_without_a_worst_value_is_skipped() -> None:
    row = measure(trace(outcome=TraceOutcome.TIMEOUT), [FakeMetric(raising)])
    assert row.missing == {"FAKE": MetricSkipped(MetricSkipReason.AGENT_ERROR)}


def test_measure__empty_answer_gets_the_worst_value_without_computing() -> None:
    needing = spec(worst=0.0, needs=frozenset({Need.OUTPUT}))
    for output in ("", " \n"):
        assert measure(trace(output=output), [FakeMetric(raising, needing)]).values == (0.0,)
    # Nothing is right where nothing is expected, and a metric may not need the answer.
    assert measure(trace(expected="", output=""), [FakeMetric(spec=needing)]).values == (0.5,)
    assert measure(trace(output=""), [FakeMetric(spec=spec(worst=0.0))]).values == (0.5,)


@pytest.mark.parametrize("outcome", [TraceOutcome.AGENT_ERROR, TraceOutcome.TIMEOUT])
def test_measure__metric_of_failures_is_computed_for_them(outcome: TraceOutcome) -> None:
    measures = replace(FAKE, measures_failures=True)
    failed = trace(outcome=outcome, output=None)
    assert measure(failed, [FakeMetric(lambda _: 0.75, measures)]).values == (0.75,)
    assert measure_chunk([failed], [FakeBatch(spec=measures)])[0].values == (0.25,)
    needing = replace(measures, needs=frozenset({Need.OUTPUT}))
    assert measure(failed, [FakeMetric(raising, needing)]).missing == {
        "FAKE": MetricSkipped(MetricSkipReason.NO_OUTPUT)
    }
    infra_error_trace = trace(outcome=TraceOutcome.INFRA_ERROR)
    assert measure(infra_error_trace, [FakeMetric(raising, measures)]).missing == {
        "FAKE": MetricSkipped(MetricSkipReason.INFRA_ERROR)
    }


def test_score_within_limits__memory_error_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refs = (MetricRef.of("ROUGE"), MetricRef.of("BLEU"))
    chunk = [trace("a"), trace("b", output=None)]
    assert score_within_limits(chunk, refs) == score_chunk(chunk, refs)
    monkeypatch.setattr(engine, "providers_for", lambda _: [FakeMetric(hoarding)])
    with pytest.raises(MemoryError, match="too much"):
        score_within_limits(chunk, refs)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (TraceOutcome.INFRA_ERROR, MetricSkipReason.INFRA_ERROR),
        (TraceOutcome.JUDGE_ERROR, MetricSkipReason.JUDGE_ERROR),
    ],
)
def test_measure__infra_and_judge_errors_are_skipped(
    outcome: TraceOutcome, reason: MetricSkipReason
) -> None:
    row = measure(trace(outcome=outcome), [FakeMetric(raising, spec(worst=0.0))])
    assert row.values == (None,)
    assert row.missing == {"FAKE": MetricSkipped(reason)}


@pytest.mark.parametrize(
    ("given_trace", "reason"),
    [
        (trace(expected=None), MetricSkipReason.NO_EXPECTED_OUTPUT),
        (trace(output=None), MetricSkipReason.NO_OUTPUT),
        (trace(expected=None, output=None), MetricSkipReason.NO_EXPECTED_OUTPUT),
        (
            trace(expected=None, outcome=TraceOutcome.AGENT_ERROR),
            MetricSkipReason.NO_EXPECTED_OUTPUT,
        ),
    ],
)
def test_measure__missing_text_is_the_skip_reason(
    given_trace: Trace, reason: MetricSkipReason
) -> None:
    row = measure(given_trace, [FakeMetric(raising, spec(worst=0.0, needs=BOTH))])
    assert row.missing == {"FAKE": MetricSkipped(reason)}


def test_measure__empty_text_is_not_missing() -> None:
    row = measure(trace(expected="", output=""), [FakeMetric(spec=spec(needs=BOTH))])
    assert row.values == (0.5,)


def test_measure__unsupported_trace_is_skipped() -> None:
    row = measure(trace(), [FakeMetric(raising, accepts=False)])
    assert row.missing == {"FAKE": MetricSkipped(MetricSkipReason.NOT_SUPPORTED)}


def test_batch__is_computed_once_for_applicable_traces() -> None:
    batch = FakeBatch(raising, spec(needs=BOTH))
    rows = measure_chunk([trace("a"), trace("b", output=None), trace("c")], [batch])
    assert [row.values for row in rows] == [(0.25,), (None,), (0.25,)]
    assert batch.sizes == [2]


def test_batch__excludes_failed_agents() -> None:
    batch = FakeBatch(raising, spec(worst=0.0))
    rows = measure_chunk([trace("a"), trace("b", outcome=TraceOutcome.TIMEOUT)], [batch])
    assert [row.values for row in rows] == [(0.25,), (0.0,)]
    assert batch.sizes == [1]


def test_batch__invalid_value_fails_for_its_trace_only() -> None:
    batch = FakeBatch(batch=lambda _: [0.1, math.nan, 0.3])
    rows = measure_chunk([trace("a"), trace("b"), trace("c")], [batch])
    assert [row.values for row in rows] == [(0.1,), (None,), (0.3,)]


@pytest.mark.parametrize(
    # It raises, gives too few values, or too many.
    "broken",
    [lambda traces: [raising(traces[0])], lambda _: [0.1], lambda _: [0.1] * 9],
)
def test_batch__broken_batch_is_computed_trace_by_trace(
    broken: Callable[[Sequence[Trace]], Sequence[float]],
) -> None:
    batch = FakeBatch(
        lambda row_trace: raising(row_trace) if row_trace.trace_id == "b" else 0.75, batch=broken
    )
    rows = measure_chunk([trace("a"), trace("b"), trace("c")], [batch, FakeMetric()])
    assert [row.values for row in rows] == [(0.75, 0.5), (None, 0.5), (0.75, 0.5)]


def test_measure_all__rows_keep_the_order_of_the_traces() -> None:
    traces = [trace(f"t{number}", output="a b" if number % 3 else "x") for number in range(25)]
    refs = (MetricRef.of("ROUGE"), MetricRef.of("ACCURACY"))
    direct = list(measure_all(traces, refs, chunk_size=4))
    backwards = list(
        measure_all(
            traces,
            refs,
            chunk_size=4,
            # As a pool of processes: computed in another order, and returned in that of the chunks.
            map=lambda work, chunks: reversed([work(c) for c in reversed(list(chunks))]),
        )
    )
    assert [row.trace_id for row in direct] == [row_trace.trace_id for row_trace in traces]
    assert direct == backwards
    assert direct[0].values == (0.0, 0.0)
    assert direct[1].values == (1.0, 1.0)


@given(st.lists(st.tuples(st.text(), st.text()), max_size=8))
def test_metrics__stay_in_range_for_any_texts(pairs: list[tuple[str, str]]) -> None:
    load_metrics()
    refs = tuple(
        MetricRef.of(key)
        for key in (
            "ROUGE",
            "ROUGE_1",
            "ROUGE_2",
            "BLEU",
            "CHRF",
            "ACCURACY",
            "PRECISION",
            "RECALL",
        )
    )
    chunk = [trace(str(n), expected=a, output=b) for n, (a, b) in enumerate(pairs)]
    for row in score_chunk(chunk, refs):
        # Only what a metric cannot read is missing.
        assert set(row.missing.values()) <= {MetricSkipped(MetricSkipReason.NOT_APPLICABLE)}
        assert all(value is None or 0.0 <= value <= 1.0 for value in row.values)
