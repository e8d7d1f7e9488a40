"""SEMANTIC_SIMILARITY: cosine of the embeddings of two texts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from mosaico.llm.types import EmbeddingAnswer, EmbeddingRequest, ModelAnswer, ModelKind
from mosaico.metrics.registry import METRICS, version_with
from mosaico.metrics.text_metric import BOTH_TEXTS
from mosaico.metrics.types import InvalidJudgment, MetricJudgeScore, MetricProvider, MetricSpec
from mosaico.traces.types import Trace


@dataclass(frozen=True, slots=True)
class SemanticSimilarity:
    """Cosine of the embeddings of expected and actual output. Provides `RemoteMetric`."""

    model: str
    spec: MetricSpec
    kind: ModelKind = ModelKind.EMBEDDING

    def supports(self, trace: Trace) -> bool:
        return trace.expected_output is not None and trace.output is not None

    def requests(self, trace: Trace) -> Sequence[EmbeddingRequest]:
        """Requests for both texts; none when they are equal or one is blank: the value is known."""
        texts = _texts(trace)
        if texts[0] == texts[1] or not all(texts):
            return ()
        return [EmbeddingRequest(model=self.model, text=text) for text in texts]

    def read(self, trace: Trace, answers: Sequence[ModelAnswer]) -> MetricJudgeScore:
        if not answers:
            expected, output = _texts(trace)
            return MetricJudgeScore(float(expected == output))
        vectors = [_vector(answer) for answer in answers]
        if len(vectors[0]) != len(vectors[1]):
            raise InvalidJudgment(
                f"the vectors have {len(vectors[0])} and {len(vectors[1])} numbers"
            )
        return MetricJudgeScore(max(0.0, cosine(*vectors)))

    def compute(self, trace: Trace) -> float:
        raise LookupError(f"{self.spec.key} asks a model about {trace.trace_id}")


def semantic_similarity(*, model: str = "") -> MetricProvider:
    return SemanticSimilarity(
        model,
        MetricSpec(
            key="SEMANTIC_SIMILARITY",
            description="Cosine of the embeddings of both texts; negative values become 0",
            source="Salton and McGill 1983, cosine of two vectors; the vectors are the model's",
            version=version_with("1", model=model),
            worst=0.0,
            needs=BOTH_TEXTS,
        ),
    )


def _texts(trace: Trace) -> tuple[str, str]:
    # Models reject blank texts, and surrounding white space changes their vectors.
    return (trace.expected_output or "").strip(), (trace.output or "").strip()


def _vector(answer: ModelAnswer) -> Sequence[float]:
    if not isinstance(answer, EmbeddingAnswer):
        raise InvalidJudgment("the model returned no vector")
    return answer.vector


def cosine(first: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors of one length, in [-1, 1].

    Raises: `InvalidJudgment` for a vector without a direction.
    """
    length = math.hypot(*first) * math.hypot(*other)
    if not length:
        raise InvalidJudgment("the model returned a vector of zeros")
    # Rounding can carry the quotient beyond 1, which the range of the metric would refuse.
    return min(1.0, max(-1.0, math.fsum(map(mul, first, other)) / length))


METRICS.register("SEMANTIC_SIMILARITY", semantic_similarity)
