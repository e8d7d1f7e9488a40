"""Several expected answers, what is stripped of answers, and equality of JSON: values by hand."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.errors import Invalid
from mosaico.llm.types import ChatRequest, EmbeddingAnswer
from mosaico.metrics.engine import measure, measure_chunk
from mosaico.metrics.model_metrics import AnsweredTrace, provider_requests, provider_verdicts
from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.run_value import run_value, summarize_with
from mosaico.metrics.types import (
    MetricProvider,
    MetricRef,
    RemoteMetric,
    RunMetric,
)
from mosaico.traces.types import Trace, TraceOutcome

load_metrics()


def provider(key: str, **options: Any) -> MetricProvider:
    return provider_for(MetricRef.of(key, options))


def trace(output: str | None, *expected: str, rule: str = "any", **fields: Any) -> Trace:
    several = expected if len(expected) > 1 else ()
    return Trace(
        trace_id="t",
        item_id="i",
        output=output,
        expected_output=expected[0] if expected else None,
        expected_any=several if rule == "any" else (),
        expected_all=several if rule == "all" else (),
        **fields,
    )


def value(metric: MetricProvider, of: Trace) -> float | None:
    row = measure(of, [metric])
    [batch] = measure_chunk([of], [metric])
    assert batch.values == row.values
    return row.values[0]


@pytest.mark.parametrize(
    ("key", "output", "best", "worst"),
    [
        ("ACCURACY", "In 1976", 1.0, 0.0),
        ("ACCURACY", "1977", 0.0, 0.0),
        ("CONTAINS", "it was 1976", 1.0, 0.0),
        ("CONTAINS", "in 1976", 1.0, 1.0),
        # ROUGE-1: 1 of 2 words for "1976" (F1 2/3), 2 of 2 for "in 1976".
        ("ROUGE_1", "in 1976", 1.0, 2 / 3),
    ],
)
def test_references__best_of_any_and_worst_of_all(
    key: str, output: str, best: float, worst: float
) -> None:
    metric = provider(key)
    assert value(metric, trace(output, "1976", "in 1976")) == pytest.approx(best)
    assert value(metric, trace(output, "1976", "in 1976", rule="all")) == pytest.approx(worst)


def test_references__failures_and_empty_answers_keep_the_worst_value() -> None:
    metric = provider("ACCURACY")
    assert value(metric, trace("", "a", "b")) == 0.0
    assert value(metric, trace(None, "a", "b", outcome=TraceOutcome.TIMEOUT)) == 0.0
    assert value(metric, trace(None, "a", "b")) is None


def test_references__label_of_the_run_is_the_one_that_fits() -> None:
    metric = provider("F1_SCORE", labels="micro")
    assert isinstance(metric, RunMetric)
    traces = [trace("b", "a", "b"), trace("c", "a", "b"), trace("a", "a")]
    column = [measure(one, [metric]).values[0] for one in traces]
    assert column == [1.0, 0.0, 1.0]
    assert run_value(metric, summarize_with(metric, column, traces)) == pytest.approx(2 / 3)


def test_references__a_judge_sees_all_and_embeddings_are_compared_with_each() -> None:
    of = trace("b", "a", "b", input="?")
    judge = provider("LLM_JUDGE", name="j", prompt="Is {output} right? {expected}", model="m")
    assert isinstance(judge, RemoteMetric)
    [[request]] = provider_requests(judge, [of])  # type: ignore[misc]
    assert isinstance(request, ChatRequest)
    text = json.dumps(dataclasses.asdict(request), default=str)
    assert "One of these answers is enough" in text
    assert "- a" in text
    assert "- b" in text

    similarity = provider("SEMANTIC_SIMILARITY", model="m")
    assert isinstance(similarity, RemoteMetric)
    # The first reference is at a right angle, the second one is nearly the output.
    of = trace("answer", "first", "second")
    vectors = {"answer": (1.0, 0.0), "first": (0.0, 1.0), "second": (0.8, 0.6)}
    [requests] = provider_requests(similarity, [of])
    assert isinstance(requests, list)
    answers = tuple(EmbeddingAnswer(vectors[r.text]) for r in requests)  # type: ignore[union-attr, arg-type]
    [judged] = provider_verdicts(similarity, [AnsweredTrace(of, answers)])
    assert judged.measurement == pytest.approx(0.8)


@given(st.lists(st.text(min_size=1, max_size=5), min_size=2, max_size=5), st.text(max_size=5))
def test_references__any_is_the_maximum_and_all_the_minimum(
    expected: list[str], output: str
) -> None:
    metric = provider("EDIT_SIMILARITY")
    single = [value(metric, trace(output, text)) for text in expected]
    numbers = [number for number in single if number is not None]
    assert value(metric, trace(output, *expected)) == max(numbers)
    assert value(metric, trace(output, *expected, rule="all")) == min(numbers)


@pytest.mark.parametrize(
    ("expected", "output", "equal"),
    [
        ('{"a": 1, "b": [2, {"c": null}]}', ' {"b":[2.0,{"c":null}],"a":1e0}\n', 1.0),
        ("[1, 2]", "[2, 1]", 0.0),
        ('{"a": 1}', '{"a": true}', 0.0),
        ('{"a": 1}', '{"a": "1"}', 0.0),
        ('{"a": 0.1}', '{"a": 0.10000000000000001}', 0.0),
        ('{"a": 1}', '```json\n{"a": 1}\n```', 0.0),
        ('{"a": 1}', "NaN", 0.0),
        ('"x"', '"x"', 1.0),
        ("not JSON", "not JSON", None),
    ],
)
def test_json_equal__same_value_whatever_the_order(
    expected: str, output: str, equal: float | None
) -> None:
    assert value(provider("JSON_EQUAL"), trace(output, expected)) == equal


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_json_equal__a_value_equals_its_other_notation(document: Any) -> None:
    written = json.dumps(document, ensure_ascii=False)
    other = json.dumps(document, indent=3, sort_keys=True)
    assert value(provider("JSON_EQUAL"), trace(other, written)) == 1.0


def test_json_equal__deep_values_are_skipped_or_unequal() -> None:
    deep = "[" * 200_000
    assert value(provider("JSON_EQUAL"), trace(deep, "{}")) == 0.0
    assert value(provider("JSON_EQUAL"), trace("{}", deep)) is None


def test_output_options__strip_what_models_add() -> None:
    output = "<think>a</think>\n```\nRome\n```"
    plain = provider("ACCURACY")
    stripped = provider("ACCURACY", stripThinking=True, stripFences=True)
    assert (value(plain, trace(output, "Rome")), value(stripped, trace(output, "Rome"))) == (
        0.0,
        1.0,
    )
    assert (stripped.spec.key, stripped.spec.version) == ("ACCURACY", "1+stripFences+stripThinking")
    label = provider("F1_SCORE", labels="micro", stripThinking=True)
    assert isinstance(label, RunMetric)
    traces = [trace("<think>x</think>Rome", "Rome")]
    assert run_value(label, summarize_with(label, [1.0], traces)) == 1.0
    with pytest.raises(Invalid, match="LATENCY_MS has no option 'stripThinking'"):
        provider("LATENCY_MS", stripThinking=True)
    with pytest.raises(Invalid, match="stripThinking of ACCURACY takes a bool"):
        provider("ACCURACY", stripThinking="yes")
