"""Aggregation of measured rows, and the trace counts behind the validity of a run."""

from hypothesis import given
from hypothesis import strategies as st

from mosaico.metrics.types import MetricNote
from mosaico.run_store.scored_trace import ScoredTrace
from mosaico.runs.metric_columns import MetricColumns

SKIPPED: dict[str, MetricNote] = {
    "no text": {"skipped": "NO_OUTPUT"},
    "not supported": {"skipped": "NOT_SUPPORTED"},
    "unreadable": {"skipped": "NOT_APPLICABLE"},
    "infra": {"skipped": "INFRA_ERROR"},
    "raised": {"failed": "RAISED", "detail": "ValueError: x"},
}


def row(a: float | None, b: float | None, **notes: str) -> ScoredTrace:
    reasons = {name: SKIPPED[reason] for name, reason in notes.items()}
    return ScoredTrace([a, b], reasons or None, False, "item")


def test_columns__count_rows_by_outcome() -> None:
    columns = MetricColumns(["A", "B"], trials=False)
    columns.add(row(1.0, 0.5))
    columns.add(row(0.0, None, B="no text"))
    columns.add(row(None, 1.0, A="raised"))
    columns.add(row(0.5, None, B="not supported"))
    columns.add(
        ScoredTrace([None, None], {"A": SKIPPED["infra"], "B": SKIPPED["infra"]}, True, "item")
    )
    aggregates = columns.aggregates()
    assert (aggregates["A"].n, aggregates["A"].mean, aggregates["A"].coverage) == (3, 0.5, 0.6)
    assert (aggregates["B"].n, aggregates["B"].mean) == (2, 0.75)
    assert aggregates["A"].missing == {"RAISED": 1, "INFRA_ERROR": 1}
    assert aggregates["B"].missing == {"NO_OUTPUT": 1, "NOT_SUPPORTED": 1, "INFRA_ERROR": 1}
    tally = columns.tally()
    # Not covered: the row without a text and the lost one. Measured: two metrics of four traces.
    assert (tally.total, tally.covered, tally.errored, tally.measurements, tally.failed) == (
        5,
        3,
        1,
        8,
        1,
    )


def test_columns__traces_to_which_a_metric_is_not_applicable_are_outside_of_it() -> None:
    columns = MetricColumns(["A", "B"], trials=False)
    columns.add(row(1.0, 0.5))
    columns.add(row(None, 0.5, A="unreadable"))
    columns.add(row(None, 0.5, A="unreadable"))
    # An error of the infrastructure in a trace that is outside of A anyway.
    lost: dict[str, MetricNote] = {"A": SKIPPED["unreadable"], "B": SKIPPED["infra"]}
    columns.add(ScoredTrace([None, None], lost, True, "item"))
    columns.add(row(None, 0.5, A="raised"))
    first, second = columns.aggregates().values()
    assert (first.n, first.expected, first.coverage) == (1, 2, 0.5)
    assert first.missing == {"NOT_APPLICABLE": 3, "RAISED": 1}
    assert (second.n, second.expected, second.coverage) == (4, 5, 0.8)
    tally = columns.tally()
    # Two measurements of A, of which one failed, and four of B.
    assert (tally.total, tally.covered, tally.measurements, tally.failed) == (5, 4, 6, 1)


def test_columns__absent_traces_lower_the_coverage_without_an_error() -> None:
    columns = MetricColumns(["A"], trials=False)
    columns.add(ScoredTrace([1.0], None, False, None))
    columns.add_absent(3)
    columns.add_absent(0)
    aggregate, tally = columns.aggregates()["A"], columns.tally()
    assert (aggregate.n, aggregate.mean, aggregate.coverage) == (1, 1.0, 0.25)
    assert aggregate.missing == {"NOT_COLLECTED": 3}
    assert (tally.total, tally.covered, tally.measurements, tally.failed) == (4, 1, 1, 0)


@given(st.lists(st.floats(-1e6, 1e6) | st.none(), min_size=1))
def test_columns__the_order_of_rows_changes_no_bit(values: list[float | None]) -> None:
    def aggregated(order: list[float | None]) -> object:
        columns = MetricColumns(["A"], trials=False)
        for value in order:
            notes = None if value is not None else {"A": SKIPPED["no text"]}
            columns.add(ScoredTrace([value], notes, False, None))
        return columns.aggregates()["A"].as_json()

    assert aggregated(values) == aggregated(list(reversed(values)))


def test_columns__trials_of_an_item_are_averaged_first() -> None:
    columns = MetricColumns(["A", "B"], trials=True)
    # A: three trials of one item pass and the one of the other fails: (1 + 0) / 2.
    # B: the first item has one value, the other none.
    for item, a, b in (
        ("one", 1.0, None),
        ("one", 1.0, 0.2),
        ("two", 0.0, None),
        ("one", 1.0, None),
    ):
        columns.add(ScoredTrace([a, b], None, False, item))
    aggregates = columns.aggregates()
    assert (aggregates["A"].mean, aggregates["A"].n, aggregates["A"].sum, aggregates["A"].std) == (
        0.5,
        4,
        3.0,
        0.5,
    )
    assert (aggregates["B"].mean, aggregates["B"].n) == (0.2, 1)
