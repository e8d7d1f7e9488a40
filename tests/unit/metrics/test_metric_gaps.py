"""Metrics with values of too few traces."""

import json
import re

import pytest

from mosaico.metrics.aggregate import Aggregate, aggregate
from mosaico.metrics.metric_gaps import find_gaps
from mosaico.metrics.registry import load_metrics
from mosaico.metrics.types import MetricRef

SCORE = MetricRef.of("SCORE", {"name": "quality"})
COLUMN = 'SCORE["quality"]'


@pytest.fixture(scope="module", autouse=True)
def _metrics() -> None:
    load_metrics()


def measured(values: int, expected: int, **missing: int) -> dict[str, Aggregate]:
    return {COLUMN: aggregate([0.5] * values, expected=expected, missing=missing)}


@pytest.mark.parametrize(("values", "is_gap"), [(54, False), (53, True), (2, True), (0, True)])
def test_find_gaps__below_the_least_coverage(values: int, *, is_gap: bool) -> None:
    gaps = find_gaps([SCORE], measured(values, 60, NOT_SUPPORTED=60 - values), 0.9)
    assert ({*gaps} == {COLUMN}) is is_gap
    if is_gap:
        assert gaps[COLUMN].describe().startswith(f"scores for {values} of 60 items")


def test_find_gaps__one_failed_answer_of_an_unknown_range_is_one() -> None:
    gaps = find_gaps([SCORE], measured(59, 60, AGENT_ERROR=1), 0.9)
    assert '"range": "0..1"' in gaps[COLUMN].describe()
    assert "1 of 60 answers failed" in gaps[COLUMN].describe()


def test_find_gaps__remedy_keeps_the_options_of_the_metric() -> None:
    ref = MetricRef.of("SCORE", {"name": "tone", "better": "lower"})
    column = 'SCORE["tone"]'
    gaps = find_gaps([ref], {column: measured(59, 60, AGENT_ERROR=1)[COLUMN]}, 0.9)
    [remedy] = re.findall(r"\{.*\}", gaps[column].describe())
    assert json.loads(remedy) == {"name": "tone", "better": "lower", "range": "0..1"}


def test_find_gaps__counts_traces_where_items_were_repeated() -> None:
    gaps = find_gaps([SCORE], measured(20, 60), 0.9, has_trials=True)
    assert gaps[COLUMN].describe().startswith("scores for 20 of 60 traces")


def test_find_gaps__neither_ratios_of_counts_nor_metrics_without_traces() -> None:
    ratio = MetricRef.of("TOOL_CALL_SUCCESS_RATE")
    aggregates = {"TOOL_CALL_SUCCESS_RATE": aggregate([1.0], expected=60)}
    assert find_gaps([ratio], aggregates, 0.9) == {}
    # A filter that selects no trace, and texts that a metric cannot read.
    assert find_gaps([SCORE], measured(0, 0), 0.9) == {}
    assert find_gaps([SCORE], {}, 0.9) == {}
