"""SCORE with labels: a categorical score as a number."""

import pytest

from mosaico.core.errors import Invalid
from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.types import MetricProvider, MetricRef
from mosaico.traces.types import Trace


def provider(labels: str) -> MetricProvider:
    load_metrics()
    return provider_for(MetricRef.of("SCORE", {"name": "Tone", "labels": labels}))


def trace(label: str | None) -> Trace:
    attributes = {} if label is None else {"Tone": label}
    return Trace(trace_id="t", item_id="i", attributes=attributes)


def test_label_score__has_the_number_of_its_label() -> None:
    score = provider("good=1, so so = 0.5, bad=0")
    assert [score.compute(trace(label)) for label in ("good", "so so", "bad")] == [1, 0.5, 0]
    # A label without a number, and a trace without the score, are skipped.
    assert [score.supports(trace(label)) for label in ("good", "odd", None)] == [True, False, False]


def test_label_score__star_counts_for_any_other_label() -> None:
    score = provider("good=1,*=0")
    assert (score.supports(trace("odd")), score.compute(trace("odd"))) == (True, 0)
    assert score.spec.version != provider("good=2,*=0").spec.version


@pytest.mark.parametrize("labels", ["good", "=1", "good=high", "good=nan", "good=1,,"])
def test_label_score__malformed_labels_are_refused(labels: str) -> None:
    with pytest.raises(Invalid, match="label=number"):
        provider(labels)
