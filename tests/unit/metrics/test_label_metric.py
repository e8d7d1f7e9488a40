"""Label metrics: known values, values of scikit-learn, and properties."""

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.errors import Invalid
from mosaico.metrics.engine import measure
from mosaico.metrics.label_metric import MAX_LABELS
from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.run_value import merge_with, run_value, summarize_with
from mosaico.metrics.types import (
    CountedMetric,
    MetricFailed,
    MetricFailureKind,
    MetricRef,
    OptionValue,
    RunMetric,
)
from mosaico.traces.types import Trace, TraceOutcome

load_metrics()

KEYS: Final = ("PRECISION", "RECALL", "F1_SCORE")
MODES: Final = ("macro", "micro", "weighted")


class LabelAnswer(NamedTuple):
    """A label that was expected and the one that was given; None stands for a failure."""

    expected: str
    actual: str | None


def traces(answers: Sequence[LabelAnswer]) -> list[Trace]:
    return [
        Trace(
            trace_id=str(number),
            item_id=str(number),
            expected_output=answer.expected,
            output=answer.actual,
            outcome=TraceOutcome.SCORED if answer.actual is not None else TraceOutcome.AGENT_ERROR,
        )
        for number, answer in enumerate(answers)
    ]


def metric(key: str, **options: OptionValue) -> RunMetric:
    provider = provider_for(MetricRef.of(key, options))
    assert isinstance(provider, RunMetric)
    return provider


def of_run(
    answers: Sequence[LabelAnswer], key: str, **options: OptionValue
) -> float | MetricFailed | None:
    provider = metric(key, **options)
    return run_value(provider, summarize_with(provider, [1.0] * len(answers), traces(answers)))


def answers(expected: str, actual: str) -> list[LabelAnswer]:
    return [
        LabelAnswer(expected_label, predicted_label)
        for expected_label, predicted_label in zip(expected, actual, strict=True)
    ]


# Expected a a b b c, given a b b b a: counted as (right, expected, given)
# a: (1, 2, 2), b: (2, 2, 3), c: (0, 1, 0), together (3, 5, 5).
BY_HAND: Final = answers("aabbc", "abbba")


@pytest.mark.parametrize(
    ("key", "mode", "expected_value"),
    [
        ("PRECISION", "micro", 3 / 5),
        ("RECALL", "micro", 3 / 5),
        ("F1_SCORE", "micro", 3 / 5),
        ("PRECISION", "macro", (1 / 2 + 2 / 3 + 0) / 3),
        ("RECALL", "macro", (1 / 2 + 1 + 0) / 3),
        ("F1_SCORE", "macro", (2 / 4 + 4 / 5 + 0) / 3),
        ("PRECISION", "weighted", (2 * 1 / 2 + 2 * 2 / 3 + 0) / 5),
        ("RECALL", "weighted", (2 * 1 / 2 + 2 * 1 + 0) / 5),
        ("F1_SCORE", "weighted", (2 * 2 / 4 + 2 * 4 / 5 + 0) / 5),
        ("ACCURACY", "micro", 3 / 5),
        ("ACCURACY", "macro", 3 / 5),
        ("ACCURACY", "weighted", 3 / 5),
    ],
)
def test_label_metric__equals_known_values(key: str, mode: str, expected_value: float) -> None:
    assert of_run(BY_HAND, key, labels=mode) == pytest.approx(expected_value, abs=1e-15)


def from_matrix(pairs: Sequence[LabelAnswer], key: str, mode: str) -> float:
    """The same by the matrix of confusions, as scikit-learn goes about it."""
    names = sorted({name for pair in pairs for name in pair if name is not None})
    matrix = np.zeros((len(names), len(names)))
    for expected, predicted_label in pairs:
        assert predicted_label is not None
        matrix[names.index(expected), names.index(predicted_label)] += 1
    right, support, predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    if mode == "micro":
        right, support, predicted = (
            one_row.sum(keepdims=True) for one_row in (right, support, predicted)
        )
    part, denominator = {
        "PRECISION": (right, predicted),
        "RECALL": (right, support),
        "F1_SCORE": (2 * right, support + predicted),
    }[key]
    shares = np.divide(part, denominator, out=np.zeros_like(denominator), where=denominator > 0)
    return float(np.average(shares, weights=support if mode == "weighted" else None))


labels = st.sampled_from("abcd")
answered_pairs = st.lists(st.builds(LabelAnswer, labels, labels), min_size=1, max_size=40)
any_answers = st.lists(st.builds(LabelAnswer, labels, labels | st.none()), min_size=1, max_size=40)


@given(answered_pairs, st.sampled_from(KEYS), st.sampled_from(MODES))
def test_label_metric__equals_the_confusion_matrix(
    pairs: list[LabelAnswer], key: str, mode: str
) -> None:
    assert of_run(pairs, key, labels=mode) == pytest.approx(
        from_matrix(pairs, key, mode), abs=1e-12
    )


@given(any_answers, st.sampled_from([*KEYS, "ACCURACY"]))
def test_micro_average__equals_accuracy_with_failures(pairs: list[LabelAnswer], key: str) -> None:
    right = sum(pair.expected == pair.actual for pair in pairs)
    assert of_run(pairs, key, labels="micro") == pytest.approx(right / len(pairs), abs=1e-15)


@given(any_answers, st.data())
def test_label_summary__any_split_and_order_gives_the_same_bits(
    pairs: list[LabelAnswer], data: st.DataObject
) -> None:
    provider = metric("F1_SCORE", labels="macro")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(pairs)), max_size=4)))
    pieces = [pairs[start:end] for start, end in zip([0, *cuts], [*cuts, len(pairs)], strict=True)]
    notes = [summarize_with(provider, [1.0] * len(piece), traces(piece)) for piece in pieces]
    # Shards finish in any order, and their summaries are JSON in the database meanwhile.
    stored = [json.loads(json.dumps(note)) for note in data.draw(st.permutations(notes))]
    in_one_piece = summarize_with(provider, [1.0] * len(pairs), traces(pairs))
    assert run_value(provider, merge_with(provider, stored)) == run_value(provider, in_one_piece)


@given(answered_pairs, st.integers(0, 39), st.sampled_from([*KEYS, "ACCURACY"]))
def test_agent_failure__never_improves_a_label_metric(
    pairs: list[LabelAnswer], position: int, key: str
) -> None:
    position %= len(pairs)
    if pairs[position].expected != pairs[position].actual:
        return  # a wrong label harms another label, too
    failing = [
        *pairs[:position],
        LabelAnswer(pairs[position].expected, None),
        *pairs[position + 1 :],
    ]
    for mode in MODES:
        worse, better = of_run(failing, key, labels=mode), of_run(pairs, key, labels=mode)
        assert isinstance(worse, float)
        assert isinstance(better, float)
        assert worse <= better + 1e-12


@pytest.mark.parametrize(
    ("expected", "predicted_label"),
    [("Positive", " positive\n"), ("Straße", "STRASSE"), ("a  b", "A b")],
)
def test_labels__are_compared_like_texts_of_accuracy(expected: str, predicted_label: str) -> None:
    pair = [LabelAnswer(expected, predicted_label)]
    assert of_run(pair, "PRECISION", labels="macro") == 1.0
    assert of_run(pair, "PRECISION", labels="binary", positive=predicted_label) == 1.0
    provider = provider_for(MetricRef.of("ACCURACY"))
    assert measure(traces(pair)[0], [provider]).values == (1.0,)


def test_label_metric__trace_value_is_one_or_zero() -> None:
    provider = provider_for(MetricRef.of("F1_SCORE", {"labels": "macro"}))
    rows = [
        measure(trace, [provider])
        for trace in traces([LabelAnswer("a", "A "), LabelAnswer("a", "b"), LabelAnswer("a", None)])
    ]
    assert [row.values[0] for row in rows] == [1.0, 0.0, 0.0]


def test_long_labels__are_distinct_and_stored_as_digests() -> None:
    long = "x" * 100_000
    pairs = [LabelAnswer(long, long), LabelAnswer(long, long + "y")]
    assert of_run(pairs, "ACCURACY", labels="macro") == 1 / 2
    provider = metric("ACCURACY", labels="macro")
    assert len(json.dumps(summarize_with(provider, [1.0, 1.0], traces(pairs)))) < 200


def test_too_many_labels__run_value_fails() -> None:
    # With the expected one it is one label too many.
    pairs = [LabelAnswer("a", str(number)) for number in range(MAX_LABELS)]
    failure = of_run(pairs, "F1_SCORE", labels="macro")
    assert isinstance(failure, MetricFailed)
    assert failure.kind is MetricFailureKind.RAISED
    assert "these are texts, not labels" in failure.detail
    provider = metric("F1_SCORE", labels="macro")
    halves = [
        summarize_with(provider, [1.0] * len(half), traces(half))
        for half in (pairs[: MAX_LABELS // 2], pairs[MAX_LABELS // 2 :])
    ]
    assert isinstance(run_value(provider, merge_with(provider, halves)), MetricFailed)


@pytest.mark.parametrize("key", [*KEYS, "ACCURACY"])
def test_positive_option__is_required_in_binary_mode_only(key: str) -> None:
    with pytest.raises(Invalid, match="needs the option positive"):
        provider_for(MetricRef.of(key, {"labels": "binary"}))
    for options in ({"positive": "yes"}, {"positive": "yes", "labels": "macro"}):
        with pytest.raises(Invalid, match="takes the option positive only with"):
            provider_for(MetricRef.of(key, options))
    with pytest.raises(Invalid, match=r"is one of '', 'macro'.*not 'makro'\. Did you mean macro"):
        provider_for(MetricRef.of(key, {"labels": "makro"}))


def test_label_mode__is_part_of_the_version() -> None:
    modes = [{}, *({"labels": mode} for mode in MODES), {"labels": "binary", "positive": "yes"}]
    versions = [provider_for(MetricRef.of("RECALL", dict(mode))).spec.version for mode in modes]
    assert versions == [
        "2", "1+labels=macro", "1+labels=micro", "1+labels=weighted",
        "1+labels=binary+positive=yes",
    ]  # fmt: skip


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd") | st.none()))),
    st.sampled_from((*KEYS, "ACCURACY")),
    st.sampled_from((*MODES, "binary")),
)
def test_values_of_counts__equal_the_values_of_single_tables(
    runs: list[list[tuple[str, str | None]]], key: str, mode: str
) -> None:
    options: dict[str, OptionValue] = {"labels": mode}
    provider = metric(key, **options | ({"positive": "a"} if mode == "binary" else {}))
    assert isinstance(provider, CountedMetric)
    tables = [
        provider.summarize(traces([LabelAnswer(*one_row) for one_row in run])) for run in runs
    ]
    names = sorted({name for table in tables for name in table})
    counts = np.array([[table.get(name, [0, 0, 0]) for name in names] for table in tables])
    run_values = provider.values_of_counts(names, counts.reshape(len(runs), len(names), 3))
    alone = [provider.run_value(table) for table in tables]
    assert run_values.tolist() == pytest.approx(
        [np.nan if value is None else value for value in alone], nan_ok=True, rel=1e-12
    )
