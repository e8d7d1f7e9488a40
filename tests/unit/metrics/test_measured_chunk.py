"""Chunks of measured rows come out of a metric process as they were."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from mosaico.metrics.measured_chunk import MeasuredChunk
from mosaico.metrics.types import MetricSkipped, MetricSkipReason, TraceMeasurements

NO_OUTPUT = MetricSkipped(MetricSkipReason.NO_OUTPUT)
numbers = st.floats(allow_nan=False, allow_infinity=False)


def row(values: list[float | None], reasons: dict[str, str] | None = None) -> TraceMeasurements:
    missing = {f"M{index}": NO_OUTPUT for index, value in enumerate(values) if value is None}
    return TraceMeasurements(f"t-{values}", tuple(values), missing, reasons)


@given(data=st.data(), width=st.integers(1, 3))
def test_measured_chunk__unpickles_as_the_same_rows(data: st.DataObject, width: int) -> None:
    values = st.lists(st.none() | numbers, min_size=width, max_size=width)
    reasons = st.sampled_from([None, {"M0": "It names another city."}])
    rows = data.draw(st.lists(st.builds(row, values, reasons), max_size=6))
    assert pickle.loads(pickle.dumps(MeasuredChunk(rows))) == rows


def test_measured_chunk__of_complete_rows_is_pickled_as_numbers() -> None:
    chunk = MeasuredChunk([row([0.25, number / 512]) for number in range(512)])
    alone = pickle.dumps([measured.trace_id for measured in chunk])
    # 8 bytes a value.
    assert len(pickle.dumps(chunk)) - len(alone) < 512 * 2 * 8 + 200


def test_measured_chunk__without_rows() -> None:
    assert pickle.loads(pickle.dumps(MeasuredChunk([]))) == []
