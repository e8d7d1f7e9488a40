"""The label mode of PRECISION, RECALL, F1_SCORE and ACCURACY equals scikit-learn."""

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.run_value import run_value, summarize_with
from mosaico.metrics.types import MetricRef, OptionValue, RunMetric
from mosaico.traces.types import Trace
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
sklearn_metrics = Reference("sklearn.metrics")

load_metrics()

REFERENCES: Final = {
    "PRECISION": "precision_score",
    "RECALL": "recall_score",
    "F1_SCORE": "f1_score",
}

labels = st.sampled_from(["cat", "dog", "emu", "Fox Terrier", "0", "-1"])
pairs = st.lists(st.tuples(labels, labels), min_size=1, max_size=60)
keys = st.sampled_from(sorted(REFERENCES))
modes = st.sampled_from(["macro", "micro", "weighted"])

Pairs = list[tuple[str, str]]


def of_run(label_pairs: Pairs, key: str, **options: OptionValue) -> Any:
    provider = provider_for(MetricRef.of(key, options))
    assert isinstance(provider, RunMetric)
    traces = [
        Trace(trace_id=str(number), item_id="i", expected_output=expected, output=output)
        for number, (expected, output) in enumerate(label_pairs)
    ]
    return run_value(provider, summarize_with(provider, [1.0] * len(traces), traces))


def columns(label_pairs: Pairs) -> tuple[list[str], list[str]]:
    return [expected for expected, _ in label_pairs], [output for _, output in label_pairs]


@settings(deadline=None)
@given(pairs, keys, modes)
def test_label_averages__equal_scikit_learn(label_pairs: Pairs, key: str, mode: str) -> None:
    reference_value = getattr(sklearn_metrics, REFERENCES[key])(
        *columns(label_pairs), average=mode, zero_division=0
    )
    assert of_run(label_pairs, key, labels=mode) == pytest.approx(reference_value, abs=1e-12)


@settings(deadline=None)
@given(pairs, keys, labels)
def test_binary_mode__equals_scikit_learn(label_pairs: Pairs, key: str, positive: str) -> None:
    # Where nobody expected or gave the label, scikit-learn has a warning and no number.
    value = of_run(label_pairs, key, labels="binary", positive=positive)
    if any(positive in pair for pair in label_pairs):
        [reference_value] = getattr(sklearn_metrics, REFERENCES[key])(
            *columns(label_pairs), average=None, labels=[positive], zero_division=0
        )
        assert value == pytest.approx(reference_value, abs=1e-12)
    else:
        assert value is None


@settings(deadline=None)
@given(pairs, modes)
def test_accuracy__equals_scikit_learn_in_every_mode(label_pairs: Pairs, mode: str) -> None:
    reference_value = sklearn_metrics.accuracy_score(*columns(label_pairs))
    assert of_run(label_pairs, "ACCURACY", labels=mode) == pytest.approx(reference_value, abs=1e-12)
