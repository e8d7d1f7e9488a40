"""The value of a whole run, also with failing providers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from mosaico.metrics.run_value import merge_with, run_value, summarize_with
from mosaico.metrics.types import MetricFailed, MetricFailureKind
from mosaico.traces.types import Trace


def _total(summary: Any) -> Any:
    return float(summary)


@dataclass
class Characters:
    """The number of characters of all outputs."""

    read: Callable[[Any], Any] = _total
    summary: Callable[[int], Any] = lambda count: count

    def summarize(self, traces: Sequence[Trace]) -> Any:
        return self.summary(sum(len(trace.output or "") for trace in traces))

    def merge(self, first: Any, second: Any) -> Any:
        return first + second

    def run_value(self, summary: Any) -> float | None:
        value: float | None = self.read(summary)
        return value


TRACES = [Trace(trace_id=text, item_id=text, output=text) for text in ("a", "bb", "cccc")]


def failing(*_: object) -> Any:
    raise KeyError("lost")


def test_run_value__is_computed_from_merged_summaries() -> None:
    provider = Characters()
    notes = [summarize_with(provider, [0.5], [trace]) for trace in TRACES]
    assert notes == [{"summary": 1}, {"summary": 2}, {"summary": 4}]
    assert run_value(provider, merge_with(provider, notes)) == 7.0
    assert merge_with(provider, notes[:1]) == notes[0]


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (failing, MetricFailureKind.RAISED),
        (lambda _: math.nan, MetricFailureKind.NON_FINITE),
        (lambda _: math.inf, MetricFailureKind.NON_FINITE),
        (lambda _: "7", MetricFailureKind.NOT_A_NUMBER),
        (lambda _: True, MetricFailureKind.NOT_A_NUMBER),
        (lambda _: 10**400, MetricFailureKind.NOT_A_NUMBER),
    ],
)
def test_run_value__non_number_is_a_failure(
    read: Callable[[Any], Any], kind: MetricFailureKind
) -> None:
    value = run_value(Characters(read=read), {"summary": 1})
    assert isinstance(value, MetricFailed)
    assert value.kind is kind


@pytest.mark.parametrize(
    "summary",
    # What JSON does not have, and what `jsonb` of Postgres cannot store.
    [failing, lambda _: {1, 2}, lambda _: math.nan, lambda _: "\x00", lambda _: "\ud800",
     lambda _: 2**70],
)  # fmt: skip
def test_run_summary__unstorable_summary_is_a_failure(summary: Callable[[int], Any]) -> None:
    provider = Characters(summary=summary)
    note = summarize_with(provider, [0.5], TRACES[:1])
    assert note["failed"] == "RAISED"
    assert isinstance(run_value(provider, note), MetricFailed)


def test_run_value__failed_shard_fails_the_run_value() -> None:
    sound, broken = Characters(), Characters(summary=failing)
    notes = [summarize_with(sound, [0.5], TRACES[:1]), summarize_with(broken, [0.5], TRACES[1:2])]
    # Shards end in any order: the failed one may be the first, the last or between others.
    for order in (notes, notes[::-1], [*notes, notes[0]]):
        value = run_value(sound, merge_with(sound, order))
        assert isinstance(value, MetricFailed)
        assert "lost" in value.detail
