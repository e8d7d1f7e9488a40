"""EXACT_MATCH, CONTAINS, EDIT_SIMILARITY and JSON_VALID: known values first."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.metrics.engine import measure
from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.types import MetricRef, MetricSkipped, MetricSkipReason
from mosaico.traces.types import Trace, TraceOutcome

load_metrics()


def value(key: str, expected: str | None, output: str | None, **options: Any) -> float | None:
    row = measure(
        Trace(trace_id="t", item_id="t", expected_output=expected, output=output),
        [provider_for(MetricRef.of(key, options))],
    )
    return row.values[0]


@pytest.mark.parametrize(
    ("expected", "output", "expected_value"),
    [
        ("Paris", "Paris", 1.0),
        ("Paris", "paris", 0.0),
        ("Paris", "Paris ", 0.0),
        ("a b", "a  b", 0.0),
        ("é", "e\u0301", 0.0),  # ACCURACY finds these equal
        ("", "", 1.0),
    ],
)
def test_exact_match__is_one_for_equal_bytes(
    expected: str, output: str, expected_value: float
) -> None:
    assert value("EXACT_MATCH", expected, output) == expected_value


@given(st.text(), st.text())
def test_exact_match__equals_byte_equality(first: str, second: str) -> None:
    equal = first.encode("utf-8", "surrogatepass") == second.encode("utf-8", "surrogatepass")
    assert value("EXACT_MATCH", first, second) == equal


@pytest.mark.parametrize(
    ("expected", "output", "as_it_is", "any_case"),
    [
        ("Paris", "It is Paris.", 1.0, 1.0),
        ("paris", "It is Paris.", 0.0, 1.0),
        ("Paris", "Pa ris", 0.0, 0.0),
        # `casefold` makes "ss" of "ß"; `lower` does not.
        ("straße", "STRASSE 7", 0.0, 1.0),
        # The letter and its accent are two characters here, and one after normalization.
        ("É", "cafe\u0301", 0.0, 1.0),
        ("Paris", "", 0.0, 0.0),
        ("a b", "a  b", 0.0, 0.0),  # blanks count
    ],
)
def test_contains__examples(expected: str, output: str, as_it_is: float, any_case: float) -> None:
    assert value("CONTAINS", expected, output) == as_it_is
    assert value("CONTAINS", expected, output, ignoreCase=True) == any_case


def test_contains__empty_expected_text_is_skipped() -> None:
    trace = Trace(trace_id="t", item_id="t", expected_output="", output="anything")
    row = measure(trace, [provider_for(MetricRef.of("CONTAINS"))])
    assert row.missing == {"CONTAINS": MetricSkipped(MetricSkipReason.NOT_SUPPORTED)}


@given(st.text(min_size=1), st.text(), st.text())
def test_contains__text_in_any_context(text: str, before: str, after: str) -> None:
    assert value("CONTAINS", text, before + text + after) == 1.0


@pytest.mark.parametrize(
    ("expected", "output", "expected_value"),
    [
        # The distance of the textbooks: 3 edits, and 7 letters of the longer word.
        ("kitten", "sitting", 1 - 3 / 7),
        ("abcd", "abcd", 1.0),
        ("abcd", "", 0.0),
        ("", "", 1.0),
        ("ab", "xy", 0.0),
    ],
)
def test_edit_similarity__examples(expected: str, output: str, expected_value: float) -> None:
    assert value("EDIT_SIMILARITY", expected, output) == expected_value


def test_edit_similarity__two_huge_texts_are_skipped() -> None:
    huge = "a" * 31_700  # 31 700² > 10⁹
    trace = Trace(trace_id="t", item_id="t", expected_output=huge, output=huge)
    provider = provider_for(MetricRef.of("EDIT_SIMILARITY"))
    assert measure(trace, [provider]).missing == {
        "EDIT_SIMILARITY": MetricSkipped(MetricSkipReason.NOT_SUPPORTED)
    }
    assert value("EDIT_SIMILARITY", huge, "a") == pytest.approx(1 / 31_700, rel=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{'a': 1}",
        '{"a": 1,}',
        "NaN",
        "[Infinity]",
        "-Infinity",
        "01",
        "1 2",
        '"a\nb"',
        "\ufeff{}",
        "\u00a0{}",  # a blank, but none of JSON
        '```json\n{"a": 1}\n```',
        'Here it is: {"a": 1}',
        "[" * 501 + "]" * 501,
        "[" * 100_000,
        '{"a":' * 100_000,
        "{" * 600 + '"',
    ],
)
def test_json_valid__rejects_anything_else(text: str) -> None:
    assert value("JSON_VALID", None, text) == 0.0


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    )
)  # fmt: skip
def test_json_valid__accepts_output_of_python(document: object) -> None:
    assert value("JSON_VALID", None, json.dumps(document, ensure_ascii=False)) == 1.0


@pytest.mark.parametrize("key", ["EXACT_MATCH", "CONTAINS", "EDIT_SIMILARITY", "JSON_VALID"])
def test_exact_metrics__failed_agent_gets_zero(key: str) -> None:
    failed = Trace(
        trace_id="t", item_id="t", expected_output="x", output="x", outcome=TraceOutcome.AGENT_ERROR
    )
    assert measure(failed, [provider_for(MetricRef.of(key))]).values == (0.0,)
