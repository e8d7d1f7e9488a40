"""Bins of values; the counts are by hand."""

from mosaico.comparison.distributions import count_bins, limits_of


def test_count_bins__an_edge_begins_a_bin_and_the_last_one_has_its_end() -> None:
    assert count_bins([0.0, 0.1, 0.3, 0.99, 1.0], 0.0, 0.1) == [1, 1, 0, 1, 0, 0, 0, 0, 0, 2]


def test_count_bins__of_no_values_are_empty() -> None:
    assert count_bins([], 0.0, 1.0) == [0] * 10


def test_limits__of_one_value_and_of_the_largest_floats_are_a_range() -> None:
    largest = 1.7976931348623157e308
    for values in ([0.0], [5.0, 5.0], [largest], [-largest, largest], [1e308, 1.0000000001e308]):
        low, high = limits_of(values)
        assert low < high
        width = high / 10 - low / 10
        assert 0 < width < float("inf")
        assert sum(count_bins(values, low, width)) == len(values)
