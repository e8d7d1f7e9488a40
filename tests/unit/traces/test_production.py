"""Production traces: windows, samples and item keys."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from mosaico.traces.production import (
    ProductionTraces,
    TraceWindow,
    item_id_of,
    parse_duration,
    sampling_rank,
)
from mosaico.traces.types import Trace

NOW = datetime(2026, 11, 21, 6, tzinfo=UTC)


def test_production__since_ends_before_the_run_by_the_lag() -> None:
    production = ProductionTraces(since="24h", sample_size=100)
    frozen = production.frozen(None, NOW)
    assert frozen.exact_window == TraceWindow(
        from_=datetime(2026, 11, 20, 5, 45, tzinfo=UTC),
        to=datetime(2026, 11, 21, 5, 45, tzinfo=UTC),
    )
    # A retry is created later and reads the same traces.
    assert production.frozen(frozen.window, datetime(2026, 11, 22, tzinfo=UTC)) == frozen


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"since": "0h"},
        {"since": "24"},
        {"since": "24h", "window": {"from": "2026-11-20T00:00:00Z", "to": "2026-11-21T00:00:00Z"}},
        {"window": {"from": "2026-11-21T00:00:00Z", "to": "2026-11-21T00:00:00Z"}},
        {"since": "24h", "itemKey": "output"},
        {"since": "24h", "filters": {"score": {"name": "tone"}}},
        {"since": "24h", "filters": {"score": {"name": "tone", "min": 0.5, "label": "good"}}},
    ],
)
def test_production__contradictions_are_rejected(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ProductionTraces.model_validate(document)


def test_parse_duration__of_each_unit() -> None:
    assert [parse_duration(text).total_seconds() for text in ("30m", "24h", "7d", "2w")] == [
        1800,
        86_400,
        604_800,
        1_209_600,
    ]


def test_sampling_rank__another_seed_draws_another_sample() -> None:
    traces = [f"trace-{number}" for number in range(100)]
    first, second = (
        sorted(traces, key=lambda trace: sampling_rank(seed, trace))[:20] for seed in (1, 2)
    )
    # Two samples of 20 of 100 traces share four on average.
    assert len(set(first) & set(second)) < 15


def test_item_id__comes_from_the_key_and_else_from_the_trace() -> None:
    trace = Trace(trace_id="t", item_id="t", input="Hi", attributes={"session": "s", "topic": "x"})
    keys = (None, "session", "metadata.topic", "metadata.absent")
    assert [item_id_of(key, trace) for key in keys] == ["t", "s", "x", "t"]
    same_input = Trace(trace_id="u", item_id="u", input="Hi")
    assert item_id_of("input", trace) == item_id_of("input", same_input) != "t"
