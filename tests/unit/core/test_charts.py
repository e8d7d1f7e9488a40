"""SVG charts: marks, scales, texts, and no markup from user texts."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from xml.etree import ElementTree as ET

from hypothesis import example, given
from hypothesis import strategies as st

from mosaico.core.web.change_charts import (
    MAX_BARS,
    ChangeBar,
    ItemChange,
    changes_chart,
    items_chart,
)
from mosaico.core.web.overlay_chart import TrendSeries, overlay_chart, small_chart, spread
from mosaico.core.web.trend_chart import TrendLimit, TrendPoint, trend_chart

SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = st.floats(-1e9, 1e9, allow_subnormal=False)


def text_of(chart: str) -> str:
    return " ".join(ET.fromstring(chart).itertext())


def test_trend_chart__marks_the_verdict_of_each_run() -> None:
    chart = trend_chart(
        "quality",
        [
            TrendPoint("monday", 0.9, 0.8, 1.0, None),
            TrendPoint("tuesday", 0.5, 0.4, 0.6, "REGRESSED"),
            TrendPoint("wednesday", 0.9, None, None, "INVALID"),
        ],
        "points",
    )
    assert "quality (points)" in text_of(chart)
    assert "tuesday: 0.5, REGRESSED" in text_of(chart)
    [line] = ET.fromstring(chart).iter(f"{SVG}polyline")
    heights = [float(point.split(",")[1]) for point in (line.get("points") or "").split()]
    assert len(heights) == 2, "an invalid run is no part of the line"
    assert heights[0] < heights[1], "larger values have smaller y coordinates"


def test_trend_chart__line_and_band_are_interrupted_between_fingerprints() -> None:
    points = [TrendPoint(str(n), 0.9, 0.8, 1.0, None, "old" if n < 3 else "new") for n in range(5)]
    svg = ET.fromstring(trend_chart("quality", points))
    lines = [(line.get("points") or "").split() for line in svg.iter(f"{SVG}polyline")]
    assert [len(line) for line in lines] == [3, 2]
    assert len([*svg.iter(f"{SVG}polygon")]) == 2


def days(count: int) -> list[datetime]:
    return [datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day) for day in range(count)]


def series(name: str, values: list[float], color: int, verdict: str = "NO_EVIDENCE") -> TrendSeries:
    points = [TrendPoint(str(n), value, None, None, None, "f") for n, value in enumerate(values)]
    points[-1] = points[-1]._replace(verdict=verdict)
    return TrendSeries(name, points, days(len(values)), color)


def test_overlay__names_each_agent_at_the_end_of_its_line_with_value_and_verdict() -> None:
    chart = overlay_chart(
        "quality",
        [series("Billing", [0.9, 0.5], 0, "REGRESSED"), series("Triage", [0.8, 0.7], 1)],
    )
    texts = [text.text for text in ET.fromstring(chart).iter(f"{SVG}text")]
    assert {"Billing", "0.5 ▼ regressed", "Triage", "0.7 ○ no evidence"} <= set(texts)


def test_overlay__lines_of_one_color_differ_by_dashes() -> None:
    chart = overlay_chart(
        "q", [series("a", [1, 2], 3), series("b", [2, 1], 3), series("c", [1, 1], 4)]
    )
    lines = [*ET.fromstring(chart).iter(f"{SVG}polyline")]
    drawn = {(line.get("stroke"), line.get("stroke-dasharray")) for line in lines}
    assert len(drawn) == 3
    assert {dashes for color, dashes in drawn if color == lines[2].get("stroke")} == {None}


@given(st.lists(st.floats(0, 300), max_size=6))
def test_labels__are_apart_and_within_the_chart(heights: list[float]) -> None:
    moved = spread(sorted(heights), 34, 44, 340)
    assert all(later - earlier >= 34 - 1e-9 for earlier, later in pairwise(moved))
    assert all(44 - 1e-9 <= height <= 340 for height in moved)


def test_labels__that_are_apart_already_stay() -> None:
    assert spread([50, 100, 300], 34, 44, 340) == [50, 100, 300]
    assert spread([100, 100], 34, 44, 340) == [100, 134]
    assert spread([330, 335], 34, 44, 340) == [306, 340]


def test_small_chart__has_the_interval_as_a_band() -> None:
    line = series("a", [0.5, 0.6], 0)
    points = [point._replace(low=0.4, high=0.7) for point in line.points]
    svg = ET.fromstring(small_chart(line._replace(points=points), (0.4, 0.7)))
    assert len([*svg.iter(f"{SVG}polygon")]) == 1
    assert small_chart(line._replace(points=[], times=[]), (0.0, 1.0)) == ""


def test_changes_chart__positive_change_is_right_of_zero() -> None:
    chart = changes_chart("all", [ChangeBar("a", "+0.100", 0.1, 0.05, 0.15, 0.02, "IMPROVED")])
    zero, bar = (
        next(line for line in ET.fromstring(chart).iter(f"{SVG}line") if line.get(name) == value)
        for name, value in (("stroke", "#24292f"), ("stroke-width", "3"))
    )
    assert float(zero.get("x1", "nan")) < float(bar.get("x1", "nan")) < float(bar.get("x2", "nan"))


def test_items_chart__counts_all_items_and_draws_a_selection() -> None:
    changes = [ItemChange(f"i-{n}", -1.0 if n < 500 else 0.0) for n in range(5000)]
    chart = items_chart("items", changes)
    assert "5000 items: 500 worse, 0 better, mean −0.1" in text_of(chart)
    bars = [rect for rect in ET.fromstring(chart).iter(f"{SVG}rect") if len(rect)]
    assert len(bars) == MAX_BARS
    assert "500 worse" not in text_of(items_chart("items", changes, less_is_better=True))


def test_charts__without_data_say_so() -> None:
    for chart in (trend_chart("q", []), changes_chart("q", []), items_chart("q", [])):
        assert "no data yet" in text_of(chart)


@given(st.lists(st.tuples(st.text(), NUMBERS), min_size=1, max_size=5))
def test_charts__any_names_and_numbers_give_valid_svg_without_script_or_style(
    values: list[tuple[str, float]],
) -> None:
    drawn_charts = (
        trend_chart(
            values[0][0], [TrendPoint(name, value, value, value, None) for name, value in values]
        ),
        changes_chart(
            "all",
            [ChangeBar(name, "", value, value, value, 0.0, "INVALID") for name, value in values],
        ),
        items_chart("all", [ItemChange(name, value) for name, value in values]),
    )
    for chart in drawn_charts:
        tags = {element.tag for element in ET.fromstring(chart).iter()}
        allowed = ("svg", "title", "desc", "rect", "text", "line", "polyline", "polygon")
        assert tags <= {f"{SVG}{tag}" for tag in allowed}
        assert not re.search(r"\b(nan|inf)\b", re.sub(">[^<]*<", "><", chart))


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5),
    st.floats(allow_nan=False, allow_infinity=False),
)
@example([1.7e308, -1.7e308], 0.5)
@example([1.7e308], 1.7e308)
@example([5e-324, 0.0], 1e-200)
def test_charts__of_any_float_stay_within_their_frame(values: list[float], limit: float) -> None:
    points = [TrendPoint(str(n), value, value, value, None) for n, value in enumerate(values)]
    bars = [ChangeBar("a", "", value, value, value, 0.1, "IMPROVED") for value in values]
    trend = trend_chart("t", points, limits=[TrendLimit("limit", limit)])
    for chart in (trend, changes_chart("c", bars)):
        for line in ET.fromstring(chart).iter(f"{SVG}line"):
            ends = [float(line.get(name) or "nan") for name in ("x1", "x2", "y1", "y2")]
            assert all(-1 <= end <= 1000 for end in ends)
