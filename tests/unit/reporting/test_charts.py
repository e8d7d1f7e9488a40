"""Pictures that a strict policy shows, and that say in words what they show."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.reporting.charts import (
    MOST_BARS,
    Change,
    ItemChange,
    Reading,
    changes_chart,
    items_chart,
    kpi_trend,
)
from tests.support.statistics_pictures import FOLDER, pictures

SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = st.floats(-1e9, 1e9, allow_subnormal=False)


def text_of(picture: str) -> str:
    return " ".join(ET.fromstring(picture).itertext())


@pytest.mark.parametrize("name", [*pictures()])
def test_the_pictures_of_the_documentation_are_what_the_code_draws(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == pictures()[name], (
        "run `python -m tests.support.statistics_pictures`"
    )


def test_a_trend_marks_the_verdict_of_each_run() -> None:
    picture = kpi_trend(
        "quality",
        [
            Reading("monday", 0.9, 0.8, 1.0, None),
            Reading("tuesday", 0.5, 0.4, 0.6, "REGRESSED"),
            Reading("wednesday", 0.9, None, None, "INVALID"),
        ],
        "points",
    )
    assert "quality (points)" in text_of(picture)
    assert "tuesday: 0.5, REGRESSED" in text_of(picture)
    [line] = ET.fromstring(picture).iter(f"{SVG}polyline")
    places = [point.split(",") for point in (line.get("points") or "").split()]
    heights = [float(y) for _, y in places]
    assert heights[0] == heights[2] < heights[1], "what is higher stands higher, and y goes down"


def test_line_and_band_of_a_trend_end_where_its_history_does() -> None:
    nights = [Reading(str(n), 0.9, 0.8, 1.0, None, "old" if n < 3 else "new") for n in range(5)]
    picture = ET.fromstring(kpi_trend("quality", nights))
    lines = [(line.get("points") or "").split() for line in picture.iter(f"{SVG}polyline")]
    assert [len(points) for points in lines] == [3, 2]
    assert len([*picture.iter(f"{SVG}polygon")]) == 2


def test_changes_stand_right_of_zero_when_they_are_positive() -> None:
    picture = changes_chart("all", [Change("a", 0.1, 0.05, 0.15, 0.02, "IMPROVED")])
    zero, bar = (
        next(each for each in ET.fromstring(picture).iter(f"{SVG}line") if each.get(name) == value)
        for name, value in (("stroke", "#24292f"), ("stroke-width", "3"))
    )
    assert float(zero.get("x1", "nan")) < float(bar.get("x1", "nan")) < float(bar.get("x2", "nan"))


def test_items_are_counted_and_many_are_thinned_out() -> None:
    changes = [ItemChange(f"i-{n}", -1.0 if n < 500 else 0.0) for n in range(5000)]
    picture = items_chart("items", changes)
    assert "5000 items: 500 worse, 0 better, -0.1 in the mean" in text_of(picture)
    bars = [each for each in ET.fromstring(picture).iter(f"{SVG}rect") if len(each)]
    assert len(bars) == MOST_BARS
    assert "500 worse" not in text_of(items_chart("items", changes, less_is_better=True))


def test_nothing_is_a_picture_too() -> None:
    for picture in (kpi_trend("q", []), changes_chart("q", []), items_chart("q", [])):
        assert "nothing to show yet" in text_of(picture)


@given(st.lists(st.tuples(st.text(), NUMBERS), min_size=1, max_size=5))
def test_any_names_and_numbers_give_a_picture_without_script_or_style(
    found: list[tuple[str, float]],
) -> None:
    drawn = (
        kpi_trend(found[0][0], [Reading(name, at, at, at, None) for name, at in found]),
        changes_chart("all", [Change(name, at, at, at, 0.0, "INVALID") for name, at in found]),
        items_chart("all", [ItemChange(name, at) for name, at in found]),
    )
    for picture in drawn:
        tags = {each.tag for each in ET.fromstring(picture).iter()}
        allowed = ("svg", "title", "desc", "rect", "text", "line", "polyline", "polygon")
        assert tags <= {f"{SVG}{tag}" for tag in allowed}
        assert not re.search(r"\b(nan|inf)\b", re.sub(">[^<]*<", "><", picture))
