"""What every metric promises, whoever provides it: each test runs for each registered metric."""

import math
import pickle
from array import array
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from mosaico.core.errors import Invalid
from mosaico.llm.types import ChatAnswer, ChatRequest, EmbeddingAnswer, ModelAnswer, ModelRequest
from mosaico.metrics.engine import measure
from mosaico.metrics.model_metrics import AnsweredTrace, provider_requests, provider_verdicts
from mosaico.metrics.registry import METRICS, load_metrics, options_of, provider_for
from mosaico.metrics.run_value import merge_with, run_value, summarize_with
from mosaico.metrics.types import (
    Direction,
    MetricProvider,
    MetricRef,
    MetricSkipped,
    MetricSpec,
    Need,
    OptionValue,
    RemoteMetric,
    RunMetric,
    TraceMeasurements,
)
from mosaico.traces.types import ToolCall, Trace, TraceOutcome

load_metrics()

KEYS: Final = sorted(METRICS.names())
# The last one has characters that neither UTF-8 nor Postgres can store.
TEXTS: Final = (None, "", "The quick brown fox.", "the QUICK fox, brown 3.5", "漢字 \ud800 \x00 é")
FIGURES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {
        "input_tokens": 2**62,
        "output_tokens": 0,
        "cost_usd": 1e-300,
        "latency_ms": 1e12,
        "turns": 1,
        "tool_calls": (ToolCall(name="a", ok=True), ToolCall(name="b", ok=False)),
        "scores": {"": -1.5},
    },
)
OTHER: Final[dict[type, OptionValue]] = {bool: True, int: 7, float: 0.7, str: "other"}


def traces() -> list[Trace]:
    return [
        Trace(
            trace_id=f"{outcome}-{first}-{second}",
            item_id="i",
            outcome=outcome,
            expected_output=expected,
            output=output,
            input=(second and "Which fox?") or None,
            **FIGURES[(first + second) % 2],
        )
        for outcome in TraceOutcome
        for first, expected in enumerate(TEXTS)
        for second, output in enumerate(TEXTS)
    ]


def measured(trace: Trace, provider: MetricProvider) -> TraceMeasurements:
    """The row of a trace; a model that is asked answers as well as one can."""
    if not isinstance(provider, RemoteMetric):
        return measure(trace, [provider])
    [requests] = provider_requests(provider, [trace])
    if isinstance(requests, list):
        answers = tuple(answer_to(request, provider.spec) for request in requests)
        [(measurement, _)] = provider_verdicts(provider, [AnsweredTrace(trace, answers)])
    else:
        measurement = requests
    if isinstance(measurement, float):
        return TraceMeasurements(trace.trace_id, (measurement,), {})
    return TraceMeasurements(trace.trace_id, (None,), {provider.spec.key: measurement})


def answer_to(request: ModelRequest, spec: MetricSpec) -> ModelAnswer:
    if isinstance(request, ChatRequest):
        assert spec.minimum is not None
        return ChatAnswer(content=f'{{"reason": "so it is", "score": {spec.minimum}}}')
    # Another vector for another text, and the same one for the same text.
    return EmbeddingAnswer(array("f", [1.0, len(request.text), ord(request.text[0])]))


@pytest.fixture(params=KEYS)
def key(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def provider(key: str) -> MetricProvider:
    return provider_for(MetricRef.of(key))


def test_metric_spec__has_its_key_a_description_and_a_source(
    key: str, provider: MetricProvider
) -> None:
    spec = provider.spec
    assert spec.key.partition("[")[0] == key == key.upper()  # SCORE["…"] names one of many
    assert spec.description
    assert spec.source
    assert spec.unit
    assert spec.version
    assert spec is provider.spec  # read for every trace, so it must be made once


def test_metric_spec__range_is_ordered_and_contains_the_worst_value(
    provider: MetricProvider,
) -> None:
    spec = provider.spec
    low = -math.inf if spec.minimum is None else spec.minimum
    high = math.inf if spec.maximum is None else spec.maximum
    assert low < high
    if spec.worst is not None:
        assert low <= spec.worst <= high
        assert spec.direction is not Direction.NEITHER


def test_metric__value_is_in_range_or_missing_with_a_reason(
    provider: MetricProvider,
) -> None:
    for trace in traces():
        row = measured(trace, provider)
        if row.values[0] is None:
            assert isinstance(row.missing[provider.spec.key], MetricSkipped), row  # never failed
        else:
            assert not row.missing


def test_metric__same_trace_gives_the_same_value(key: str, provider: MetricProvider) -> None:
    again = provider_for(MetricRef.of(key))
    for trace in traces():
        assert measured(trace, provider) == measured(trace, again)


def test_metric__works_without_the_texts_that_it_does_not_need(provider: MetricProvider) -> None:
    needs = provider.spec.needs
    trace = Trace(
        trace_id="t",
        item_id="i",
        expected_output="x" if Need.EXPECTED_OUTPUT in needs else None,
        output="x" if Need.OUTPUT in needs else None,
    )
    if provider.supports(trace):
        [value] = measured(trace, provider).values
        assert value is not None
        assert math.isfinite(value)


def variants(key: str) -> Iterator[MetricProvider]:
    """The metric with each of its options in turn, and each choice that there is for it."""
    for option in options_of(METRICS.get(key)):
        for value in option.choices or (OTHER[type(option.default)],):
            ref = MetricRef.of(key, {option.name: value})
            assert pickle.loads(pickle.dumps(ref)) == ref
            if value == option.default:
                continue
            with suppress(Invalid):  # an option may need another one
                yield provider_for(ref)


def test_metric__every_option_changes_version_column_or_direction(
    key: str, provider: MetricProvider
) -> None:
    def identity(spec: MetricSpec) -> tuple[str, str, Direction]:
        return spec.key, spec.version, spec.direction

    identities = {identity(provider.spec)}
    for other in variants(key):
        assert identity(other.spec) not in identities
        identities.add(identity(other.spec))
    assert len(identities) > 1 or not options_of(METRICS.get(key))


def test_metric__with_options_fulfills_the_same_contract(key: str) -> None:
    for other in variants(key):
        test_metric_spec__range_is_ordered_and_contains_the_worst_value(other)
        test_metric__value_is_in_range_or_missing_with_a_reason(other)


def test_metric__run_value_is_independent_of_shards(key: str, provider: MetricProvider) -> None:
    for variant in (provider, *variants(key)):
        if isinstance(variant, RunMetric):
            rows = [measure(trace, [variant]) for trace in traces()]
            column = [row.values[0] for row in rows]
            whole_summary = summarize_with(variant, column, traces())
            # Seven does not divide the number of traces: the last part is shorter than the others.
            parts = [
                summarize_with(variant, column[start : start + 7], traces()[start : start + 7])
                for start in range(0, len(column), 7)
            ]
            value = run_value(variant, whole_summary)
            assert value is None or isinstance(value, float)
            assert run_value(variant, merge_with(variant, parts)) == value
            # Shards end in any order.
            assert run_value(variant, merge_with(variant, parts[::-1])) == value
