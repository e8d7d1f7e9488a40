"""Small charts: bars of a distribution before and now, and points; the numbers are by hand."""

import re

from mosaico.core.web.small_charts import ChartValue, distribution_chart, points_chart

EDGES = [0.0, 0.5, 1.0]


def bars(svg: str, name: str) -> list[float]:
    return [float(height) for height in re.findall(rf'bar-{name}"[^>]* height="([\d.]+)"', svg)]


def test_distribution__bars_are_shares_of_their_run() -> None:
    """Half of two values is as high as half of ten."""
    svg = distribution_chart("ACCURACY", EDGES, [1, 1], [5, 5])
    assert len({*bars(svg, "before"), *bars(svg, "now")}) == 1
    falling = distribution_chart("ACCURACY", EDGES, [0, 10], [5, 5])
    assert bars(falling, "before") == [2 * height for height in bars(falling, "now")[:1]]
    assert "0 to 0.5: 5 now" in falling


def test_distribution__without_a_baseline_and_without_values() -> None:
    assert bars(distribution_chart("A", EDGES, None, [1, 0]), "before") == []
    assert bars(distribution_chart("A", EDGES, None, [0, 0]), "now") == []


def test_points__the_last_run_is_large_and_texts_are_escaped() -> None:
    points = [ChartValue(0.1, 0.9, "a <b>", "/runs/a"), ChartValue(0.2, 0.6, "b", "/runs/b")]
    svg = points_chart("quality", "Cost", "quality <i>", points)
    assert [*map(float, re.findall(r' r="([\d.]+)"', svg))] == [3.5, 6.0]
    assert "<b>" not in svg
    assert "<i>" not in svg


def test_points__a_single_point_is_drawn() -> None:
    assert "<circle" in points_chart("q", "Cost", "q", [ChartValue(0.0, 0.0, "a", "/runs/a")])
