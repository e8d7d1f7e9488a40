"""Label counts by item, built from the summaries of traces."""

from collections import Counter

import pytest

from mosaico.items.label_counts import summarize_traces
from mosaico.items.label_counts_builder import LabelCountsBuilder
from mosaico.items.matrix import ItemMatrix
from mosaico.metrics.types import MetricRef
from mosaico.traces.types import Trace, TraceOutcome

MACRO = MetricRef.of("F1_SCORE", {"labels": "macro"})
ITEMS = ItemMatrix(items=["a", "b"])


def trace(item: str, expected: str, output: str | None) -> Trace:
    outcome = TraceOutcome.SCORED if output is not None else TraceOutcome.AGENT_ERROR
    return Trace(
        trace_id=item, item_id=item, expected_output=expected, output=output, outcome=outcome
    )


def test_label_counts__include_traces_with_a_value() -> None:
    traces = [
        trace("a", "yes", "yes"),
        trace("a", "yes", "no"),
        trace("b", "no", None),
        trace("b", "no", "no"),
        trace("of nobody", "yes", "yes"),
    ]
    tables = summarize_traces(MACRO, [1.0, 0.0, 0.0, None, 1.0], traces)
    assert isinstance(tables, list)
    gathered = LabelCountsBuilder(ITEMS)
    assert gathered.add([counted.item_id for counted in traces], tables)
    counts = gathered.counts
    sums = Counter[tuple[str, str, int]]()
    for entry, (item, name) in enumerate(zip(counts.item_index, counts.label_index, strict=True)):
        for at, column in enumerate(counts.columns):
            sums[ITEMS.items[item], counts.labels[name], at] += int(column[entry])
    # Right, expected, given: one yes of two was right, and a no given for the other; b failed on a no,
    # which counts as a no that was given wrongly.
    assert +sums == {
        ("a", "yes", 0): 1,
        ("a", "yes", 1): 2,
        ("a", "yes", 2): 1,
        ("a", "no", 2): 1,
        ("b", "no", 1): 1,
        ("b", "no", 2): 1,
    }


@pytest.mark.parametrize("summary", [[1, 2], {"x": 1}, {"x": ["one"]}, {"x": [1, 2], "y": [1]}])
def test_label_counts__refuse_malformed_summaries(summary: object) -> None:
    assert not LabelCountsBuilder(ITEMS).add(["a"], [summary])
