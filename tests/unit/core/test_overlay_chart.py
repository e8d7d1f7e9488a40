"""Several series in one SVG chart: lines, names and time."""

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

from mosaico.core.web.overlay_chart import MAX_SERIES, TrendSeries, overlay_chart
from mosaico.core.web.trend_chart import TrendPoint

MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"


def series_of(name: str, *values: float | None, days: int = 1) -> TrendSeries:
    points = [TrendPoint(f"day {n}", value, None, None, None) for n, value in enumerate(values)]
    return TrendSeries(
        name, points, [MONDAY + timedelta(days=days * n) for n in range(len(values))]
    )


def lines_of(chart: str) -> list[tuple[list[float], str | None]]:
    """The pixels from the left of each line, and its dashes."""
    return [
        (
            [float(point.split(",")[0]) for point in (line.get("points") or "").split()],
            line.get("stroke-dasharray"),
        )
        for line in ET.fromstring(chart).iter(f"{SVG}polyline")
    ]


def test_overlay_chart__series_share_the_time() -> None:
    chart = overlay_chart("quality", [series_of("a", 1, 2, 3), series_of("b", 1, 2, days=2)])
    daily, _, other, _ = lines_of(chart)
    assert other[0] == [daily[0][0], daily[0][2]]


def test_overlay_chart__each_series_has_its_dashes_and_its_name() -> None:
    names = ["<a>", "b" * 90, "c", "d"][:MAX_SERIES]
    chart = overlay_chart("quality", [series_of(name, 1, 2) for name in names], "points")
    dashes = [dashes for _, dashes in lines_of(chart)]
    assert dashes[::2] == dashes[1::2]
    assert len(set(dashes)) == MAX_SERIES
    words = [*ET.fromstring(chart).itertext()]
    assert {"<a>", f"{'b' * 17}…", "c", "d", "quality (points)"} <= set(words)


def test_overlay_chart__without_values_says_so_and_a_series_may_be_empty() -> None:
    assert "no data yet" in overlay_chart("quality", [series_of("a"), series_of("b", None)])
    chart = overlay_chart("quality", [series_of("a"), series_of("b", 0.5)])
    assert "a: 0 points, no value" in chart
    assert not re.search("nan|inf", chart)
