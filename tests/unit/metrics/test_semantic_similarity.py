"""The cosine of two vectors: known values, a comparison with numpy, properties, and no requests for known values."""

from array import array

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mosaico.llm.types import ChatAnswer, EmbeddingAnswer, EmbeddingRequest, ModelAnswer
from mosaico.metrics.model_metrics import (
    AnsweredTrace,
    JudgedTrace,
    provider_requests,
    provider_verdicts,
)
from mosaico.metrics.providers.semantic_similarity import cosine
from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.types import (
    InvalidJudgment,
    MetricFailed,
    MetricFailureKind,
    MetricRef,
    MetricSkipped,
    MetricSkipReason,
    RemoteMetric,
)
from mosaico.traces.types import Trace, TraceOutcome

load_metrics()


def similarity() -> RemoteMetric:
    provider = provider_for(MetricRef.of("SEMANTIC_SIMILARITY", {"model": "m"}))
    assert isinstance(provider, RemoteMetric)
    return provider


def pair(
    expected: str | None, output: str | None, outcome: TraceOutcome = TraceOutcome.SCORED
) -> Trace:
    return Trace(
        trace_id="t", item_id="i", outcome=outcome, expected_output=expected, output=output
    )


def vector(*numbers: float) -> EmbeddingAnswer:
    return EmbeddingAnswer(array("f", numbers))


def judged(*answers: ModelAnswer, texts: tuple[str, str] = ("a", "b")) -> JudgedTrace:
    [result_measurement] = provider_verdicts(similarity(), [AnsweredTrace(pair(*texts), answers)])
    return result_measurement


# Of 32 bits, as the vectors of models; squares of smaller numbers would be lost beside others.
numbers = st.floats(-1, 1, width=32).map(lambda number: number if abs(number) > 1e-6 else 0.0)
vectors = st.integers(1, 40).flatmap(
    lambda size: st.tuples(*[st.lists(numbers, min_size=size, max_size=size)] * 2)
)


@given(vectors)
def test_cosine__equals_numpy(pair_: tuple[list[float], list[float]]) -> None:
    first, second = (np.array(vector_values, dtype=np.float64) for vector_values in pair_)
    assume(first.any() and second.any())
    expected_value = float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))
    assert cosine(*pair_) == pytest.approx(expected_value, abs=1e-12)


def test_cosine__zero_vector_is_a_judge_error() -> None:
    with pytest.raises(InvalidJudgment, match="a vector of zeros"):
        cosine([0, 0], [1, 0])


@pytest.mark.parametrize(
    ("texts", "expected_value"),
    [
        (("Rome", "Rome"), 1.0),
        (("Rome", " Rome\n"), 1.0),
        (("", ""), 1.0),
        (("", " "), 1.0),
        (("\t", "Rome"), 0.0),
    ],
)
def test_semantic_similarity__equal_and_blank_texts_need_no_model(
    texts: tuple[str, str], expected_value: float
) -> None:
    assert provider_requests(similarity(), [pair(*texts)]) == [[]]
    assert judged(texts=texts) == JudgedTrace(expected_value)


def test_semantic_similarity__requests_one_embedding_per_text() -> None:
    assert provider_requests(similarity(), [pair("Rome", " Paris ")]) == [
        [EmbeddingRequest(model="m", text="Rome"), EmbeddingRequest(model="m", text="Paris")]
    ]


def test_semantic_similarity__known_values_send_no_request() -> None:
    assert provider_requests(
        similarity(),
        [pair(None, "x"), pair("x", None), pair("x", None, TraceOutcome.TIMEOUT)],
    ) == [
        MetricSkipped(MetricSkipReason.NO_EXPECTED_OUTPUT),
        MetricSkipped(MetricSkipReason.NO_OUTPUT),
        0.0,
    ]


def test_semantic_similarity__negative_cosine_is_zero() -> None:
    assert judged(vector(1, 0), vector(-1, 0)) == JudgedTrace(0.0)
    assert judged(vector(3, 4), vector(4, 3)).measurement == pytest.approx(24 / 25)


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        ((vector(1, 0), vector(1, 0, 0)), "the vectors have 2 and 3 numbers"),
        ((vector(0, 0), vector(1, 0)), "a vector of zeros"),
        ((ChatAnswer(content="1 0"), vector(1, 0)), "the model returned no vector"),
    ],
)
def test_semantic_similarity__invalid_vectors_are_judge_errors(
    answers: tuple[ModelAnswer, ...], complaint: str
) -> None:
    result_measurement = judged(*answers).measurement
    assert isinstance(result_measurement, MetricFailed)
    assert result_measurement.kind is MetricFailureKind.JUDGE_ERROR
    assert complaint in result_measurement.detail


def test_semantic_similarity__compute_is_not_supported() -> None:
    with pytest.raises(LookupError, match="asks a model about t"):
        similarity().compute(pair("a", "b"))
