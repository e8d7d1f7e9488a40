"""An SVG chart of several series over the same time; pure."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from mosaico.core.text import format_number, shorten
from mosaico.core.web.svg import (
    BOTTOM,
    FAINT,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    build_axis,
    draw_chart,
    draw_empty_chart,
    draw_frame,
    draw_grid,
    draw_text,
)
from mosaico.core.web.trend_chart import (
    TrendLimit,
    TrendPoint,
    draw_limits,
    draw_line,
    draw_points,
    split_lines,
)

# Distinguished without colors, because a color means a verdict.
DASHES: Final = ("", "9 4", "2 3", "12 3 2 3")
MAX_SERIES: Final = len(DASHES)
# Of a name in the legend, in pixels and characters.
LEGEND_WIDTH, SAMPLE_WIDTH, NAME_CHARS = 140, 26, 17
LEGEND_HEIGHT: Final = 16


class TrendSeries(NamedTuple):
    """The points of one series, oldest first, each with its time."""

    name: str
    points: Sequence[TrendPoint]
    times: Sequence[datetime]


def overlay_chart(
    title: str,
    series: Sequence[TrendSeries],
    unit: str | None = None,
    *,
    limits: Sequence[TrendLimit] = (),
    is_page: bool = False,
    write: Callable[[float], str] = format_number,
) -> str:
    """At most `MAX_SERIES` series as lines of different dashes, a mark per verdict, and the names above.

    `write` gives the text of a value.
    The intervals are left out: four bands would hide each other. The table of the page has them.
    """
    values = [point.value for line in series for point in line.points if point.value is not None]
    times = [at.timestamp() for line in series for at in line.times]
    if not values:
        return draw_empty_chart(title)
    bounds = [*values, *(limit.value for limit in limits)]
    y = build_axis(min(bounds), max(bounds), HEIGHT - BOTTOM, TOP)
    x = Axis(min(times), max(*times, min(times) + 1), LEFT + 12, WIDTH - RIGHT - 12)
    columns = [[x.pixel(at.timestamp()) for at in line.times] for line in series]
    positions = [
        [
            (pixel, y.pixel(point.value))
            for pixel, point in zip(pixels, line.points, strict=True)
            if point.value is not None
        ]
        for pixels, line in zip(columns, series, strict=True)
    ]
    body = [*draw_grid(y), *draw_limits(limits, y, positions), *_day_labels(series, x)]
    for number, (line, pixels) in enumerate(zip(series, columns, strict=True)):
        body += _dashed_lines(pixels, line.points, y, DASHES[number])
        body += draw_points(pixels, line.points, y, is_page=is_page, write=write)
        body += _legend(number, line.name)
    heading = f"{title}{f' ({unit})' if unit else ''}"
    description = "; ".join(_describe(line, write) for line in series)
    if is_page:
        return draw_frame(heading, description, body, height=HEIGHT - LEGEND_HEIGHT, role="group")
    return draw_chart(heading, description, body, legend=True)


def _describe(series: TrendSeries, write: Callable[[float], str]) -> str:
    last = next((p.value for p in reversed(series.points) if p.value is not None), None)
    value = "no value" if last is None else f"the last at {write(last)}"
    return f"{series.name}: {len(series.points)} points, {value}"


def _dashed_lines(
    pixels: Sequence[float], points: Sequence[TrendPoint], y: Axis, dashes: str
) -> Iterator[str]:
    for line in split_lines(pixels, points):
        coordinates = " ".join(f"{x:.1f},{y.pixel(value):.1f}" for x, value, _ in line)
        yield draw_line(coordinates, dashes)


def _legend(number: int, name: str) -> Iterator[str]:
    """A sample of the line and the name, in a row above the chart."""
    left, height = LEFT + number * LEGEND_WIDTH, TOP - 8
    yield draw_line(f"{left},{height} {left + SAMPLE_WIDTH},{height}", DASHES[number])
    text = shorten(name, NAME_CHARS)
    yield draw_text(left + SAMPLE_WIDTH + 6, height + 4, text, fill=FAINT, size=11)


def _day_labels(series: Sequence[TrendSeries], x: Axis) -> Iterator[str]:
    """The labels of the first and of the last point."""
    points = sorted(
        (at, point.label.partition(" to ")[0])
        for line in series
        for at, point in zip(line.times, line.points, strict=True)
    )
    for (at, label), anchor in ((points[0], "start"), (points[-1], "end")):
        yield draw_text(x.pixel(at.timestamp()), HEIGHT - 24, label, anchor=anchor, fill=FAINT)
