"""Bins of values; the counts are by hand."""

from mosaico.comparison.distributions import count_bins


def test_count_bins__an_edge_begins_a_bin_and_the_last_one_has_its_end() -> None:
    assert count_bins([0.0, 0.1, 0.3, 0.99, 1.0], 0.0, 0.1) == [1, 1, 0, 1, 0, 0, 0, 0, 0, 2]


def test_count_bins__of_no_values_are_empty() -> None:
    assert count_bins([], 0.0, 1.0) == [0] * 10
