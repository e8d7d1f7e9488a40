"""Zeros that tools write for unknown numbers."""

import pytest

from mosaico.traces.reported_usage import ReportedUsage, drop_unknown_zeros


@pytest.mark.parametrize(
    ("reported", "known"),
    [
        ((0, 0, 0.0), (None, None, None)),
        ((None, None, 0.0), (None, None, None)),
        ((0, None, None), (None, None, None)),
        ((None, None, 0.5), (None, None, 0.5)),
        ((3, 0, 0.0), (3, 0, 0.0)),
        ((None, 2, None), (None, 2, None)),
    ],
)
def test_drop_unknown_zeros__keeps_what_is_known(
    reported: tuple[int | None, int | None, float | None], known: ReportedUsage
) -> None:
    assert drop_unknown_zeros(*reported) == known
